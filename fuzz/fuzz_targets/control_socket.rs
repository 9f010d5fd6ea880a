//! Whatever a client of a control socket sends: every request is taken off the front
//! of its bytes, none is empty, none reaches behind them, and it is the same however
//! they are cut. Then a router does what was asked: no handler panics or hangs.
//!
//! The first byte chooses the router; when it is even, bytes are taken as they are, when
//! it is odd, a word for each byte.
#![no_main]

use std::cell::LazyCell;
use std::sync::Arc;

use element::control::protocol::{Parsed, Request, parse, parse_on};
use element::fixture::{Rig, flatten};
use graph::clock::{Clock, SIMULATION_START_NS};
use graph::lang::Flat;
use graph::{Options, Registry};
use libfuzzer_sys::fuzz_target;

/// Requests that are carried out: each may have a script run, which is slow.
const MOST: usize = 24;

/// Routers: small ones, for each run builds one.
const CONFIGS: [&str; 4] = [
    "s :: InfiniteSource(LIMIT 9, ACTIVE false) -> c :: Counter -> q :: Queue(5)
      -> u :: RatedUnqueue(10) -> w :: Switch -> t :: SetIPDSCP(1) -> Discard; w[1] -> d :: Discard;",
    "x :: Script(TYPE PASSIVE, init v 1, label m, set v $(add $v $1), return $v, wait_step 3, goto m $(lt $v 9));
     c :: Counter; g :: AverageCounter; Idle -> c -> g -> Discard;",
    "b :: BandwidthMeter(5) -> p :: Paint(1) -> Discard; b[1] -> Discard; Idle -> b;
     y :: LinkUnqueue(1ms, 1Mbps); Idle -> q :: Queue -> y -> Discard; g :: AverageCounter; Idle -> g -> Discard;
     a :: ARPQuerier(10.0.0.1, 2:0:0:0:0:1); Idle -> a -> Discard; Idle -> [1] a;",
    "l :: RadixIPLookup(10.0.0.0/8 0); Idle -> l -> Discard;
     r :: IPRewriter(pattern 1.0.0.1 1024-1087 - - 0 0); Idle -> r -> Discard;",
];

/// Packet buffers of a run.
const BUFFERS: usize = 64;

thread_local! {
    /// The classes, and the configurations as they were read.
    static READ: LazyCell<(Registry, [Flat; 4])> = LazyCell::new(|| {
        let classes = element::registry().with(analysis::registry());
        let flats = CONFIGS.map(|config| flatten(config, &classes).unwrap_or_else(|error| panic!("{error}")));
        (classes, flats)
    });
}

#[rustfmt::skip]
const WORDS: [&str; 96] = [
    "READ ", "WRITE ", "READDATA ", "WRITEDATA ", "READUNTIL ", "WRITEUNTIL ", "CHECKREAD ", "CHECKWRITE ", "LLRPC ",
    "HELP", "QUIT", "\n", "\r\n", " ", ".", "s.", "c.", "q.", "u.", "w.", "t.", "d.", "l.", "b.", "p.", "a.", "r.", "y.",
    "g.", "x.", "0.", "1.", "active", "limit", "burst", "count", "reset", "data", "length", "stop", "count_call",
    "byte_count_call", "rate", "byte_rate", "capacity", "reset_counts", "switch", "dscp", "table", "add", "set", "remove",
    "ctrl", "lookup", "color", "insert", "delete", "clear", "broadcast", "ipaddr", "stats", "latency", "bandwidth", "size",
    "run", "step", "goto", "get", "shift", "now", "random", "m", "v", "sprintf", "mod", "div", "if", "in", "config",
    "handlers", "scheduled", "tickets", "ports", "figures", "measure", "true", "-", "9223372036854775807",
    "18446744073709551616", "-9223372036854775808", "0", "1", "4294967296", "10.0.0.0/8", "02:00:00:00:00:01", "1e999",
];

/// Takes all requests off the front of a client's bytes.
fn requests(bytes: &[u8], closed: bool) -> Vec<Request> {
    let (mut rest, mut all) = (bytes, vec![]);
    while !rest.is_empty() {
        let mut looked = 0;
        let half = parse_on(&rest[..rest.len() / 2], false, &mut looked);
        let parsed = parse(rest, closed);
        if half == Parsed::Wait {
            assert_eq!(parse_on(rest, closed, &mut looked), parsed);
        }
        let Parsed::Request(request, length) = parsed else { break };
        assert!(length > 0 && length <= rest.len());
        rest = &rest[length..];
        all.push(request);
    }
    assert!(!closed || rest.is_empty());
    all
}

/// One of the routers, as new.
fn router(which: usize) -> Rig {
    READ.with(|read| {
        let (registry, flats) = &**read;
        let clock = Arc::new(Clock::simulated(SIMULATION_START_NS));
        let options =
            Options { clock, dma: fuzz::dma::space(), buffers: Some(BUFFERS), ..Options::default() };
        let flat = flats[which].clone();
        Rig::build(CONFIGS[which], flat, registry, options).unwrap_or_else(|error| panic!("{error}"))
    })
}

fn carry_out(which: usize, requests: Vec<Request>) {
    if requests.is_empty() {
        return;
    }
    let mut rig = router(which);
    for request in requests.into_iter().take(MOST) {
        match request {
            Request::Read { handler, parameter } if !parameter.contains('/') => {
                let _ = rig.router.read(&handler, &parameter);
            }
            Request::Write { handler, value } => {
                let _ = rig.write(&handler, &value);
            }
            Request::Check { handler, .. } => {
                let _ = rig.router.lanes()[0].handler_of(None, &handler);
            }
            _ => {}
        }
        rig.router.lanes_mut()[0].step(3);
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((way, rest)) = input.split_first() else { return };
    let bytes: Vec<u8> = match way % 2 {
        0 => rest.to_vec(),
        _ => rest.iter().flat_map(|&b| WORDS[usize::from(b) % WORDS.len()].bytes()).collect(),
    };
    requests(&bytes, false);
    carry_out(usize::from(way / 2 % 4), requests(&bytes, true));
});
