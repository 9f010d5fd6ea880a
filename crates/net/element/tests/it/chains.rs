//! Routers whose elements packets go through in one program, beside the same ones whose
//! elements are called one by one: what comes out is the same, packet by packet, and so is
//! what is counted.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use element::fixture::{Rig, flatten};
use graph::clock::{Clock, SIMULATION_START_NS};
use graph::plan::explain;
use graph::{Options, Router};
use proptest::prelude::*;
use wire::ip::Protocol;
use wire::ipv4;

use crate::registry;

/// All classes of both chains, each of whose outputs is printed.
const ALL: &str = "
elementclass Out { $colour, $ip, $mtu |
  input -> db :: DropBroadcasts -> cp :: CheckPaint($colour) -> pt :: PaintTee($colour)
  -> gw :: IPGWOptions($ip) -> fix :: FixIPSrc($ip) -> ttl :: DecIPTTL -> frag :: IPFragmenter($mtu)
  -> eth :: EtherEncap(0x0800, 02:00:00:00:01:01, 02:00:00:00:02:00) -> output;
  db[1] -> Print(db, -1) -> Discard; cp[1] -> Print(cp, -1) -> Discard; pt[1] -> Print(pt, -1) -> Discard;
  gw[1] -> Print(gw, -1) -> Discard; ttl[1] -> Print(ttl, -1) -> Discard; frag[1] -> Print(frag, -1) -> Discard;
}
c :: SetPacketType(HOST) -> Paint(2) -> Strip(14) -> check :: CheckIPHeader -> mark :: MarkIPHeader
  -> to :: GetIPAddress(16) -> rt :: StaticIPLookup(10.0.0.0/16 0, 10.1.0.0/16 1, 0/0 2);
check[1] -> Print(check, -1) -> Discard;
rt[0] -> a :: Out(2, 10.0.0.1, 1500) -> out :: Print(out, -1) -> Discard;
rt[1] -> b :: Out(1, 10.1.0.1, 100) -> out;
rt[2] -> ttl :: DecIPTTL -> frag :: IPFragmenter(60) -> Print(other, -1) -> Discard;
";

/// As in the papers: a part of each chain.
const PAPER: &str = "
elementclass Out { $colour, $ip |
  input -> db :: DropBroadcasts -> pt :: PaintTee($colour) -> gw :: IPGWOptions($ip) -> FixIPSrc($ip)
  -> ttl :: DecIPTTL -> frag :: IPFragmenter(100) -> EtherEncap(0x0800, 02:00:00:00:01:01, 02:00:00:00:02:00)
  -> output;
  pt[1] -> Print(pt, -1) -> Discard; gw[1] -> Print(gw, -1) -> Discard;
  ttl[1] -> Print(ttl, -1) -> Discard; frag[1] -> Print(frag, -1) -> Discard;
}
c :: Classifier(12/0800, -) -> Paint(9) -> Strip(14) -> CheckIPHeader
  -> rt :: StaticIPLookup(10.0.0.0/16 0, 0/0 1);
c[1] -> Print(arp, -1) -> Discard;
rt[0] -> Out(9, 10.0.0.1) -> out :: Print(out, -1) -> Discard;
rt[1] -> Out(2, 10.1.0.1) -> out;
";

/// A frame that a router may get.
#[derive(Debug, Clone)]
struct Frame {
    net: u8,
    ttl: u8,
    options: Vec<u8>,
    payload: usize,
    dont_fragment: bool,
    /// A byte that is wrong, and how.
    wrong: Option<(usize, u8)>,
    /// How often it comes, and as many at a time.
    times: usize,
}

