//! `ICMPPingSource`: sends echo requests and measures their answers.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use graph::class::{Handlers, Headers, action, both, keyword, mandatory, read, write};
use graph::clock::SECOND_NS;
use graph::element::ThreadPlacement;
use graph::signal::SignalKind;
use graph::value::{Bytes, Span, Value};
use graph::{Class, Cx, Element, Next, Notice, Signal, TimerId};
use memory::annotation::Header;
use memory::{Batch, Packet};
use wire::ip::Protocol;
use wire::{icmpv4, ipv4};

use super::ping::write_request;
use graph::annotation::PacketAnnotations;
use graph::ip_header;
use port::Reason;

pub static CLASS: Class = Class {
    name: "ICMPPingSource",
    brief: "sends ICMP echo requests, and measures how long answers take",
    doc: "Sends a request every INTERVAL, or whenever one is pulled. Answers that come to its input, if it \
          has one, are told of and counted; the `summary` handler says what `ping` says at its end, which is \
          printed when the router stops. IDENTIFIER has the byte order of x86 in the packet, as in Click.",
    ports: "0-1/1",
    processing: "h/a",
    flow: "x/y",
    arguments: &[
        mandatory("SRC", "whom requests are from"),
        mandatory("DST", "whom they are to"),
        keyword("INTERVAL", "the time between requests; 1 s"),
        keyword("IDENTIFIER", "which series of requests this is; 0"),
        keyword("DATA", "what they carry; nothing"),
        keyword("LIMIT", "how many, -1 for no limit; -1"),
        keyword("ACTIVE", "whether it sends; true"),
        keyword("VERBOSE", "whether each answer is told of; true"),
        keyword("STOP", "stop the router after LIMIT requests; false"),
        keyword("MIRROR", "whether an answer becomes the next request at once, whatever LIMIT is; false"),
    ],
    handlers: &Handlers::<PingSource>(&[
        both(
            "active",
            "whether it sends",
            |source: &PingSource| source.active.to_string(),
            |source, cx, value| {
                source.active = bool::parse(value, &cx.scope()).map_err(|_| "type mismatch")?;
                source.go_on(cx, 0);
                if let Some(timer) = source.timer.filter(|_| !source.active) {
                    cx.clear_timer(timer);
                }
                source.changed(cx);
                Ok(())
            },
        )
        .marked("c"),
        both(
            "src",
            "whom requests are from",
            |source: &PingSource| source.src.to_string(),
            |source, cx, value| {
                source.src = Ipv4Addr::parse(value, &cx.scope()).map_err(|_| "syntax error")?;
                source.changed(cx);
                Ok(())
            },
        )
        .marked("."),
        both(
            "dst",
            "whom they are to",
            |source: &PingSource| source.dst.to_string(),
            |source, cx, value| {
                source.dst = Ipv4Addr::parse(value, &cx.scope()).map_err(|_| "syntax error")?;
                source.changed(cx);
                Ok(())
            },
        )
        .marked("."),
        read("count", "requests sent", |source| source.count.to_string()),
        write("limit", "how many are sent", |source: &mut PingSource, cx, value| {
            let limit = i32::parse(value, &cx.scope()).map_err(|_| "'limit' should be integer")?;
            source.limit = limit.into();
            if !source.is_over() {
                source.go_on(cx, source.interval_ns);
            }
            source.changed(cx);
            Ok(())
        })
        .marked("."),
        write("interval", "the time between requests", |source, cx, value| {
            let span = Span::parse(value, &cx.scope()).map_err(|_| "'interval' should be an interval")?;
            source.interval_ns = in_ms(span);
            source.changed(cx);
            Ok(())
        }),
        action("reset_counts", "begins again", |source: &mut PingSource, cx| {
            (source.count, source.answers) = (0, Answers::default());
            if source.limit > 0 {
                source.go_on(cx, source.interval_ns);
            }
            source.changed(cx);
        })
        .marked("b"),
        read("summary", "requests, answers, losses and times", |source: &PingSource| {
            source.answers.summary(source.count)
        })
        .only_if(|source| source.listens),
        read("rtt_min", "the shortest time", |source: &PingSource| unparsed(source.answers.least_us))
            .only_if(|source| source.listens),
        read("rtt_avg", "the mean time", |source: &PingSource| unparsed(source.answers.mean_us()))
            .only_if(|source| source.listens),
        read("rtt_max", "the longest time", |source: &PingSource| unparsed(source.answers.most_us))
            .only_if(|source| source.listens),
    ]),
    drops: &[Reason::NoEchoReply, Reason::NoBuffers],
    example: "ICMPPingSource(10.0.0.1, 10.0.0.2, LIMIT 10, STOP true) -> rt;",
    see: &["ICMPPingEncap", "ICMPPingResponder"],
    headers: Headers { needs_network: true, finds_network: true, ..Class::BASE.headers },
    make: |setup, conf| {
        let src = conf.mandatory("SRC")?;
        let dst = conf.mandatory("DST")?;
        let interval = conf.keyword::<Span>("INTERVAL")?;
        let identifier = conf.keyword::<u16>("IDENTIFIER")?.unwrap_or(0).swap_bytes();
        let data = conf.keyword::<Bytes>("DATA")?.map_or(vec![], |bytes| bytes.0);
        let limit = conf.keyword::<i32>("LIMIT")?.unwrap_or(-1).into();
        let active = conf.keyword("ACTIVE")?.unwrap_or(true);
        let verbose = conf.keyword("VERBOSE")?.unwrap_or(true);
        let stop = conf.keyword("STOP")?.unwrap_or(false);
        let mirror = conf.keyword("MIRROR")?.unwrap_or(false);
        conf.complete()?;
        if data.len() > memory::DATA_ROOM - ip_header::LEN - icmpv4::HEADER_LEN {
            return Err("DATA: packets are not that long".into());
        }
        let pulled = setup.find(setup.name).is_some_and(|own| own.pull_outputs.first() == Some(&true));
        if pulled && interval.is_some() {
            setup.warn("element is pull, INTERVAL parameter will be ignored");
        }
        if pulled && mirror {
            return Err("MIRROR invalid on pull element".into());
        }
        let interval_ns = in_ms(interval.unwrap_or(Span(SECOND_NS)));
        if interval_ns == 0 {
            setup.warn("INTERVAL so small that it is zero");
        }
        Ok(Box::new(PingSource {
            src,
            dst,
            interval_ns,
            identifier,
            data,
            limit,
            active,
            verbose,
            stop,
            mirror,
            listens: setup.inputs > 0,
            count: 0,
            answers: Answers::default(),
            packets: Signal::new(true),
            timer: None,
            due_ns: 0,
        }))
    },
    ..Class::BASE
};

