//! A cable in a model's port: one of the ends, with a recorder and faults on
//! the way where they were asked for.

use std::sync::Arc;

use model::{FrameError, MIN_FRAME, Wire};

use super::capture::{Capture, FrameDirection, Recorder};
use super::check::{Checker, Ledger};
use super::datagram::{Datagram, Sent};
use super::generator::Generator;
use super::pair::PairEnd;
use super::queue::FrameQueue;
use super::spec::{EndSpec, SourceSpec};
use super::tap::Tap;
use super::{Cause, Spec, SpecError, WireStats};
use crate::fault::wire::Injector;

/// Frames a `loop` holds.
const LOOP_FRAMES: usize = 4096;
const LOOP_BYTES: u32 = 4 << 20;
/// How often the kernel is asked again after it had nothing.
const ASK_AGAIN_NS: u64 = 20_000;
/// Frames that the injector may withhold before it gives one or none.
const MAX_PULLED: usize = 64;

#[derive(Debug)]
enum Source {
    None,
    Generator(Generator),
    Capture(Capture),
}

#[derive(Debug)]
enum Kernel {
    Tap(Tap),
    Unix(Datagram),
}

#[derive(Debug)]
enum End {
    Traffic { source: Source, check: Option<Box<Checker>> },
    Loop(FrameQueue),
    Pair(PairEnd),
    Kernel { kernel: Kernel, empty_until_ns: u64 },
}

#[derive(Debug, Default)]
struct Counts {
    offered: u64,
    delivered: u64,
    bytes: u64,
    /// By cause; a handful at most.
    lost: Vec<(Cause, u64)>,
}

impl Counts {
    #[cold]
    fn lose(&mut self, cause: Cause) {
        match self.lost.iter_mut().find(|(name, _)| *name == cause) {
            Some((_, count)) => *count += 1,
            None => self.lost.push((cause, 1)),
        }
    }

    /// A frame came out at the other end, or did not.
    fn end(&mut self, frame: &[u8], sent: Sent) {
        match sent {
            Sent::Gone => {
                self.delivered += 1;
                self.bytes += frame.len() as u64;
            }
            Sent::Waits => {}
            Sent::Lost(cause) => self.lose(cause),
        }
    }
}

#[derive(Debug)]
struct Faults {
    to_host: Injector,
    from_host: Injector,
    last: FrameError,
}

/// A cable that ends nowhere, for what has no port of its own.
///
/// # Errors
/// When it cannot be made.
pub(crate) fn nowhere() -> std::io::Result<Cable> {
    let spec: Spec = "sink".parse().map_err(std::io::Error::other)?;
    Cable::open(&spec).map_err(std::io::Error::other)
}

/// A cable: what a device receives and where its frames go.
#[derive(Debug)]
pub struct Cable {
    text: String,
    end: End,
    recorder: Option<Recorder>,
    faults: Option<Box<Faults>>,
    to_host: Counts,
    from_host: Counts,
    now_ns: u64,
}

/// What [`plug`] needs to know of a device.
#[derive(Clone, Debug)]
pub struct Plug {
    /// What the user wrote of the wire.
    pub spec: Spec,
    /// The device's address: where generated frames go by default.
    pub mac: [u8; 6],
}

/// Opens the wires of some devices; each `pair` is joined with the next one.
/// Generators get the numbers 0, 1, … in the order of the devices.
pub fn plug(plugs: &[Plug], ledger: &Arc<Ledger>) -> Result<Vec<Cable>, SpecError> {
    let pairs = plugs.iter().filter(|plug| plug.spec.is_pair()).count();
    if pairs % 2 == 1 {
        return Err(SpecError::Unpaired(pairs));
    }
    let mut other_end = None;
    plugs
        .iter()
        .map(|plug| {
            let end = match &plug.spec.end {
                EndSpec::Pair => End::Pair(other_end.take().unwrap_or_else(|| {
                    let (end, other) = PairEnd::new();
                    other_end = Some(other);
                    end
                })),
                end => open(end, plug.mac, ledger)?,
            };
            Cable::new(&plug.spec, end)
        })
        .collect()
}