impl Frame {
    fn bytes(&self) -> Vec<u8> {
        let mut header = vec![0; ipv4::HEADER_LEN];
        header.extend(&self.options);
        header.resize(header.len().next_multiple_of(4), 0);
        let (len, total) = (header.len(), (header.len() + self.payload) as u16);
        let mut ip = ipv4::Header::of_mut(&mut header).expect("a whole header");
        ip.set_header_len(len);
        ip.set_total_len(total);
        ip.set_fragment(self.dont_fragment, false, 0);
        ip.set_ttl(self.ttl);
        ip.set_protocol(Protocol::UDP);
        ip.set_src([192, 168, 0, 1].into());
        ip.set_dst([10, self.net, 0, 7].into());
        ipv4::fill_checksum(&mut header);
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        frame.extend(header);
        frame.extend((0..self.payload).map(|n| n as u8));
        if let Some((at, by)) = self.wrong {
            let at = at % frame.len();
            frame[at] ^= by;
        }
        frame
    }
}

fn frames() -> impl Strategy<Value = Vec<Frame>> {
    let options = prop_oneof![
        4 => Just(vec![]),
        1 => Just(vec![7, 7, 4, 0, 0, 0, 0]), // record route
        1 => Just(vec![7, 7, 200, 0, 0, 0, 0]), // a pointer beyond it
        1 => proptest::collection::vec(any::<u8>(), 1..40),
    ];
    let payload = prop_oneof![4 => 0usize..40, 1 => 60usize..200, 1 => 1400usize..1600];
    let wrong = proptest::option::weighted(0.2, (0usize..60, 1u8..));
    let frame =
        (0u8..3, prop_oneof![3 => 2u8..65, 1 => 0u8..2], options, payload, any::<bool>(), wrong, 1usize..20);
    let frame = frame.prop_map(|(net, ttl, options, payload, dont_fragment, wrong, times)| Frame {
        net,
        ttl,
        options,
        payload,
        dont_fragment,
        wrong,
        times,
    });
    proptest::collection::vec(frame, 1..12)
}

fn options(chains: bool) -> Options {
    let clock = Arc::new(Clock::simulated(SIMULATION_START_NS));
    Options { chains, clock, ..Options::default() }
}

/// Where packets come from: each kind in batches of its own, or several in one, of which some
/// leave a program in the middle and others behind them may not overtake.
const APART: &str = "in :: Null -> c;";
const MIXED: &str = "in :: Queue(10000) -> Unqueue(BURST 32) -> c;";

fn router(config: &str, frames: &[Frame], chains: bool) -> Rig {
    let mut text = config.to_string();
    for frame in frames {
        let hex: String = frame.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        let times = frame.times;
        let _ = writeln!(text, "InfiniteSource(DATA \\<{hex}>, LIMIT {times}, BURST {times}) -> in;");
    }
    text += "DriverManager(wait 1s, stop);";
    let registry = registry();
    let flat = flatten(&text, &registry).expect("a configuration");
    Rig::build(&text, flat, &registry, options(chains)).expect("a router")
}

/// What was printed, by what it begins with: packets at one place come in order.
fn by_label(printed: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut labels: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in printed.lines() {
        labels.entry(line.split(':').next().unwrap_or("")).or_default().push(line);
    }
    labels
}

/// What all elements dropped; the first line tells the time.
fn drops(rig: &mut Rig) -> Vec<String> {
    rig.read("figures").lines().skip(1).map(str::to_string).collect()
}

fn explained(config: &str) -> String {
    let registry = registry();
    let flat = flatten(config, &registry).expect("a configuration");
    let (plan, _) = Router::plan(config, flat, &registry, options(true));
    explain::text(&plan.expect("a plan"), None)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn packets_come_out_as_from_elements_called_one_by_one(frames in frames(), all in any::<bool>(), mixed in any::<bool>()) {
        let config = format!("{}{}", if all { ALL } else { PAPER }, if mixed { MIXED } else { APART });
        let (mut one, mut other) = (router(&config, &frames, true), router(&config, &frames, false));
        one.run();
        other.run();
        let (linked, apart) = (one.printed(), other.printed());
        prop_assert_eq!(by_label(&linked), by_label(&apart));
        prop_assert_eq!(drops(&mut one), drops(&mut other));
    }
}