/// A time in whole milliseconds, as Click takes it.
fn in_ms(Span(ns): Span) -> i64 {
    (ns.max(0) + 500_000) / 1_000_000 * 1_000_000
}

/// A time as Click prints it.
fn unparsed(us: u64) -> String {
    match us {
        1..1000 => format!("{us}us"),
        _ if us.is_multiple_of(1_000_000) => format!("{}s", us / 1_000_000),
        _ => format!("{}.{:06}", us / 1_000_000, us % 1_000_000).trim_end_matches('0').to_string() + "s",
    }
}

/// What is known of answers.
#[derive(Debug, Default)]
struct Answers {
    /// When the requests of these numbers were sent, and whether they were answered.
    sent: BTreeMap<u16, (i64, bool)>,
    received: u64,
    twice: u64,
    least_us: u64,
    most_us: u64,
    sum_us: u64,
    squares: u128,
}

impl Answers {
    fn time(&mut self, us: u64) {
        self.least_us = if self.received == 0 { us } else { self.least_us.min(us) };
        self.most_us = self.most_us.max(us);
        self.sum_us += us;
        self.squares += u128::from(us) * u128::from(us);
    }

    fn mean_us(&self) -> u64 {
        self.sum_us / self.received.max(1)
    }

    fn summary(&self, sent: i64) -> String {
        let sent = sent.max(0) as u64;
        let first = self.received - self.twice;
        let mut out = format!("{sent} packets transmitted, {first} received");
        if self.twice > 0 {
            out += &format!(", +{} duplicates", self.twice);
        }
        if let Some(lost) = (sent.saturating_sub(first) * 100).checked_div(sent) {
            out += &format!(", {lost}% packet loss\n");
        }
        if self.received > 0 {
            let mean = self.mean_us();
            let square = (self.squares / u128::from(self.received)) as u64;
            let deviation = square.saturating_sub(mean * mean).isqrt();
            let times = [self.least_us, mean, self.most_us, deviation];
            let times = times.map(|us| format!("{}.{:03}", us / 1000, us % 1000)).join("/");
            out += &format!("rtt min/avg/max/mdev = {times}\n");
        }
        out
    }
}

/// An `ICMPPingSource` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct PingSource {
    src: Ipv4Addr,
    dst: Ipv4Addr,
    interval_ns: i64,
    identifier: u16,
    data: Vec<u8>,
    limit: i64,
    active: bool,
    verbose: bool,
    stop: bool,
    mirror: bool,
    /// Whether answers come in.
    listens: bool,
    count: i64,
    answers: Answers,
    /// Raised while there is something to pull.
    packets: Signal,
    timer: Option<TimerId>,
    /// When the next request is due, while the timer is set.
    due_ns: i64,
}

impl PingSource {
    fn is_over(&self) -> bool {
        self.limit >= 0 && self.count >= self.limit
    }

    /// Makes a packet, with room for the headers and data behind it, the next request.
    fn write(&mut self, cx: &Cx<'_>, packet: &mut Packet) {
        let number = (self.count % 0xFFFF) as u16 + 1; // never zero
        let ends = [self.src, self.dst].map(Ipv4Addr::to_bits);
        let written = write_request(packet, ends, 200, self.identifier, number);
        debug_assert!(written.is_some());
        ip_header::mark(packet, 0, ip_header::LEN);
        packet.set_dst_ip(self.dst);
        let now_ns = cx.now_ns();
        packet.annotations_mut().timestamp_ns = now_ns;
        if self.listens {
            self.answers.sent.insert(number, (now_ns, false));
        }
        self.count += 1;
    }

