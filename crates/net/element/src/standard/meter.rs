//! `Meter`, `BandwidthMeter`: one of several ways, by how fast packets come; `Block`,
//! `CompareBlock`: by rates that others noted on packets.

use graph::class::{Handlers, both, call, mandatory, read, rest};
use graph::value::{Bandwidth, Value};
use graph::{Action, Class, Conf, ConfFault, Cx, Each, PerPacket, Refused, Setup};
use memory::Packet;

use super::parsed;
use super::rate::{self, Rate};
use graph::annotation::{FWD_RATE, PacketAnnotations, REV_RATE};

pub static PACKETS: Class = Class {
    name: "Meter",
    brief: "sends packets where the rate at which they come says",
    doc: "While fewer than RATE packets a second come, on average of the last seconds, they go to output 0; \
          from the first RATE on to output 1, and so on. All packets go the same way: RatedSplitter parts \
          them.",
    ports: "1/2-",
    processing: "h/h",
    arguments: &[rest("RATE", "packets a second, each more than the one before")],
    handlers: &Handlers::<Meter>(&[
        call("rate", "how many come a second", |meter, cx, _| {
            meter.rate.count(cx.now_ns(), 0);
            Ok(meter.rate.a_second())
        }),
        read("meters", "the rates, a line each", |meter| {
            meter.thresholds.iter().map(|threshold| Rate::shown(*threshold)).collect()
        }),
    ]),
    example: "m :: Meter(10000) -> Queue; m[1] -> Discard;",
    see: &["BandwidthMeter", "RatedSplitter", "Shaper"],
    make: |setup, conf| make(setup, conf, false),
    ..Class::BASE
};

pub static BYTES: Class = Class {
    name: "BandwidthMeter",
    brief: "sends packets where the rate at which bytes come says",
    doc: "As Meter, with rates of bytes.",
    arguments: &[rest("RATE", "bytes a second, each more than the one before; 10Mbps and the like")],
    example: "m :: BandwidthMeter(20kBps) -> Queue; m[1] -> Discard;",
    see: &["Meter", "BandwidthRatedSplitter", "BandwidthShaper"],
    make: |setup, conf| make(setup, conf, true),
    ..PACKETS
};

/// By a rate that was noted.
pub static BLOCK: Class = Class {
    name: "Block",
    brief: "parts packets by the rate noted on them",
    doc: "Packets whose forward rate annotation (bytes 20 to 23) is more than THRESH go to output 1, others to \
          output 0; with a THRESH of 0 all do.",
    ports: "1/2",
    processing: "h/h",
    arguments: &[mandatory("THRESH", "the most that goes to output 0")],
    handlers: &Handlers::<Block>(&[both(
        "thresh",
        "the most that goes to output 0",
        |block| block.most.to_string(),
        |block, _, value| {
            block.most = integer(value)?;
            Ok(())
        },
    )]),
    live: true,
    example: "b :: Block(500); b[1] -> Discard;",
    see: &["CompareBlock", "Meter"],
    make: |_, conf| {
        let most = conf.mandatory("THRESH")?;
        conf.complete()?;
        Ok(Each::boxed(Block { most }))
    },
    ..Class::BASE
};

/// By two rates that were noted.
pub static COMPARE: Class = Class {
    name: "CompareBlock",
    brief: "parts packets by the forward and backward rate noted on them",
    doc: "Packets go to output 1 when one of the rates (annotations 20 to 23 and 24 to 27) is more than THRESH \
          and FWD_WEIGHT times the first more than REV_WEIGHT times the second; others to output 0.",
    arguments: &[
        mandatory("FWD_WEIGHT", "how much the forward rate counts"),
        mandatory("REV_WEIGHT", "how much the backward rate counts"),
        mandatory("THRESH", "what one of them must be more than"),
    ],
    handlers: &Handlers::<CompareBlock>(&[
        both(
            "fwd_weight",
            "how much the forward rate counts",
            |block| block.forward.to_string(),
            |block, _, value| {
                block.forward = integer(value)?;
                Ok(())
            },
        ),
        both(
            "rev_weight",
            "how much the backward rate counts",
            |block| block.back.to_string(),
            |block, _, value| {
                block.back = integer(value)?;
                Ok(())
            },
        ),
        both(
            "thresh",
            "what one of them must be more than",
            |block| block.most.to_string(),
            |block, _, value| {
                block.most = integer(value)?;
                Ok(())
            },
        ),
    ]),
    example: "b :: CompareBlock(5, 2, 100); b[1] -> Discard;",
    see: &["Block", "Meter"],
    make: |_, conf| {
        let (forward, back) = (conf.mandatory("FWD_WEIGHT")?, conf.mandatory("REV_WEIGHT")?);
        let most = conf.mandatory("THRESH")?;
        conf.complete()?;
        Ok(Each::boxed(CompareBlock { forward, back, most }))
    },
    ..BLOCK
};