#[test]
fn elements_one_behind_the_other_are_found_and_told() {
    let said = explained(&format!("{ALL}Idle -> c;"));
    let chain = |first: &str, rest: &str| {
        let line = said.lines().find(|line| line.starts_with(&format!("{first} ")));
        let line = line.unwrap_or_else(|| panic!("{said}"));
        assert!(line.ends_with(&format!("packets go on through {rest} in one program")), "{line}");
    };
    chain("a/db", "a/cp, a/pt, a/gw, a/fix, a/ttl, a/frag, a/eth");
    chain("b/db", "b/cp, b/pt, b/gw, b/fix, b/ttl, b/frag, b/eth");
    assert!(said.contains("check, mark, to in one program"), "{said}");
    // One element and a fragmenter, which stays by itself, are none.
    assert!(!said.lines().any(|line| line.starts_with("ttl ") && line.contains("program")), "{said}");
}

#[test]
fn elements_are_called_one_by_one_while_they_are_measured() {
    let frame =
        Frame { net: 0, ttl: 9, options: vec![], payload: 9, dont_fragment: false, wrong: None, times: 8 };
    let mut rig = router(&format!("{ALL}{APART}"), &[frame.clone(), frame], true);
    let at = |rig: &mut Rig, name: &str| -> String {
        let counters = rig.read("figures");
        let line = counters.lines().find(|line| line.starts_with(&format!("{name}\t")));
        let line = line.unwrap_or_else(|| panic!("{counters}"));
        line.split('\t').nth(2).expect("packets").to_string()
    };
    rig.write("measure", "true").expect("a switch");
    rig.run();
    assert_eq!([at(&mut rig, "a/db"), at(&mut rig, "a/gw"), at(&mut rig, "a/eth")], ["16", "16", "16"]);
}

#[test]
fn a_chain_goes_on_when_measuring_ends_and_when_its_fragmenter_changes() {
    let frame =
        Frame { net: 1, ttl: 9, options: vec![], payload: 300, dont_fragment: false, wrong: None, times: 2 };
    let config = ALL.replace("CheckPaint($colour)", "CheckPaint(2)");
    let script = "Script(write measure true, wait 1s, write measure false, write s1.active true, wait 1s,
                         write b/frag.config 1500, write s2.active true, wait 1s, print $(b/frag.fragments), stop);";
    let hex: String = frame.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let source = |name: &str| {
        format!("{name} :: InfiniteSource(DATA \\<{hex}>, LIMIT 2, BURST 2, ACTIVE false) -> c;\n")
    };
    let text = format!("{config}{}{}{script}", source("s1"), source("s2"));
    let registry = registry();
    let build = |chains| {
        let flat = flatten(&text, &registry).expect("a configuration");
        Rig::build(&text, flat, &registry, options(chains)).expect("a router")
    };
    let (mut one, mut other) = (build(true), build(false));
    one.run();
    other.run();
    assert_eq!(by_label(&one.printed()), by_label(&other.printed()));
    assert!(one.printed().lines().filter(|line| line.starts_with("out:")).count() > 2, "{}", one.printed());
}

/// Packets that are on their way round through a program when the router ends are held, at the element
/// that they come to: the program has no number that the configuration knows.
#[test]
fn what_is_on_its_way_through_a_chain_at_the_end_is_held() {
    for chains in [false, true] {
        let text = "s :: TimedSource(0.001s, x, LIMIT 3) -> p :: Paint(1) -> st :: Strip(0) -> p";
        let registry = registry();
        let flat = flatten(text, &registry).expect("a configuration");
        let mut rig = Rig::build(text, flat, &registry, options(chains)).expect("a router");
        assert_eq!(explain::text(&rig.router.shared().plan, None).contains("in one program"), chains);
        rig.router.begin();
        rig.router.lanes_mut()[0].step(50);
        rig.router.cleanup();
        let shared = rig.router.shared();
        let made = rig.router.lanes()[0].counters(shared.plan.find("s", None).expect("a source")).made;
        let waiting = rig.router.waiting();
        let paint = shared.plan.find("p", None).expect("an element");
        assert!(made > 0);
        assert_eq!(waiting, [(paint, made)], "chains {chains}");
    }
}
