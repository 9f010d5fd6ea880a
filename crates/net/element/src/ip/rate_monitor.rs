//! `IPRateMonitor`: how much comes from and goes to networks and hosts.

use std::net::Ipv4Addr;

use graph::annotation::{FWD_RATE, PacketAnnotations, REV_RATE};
use graph::class::{Handlers, Headers, action, call, mandatory, positional, read, write};
use graph::lang::args;
use graph::value::parse_alone;
use graph::{Action, Class, Conf, ConfFault, Cx, Each, PerPacket, Refused};
use memory::Packet;
use memory::annotation::Header;
use wire::ipv4;

use super::rate_tree::{Counted, RateTree};
use crate::standard::rate::SlowRate;

pub static CLASS: Class = Class {
    name: "IPRateMonitor",
    brief: "measures how much comes from and goes to networks and hosts",
    doc: "Packets of input 0 count for their source, those of input 1 for their destination, and leave by the \
          output of the same number. Rates are kept of the networks of 8 bits; where one sends or is sent THRESH a \
          second or more, rates of the networks of 16 bits in it are kept as well, and so on to hosts. Once \
          there is less than an eighth of that, they are forgotten: each second some, until a tenth of the memory \
          that rates have is free. Each packet is annotated with the rates of the smallest network of its address \
          that has some. Rates are averages of which a new one counts for a 32nd, in epochs of 8 ms.",
    ports: "1-2/1-2",
    flow: "#/#",
    arguments: &[
        mandatory("TYPE", "`PACKETS` or `BYTES`"),
        mandatory("RATIO", "the part of the packets that are counted, chosen at random"),
        mandatory("THRESH", "packets or bytes in a second; as if RATIO were 1"),
        positional(
            "MEMORY",
            "kB that rates may have, at least 100; 0 for 65536, for which Click has no limit; 0",
        ),
        positional("ANNO", "whether packets are annotated with their rates; true"),
    ],
    handlers: &Handlers::<RateMonitor>(&[
        read("thresh", "packets or bytes that are counted in a second", |monitor| monitor.thresh.to_string()),
        call(
            "look",
            "epochs since rates were reset; then a line for each network and host: what it sends and is sent, in a second",
            |monitor: &mut RateMonitor, cx, _| {
                let now_ns = cx.now_ns();
                let epochs = SlowRate::epoch(now_ns) - monitor.since.unwrap_or(SlowRate::epoch(now_ns));
                Ok(format!("{epochs}\n{}", monitor.tree.listing(now_ns)))
            },
        ),
        read("mem", "bytes that rates have", |monitor| monitor.tree.size().to_string()),
        write("memmax", "kB that rates may have; reads bytes", RateMonitor::set_memory)
            .and_call(|monitor, _, _| Ok(monitor.memory.to_string())),
        write(
            "anno_level",
            "`ADDRESS LEVEL SECONDS`: for so long nothing is kept of what is within the address's network of LEVEL + 1 bytes",
            RateMonitor::close,
        ),
        action("reset", "forgets all rates", |monitor: &mut RateMonitor, cx| {
            monitor.tree.clear();
            monitor.since = Some(SlowRate::epoch(cx.now_ns()));
        })
        .marked("b"),
    ]),
    example: "FromDump(in.pcap, STOP true) -> Strip(14) -> CheckIPHeader -> m :: IPRateMonitor(PACKETS, 0.5, 256, 600) \
              -> Discard; DriverManager(pause, print m.look)",
    see: &["AggregateIP", "AggregateCounter"],
    headers: Headers { needs_network: true, ..Class::BASE.headers },
    make: |_, conf| make(conf).map(Each::boxed),
    ..Class::BASE
};

/// The least kB that rates may have, as in Click, and what they have when nothing is said.
const LEAST: usize = 100;
const USUAL: usize = 1 << 16;
const KB: usize = 1024;
/// A RATIO of one.
const ONE: u32 = 1 << 16;

/// Bytes for so many kB; of 0, without a limit for whoever reads them.
fn memory(kb: usize) -> usize {
    if kb == 0 { 0 } else { kb.max(LEAST).saturating_mul(KB) }
}

