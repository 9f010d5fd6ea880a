//! What a cache takes of the machine's memory, in a process of its own.
#![allow(clippy::unwrap_used)]

use service::memcached::{Limits, Session};
use service::{Buffer, Memcached, Protocol};

/// Resident bytes of this process (proc(5)).
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}

/// Many small items, and then large ones in place of them, take what was allowed.
#[test]
fn a_cache_takes_the_memory_that_it_may_whatever_its_items_are() {
    const MEMORY: usize = 32 << 20;
    let limits = Limits { memory: MEMORY, value: 1 << 20, threads: 1 };
    let mut server = Memcached::servers(limits, 1_700_000_000).pop().unwrap();
    let (mut session, mut output) = (Session::default(), Buffer { room: usize::MAX, ..Buffer::default() });
    let before = resident();
    let mut store = |count: usize, value: &str| {
        for n in 0..count {
            let set = format!("set {}{n} 0 0 {}\r\n{value}\r\n", value.len(), value.len());
            server.take(&mut session, set.as_bytes(), &mut output);
            assert_eq!(output.bytes, b"STORED\r\n");
            output.bytes.clear();
        }
        resident().saturating_sub(before) as f64 / MEMORY as f64
    };
    let small = store(2 * MEMORY / 100, "x");
    assert!((0.7..1.2).contains(&small), "{small} times as much as may be");
    let large = store(2 * MEMORY / 50_000, &"y".repeat(50_000));
    // What was freed of small items and slots is not all of a size that large ones take.
    assert!((0.7..1.4).contains(&large), "{large} times as much as may be");
}
