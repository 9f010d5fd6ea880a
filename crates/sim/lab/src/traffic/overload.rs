//! More than a guest can take: frames are offered whether there is room or not,
//! and in the beginning nobody reads what the guest sends.
//!
//! A frame that the guest's end of the cable has no room for is counted as
//! refused and gone, as on a wire. A cable that is not read fills the guest's
//! transmit ring, so that a forwarder has to drop by itself.

use std::io::ErrorKind;
use std::thread;
use std::time::{Duration, Instant};

use super::{Cable, PAUSE, SILENCE, Traffic, check, fill};

/// What is offered, and how it is taken.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// How long frames are offered, as fast as they go.
    pub time: Duration,
    /// How long nobody reads what comes back, from the beginning on.
    pub not_reading: Duration,
}

/// Until another frame is sent behind those that may be lost.
const AGAIN: Duration = Duration::from_millis(50);

/// How long frames may come after those that were offered: each that is sent behind them
/// could have another sent behind it, where the guest takes longer than [`AGAIN`] for one.
const LATEST: Duration = Duration::from_secs(180);

/// Offers frames to one cable and takes from the other what comes back, until the
/// last one that was taken does: frames do not overtake, so all before it are back
/// or lost. Where it is lost itself, another is sent behind it.
pub fn overload(into: &Cable, out_of: &Cable, load: Load) -> Traffic {
    let (mut traffic, mut next) = (Traffic::default(), 0);
    let (mut frame, mut buffer) = (vec![0; 1514], vec![0; 2048]);
    let start = Instant::now();
    let mut heard = start + load.time.max(load.not_reading);
    let mut sent = heard;
    loop {
        let (mut moved, offering) = (false, start.elapsed() < load.time);
        if offering {
            moved |= offer(into, &mut frame, 32, &mut traffic);
        } else if heard.max(sent).elapsed() > AGAIN {
            offer(into, &mut frame, 1, &mut traffic);
            sent = Instant::now();
        }
        if start.elapsed() >= load.not_reading {
            while let Some(length) = take(out_of, &mut buffer) {
                check(&buffer[..length], &mut next, &mut traffic);
                (moved, heard) = (true, heard.max(Instant::now()));
            }
        }
        let is_late = start.elapsed() > load.time.max(load.not_reading) + LATEST;
        let over = !offering && (next == traffic.sent || heard.elapsed() > SILENCE || is_late);
        match (over, moved) {
            (true, _) => return traffic,
            (false, true) => {}
            (false, false) => thread::sleep(PAUSE),
        }
    }
}

/// Offers a few frames, until one is refused; whether any was taken.
fn offer(into: &Cable, frame: &mut [u8], most: u32, traffic: &mut Traffic) -> bool {
    for n in 0..most {
        // Only frames that are taken have numbers: a gap is a loss.
        let length = fill(frame, traffic.sent);
        if into.socket.send_to(&frame[..length], &into.theirs).is_err() {
            traffic.refused += 1;
            return n > 0;
        }
        traffic.sent += 1;
    }
    true
}

fn take(out_of: &Cable, buffer: &mut [u8]) -> Option<usize> {
    loop {
        match out_of.socket.recv(buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result.ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixDatagram;

    /// A guest that holds few frames and drops those that its far side has no
    /// room for, as a forwarder does.
    #[test]
    fn what_is_refused_lost_and_back_adds_up() {
        let home = tempfile::tempdir().expect("a directory");
        let cables = ["a", "b"].map(|name| Cable::new(home.path(), name).expect("bound"));
        let far = cables.each_ref().map(|cable| UnixDatagram::bind(&cable.theirs).expect("bound"));
        far[0].set_read_timeout(Some(Duration::from_secs(1))).expect("set");
        far[1].set_nonblocking(true).expect("set");
        let load = Load { time: Duration::from_millis(300), not_reading: Duration::from_millis(150) };
        let (seen, lost) = thread::scope(|scope| {
            let guest = scope.spawn(|| {
                let (mut buffer, mut lost) = (vec![0; 2048], 0);
                while let Ok(length) = far[0].recv(&mut buffer) {
                    thread::sleep(Duration::from_micros(100)); // slower than the host
                    let room = far[1].send_to(&buffer[..length], &cables[1].ours).is_ok();
                    lost += u32::from(!room);
                }
                lost
            });
            let seen = overload(&cables[0], &cables[1], load);
            (seen, guest.join().expect("no panic"))
        });
        assert!(seen.refused > 0 && lost > 0 && seen.back > 0, "{seen:?}, {lost} lost");
        assert_eq!((seen.sent, seen.changed, seen.overtaken), (seen.back + lost, 0, 0));
    }
}
