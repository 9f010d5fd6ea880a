//! `SendPattern`, `CheckPattern`: packets whose bytes count up.

use graph::class::mandatory;
use graph::{Action, Class, Cx, Each, Element, PerPacket};
use memory::{Batch, Packet};
use port::Reason;

/// The class of what makes them.
pub static SEND: Class = Class {
    name: "SendPattern",
    brief: "makes packets whose bytes count up",
    doc: "A packet for each that is pulled; its bytes are 0, 1, 2 and so on, after 255 from 0 again.",
    ports: "0/1",
    processing: "l",
    arguments: &[mandatory("LENGTH", "bytes in a packet")],
    drops: &[Reason::NoBuffers],
    example: "SendPattern(100) -> ToDevice(p)",
    see: &["CheckPattern", "InfiniteSource"],
    make: |_, conf| {
        let length: usize = conf.mandatory("LENGTH")?;
        conf.complete()?;
        if length > graph::LONGEST {
            return Err("LENGTH: packets are not that long".into());
        }
        Ok(Box::new(SendPattern { bytes: (0..length).map(|n| n as u8).collect() }))
    },
    ..Class::BASE
};

/// The class of what checks them.
pub static CHECK: Class = Class {
    name: "CheckPattern",
    brief: "says which packets do not count up",
    doc: "All packets pass. Of one that is not LENGTH bytes long, and of the first byte that is not one more \
          than the one before, there is a message.",
    arguments: &[mandatory("LENGTH", "bytes in a packet")],
    example: "FromDevice(p) -> CheckPattern(100) -> Discard",
    see: &["SendPattern", "CheckPacket"],
    make: |_, conf| {
        let length = conf.mandatory("LENGTH")?;
        conf.complete()?;
        Ok(Each::boxed(CheckPattern { length }))
    },
    ..Class::BASE
};

/// A `SendPattern` element; [`SEND`] says what it does.
#[derive(Debug)]
pub struct SendPattern {
    bytes: Vec<u8>,
}

impl Element for SendPattern {
    fn pull(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) {
        while batch.room() > 0 {
            match cx.packet(&self.bytes) {
                Some(packet) => drop(batch.push(packet)), // there is room
                None => return cx.count_drops(0, 1),
            }
        }
    }
}

/// A `CheckPattern` element; [`CHECK`] says what it does.
#[derive(Debug, Clone)]
pub struct CheckPattern {
    length: usize,
}

impl PerPacket for CheckPattern {
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let (length, wanted) = (packet.total_len(), self.length);
        if length != wanted {
            cx.say(&format!("CheckPattern: p->length() {length} _len {wanted}\n"));
        }
        let mut bytes =
            packet.segments().flat_map(|segment| segment.iter().copied()).take(wanted).enumerate();
        if let Some((at, byte)) = bytes.find(|(at, byte)| *byte != *at as u8) {
            cx.say(&format!("CheckPattern: i={at} pkt {byte:02x} wanted {:02x}\n", at as u8));
        }
        Action::ON
    }

    fn replicate(&self) -> Option<CheckPattern> {
        Some(self.clone())
    }
}
