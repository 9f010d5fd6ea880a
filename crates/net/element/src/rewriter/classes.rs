//! The classes of rewriters, and how each reads its configuration.

use std::sync::Arc;

use graph::class::{Argument, Handlers, Headers, Row, action, ask, both, call, keyword, named, read, rest};
use graph::clock::SECOND_NS;
use graph::element::kernel::Kernel;
use graph::value::{Scope, Span, Value, unsigned};
use graph::{Class, Conf, ConfFault, Element, Setup};

use super::apply::Annotate;
use super::flow::Times;
use super::flows::{CAPACITY, Member};
use super::hosts::Hosts;
use super::kind::RewriterKind;
use super::mapper::all;
use super::rewriter::{Core, DROPS, Parts, Rewriter};
use super::spec::{self, Input};
use crate::kernels;
use graph::annotation::AnnotationOffset;

const SPECS: Argument = rest(
    "INPUTSPEC",
    "for each input `drop`, `pass OUTPUT`, `keep FOUTPUT ROUTPUT`, `pattern … FOUTPUT ROUTPUT`, or a mapper",
);
const CAP: Argument =
    keyword("MAPPING_CAPACITY", "the most flows, or the name of a rewriter to share that with; 262144");
const CAP_OLD: Argument = keyword("CAPACITY", "as MAPPING_CAPACITY");
const HOST_CAP: Argument =
    keyword("HOST_CAPACITY", "the most flows that one host may begin, 0 for as many as there are; 0");
const REAP: Argument = keyword("REAP_INTERVAL", "how often flows that expired are forgotten; 15 min");
const REAP_OLD: Argument = keyword("REAP_TIME", "as REAP_INTERVAL");
const REPLY: Argument = keyword("REPLY_ANNO", "a byte of a flow's first packet that packets back get; none");
const DST: Argument = keyword("DST_ANNO", "whether the destination annotation follows; true");
const AGGREGATE: Argument =
    keyword("SET_AGGREGATE", "whether packets get their flow's number as their aggregate; false");
const GUARANTEE: Argument =
    keyword("GUARANTEE", "how long a packet keeps its flow from being forgotten; 5 s");
const TIMEOUT: Argument =
    keyword("TIMEOUT", "how long an idle flow is remembered; 5 min, or 2 h for addresses");
const TCP_TIMEOUT: Argument = keyword("TCP_TIMEOUT", "the same for TCP when both sides sent data; 24 h");
const TCP_TIMEOUT_OLD: Argument = keyword("TIMEOUT", "as TCP_TIMEOUT");
const TCP_DONE: Argument = keyword("TCP_DONE_TIMEOUT", "the same for TCP when both sides ended; 4 min");
const TCP_NODATA: Argument = keyword("TCP_NODATA_TIMEOUT", "the same for other TCP flows; 5 min");
const TCP_GUARANTEE: Argument = keyword("TCP_GUARANTEE", "as GUARANTEE, for TCP; 5 s");
const UDP_TIMEOUT: Argument = keyword("UDP_TIMEOUT", "how long an idle UDP flow is remembered; 5 min");
const UDP_STREAMING: Argument =
    keyword("UDP_STREAMING_TIMEOUT", "the same for three packets or more, to and fro; UDP_TIMEOUT");
const STREAMING: Argument = keyword("STREAMING_TIMEOUT", "as UDP_STREAMING_TIMEOUT");
const UDP_GUARANTEE: Argument = keyword("UDP_GUARANTEE", "as GUARANTEE, for UDP; 5 s");

const SIZE: Row<Rewriter> = read("table_size", "flows of this rewriter", Rewriter::size);
const NMAPPINGS: Row<Rewriter> = read("nmappings", "flows of this rewriter", Rewriter::size).marked("D");
const FAILURES: Row<Rewriter> = read("mapping_failures", "flows that could not be made", Rewriter::failures);
const FAILURE_DETAILS: Row<Rewriter> = read(
    "failure_details",
    "flows that could not be made, a line for each reason",
    Rewriter::failure_details,
);
const HOST_CAPACITY: Row<Rewriter> =
    read("host_capacity", "the most flows of one host, 0 for as many as there are", Rewriter::host_capacity);
