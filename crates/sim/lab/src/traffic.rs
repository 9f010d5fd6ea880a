//! The host as generator and checker: numbered frames into one NIC of a guest,
//! and every one expected from the other, in order and unchanged.
//!
//! Each cable is a unix datagram socket with one raw frame a datagram, as QEMU's
//! `-netdev dgram` has it. A window bounds what is under way, so that the
//! offered rate follows what the guest can do; [`overload`] offers more.

mod overload;

use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use wire::MacAddress;
use wire::ethernet::{self, EtherType};

use crate::{Error, Result};

pub use overload::{Load, overload};

/// Where the number and the payload begin.
const NUMBER: usize = ethernet::HEADER_LEN;
const PAYLOAD: usize = NUMBER + 4;
/// Frame sizes without CRC, by turns.
const SIZES: [usize; 8] = [60, 64, 127, 256, 594, 1024, 1400, 1514];
/// After so long without a frame, what is under way is lost. Longer than a busy
/// machine keeps a guest waiting; where all is well nobody waits for it.
const SILENCE: Duration = Duration::from_secs(15);
/// Silences after which nothing more is sent.
const SILENCES: u32 = 3;
/// Between two looks, when there is nothing to do.
const PAUSE: Duration = Duration::from_micros(20);

/// What came of it, in frames. Those that never came are the difference.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Taken by the guest's end of the cable.
    pub sent: u32,
    /// Offered and not taken: there was no room.
    pub refused: u32,
    /// Came back in order and unchanged.
    pub back: u32,
    /// Came back with other bytes or another length.
    pub changed: u32,
    /// Came after a later one, or twice.
    pub overtaken: u32,
}

/// The host's end of a cable, and where the guest's will be.
#[derive(Debug)]
pub struct Cable {
    socket: UnixDatagram,
    ours: PathBuf,
    theirs: PathBuf,
}

impl Cable {
    /// Binds the host's end in a directory, before the guest starts.
    ///
    /// # Errors
    /// [`Error::File`] when the path is taken or too long for a socket.
    pub fn new(directory: &Path, name: &str) -> Result<Cable> {
        let ours = directory.join(format!("{name}.host"));
        let theirs = directory.join(format!("{name}.guest"));
        let socket = UnixDatagram::bind(&ours).map_err(Error::at(&ours))?;
        socket.set_nonblocking(true).map_err(Error::at(&ours))?;
        Ok(Cable { socket, ours, theirs })
    }

    /// The guest's end, as the device models' `--wire` wants it.
    pub fn wire(&self) -> String {
        format!("unix:{},remote={}", self.theirs.display(), self.ours.display())
    }

    /// Gives the guest a frame; `false` when its queue is full or it is gone.
    pub fn send(&self, frame: &[u8]) -> bool {
        self.socket.send_to(frame, &self.theirs).is_ok()
    }

    /// The next frame of the guest's, if one comes before the time is over.
    pub fn recv(&self, within: Duration) -> Option<Vec<u8>> {
        let (begin, mut buffer) = (Instant::now(), vec![0; 1 << 16]);
        loop {
            if let Ok(length) = self.socket.recv(&mut buffer) {
                buffer.truncate(length);
                return Some(buffer);
            }
            if begin.elapsed() >= within {
                return None;
            }
            thread::sleep(Duration::from_micros(50));
        }
    }

    /// The guest's end, as QEMU's `-netdev` wants it.
    pub fn netdev(&self, id: &str) -> String {
        let (local, remote) = (self.theirs.display(), self.ours.display());
        format!("dgram,id={id},local.type=unix,local.path={local},remote.type=unix,remote.path={remote}")
    }
}

/// Sends `count` frames into one cable and takes them from the other, at most
/// `window` under way.
pub fn exchange(into: &Cable, out_of: &Cable, count: u32, window: u32) -> Traffic {
    let (mut traffic, mut next) = (Traffic::default(), 0);
    let (mut frame, mut buffer) = (vec![0; 1514], vec![0; 2048]);
    let (mut last, mut silences) = (Instant::now(), 0);
    while next < count {
        let mut moved = false;
        while traffic.sent < count && traffic.sent - next < window {
            let length = fill(&mut frame, traffic.sent);
            if into.socket.send_to(&frame[..length], &into.theirs).is_err() {
                break; // its queue is full, or it is gone: the silence tells
            }
            traffic.sent += 1;
            moved = true;
            if traffic.sent.is_multiple_of(32) {
                break; // what has come back waits
            }
        }
        loop {
            match out_of.socket.recv(&mut buffer) {
                Ok(length) => check(&buffer[..length], &mut next, &mut traffic),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => break,
            }
            moved = true;
        }
        if moved {
            last = Instant::now();
        } else if last.elapsed() > SILENCE {
            silences += 1;
            if traffic.sent == next || traffic.sent == count || silences == SILENCES {
                break; // nothing can be sent, or nothing is left to come
            }
            (next, last) = (traffic.sent, Instant::now()); // the rest is lost
        } else {
            thread::sleep(PAUSE);
        }
    }
    traffic
}

