//! What elements do, in one program: it is linked once. `cargo test -p ixora-element NAME`
//! runs the tests whose paths contain a name, such as `rewriter::`.

mod buffers;
mod calls;
mod chains;
mod check;
mod classifier;
mod clients;
mod control;
mod differential;
mod foreign;
mod forwarding;
mod graph;
mod host;
mod hostile;
mod ip_filter;
mod l4;
mod live;
mod marks;
mod names;
mod notices;
mod packets;
mod protocols;
mod rate_monitor;
mod rewriter;
mod rewriter_tables;
mod rip_send;
mod script;
mod shared;
mod sockets;
mod spanning_tree;
mod standard;
mod swap;
mod testing;
mod threads;
mod trial;
mod tunnels;
mod turns;
mod unreachable;

use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

use ::graph::Registry;

/// The classes of elements in these tests.
fn registry() -> Registry {
    element::registry().with(analysis::registry())
}

/// A router of all classes.
struct Rig(element::fixture::Rig);

impl Rig {
    fn new(config: &str) -> Result<Rig, String> {
        Rig::with_threads(config, 1)
    }

    fn with_threads(config: &str, threads: usize) -> Result<Rig, String> {
        element::fixture::Rig::new(config, &registry(), threads).map(Rig)
    }
}

/// Runs a configuration to its end. Simulated seconds take no time: where a timer is due
/// again and again, the clock stands, and the run is ended with a panic.
fn run(config: &str) -> Rig {
    let mut rig = Rig::new(config).unwrap_or_else(|problems| panic!("{problems}"));
    let shared = rig.router.shared();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| rig.run());
        let end = Instant::now() + Duration::from_secs(30);
        while !running.is_finished() {
            if Instant::now() >= end {
                shared.end();
                panic!("it does not end");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        running.join().expect("a run without a panic");
    });
    rig
}

impl Deref for Rig {
    type Target = element::fixture::Rig;

    fn deref(&self) -> &element::fixture::Rig {
        &self.0
    }
}

impl DerefMut for Rig {
    fn deref_mut(&mut self) -> &mut element::fixture::Rig {
        &mut self.0
    }
}
