//! What `tests/programs.rs` has built: random graphs compiled, to be compared with
//! themselves as they are, and a router that `ixora compile` made. It is no test by
//! itself: the code it includes is written anew each time.
#![allow(clippy::unwrap_used)]

#[path = "../../../net/element/tests/it/differential/random.rs"]
#[allow(dead_code)]
mod random;
#[path = "../../../net/element/tests/it/differential/rig.rs"]
#[allow(dead_code)]
mod rig;

/// The code: `GRAPHS`, each with its seed, and `counted`, the crate of a router.
#[allow(missing_docs, unused_imports, unused_variables, clippy::all, clippy::pedantic)]
mod written {
    include!(concat!(env!("IXORA_PROGRAMS", "tests/programs.rs builds this"), "/written.rs"));
}

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use graph::fused::Region;
use random::Random;
use rig::{Input, run, run_counted, run_threads};

/// The graph that runs.
static SEED: AtomicU64 = AtomicU64::new(0);
/// All of them are done long before.
const LONGEST: Duration = Duration::from_secs(300);

/// Ends a program in which packets go round for ever.
fn watch() {
    std::thread::spawn(|| {
        std::thread::sleep(LONGEST);
        println!("seed {}: it does not come to an end", SEED.load(Ordering::Relaxed));
        std::process::exit(2);
    });
}

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    if words.next().as_deref() != Some("compare") {
        return written::counted::main();
    }
    let rounds = words.next().and_then(|rounds| rounds.parse().ok()).unwrap_or(2);
    let (mut packets, mut wrong) = (0, 0);
    watch();
    for (seed, regions) in written::GRAPHS {
        SEED.store(*seed, Ordering::Relaxed);
        match compare(*seed, regions, rounds) {
            Ok(count) => packets += count,
            Err(difference) => {
                println!("seed {seed}: {difference}");
                wrong += 1;
            }
        }
    }
    println!("{packets} packets arrived, {wrong} of {} graphs are different", written::GRAPHS.len());
    if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Random packets through a graph as it is and compiled; how many came, or what was
/// different.
fn compare(seed: u64, regions: &'static [Region], rounds: usize) -> Result<usize, String> {
    let mut numbers = Random(seed);
    let nodes = numbers.nodes();
    let mut count = 0;
    for _ in 0..rounds {
        let input = Arc::new(Input { sources: numbers.frames(), way: random::way });
        for burst in [1, 7, 32, 256] {
            let text = random::text(&nodes, burst);
            // The code is there twice: once with a count of packets at each element.
            let run = if burst % 2 == 1 { run_counted } else { run };
            let plain = run(&text, &[], &input);
            count += plain.count();
            if let Some(difference) = plain.difference(&run(&text, regions, &input)) {
                return Err(format!(
                    "{burst} packets at a time, as it is and compiled\n{difference}\n{text}"
                ));
            }
        }
        let text = random::text(&nodes, 32);
        let plain = run(&text, &[], &input).apart_from_queues();
        let threads = run_threads(&text, regions, &input, plain.count()).apart_from_queues();
        if let Some(difference) = plain.difference(&threads) {
            return Err(format!("one thread as it is, four compiled\n{difference}\n{text}"));
        }
    }
    Ok(count)
}