fn make(
    setup: &mut Setup<'_>,
    conf: &mut Conf<'_>,
    bytes: bool,
) -> Result<Box<dyn graph::Element>, ConfFault> {
    let scope = *conf.scope();
    let read = |(i, text): (usize, &String)| {
        let rate = match bytes {
            true => Bandwidth::parse(text, &scope).map(|rate| rate.0),
            false => u32::parse(text, &scope).map(u64::from),
        };
        rate.map_err(|_| ConfFault::new(format!("argument {} syntax error", i + 1)))
    };
    let arguments = conf.rest();
    let rates = arguments.iter().enumerate().map(read).collect::<Result<Vec<u64>, ConfFault>>()?;
    let bare = |text: &&String| bytes && text.trim().bytes().all(|byte| byte.is_ascii_digit());
    for (i, _) in arguments.iter().enumerate().filter(|(_, text)| bare(text)) {
        setup.warn(format!("no units for bandwidth argument {}, assuming Bps", i + 1));
    }
    if rates.is_empty() {
        return Err(format!("too few arguments to {}(bandwidth, ...)", setup.class).into());
    }
    if let Some(i) = (1..rates.len()).find(|i| rates[*i] <= rates[i - 1]) {
        return Err(format!("rate {} must be > rate {i}", i + 1).into());
    }
    if rates.len() + 1 != setup.outputs {
        let wanted = setup.outputs.saturating_sub(1);
        return Err(format!("need {wanted} arguments, one less than the number of output ports").into());
    }
    let most = u64::from(u32::MAX >> rate::SCALE);
    if let Some(i) = rates.iter().position(|rate| *rate > most) {
        return Err(format!("rate {} too large (max {most})", i + 1).into());
    }
    let thresholds = rates.iter().map(|rate| Rate::threshold(*rate)).collect();
    Ok(Each::boxed(Meter { thresholds, bytes, rate: Rate::default() }))
}

/// A `Meter` or `BandwidthMeter` element; [`PACKETS`] and [`BYTES`] say what they do.
#[derive(Debug)]
pub struct Meter {
    thresholds: Vec<i64>,
    bytes: bool,
    rate: Rate,
}

impl PerPacket for Meter {
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let count = if self.bytes { packet.total_len() as u64 } else { 1 };
        self.rate.count(cx.now_ns(), count);
        let now = self.rate.average();
        Action::out(self.thresholds.partition_point(|threshold| *threshold <= now))
    }
}

/// A `Block` element; [`BLOCK`] says what it does.
#[derive(Debug, Clone)]
pub struct Block {
    most: i64,
}

/// What is written to a handler, as a number.
fn integer<T: Value>(value: &str) -> Result<T, Refused> {
    parsed(value).map_err(|_| Refused::from("not an integer"))
}

impl PerPacket for Block {
    #[inline]
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let rate = i64::from(packet.u32_at(FWD_RATE) as i32);
        Action::out(usize::from(self.most != 0 && rate > self.most))
    }
}

/// A `CompareBlock` element; [`COMPARE`] says what it does.
#[derive(Debug, Clone)]
pub struct CompareBlock {
    forward: i64,
    back: i64,
    most: i64,
}

impl PerPacket for CompareBlock {
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let [forward, back] = [FWD_RATE, REV_RATE].map(|at| i64::from(packet.u32_at(at) as i32).max(1));
        let heavy = i128::from(self.forward) * i128::from(forward) > i128::from(self.back) * i128::from(back);
        Action::out(usize::from(heavy && (forward > self.most || back > self.most)))
    }
}