/// Traffic in both directions at once: there, then back.
pub fn both(cables: &[Cable; 2], each: impl Fn(&Cable, &Cable) -> Traffic + Sync) -> [Traffic; 2] {
    let ([a, b], each) = (cables, &each);
    thread::scope(|scope| {
        let there = scope.spawn(move || each(a, b));
        let back = each(b, a);
        [there.join().unwrap_or_default(), back]
    })
}

/// Writes frame `number` and returns its length.
fn fill(frame: &mut [u8], number: u32) -> usize {
    let length = SIZES[number as usize % SIZES.len()];
    let (to, from) = (MacAddress([0x02, 0, 0, 0, 0, 2]), MacAddress([0x02, 0, 0, 0, 0, 1]));
    let header = ethernet::Header::between(to, from, EtherType::LOCAL_EXPERIMENT);
    frame[..NUMBER].copy_from_slice(&header.into_inner());
    frame[NUMBER..PAYLOAD].copy_from_slice(&number.to_le_bytes());
    let mut state = u64::from(number).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    for chunk in frame[PAYLOAD..length].chunks_mut(8) {
        // xorshift64: another pattern in each frame.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        chunk.copy_from_slice(&state.to_le_bytes()[..chunk.len()]);
    }
    length
}

/// Compares a frame with what was sent under its number. Frames of the guest's
/// own are passed over.
fn check(frame: &[u8], next: &mut u32, traffic: &mut Traffic) {
    let ours =
        ethernet::Header::of(frame).is_some_and(|header| header.ethertype() == EtherType::LOCAL_EXPERIMENT);
    let number = frame.get(NUMBER..PAYLOAD).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes);
    let Some(number) = number.filter(|_| ours) else { return };
    if number >= traffic.sent {
        traffic.changed += 1; // never sent: the number itself is broken
        return;
    }
    if number < *next {
        traffic.overtaken += 1;
        return;
    }
    *next = number + 1;
    let mut expected = [0; 1514];
    let length = fill(&mut expected, number);
    match frame == &expected[..length] {
        true => traffic.back += 1,
        false => traffic.changed += 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A guest that sees each frame: what it lets pass goes back.
    fn through(count: u32, mut guest: impl FnMut(u32, &mut Vec<u8>) -> bool + Send) -> Traffic {
        let home = tempfile::tempdir().expect("a directory");
        let cables = ["a", "b"].map(|name| Cable::new(home.path(), name).expect("bound"));
        let far = cables.each_ref().map(|cable| UnixDatagram::bind(&cable.theirs).expect("bound"));
        far[0].set_read_timeout(Some(Duration::from_secs(1))).expect("set");
        thread::scope(|scope| {
            scope.spawn(|| {
                let (mut buffer, mut seen) = (vec![0; 2048], 0);
                while let Ok(length) = far[0].recv(&mut buffer) {
                    let mut frame = buffer[..length].to_vec();
                    if guest(seen, &mut frame) {
                        far[1].send_to(&frame, &cables[1].ours).expect("sent");
                    }
                    seen += 1;
                }
            });
            exchange(&cables[0], &cables[1], count, 8)
        })
    }

    #[test]
    fn an_honest_forwarder_gives_all_back() {
        let all = Traffic { sent: 1000, back: 1000, ..Traffic::default() };
        assert_eq!(through(1000, |_, _| true), all);
    }

    #[test]
    fn a_lost_and_a_changed_frame_are_seen() {
        let seen = through(100, |n, frame| {
            frame[40] ^= u8::from(n == 20);
            n != 10
        });
        assert_eq!(seen, Traffic { sent: 100, back: 98, changed: 1, ..Traffic::default() });
    }

    #[test]
    fn frames_that_swap_are_seen() {
        let mut traffic = Traffic { sent: 3, ..Traffic::default() };
        let mut next = 0;
        for number in [1, 0, 2] {
            let mut frame = [0; 1514];
            let length = fill(&mut frame, number);
            check(&frame[..length], &mut next, &mut traffic);
        }
        check(b"arp", &mut next, &mut traffic);
        assert_eq!((traffic.back, traffic.overtaken), (2, 1));
    }
}
