//! Copies of a peer's frames, for somebody who asks while a host runs on its own thread: what a host
//! receives of a connection and sends on it, as `tcpdump` would see it on an interface.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use port::{Batch, Packet};
use wire::Flow;

/// Bytes of frames that wait to be taken, at most.
const ROOM: usize = 4 << 20;

/// Whose frames are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// The other side's address.
    pub address: IpAddr,
    /// Its port: one connection, or several to ports of this side; all of the address without it.
    pub port: Option<u16>,
}

impl Peer {
    /// Whether a frame is from it or to it.
    fn has(&self, frame: &[u8]) -> bool {
        let Ok(flow) = Flow::of(frame) else { return false };
        let (from, to) = (flow.addresses.src(), flow.addresses.dst());
        let ports = flow.ports.map_or((None, None), |(from, to)| (Some(from), Some(to)));
        let is_it = |address, port: Option<u16>| {
            address == self.address && (self.port.is_none() || port == self.port)
        };
        is_it(from, ports.0) || is_it(to, ports.1)
    }
}

/// A copy of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// When it was received or sent, in nanoseconds since 1970: all of a batch at once.
    pub time_ns: u64,
    /// This host sent it. A segment that the port cuts is one frame, whose checksum the port fills in.
    pub is_sent: bool,
    /// All its bytes.
    pub bytes: Vec<u8>,
}

/// Frames that were copied, and how many found no room.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Taken {
    /// In the order in which they came and went.
    pub frames: Vec<Copied>,
    /// Frames of the peer that were not copied, as too many waited.
    pub lost: u64,
}

/// By which a host is asked for copies. It costs the host a look at a flag in each turn.
#[derive(Debug, Clone, Default)]
pub struct Copies(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    is_wanted: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    peer: Option<Peer>,
    taken: Taken,
    bytes: usize,
}

impl Copies {
    /// Has the frames of a peer copied from now on; what was copied before is forgotten.
    pub fn begin(&self, peer: Peer) {
        *self.state() = State { peer: Some(peer), ..State::default() };
        self.0.is_wanted.store(true, Ordering::Release);
    }

    /// Ends that, and forgets what was not taken.
    pub fn end(&self) {
        self.0.is_wanted.store(false, Ordering::Release);
        *self.state() = State::default();
    }

    /// What was copied since the last time.
    pub fn take(&self) -> Taken {
        let mut state = self.state();
        state.bytes = 0;
        std::mem::take(&mut state.taken)
    }

    /// Whether frames are to be copied.
    #[inline]
    pub(crate) fn are_wanted(&self) -> bool {
        self.0.is_wanted.load(Ordering::Acquire)
    }

    /// Copies those of received frames that are wanted.
    #[cold]
    pub(crate) fn received(&self, frames: &Batch) {
        let mut state = self.state();
        let Some(peer) = state.peer else { return };
        let time_ns = now_ns();
        let wanted = frames.iter().filter(|frame| peer.has(frame));
        wanted.for_each(|frame| state.put(Copied { time_ns, is_sent: false, bytes: whole(frame) }));
    }

    /// The wanted ones of frames that are about to be sent, with their places.
    #[cold]
    pub(crate) fn leaving(&self, frames: &Batch) -> Vec<(usize, Vec<u8>)> {
        let Some(peer) = self.state().peer else { return Vec::new() };
        let wanted = frames.iter().enumerate().filter(|(_, frame)| peer.has(frame));
        wanted.map(|(place, frame)| (place, whole(frame))).collect()
    }

    /// The first so many of these frames were sent.
    #[cold]
    pub(crate) fn sent(&self, frames: Vec<(usize, Vec<u8>)>, count: usize) {
        let (mut state, time_ns) = (self.state(), now_ns());
        let sent = frames.into_iter().filter(|(place, _)| *place < count);
        sent.for_each(|(_, bytes)| state.put(Copied { time_ns, is_sent: true, bytes }));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn put(&mut self, copied: Copied) {
        if self.peer.is_none() {
            return; // nobody wants it any more
        }
        if self.bytes + copied.bytes.len() > ROOM {
            self.taken.lost += 1;
            return;
        }
        self.bytes += copied.bytes.len();
        self.taken.frames.push(copied);
    }
}

/// All bytes of a frame, in however many buffers it is.
fn whole(frame: &Packet) -> Vec<u8> {
    frame.segments().flat_map(|segment| segment.iter().copied()).collect()
}

fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use memory::{Dma, Pool};

    use super::*;

    /// Frames of UDP from these ports of 10.0.0.9 to 10.0.0.2, in a batch.
    fn frames(pool: &mut Pool, ports: &[u16]) -> Batch {
        let mut batch = Batch::default();
        for port in ports {
            let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 9, 0x08, 0x00];
            frame.extend([0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 9, 10, 0, 0, 2]);
            frame.extend(port.to_be_bytes());
            frame.extend([0, 7, 0, 8, 0, 0]);
            let mut packet = pool.alloc().unwrap();
            packet.copy_from(&frame).unwrap();
            batch.push(packet);
        }
        batch
    }

    fn ports(taken: &Taken) -> Vec<(u8, bool)> {
        taken.frames.iter().map(|frame| (frame.bytes[35], frame.is_sent)).collect()
    }

    #[test]
    fn a_peers_frames_are_copied_both_ways() {
        let (copies, dma) = (Copies::default(), Dma::new(Default::default()));
        let mut pool = Pool::new(&dma, 64).unwrap();
        let mut batch = frames(&mut pool, &[5, 6, 5]);
        assert!(!copies.are_wanted());
        copies.begin(Peer { address: [10, 0, 0, 9].into(), port: Some(5) });
        assert!(copies.are_wanted());
        copies.received(&batch);
        // Of those that leave the last finds no room in the ring.
        let leaving = copies.leaving(&batch);
        copies.sent(leaving, 2);
        let taken = copies.take();
        assert_eq!(ports(&taken), [(5, false), (5, false), (5, true)]);
        assert!(taken.frames.iter().all(|frame| frame.bytes.len() == 42 && frame.time_ns > 0));
        assert_eq!(copies.take(), Taken::default());
        copies.begin(Peer { address: [10, 0, 0, 2].into(), port: None });
        copies.received(&batch);
        assert_eq!(copies.take().frames.len(), 3, "all of an address");
        copies.begin(Peer { address: [10, 0, 0, 3].into(), port: None });
        copies.received(&batch);
        assert_eq!(copies.take(), Taken::default());
        pool.free_batch(&mut batch);
    }

    #[test]
    fn who_takes_nothing_costs_no_more_than_the_room() {
        let (copies, dma) = (Copies::default(), Dma::new(Default::default()));
        let mut pool = Pool::new(&dma, 64).unwrap();
        let mut batch = frames(&mut pool, &[5; 32]);
        copies.begin(Peer { address: [10, 0, 0, 9].into(), port: None });
        let most = ROOM / 42;
        (0..most / 32 + 1).for_each(|_| copies.received(&batch));
        let taken = copies.take();
        assert_eq!(taken.frames.len(), most);
        assert_eq!(taken.lost as usize, (most / 32 + 1) * 32 - most);
        copies.end();
        copies.received(&batch);
        assert_eq!(copies.take(), Taken::default());
        pool.free_batch(&mut batch);
    }
}