    fn request(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let mut bytes = vec![0; ip_header::LEN + icmpv4::HEADER_LEN];
        bytes.extend_from_slice(&self.data);
        let Some(mut packet) = cx.packet(&bytes) else {
            cx.count_drops(1, 1);
            return None;
        };
        self.write(cx, &mut packet);
        Some(packet)
    }

    /// Makes an answer the next request.
    fn send_back(&mut self, cx: &mut Cx<'_>, mut packet: Packet) {
        let start = packet.header_offset(Header::Network).and_then(|at| usize::try_from(at).ok());
        if start.is_none_or(|start| {
            !cx.advance(&mut packet, start as isize) || packet.len() < ip_header::LEN + icmpv4::HEADER_LEN
        }) {
            return cx.drop(0, packet);
        }
        self.write(cx, &mut packet);
        cx.emit(0, packet);
    }

    /// A packet came; whether it is an answer of these.
    fn receive(&mut self, cx: &mut Cx<'_>, packet: &Packet) -> bool {
        let Some((ip, message)) = ip_header::split(packet) else { return false };
        let (Some(head), Some(icmp)) = (ipv4::Header::of(ip), icmpv4::Header::of(message)) else {
            return false;
        };
        let reply = head.protocol() == Protocol::ICMP && icmp.message_type() == icmpv4::ECHO_REPLY;
        if !reply || icmp.identifier() != self.identifier {
            return false;
        }
        let number = icmp.sequence();
        let Some((sent_ns, answered)) = self.answers.sent.get_mut(&number) else { return true };
        // Of one that nobody stamped, the time is not known.
        let came_ns = Some(packet.annotations().timestamp_ns).filter(|stamp| *stamp != 0);
        let us = came_ns.map(|came_ns| (came_ns - *sent_ns).max(0) as u64 / 1000);
        self.answers.twice += u64::from(std::mem::replace(answered, true));
        us.into_iter().for_each(|us| self.answers.time(us));
        self.answers.received += 1;
        if self.verbose {
            let bytes = head.total_len() as i32 - ip.len() as i32 - icmpv4::HEADER_LEN as i32;
            let (name, from, ttl, us) = (cx.name(), head.src(), head.ttl(), us.unwrap_or(0));
            let time = format!("{}.{:03}", us / 1000, us % 1000);
            cx.say(&format!(
                "{name} :: ICMPPingSource: {bytes} bytes from {from}: icmp_seq={number} ttl={ttl} time={time} ms\n"
            ));
        }
        true
    }

    /// Sets the timer, if it is not, where requests are pushed.
    fn go_on(&mut self, cx: &mut Cx<'_>, after_ns: i64) {
        let Some(timer) = self.timer.filter(|timer| cx.timer_due(*timer).is_none()) else { return };
        if self.active && cx.is_push_output(0) {
            self.due_ns = cx.now_ns() + after_ns;
            cx.set_timer(timer, self.due_ns);
        }
    }

    /// A handler was written: there may be something to pull.
    fn changed(&mut self, cx: &mut Cx<'_>) {
        if !self.is_over() {
            self.packets.raise(cx);
        }
    }
}

impl ThreadPlacement for PingSource {
    /// It sends on its own, wherever answers come from.
    fn homes(&self, _: u64) -> u64 {
        1
    }
}

impl Element for PingSource {
    fn thread_placement(&self) -> Option<&dyn ThreadPlacement> {
        Some(self)
    }

    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.timer = Some(cx.new_timer());
        if self.limit != 0 {
            self.go_on(cx, self.interval_ns);
        }
        Ok(())
    }

    fn notice(&self, kind: SignalKind, _: usize) -> Notice {
        self.packets.of_packets(kind)
    }

    fn fire(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        if self.is_over() {
            if self.stop {
                cx.stop();
            }
            return;
        }
        if let Some(packet) = self.request(cx) {
            cx.emit(0, packet);
        }
        self.due_ns += self.interval_ns.max(1);
        cx.set_timer(timer, self.due_ns);
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) {
        while batch.room() > 0 && !self.is_over() {
            let Some(packet) = self.request(cx) else { return };
            batch.push(packet);
        }
        if self.is_over() {
            self.packets.lower();
            if self.stop {
                cx.stop();
            }
        }
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) -> Next {
        for packet in batch.drain() {
            match self.receive(cx, &packet) {
                true if self.mirror => self.send_back(cx, packet),
                true => cx.free(packet),
                false => cx.drop(0, packet),
            }
        }
        Next::Done
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        if self.verbose && self.listens {
            for line in self.answers.summary(self.count).lines() {
                cx.say(&format!("{} :: ICMPPingSource: {line}\n", cx.name()));
            }
        }
    }
}
