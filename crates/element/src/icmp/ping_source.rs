//! `ICMPPingSource`: sends echo requests and measures their answers.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use graph::class::{Headers, both, keyword, mandatory, read, write};
use graph::clock::SECOND_NS;
use graph::timer::TimerId;
use graph::value::{Bytes, Scope, Span, Value};
use graph::{Class, Cx, Element, Next, Refused};
use memory::Batch;

use super::ping::write_request;
use crate::annotation::Notes;
use crate::ip::header;

/// The class.
pub static CLASS: Class = Class {
    name: "ICMPPingSource",
    brief: "sends ICMP echo requests, and measures how long answers take",
    doc: "Sends a request every INTERVAL. Answers that come to its input, if it has one, are told of and \
          counted; the `summary` handler says what `ping` says at its end.",
    ports: "0-1/1",
    processing: "h/h",
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
    ],
    handlers: &[
        both("active", "whether it sends"),
        both("src", "whom requests are from"),
        both("dst", "whom they are to"),
        read("count", "requests sent"),
        write("limit", "how many are sent"),
        write("interval", "the time between requests"),
        write("reset_counts", "begins again"),
        read("summary", "requests, answers, losses and times"),
        read("rtt_min", "the shortest time, in seconds"),
        read("rtt_avg", "the mean time, in seconds"),
        read("rtt_max", "the longest time, in seconds"),
    ],
    drops: &["no echo reply to a request of these", "no buffers"],
    example: "ICMPPingSource(10.0.0.1, 10.0.0.2, LIMIT 10, STOP true) -> rt;",
    see: &["ICMPPingEncap", "ICMPPingResponder"],
    headers: Headers { needs_network: true, finds_network: true, ..Class::BASE.headers },
    make: |_, conf| {
        let src = conf.mandatory("SRC")?;
        let dst = conf.mandatory("DST")?;
        let interval = conf.keyword("INTERVAL")?.unwrap_or(Span(SECOND_NS));
        let identifier = conf.keyword("IDENTIFIER")?.unwrap_or(0);
        let data = conf.keyword::<Bytes>("DATA")?.map_or(vec![], |bytes| bytes.0);
        let limit = conf.keyword("LIMIT")?.unwrap_or(-1);
        let active = conf.keyword("ACTIVE")?.unwrap_or(true);
        let verbose = conf.keyword("VERBOSE")?.unwrap_or(true);
        let stop = conf.keyword("STOP")?.unwrap_or(false);
        conf.complete()?;
        if data.len() > memory::DATA_ROOM - header::LEN - 8 {
            return Err("DATA: packets are not that long".into());
        }
        let interval_ns = interval.0.max(1);
        let answers = Answers::default();
        let timer = None;
        let count = 0;
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
            count,
            answers,
            timer,
        }))
    },
    ..Class::BASE
};

/// How many requests may wait for their answers.
const WAITING: usize = 65_536;

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
    fn count(&mut self, us: u64) {
        self.least_us = if self.received == 0 { us } else { self.least_us.min(us) };
        self.most_us = self.most_us.max(us);
        self.sum_us += us;
        self.squares += u128::from(us) * u128::from(us);
        self.received += 1;
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

/// See [`CLASS`].
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
    count: i64,
    answers: Answers,
    timer: Option<TimerId>,
}

impl PingSource {
    fn may_send(&self) -> bool {
        self.active && (self.limit < 0 || self.count < self.limit)
    }

    fn send(&mut self, cx: &mut Cx<'_>) {
        let number = (self.count % 0xFFFF) as u16 + 1; // never zero
        self.count += 1;
        let length = header::LEN + 8 + self.data.len();
        let Some(mut packet) = cx.alloc().filter(|packet| packet.tailroom() >= length) else {
            return cx.count_drops(1, 1);
        };
        if packet.set_len(length).is_err() {
            return cx.drop(1, packet);
        }
        packet[header::LEN + 8..].copy_from_slice(&self.data);
        let ends = [self.src, self.dst].map(Ipv4Addr::to_bits);
        write_request(&mut packet, ends, 200, self.identifier, number);
        header::mark(&mut packet, 0, header::LEN);
        packet.set_dst_ip(self.dst);
        let now_ns = cx.now_ns();
        packet.annotations_mut().timestamp_ns = now_ns;
        if cx.inputs() > 0 && self.answers.sent.len() < WAITING {
            self.answers.sent.insert(number, (now_ns, false));
        }
        cx.emit(0, packet);
    }

