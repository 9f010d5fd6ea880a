//! What locks and copies cost on this machine: measured in a millisecond or two, in TSC
//! cycles, so that [`explain`](crate::plan::explain) can say more than that there are some.
//!
//! Each is the least of many rounds: what it costs when nothing else disturbs. A lock
//! that is waited for costs as long as it is waited.

use std::hint::black_box;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use bus::tsc;
use memory::{Dma, Pool};

/// Rounds of each measurement; the best one counts.
const ROUNDS: usize = 48;
/// What is measured in one round.
const EACH: u64 = 32;
/// How long two threads hand a lock to each other.
const HANDING: Duration = Duration::from_micros(600);
/// How often that is tried: both threads must run at a time.
const TRIES: usize = 3;
/// Lengths of packets that are copied, in bytes.
const LENGTHS: [usize; 2] = [60, 1514];

/// Costs, in TSC cycles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Costs {
    /// A lock taken and given back, which this core had last.
    pub lock: u64,
    /// The same, when another core had it last; `None` where that could not be
    /// measured: there is but one core, or it had something else to do.
    pub handed_over: Option<u64>,
    /// A copy of a packet: bytes, and cycles with a buffer for it.
    pub copies: [(usize, u64); 2],
}

impl Costs {
    /// Measures them. Where there is no memory for packets copies cost nothing.
    pub fn measure() -> Costs {
        let mut pool = Pool::new(&Dma::new(memory::Options::default()), 2 * EACH as usize).ok();
        let copies = LENGTHS.map(|length| (length, pool.as_mut().map_or(0, |pool| copy(pool, length))));
        Costs { lock: lock(), handed_over: (0..TRIES).find_map(|_| hand_over()), copies }
    }

    /// What a lock costs a batch, in words.
    pub fn of_lock(&self) -> String {
        match self.handed_over {
            Some(far) => format!("{} cycles, {far} when another core had it last", self.lock),
            None => format!("{} cycles if no other core had it last", self.lock),
        }
    }

    /// What a copy of a packet costs, in words.
    pub fn of_copy(&self) -> String {
        let [(short, few), (long, many)] = self.copies;
        format!("{few} cycles for a packet of {short} bytes, {many} of {long}")
    }
}

/// The least of many rounds, for one of what is done [`EACH`] times in a round.
fn least(mut round: impl FnMut()) -> u64 {
    let one = |_| {
        let start = tsc::now();
        round();
        tsc::now().wrapping_sub(start)
    };
    (0..ROUNDS).map(one).min().unwrap_or(0) / EACH
}

fn lock() -> u64 {
    let held = Mutex::new(0u64);
    least(|| {
        for _ in 0..EACH {
            let mut held = held.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            *held = black_box(*held + 1);
        }
    })
}

/// Copies of packets as `Tee` makes them: a buffer, its bytes, what is known of it.
fn copy(pool: &mut Pool, length: usize) -> u64 {
    let Some(mut packet) = pool.alloc() else { return 0 };
    if packet.set_len(length).is_err() {
        return 0;
    }
    least(|| {
        for _ in 0..EACH {
            let Some(mut copy) = pool.alloc() else { return };
            let _fits = copy.copy_at(packet.headroom(), &packet);
            copy.copy_metadata(&packet);
            pool.free(black_box(copy));
        }
    })
}

/// Two threads take a lock in turn: what one time costs.
fn hand_over() -> Option<u64> {
    let (held, begin) = (Mutex::new(0u64), Instant::now());
    let take_turns = |me: u64| {
        let (mut best, mut since, mut turns) = (u64::MAX, tsc::now(), 0);
        for tries in 1u32.. {
            if tries.is_multiple_of(1024) && begin.elapsed() > HANDING {
                break;
            }
            let Some(mut turn) = held.try_lock().ok().filter(|turn| **turn % 2 == me) else { continue };
            *turn += 1;
            drop(turn);
            turns += 1;
            if turns % EACH == 0 {
                let now = tsc::now();
                // In the meantime the other one had as many turns.
                best = best.min(now.wrapping_sub(since) / (2 * EACH));
                since = now;
            }
        }
        best
    };
    std::thread::scope(|scope| {
        let other = std::thread::Builder::new().spawn_scoped(scope, || take_turns(1)).ok()?;
        let best = take_turns(0);
        Some(best.min(other.join().ok()?)).filter(|best| *best < u64::MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_prices_are_measured() {
        let costs = Costs::measure();
        let all = [costs.lock, costs.copies[0].1, costs.copies[1].1, costs.handed_over.unwrap_or(1)];
        assert!(all.iter().all(|&cycles| cycles > 0), "{costs:?}");
        assert!(costs.of_lock().contains("cycles") && costs.of_copy().contains("1514"));
    }
}