const ALL: Row<Rewriter> = read("size", "flows of all rewriters that share the capacity", |rewriter| {
    rewriter.flows().len().to_string()
});
const EVICTIONS: Row<Rewriter> =
    read("evictions", "flows forgotten early, because others needed their place", |rewriter| {
        rewriter.flows().evicted.to_string()
    });
const PATTERNS: Row<Rewriter> =
    read("patterns", "the inputs' specifications, with how many flows each has", Rewriter::patterns);
const CAPACITY_OF: Row<Rewriter> = both(
    "capacity",
    "the most flows",
    |rewriter| rewriter.flows().capacity.to_string(),
    Rewriter::set_capacity,
);
const CLEAR: Row<Rewriter> = action("clear", "forgets all flows", |rewriter, _| rewriter.flows().shrink(0));
const TABLE: Row<Rewriter> =
    call("table", "all mappings, a line for each", |rewriter, cx, _| rewriter.list(cx, 0));
const MAPPINGS: Row<Rewriter> =
    call("mappings", "all mappings, a line for each", |rewriter: &mut Rewriter, cx, _| rewriter.list(cx, 0))
        .marked("D");
const PATTERN: Row<Rewriter> = named("an input's specification", Rewriter::pattern_names, Rewriter::pattern)
    .and_write(Rewriter::set_pattern);

const NAT: Class = Class {
    ports: "1-/1-",
    processing: "h/h",
    drops: DROPS,
    handlers: &Handlers::<Rewriter>(&[
        TABLE,
        MAPPINGS,
        SIZE,
        NMAPPINGS,
        FAILURES,
        FAILURE_DETAILS,
        PATTERNS,
        ALL,
        EVICTIONS,
        CAPACITY_OF,
        HOST_CAPACITY,
        CLEAR,
        PATTERN,
    ]),
    headers: Headers { needs_network: true, ..Class::BASE.headers },
    see: &["IPRewriter", "IPAddrRewriter", "ICMPRewriter", "ICMPPingRewriter", "IPRewriterPatterns"],
    ..Class::BASE
};

/// The class for TCP and UDP.
pub static IP: Class = Class {
    name: "IPRewriter",
    brief: "rewrites addresses and ports of TCP and UDP flows: NAPT",
    doc: "A packet of a known flow is rewritten as that flow is, and leaves at its output; packets back are \
          rewritten the other way round. A packet of no known flow is treated as its input's specification \
          says: `pattern SADDR SPORT DADDR DPORT FOUTPUT ROUTPUT` makes a flow, in which `-` changes nothing \
          and SPORT may be a range from which the packet's own port is taken if it is free, else any; with \
          `#` behind it they are taken in turn, with `?` always any. Other packets and later fragments are \
          dropped, except at a `pass` input.\n\n\
          There are never more flows than MAPPING_CAPACITY: the next to expire makes place, except for flows \
          that had a packet within the guarantee; when all have, new flows are dropped as `table full`.\n\n\
          Without HOST_CAPACITY one host can take all flows, and all ports towards one destination, as with \
          Click: behind one address there may be a network. With it, new flows of a host that began so many \
          are dropped as `too many flows of one host`, until some of its own expire. IPAddrRewriter, where \
          a host has one flow, does not need it.",
    arguments: &[
        SPECS,
        CAP,
        CAP_OLD,
        HOST_CAP,
        TCP_TIMEOUT,
        TCP_TIMEOUT_OLD,
        TCP_DONE,
        TCP_NODATA,
        TCP_GUARANTEE,
        UDP_TIMEOUT,
        UDP_STREAMING,
        UDP_GUARANTEE,
        GUARANTEE,
        REAP,
        REAP_OLD,
        DST,
        REPLY,
        AGGREGATE,
    ],
    handlers: &Handlers::<Rewriter>(&[
        call("tcp_table", "TCP mappings, a line for each", |rewriter, cx, _| rewriter.list(cx, 0)),
        call("udp_table", "UDP mappings, a line for each", |rewriter, cx, _| rewriter.list(cx, 1)),
        call("tcp_mappings", "TCP mappings, a line for each", |rewriter: &mut Rewriter, cx, _| {
            rewriter.list(cx, 0)
        })
        .marked("D"),
        call("udp_mappings", "UDP mappings, a line for each", |rewriter: &mut Rewriter, cx, _| {
            rewriter.list(cx, 1)
        })
        .marked("D"),
        ask("tcp_lookup", "`SADDR SPORT DADDR DPORT`: what becomes of a TCP flow", Rewriter::lookup),
        SIZE,
        NMAPPINGS,
        FAILURES,
        FAILURE_DETAILS,
        PATTERNS,
        ALL,
        EVICTIONS,
        CAPACITY_OF,
        HOST_CAPACITY,
        CLEAR,
        PATTERN,
    ]),
    example: "rw :: IPRewriter(pattern 1.0.0.1 1024-65535 - - 0 1, drop);\ninside -> [0]rw; outside -> [1]rw;",
    see: &[
        "TCPRewriter",
        "UDPRewriter",
        "IPAddrRewriter",
        "ICMPRewriter",
        "ICMPPingRewriter",
        "FTPPortMapper",
    ],
    kernel: Kernel::Excluded(kernels::LOCK),
    make: |setup, conf| make(setup, conf, RewriterKind::Ip),
    ..NAT
};