/// What rates really may have.
fn limit(bytes: usize) -> usize {
    if bytes == 0 { USUAL * KB } else { bytes }
}

fn make(conf: &mut Conf<'_>) -> Result<RateMonitor, ConfFault> {
    let kind: String = conf.mandatory("TYPE")?;
    let ratio: f64 = conf.mandatory("RATIO")?;
    let thresh: i32 = conf.mandatory("THRESH")?;
    let memory = memory(conf.positional("MEMORY")?.unwrap_or(0));
    let annotates = conf.positional("ANNO")?.unwrap_or(true);
    conf.complete()?;
    let counts_packets = match kind.to_ascii_uppercase().as_str() {
        "PACKETS" => true,
        "BYTES" => false,
        _ => return Err("monitor type should be \"PACKETS\" or \"BYTES\"".into()),
    };
    if !(0.0..=1.0).contains(&ratio) {
        return Err("ratio must be between 0 and 1".into());
    }
    let ratio = (ratio * f64::from(ONE)).round() as u32;
    let thresh = (i64::from(thresh) * i64::from(ratio)) >> 16;
    let tree = RateTree::new(limit(memory), thresh);
    Ok(RateMonitor { counts_packets, ratio, thresh, memory, annotates, tree, since: None })
}

/// An `IPRateMonitor` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct RateMonitor {
    counts_packets: bool,
    /// Of 65,536 packets so many are counted, and one.
    ratio: u32,
    thresh: i64,
    /// Bytes; 0 where nobody set a limit.
    memory: usize,
    annotates: bool,
    tree: RateTree,
    /// The epoch in which rates were reset.
    since: Option<i64>,
}

impl RateMonitor {
    fn set_memory(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), Refused> {
        let arguments = args::split(value);
        let [kb] = &arguments[..] else { return Err("expecting 1 integer".into()) };
        let kb: i32 = parse_alone(kb).map_err(|_| "not an integer")?;
        self.memory = memory(usize::try_from(kb).unwrap_or(LEAST));
        self.tree.set_most(limit(self.memory), cx.now_ns());
        Ok(())
    }

    /// What `anno_level` has done. Click's documentation has blanks between the arguments, its elements
    /// want commas.
    fn close(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), Refused> {
        let by_comma = args::split(value);
        let arguments: Vec<&str> = match &by_comma[..] {
            [one] => args::words(one),
            several => several.iter().map(String::as_str).collect(),
        };
        let [address, level, seconds] = arguments[..] else { return Err("expecting 3 arguments".into()) };
        let address: Ipv4Addr = parse_alone(address).map_err(|_| "not an IP address")?;
        let level = parse_alone::<usize>(level).ok().filter(|level| *level < 4);
        let level = level.ok_or("2nd argument specifies a level, between 0 and 3, to annotate")?;
        let seconds = parse_alone::<i32>(seconds).ok().filter(|seconds| *seconds >= 1);
        let seconds = seconds.ok_or("3rd argument specifies when this rule expires, must be > 0")?;
        let until = SlowRate::epoch(cx.now_ns()) + i64::from(seconds) * SlowRate::FREQUENCY;
        self.tree.close(address, level, until);
        Ok(())
    }
}

impl PerPacket for RateMonitor {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.since = Some(SlowRate::epoch(cx.now_ns()));
        Ok(())
    }

    fn packet(&mut self, cx: &mut Cx<'_>, input: usize, packet: &mut Packet) -> Action {
        let found = packet.header(Header::Network).and_then(ipv4::Header::of).map(|header| {
            let length = if self.counts_packets { 1 } else { header.total_len() as u64 };
            (if input == 0 { header.src() } else { header.dst() }, length)
        });
        // One whose header nobody found is not counted.
        if let Some((address, amount)) = found {
            let takes = self.ratio == ONE || graph::random::below(u64::from(ONE)) <= u64::from(self.ratio);
            let amount = takes.then_some(amount);
            let rates = self.tree.count(Counted { address, way: input, amount }, cx.now_ns());
            if let Some([from, to]) = rates.filter(|_| self.annotates) {
                packet.set_u32_at(FWD_RATE, from as u32);
                packet.set_u32_at(REV_RATE, to as u32);
            }
        }
        Action::out(input)
    }
}