    /// An answer; whether it is one to a request of these.
    fn receive(&mut self, cx: &mut Cx<'_>, packet: &memory::Packet) -> bool {
        let Some((ip, message)) = header::split(packet) else { return false };
        let reply = message.len() >= 8 && ip[9] == 1 && message[0] == wire::icmpv4::ECHO_REPLY;
        if !reply || header::u16_at(message, 4) != self.identifier {
            return false;
        }
        let number = header::u16_at(message, 6);
        let Some((sent_ns, answered)) = self.answers.sent.get_mut(&number) else { return false };
        let came_ns = match packet.annotations().timestamp_ns {
            0 => cx.now_ns(),
            stamp => stamp,
        };
        let us = (came_ns - *sent_ns).max(0) as u64 / 1000;
        self.answers.twice += u64::from(std::mem::replace(answered, true));
        self.answers.count(us);
        if self.verbose {
            let bytes = usize::from(header::u16_at(ip, 2)).saturating_sub(ip.len() + 8);
            let from = Ipv4Addr::from_bits(header::u32_at(ip, 12));
            let (name, ttl) = (cx.name(), ip[8]);
            let time = format!("{}.{:03}", us / 1000, us % 1000);
            cx.say(&format!("{name} :: ICMPPingSource: {bytes} bytes from {from}: icmp_seq={number} ttl={ttl} time={time} ms\n"));
        }
        true
    }
}

impl Element for PingSource {
    /// It sends on its own, wherever answers come from.
    fn homes(&self, _: u64) -> Option<u64> {
        Some(1)
    }

    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let timer = cx.new_timer();
        self.timer = Some(timer);
        if self.may_send() {
            cx.set_timer_after(timer, self.interval_ns);
        }
        Ok(())
    }

    fn fire(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        if self.may_send() {
            self.send(cx);
            cx.set_timer_after(timer, self.interval_ns);
        } else if self.active && self.stop {
            cx.stop();
        }
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) -> Next {
        for packet in batch.drain() {
            if self.receive(cx, &packet) { cx.free(packet) } else { cx.drop(0, packet) }
        }
        Next::Done
    }

    fn read(&mut self, _: &mut Cx<'_>, handler: &str, _: &str) -> Result<String, Refused> {
        let seconds = |us: u64| format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
        Ok(match handler {
            "active" => self.active.to_string(),
            "src" => self.src.to_string(),
            "dst" => self.dst.to_string(),
            "count" => self.count.to_string(),
            "rtt_min" => seconds(self.answers.least_us),
            "rtt_avg" => seconds(self.answers.mean_us()),
            "rtt_max" => seconds(self.answers.most_us),
            _ => self.answers.summary(self.count),
        })
    }

    fn write(&mut self, cx: &mut Cx<'_>, handler: &str, value: &str) -> Result<(), Refused> {
        let names = Default::default();
        let scope = Scope { element: "", names: &names };
        match handler {
            "active" => self.active = bool::parse(value, &scope)?,
            "src" => self.src = Ipv4Addr::parse(value, &scope)?,
            "dst" => self.dst = Ipv4Addr::parse(value, &scope)?,
            "limit" => self.limit = i64::parse(value, &scope).map_err(|_| "'limit' should be integer")?,
            "interval" => {
                let span = Span::parse(value, &scope).map_err(|_| "'interval' should be an interval")?;
                self.interval_ns = span.0.max(1);
            }
            _ => (self.count, self.answers) = (0, Answers::default()),
        }
        let idle = self.timer.filter(|timer| cx.timer_due(*timer).is_none());
        if let Some(timer) = idle.filter(|_| self.may_send()) {
            cx.set_timer_after(timer, if handler == "active" { 0 } else { self.interval_ns });
        }
        Ok(())
    }
}