/// The class for TCP.
pub static TCP: Class = Class {
    name: "TCPRewriter",
    brief: "rewrites addresses, ports and sequence numbers of TCP flows",
    doc: "As IPRewriter, for TCP only. Other elements can have a flow's sequence numbers shift.",
    arguments: &[
        SPECS,
        CAP,
        CAP_OLD,
        HOST_CAP,
        TCP_TIMEOUT,
        TCP_TIMEOUT_OLD,
        TCP_DONE,
        TCP_NODATA,
        TCP_GUARANTEE,
        GUARANTEE,
        REAP,
        REAP_OLD,
        DST,
        REPLY,
        AGGREGATE,
    ],
    handlers: &Handlers::<Rewriter>(&[
        TABLE,
        MAPPINGS,
        ask("lookup", "`SADDR SPORT DADDR DPORT`: what becomes of a flow", Rewriter::lookup),
        SIZE,
        NMAPPINGS,
        FAILURES,
        FAILURE_DETAILS,
        PATTERNS,
        ALL,
        EVICTIONS,
        CAPACITY_OF,
        HOST_CAPACITY,
        CLEAR,
        PATTERN,
    ]),
    example: "rw :: TCPRewriter(pattern 1.0.0.1 1024-65535 - - 0 1, drop);",
    see: &["IPRewriter", "FTPPortMapper"],
    kernel: Kernel::Excluded(kernels::LOCK),
    make: |setup, conf| make(setup, conf, RewriterKind::Tcp),
    ..NAT
};

/// The class for UDP.
pub static UDP: Class = Class {
    name: "UDPRewriter",
    brief: "rewrites addresses and ports of UDP flows",
    doc: "As IPRewriter, for UDP. TCP and DCCP are rewritten too, but all in one table, and with UDP's times.",
    arguments: &[
        SPECS,
        CAP,
        CAP_OLD,
        HOST_CAP,
        UDP_TIMEOUT,
        TIMEOUT,
        UDP_STREAMING,
        STREAMING,
        UDP_GUARANTEE,
        GUARANTEE,
        REAP,
        REAP_OLD,
        DST,
        REPLY,
        AGGREGATE,
    ],
    example: "rw :: UDPRewriter(pattern 1.0.0.1 1024-65535# - - 0 1, drop);",
    kernel: Kernel::Excluded(kernels::LOCK),
    make: |setup, conf| make(setup, conf, RewriterKind::Udp),
    ..NAT
};