fn open(end: &EndSpec, mac: [u8; 6], ledger: &Arc<Ledger>) -> Result<End, SpecError> {
    let kernel = |kernel| End::Kernel { kernel, empty_until_ns: 0 };
    Ok(match end {
        EndSpec::Traffic { source, check } => {
            let source = match source {
                None => Source::None,
                Some(SourceSpec::Generator(spec)) => {
                    Source::Generator(Generator::new(spec, mac, ledger.clone())?)
                }
                Some(SourceSpec::Capture { path, repeat, rate, hold }) => {
                    Source::Capture(Capture::open(path, *repeat, *rate, *hold)?)
                }
            };
            let check = check.map(|full| Box::new(Checker::new(ledger.clone(), full)));
            End::Traffic { source, check }
        }
        EndSpec::Loop => End::Loop(FrameQueue::new(LOOP_FRAMES, LOOP_BYTES)),
        EndSpec::Pair => unreachable!("joined by plug"),
        EndSpec::Tap(name) => kernel(Kernel::Tap(Tap::open(name)?)),
        EndSpec::Unix { local, remote } => kernel(Kernel::Unix(Datagram::open(local, remote.as_deref())?)),
    })
}

impl Cable {
    /// A wire that needs no other device and no address: all but `pair`.
    pub fn open(spec: &Spec) -> Result<Cable, SpecError> {
        let plug_it = Plug { spec: spec.clone(), mac: [0x02, 0x49, 0x58, 0, 0, 1] };
        let mut cables = plug(&[plug_it], &Arc::default())?;
        Ok(cables.pop().expect("one plug, one cable"))
    }

    fn new(spec: &Spec, end: End) -> Result<Cable, SpecError> {
        let recorder = spec.record.as_ref();
        let recorder = recorder.map(|(path, limit)| Recorder::create(path, *limit)).transpose()?;
        let faults = spec.fault.filter(|fault| fault.has_wire()).map(|fault| {
            let (to_host, from_host) = (Injector::new(fault, 0, false), Injector::new(fault, 1, true));
            Box::new(Faults { to_host, from_host, last: FrameError::None })
        });
        Ok(Cable {
            text: spec.text.clone(),
            end,
            recorder,
            faults,
            to_host: Counts::default(),
            from_host: Counts::default(),
            now_ns: 0,
        })
    }

    /// Time passed: sources that have a rate may give frames, what was held
    /// back goes on. Call it before each step of the device.
    #[inline]
    pub fn advance(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        match &mut self.end {
            End::Traffic { source: Source::Generator(generator), .. } => generator.advance(now_ns),
            End::Traffic { source: Source::Capture(capture), .. } => capture.advance(now_ns),
            End::Pair(pair) => pair.flush(),
            End::Kernel { kernel: Kernel::Unix(socket), .. } => {
                socket.advance(now_ns, |frame, sent| self.from_host.end(frame, sent));
            }
            _ => {}
        }
        if self.faults.is_some() {
            self.advance_faults(now_ns);
        }
    }

    #[cold]
    fn advance_faults(&mut self, now_ns: u64) {
        if let Some(faults) = &mut self.faults {
            faults.to_host.advance(now_ns);
            faults.from_host.advance(now_ns);
        }
        self.drain_faults();
    }

    /// A source that was asked to hold its frames begins.
    pub fn start_source(&mut self) {
        match &mut self.end {
            End::Traffic { source: Source::Generator(generator), .. } => generator.start(),
            End::Traffic { source: Source::Capture(capture), .. } => capture.start(),
            _ => {}
        }
    }

    /// The source gives nothing any more: what is under way can run out.
    pub fn stop_source(&mut self) {
        match &mut self.end {
            End::Traffic { source: Source::Generator(generator), .. } => generator.stop(),
            End::Traffic { source: Source::Capture(capture), .. } => capture.stop(),
            _ => {}
        }
    }

    /// Whether the source has given all it will ever give. Wires without an own
    /// source never say so.
    pub fn is_source_done(&self) -> bool {
        match &self.end {
            End::Traffic { source: Source::Generator(generator), .. } => generator.is_done(),
            End::Traffic { source: Source::Capture(capture), .. } => capture.is_done(),
            _ => false,
        }
    }

    /// Writes what is buffered to a recorder's file.
    pub fn flush(&mut self) {
        match &mut self.end {
            End::Pair(pair) => pair.flush(),
            End::Kernel { kernel: Kernel::Unix(socket), .. } => {
                socket.advance(self.now_ns, |frame, sent| self.from_host.end(frame, sent));
            }
            _ => {}
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.flush();
        }
    }

    /// What was counted so far.
    pub fn stats(&self) -> WireStats {
        let mut stats = WireStats { wire: self.text.clone(), ..WireStats::default() };
        for (counts, direction) in
            [(&self.to_host, &mut stats.to_host), (&self.from_host, &mut stats.from_host)]
        {
            (direction.offered, direction.delivered) = (counts.offered, counts.delivered);
            direction.bytes = counts.bytes;
            counts.lost.iter().for_each(|&(cause, count)| direction.lose(cause, count));
        }
        match &self.end {
            End::Traffic { source, check } => {
                stats.check = check.as_ref().map(|check| check.stats());
                stats.skipped = match source {
                    Source::None => 0,
                    Source::Generator(generator) => generator.skipped(),
                    Source::Capture(capture) => capture.skipped(),
                };
            }
            End::Loop(queue) => stats.from_host.waiting += queue.len() as u64,
            End::Pair(pair) => {
                let (incoming, sent) = pair.waiting();
                stats.to_host.offered += incoming;
                stats.to_host.waiting += incoming;
                stats.from_host.waiting += sent;
                stats.from_host.lose(Cause::PeersQueueFull, pair.full());
                stats.from_host.delivered -= sent + pair.full();
            }
            End::Kernel { kernel: Kernel::Unix(socket), .. } => {
                stats.from_host.waiting += socket.waiting() as u64;
            }
            End::Kernel { kernel: Kernel::Tap(_), .. } => {}
        }
        if let End::Loop(queue) = &self.end {
            stats.from_host.delivered -= queue.len() as u64;
        }
        if let Some(faults) = &self.faults {
            faults.to_host.add_to(&mut stats.to_host, &mut stats.faults);
            faults.from_host.add_to(&mut stats.from_host, &mut stats.faults);
        }
        if let Some(recorder) = &self.recorder {
            stats.not_recorded = recorder.missing();
        }
        stats
    }

    /// The next frame from the end itself, before any faults.
    #[inline]
    fn pull(&mut self, frame: &mut [u8]) -> Option<usize> {
        let len = match &mut self.end {
            End::Traffic { source, .. } => pull_source(source, frame)?,
            End::Loop(queue) => queue.pop(frame)?,
            End::Pair(pair) => pair.receive(frame)?,
            End::Kernel { kernel, empty_until_ns } => {
                if self.now_ns < *empty_until_ns {
                    return None;
                }
                let got = match kernel {
                    Kernel::Tap(tap) => tap.receive(frame),
                    Kernel::Unix(socket) => socket.receive(frame),
                };
                if got.is_none() {
                    *empty_until_ns = self.now_ns + ASK_AGAIN_NS;
                }
                got?
            }
        };
        self.to_host.offered += 1;
        Some(len)
    }

    /// The next frame after faults.
    #[cold]
    fn pull_faulty(&mut self, frame: &mut [u8]) -> Option<usize> {
        for _ in 0..MAX_PULLED {
            let faults = self.faults.as_mut()?;
            if let Some((bytes, fault)) = faults.to_host.pop() {
                let len = bytes.len().min(frame.len());
                frame[..len].copy_from_slice(&bytes[..len]);
                faults.last = fault;
                return Some(len);
            }
            let len = self.pull(frame)?;
            let len = pad(frame, len);
            self.faults.as_mut()?.to_host.push(&frame[..len]);
        }
        None
    }

    /// Gives a frame to the end itself, after any faults.
    #[inline]
    fn put(&mut self, frame: &[u8]) {
        let outcome = match &mut self.end {
            End::Traffic { check: None, .. } => Ok(()),
            End::Traffic { check: Some(check), .. } => {
                check.check(frame);
                Ok(())
            }
            End::Loop(queue) => queue.push(frame).then_some(()).ok_or(Cause::LoopFull),
            End::Pair(pair) => {
                pair.transmit(frame);
                Ok(())
            }
            End::Kernel { kernel: Kernel::Tap(tap), .. } => tap.transmit(frame),
            End::Kernel { kernel: Kernel::Unix(socket), .. } => {
                let sent = socket.transmit(frame);
                return self.from_host.end(frame, sent);
            }
        };
        self.from_host.end(frame, outcome.map_or_else(Sent::Lost, |()| Sent::Gone));
    }