/// The class for source addresses.
pub static ADDRESS: Class = Class {
    name: "IPAddrRewriter",
    brief: "rewrites addresses of hosts: basic NAT",
    doc: "As IPRewriter, but each host inside has an address of its own outside: `pattern SADDR[-SADDR2] - \
          FOUTPUT ROUTPUT`, SADDR also as a prefix. Packets of any protocol from a host get its outside \
          address as their source; those to that address get the host as their destination.",
    arguments: &[SPECS, CAP, CAP_OLD, TIMEOUT, GUARANTEE, REAP, REAP_OLD, REPLY, AGGREGATE],
    example: "rw :: IPAddrRewriter(pattern 1.0.0.2-1.0.0.254 - 0 1, pass 1);",
    see: &["IPAddrPairRewriter", "IPRewriter", "StoreIPAddress"],
    kernel: Kernel::Excluded(kernels::LOCK),
    make: |setup, conf| make(setup, conf, RewriterKind::Address),
    ..NAT
};

/// The class for pairs of addresses.
pub static PAIR: Class = Class {
    name: "IPAddrPairRewriter",
    brief: "rewrites pairs of addresses: NAT for each source and destination",
    doc: "As IPRewriter, with addresses but no ports: `pattern SADDR[-SADDR2] DADDR FOUTPUT ROUTPUT`.",
    arguments: &[SPECS, CAP, CAP_OLD, HOST_CAP, TIMEOUT, GUARANTEE, REAP, REAP_OLD, REPLY, AGGREGATE],
    example: "rw :: IPAddrPairRewriter(pattern 1.0.0.2-1.0.0.254 - 0 1, pass 1);",
    see: &["IPAddrRewriter", "IPRewriter"],
    kernel: Kernel::Excluded(kernels::LOCK),
    make: |setup, conf| make(setup, conf, RewriterKind::Pair),
    ..NAT
};

/// The class for echo requests.
pub static PING: Class = Class {
    name: "ICMPPingRewriter",
    brief: "rewrites ICMP echo requests and replies",
    doc: "As IPRewriter, for pings: their identifier is what a source port is elsewhere, and no two flows to \
          one host have the same. Replies that answer no known request are dropped, except at a `pass` input.",
    arguments: &[SPECS, CAP, CAP_OLD, HOST_CAP, TIMEOUT, GUARANTEE, REAP, REAP_OLD, DST, REPLY, AGGREGATE],
    example: "pw :: ICMPPingRewriter(pattern 1.0.0.1 1024-65535 - - 0 1, drop);",
    see: &["IPRewriter", "ICMPRewriter", "ICMPPingResponder"],
    make: |setup, conf| make(setup, conf, RewriterKind::Ping),
    ..NAT
};

/// A time in whole seconds, as Click takes it.
struct Seconds(i64);

impl Value for Seconds {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<Seconds, String> {
        let Span(ns) = Span::parse(text, scope)?;
        let seconds = (ns + SECOND_NS / 2) / SECOND_NS;
        if ns < 0 { Err("expected time in seconds".into()) } else { Ok(Seconds(seconds)) }
    }
}

/// A time in milliseconds, by any of its names; the last that is there wins.
fn time(conf: &mut Conf<'_>, keys: &[&str], default: i64) -> Result<i64, ConfFault> {
    let mut ms = default * 1000;
    for key in keys {
        if let Some(Seconds(seconds)) = conf.keyword(key)? {
            ms = seconds.saturating_mul(1000);
        }
    }
    Ok(ms)
}

/// The times of both maps.
fn times(conf: &mut Conf<'_>, kind: RewriterKind) -> Result<[Times; 2], ConfFault> {
    let mut udp = Times::default();
    if kind == RewriterKind::Ip {
        udp = datagram_times(conf, &["UDP_TIMEOUT"], &["UDP_STREAMING_TIMEOUT"], &["UDP_GUARANTEE"])?;
    }
    let first = match kind {
        RewriterKind::Ip | RewriterKind::Tcp => Times {
            idle: time(conf, &["TCP_NODATA_TIMEOUT"], 300)?,
            busy: time(conf, &["TIMEOUT", "TCP_TIMEOUT"], 86400)?,
            done: time(conf, &["TCP_DONE_TIMEOUT"], 240)?,
            guarantee: time(conf, &["TCP_GUARANTEE", "GUARANTEE"], 5)?,
        },
        RewriterKind::Udp => {
            let streaming = &["UDP_STREAMING_TIMEOUT", "STREAMING_TIMEOUT"];
            datagram_times(conf, &["UDP_TIMEOUT", "TIMEOUT"], streaming, &["UDP_GUARANTEE", "GUARANTEE"])?
        }
        _ => {
            let default = if kind == RewriterKind::Ping { 300 } else { 7200 };
            let idle = time(conf, &["TIMEOUT"], default)?;
            Times { idle, busy: idle, done: idle, guarantee: time(conf, &["GUARANTEE"], 5)? }
        }
    };
    Ok([first, udp])
}

/// The times of flows that stream or do not.
fn datagram_times(
    conf: &mut Conf<'_>,
    idle: &[&str],
    busy: &[&str],
    guarantee: &[&str],
) -> Result<Times, ConfFault> {
    let idle = time(conf, idle, 300)?;
    let busy = time(conf, busy, idle / 1000)?;
    Ok(Times { idle, busy, done: idle, guarantee: time(conf, guarantee, 5)? })
}

/// Whether elements of a class are rewriters.
pub(super) fn is_rewriter(class: &Class) -> bool {
    [&IP, &TCP, &UDP, &ADDRESS, &PAIR, &PING].iter().any(|own| own.name == class.name)
}

fn make(
    setup: &mut Setup<'_>,
    conf: &mut Conf<'_>,
    kind: RewriterKind,
) -> Result<Box<dyn Element>, ConfFault> {
    let times = times(conf, kind)?;
    let of_addresses = matches!(kind, RewriterKind::Address | RewriterKind::Pair);
    let destination = of_addresses || conf.keyword("DST_ANNO")?.unwrap_or(true);
    let reply = conf.keyword::<AnnotationOffset<1>>("REPLY_ANNO")?.map(|place| place.0);
    let (old, new): (Option<String>, Option<String>) =
        (conf.keyword("CAPACITY")?, conf.keyword("MAPPING_CAPACITY")?);
    let given = new.or(old);
    let capacity = given.as_deref().map(unsigned);
    let partner = given.filter(|_| capacity == Some(None));
    if partner.as_ref().is_some_and(|name| !setup.find(name).is_some_and(|element| is_rewriter(element.kind)))
    {
        return Err("bad MAPPING_CAPACITY".into());
    }
    let capacity = capacity.flatten().map_or(CAPACITY, |capacity| capacity as usize);
    let hosts = match kind {
        RewriterKind::Address => Hosts::default(),
        _ => Hosts::new(conf.keyword("HOST_CAPACITY")?.unwrap_or(0)),
    };
    let aggregate = conf.keyword("SET_AGGREGATE")?.unwrap_or(false);
    // What FastClick's take: there is one table here for all threads.
    conf.ignore("USE_CACHE");
    conf.ignore("HANDLE_MIGRATION");
    let reap_ns = time(conf, &["REAP_INTERVAL", "REAP_TIME"], 900)?.saturating_mul(1_000_000);
    let specs = conf.rest();
    conf.complete()?;
    if specs.len() != setup.inputs {
        return Err(format!("need {} arguments, one per input port", setup.inputs).into());
    }
    let scope = *conf.scope();
    let inputs = all(specs.iter().enumerate().map(|(i, text)| {
        let input = Input::parse(text, setup.outputs, &scope);
        let checked = input.and_then(|input| input.check(setup).map(|()| input));
        checked.map_err(|error| spec::about(i, &error))
    }))?;
    let member = Member::new(inputs, setup.outputs, times, hosts);
    let annotate = Annotate { destination, reply, aggregate: aggregate && kind == RewriterKind::Ip };
    let parts = Parts { kind, member, inputs: setup.inputs, capacity, partner, annotate, reap_ns };
    let core = Arc::new(Core::new(parts));
    setup.share(core.clone());
    Ok(Box::new(Rewriter::new(core)))
}