    #[cold]
    fn drain_faults(&mut self) {
        while let Some((frame, _)) = self.faults.as_mut().and_then(|faults| faults.from_host.pop()) {
            self.put(&frame);
        }
    }

    fn record(&mut self, way: FrameDirection, frame: &[u8]) {
        if let Some(recorder) = &mut self.recorder {
            recorder.record(way, self.now_ns, frame);
        }
    }
}

/// Makes a frame at the begin of `room` as long as a sender's MAC does; its length.
fn pad(room: &mut [u8], len: usize) -> usize {
    if len >= MIN_FRAME || room.len() < MIN_FRAME {
        return len;
    }
    room[len..MIN_FRAME].fill(0);
    MIN_FRAME
}

fn pull_source(source: &mut Source, frame: &mut [u8]) -> Option<usize> {
    let mut len = None;
    let copy = |from: &[u8]| {
        let cut = from.len().min(frame.len());
        frame[..cut].copy_from_slice(&from[..cut]);
        len = Some(cut);
    };
    match source {
        Source::None => {}
        Source::Generator(generator) => drop(generator.burst(1, copy)),
        Source::Capture(capture) => drop(capture.burst(1, copy)),
    }
    len
}

impl Wire for Cable {
    fn receive(&mut self, frame: &mut [u8]) -> Option<usize> {
        let len = if self.faults.is_some() { self.pull_faulty(frame)? } else { self.pull(frame)? };
        self.record(FrameDirection::ToHost, &frame[..len]);
        self.to_host.delivered += 1;
        self.to_host.bytes += len as u64;
        Some(len)
    }

    #[inline]
    fn transmit(&mut self, frame: &[u8]) {
        self.from_host.offered += 1;
        if self.recorder.is_some() {
            self.record(FrameDirection::FromHost, frame);
        }
        match &mut self.faults {
            None => self.put(frame),
            Some(faults) => {
                faults.from_host.push(frame);
                self.drain_faults();
            }
        }
    }

    fn takes_frames(&self) -> bool {
        match &self.end {
            End::Kernel { kernel: Kernel::Unix(socket), .. } => socket.waiting() == 0,
            _ => true,
        }
    }

    fn frame_error(&self) -> FrameError {
        self.faults.as_ref().map_or(FrameError::None, |faults| faults.last)
    }

    #[inline]
    fn receive_burst(
        &mut self,
        scratch: &mut [u8],
        max: usize,
        sink: &mut impl FnMut(&[u8], FrameError),
    ) -> usize {
        if self.faults.is_none() && self.recorder.is_none() {
            // Generated frames are long enough and given without a copy.
            if let End::Traffic { source: Source::Generator(generator), .. } = &mut self.end {
                let (frames, bytes) = generator.burst(max, |frame| sink(frame, FrameError::None));
                self.to_host.offered += frames as u64;
                self.to_host.delivered += frames as u64;
                self.to_host.bytes += bytes;
                return frames;
            }
        }
        for given in 0..max {
            let Some(len) = self.receive(scratch) else { return given };
            let fault = self.frame_error();
            // What was truncated on the way stays short.
            let len = if self.faults.is_none() { pad(scratch, len) } else { len };
            sink(&scratch[..len], fault);
        }
        max
    }

    fn has_backpressure(&self) -> bool {
        match &self.end {
            End::Traffic { source: Source::Generator(generator), .. } => generator.has_backpressure(),
            End::Traffic { source: Source::Capture(capture), .. } => capture.has_backpressure(),
            End::Traffic { source: Source::None, .. } => true,
            // The kernel queues; a real cable and another device do not.
            End::Kernel { .. } => true,
            End::Loop(_) | End::Pair(_) => false,
        }
    }

    fn is_up(&self) -> bool {
        self.faults.as_ref().is_none_or(|faults| faults.to_host.is_up())
    }
}
