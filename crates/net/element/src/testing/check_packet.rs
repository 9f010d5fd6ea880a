//! `CheckPacket`: says which packets are not as they should be.

use graph::class::keyword;
use graph::value::{Bytes, Raw, Value};
use graph::{Class, Cx, Element, Next};
use memory::{Batch, Packet};

pub static CLASS: Class = Class {
    name: "CheckPacket",
    brief: "says which packets are not as they should be",
    doc: "Packets end here. What is not as an argument says is told, a line for each packet and argument. With \
          no argument all packets are right.",
    arguments: &[
        keyword("DATA", "the bytes from DATA_OFFSET to the end"),
        keyword("DATA_OFFSET", "bytes in front of them; 0"),
        keyword("LENGTH", "bytes in a packet"),
        keyword("LENGTH_EQ", "another name of LENGTH"),
        keyword("LENGTH_GE", "bytes at least"),
        keyword("LENGTH_LE", "bytes at most"),
        keyword("ALIGNMENT", "`MODULUS OFFSET`, accepted: nothing here minds how data are aligned"),
    ],
    example: "src -> CheckPacket(LENGTH_GE 60) -> Idle",
    see: &["ComparePackets", "CheckLength", "Print"],
    make: |_, conf| {
        let data = conf.keyword::<Bytes>("DATA")?.map(|data| data.0);
        let offset = conf.keyword("DATA_OFFSET")?.unwrap_or(0);
        let equal: Option<usize> = conf.keyword("LENGTH")?;
        let equal: Option<usize> = conf.keyword("LENGTH_EQ")?.or(equal);
        let least: Option<usize> = conf.keyword("LENGTH_GE")?;
        let most: Option<usize> = conf.keyword("LENGTH_LE")?;
        let alignment: Option<Raw> = conf.keyword("ALIGNMENT")?;
        conf.complete()?;
        if [equal, least, most].iter().flatten().count() > 1 {
            return Err("specify at most one of LENGTH_EQ, LENGTH_GE, and LENGTH_LE".into());
        }
        if let Some(alignment) = alignment {
            let numbers = alignment.0.split_whitespace().map(|word| i32::parse(word, conf.scope()));
            match numbers.collect::<Result<Vec<_>, _>>().as_deref() {
                Ok([modulus, offset]) if *modulus > 1 && (0..*modulus).contains(offset) => {}
                _ => return Err("bad alignment modulus and/or offset".into()),
            }
        }
        let length = match (equal, least, most) {
            (Some(equal), ..) => Some((Relation::Equal, equal)),
            (_, Some(least), _) => Some((Relation::AtLeast, least)),
            (.., Some(most)) => Some((Relation::AtMost, most)),
            _ => None,
        };
        Ok(Box::new(CheckPacket { data, offset, length }))
    },
    ..Class::BASE
};

#[derive(Debug, Clone, Copy)]
enum Relation {
    Equal,
    AtLeast,
    AtMost,
}

/// A `CheckPacket` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct CheckPacket {
    data: Option<Vec<u8>>,
    offset: usize,
    length: Option<(Relation, usize)>,
}

impl CheckPacket {
    /// What is wrong with a packet.
    fn faults(&self, packet: &Packet) -> Vec<String> {
        let (length, mut faults) = (packet.total_len(), vec![]);
        let wanted = match self.length {
            Some((Relation::Equal, wanted)) if length != wanted => Some(wanted.to_string()),
            // As Click says it: a bound that is not reached.
            Some((Relation::AtLeast, wanted)) if length < wanted => Some(format!("> {}", wanted as i64 - 1)),
            Some((Relation::AtMost, wanted)) if length > wanted => Some(format!("< {}", wanted + 1)),
            _ => None,
        };
        faults.extend(wanted.map(|wanted| format!("bad length {length} (wanted {wanted})")));
        if let Some(data) = &self.data {
            let wanted = self.offset + data.len();
            let bytes = || packet.segments().flat_map(|segment| segment.iter().copied()).skip(self.offset);
            if length < wanted {
                faults.push(format!("data too short ({length} bytes, wanted {wanted})"));
            } else if length > wanted {
                faults.push(format!("data too long ({length} bytes, wanted {wanted})"));
            } else if !bytes().eq(data.iter().copied()) {
                faults.push("bad data (does not match)".into());
            }
        }
        faults
    }
}

impl Element for CheckPacket {
    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) -> Next {
        for packet in batch.iter() {
            for fault in self.faults(packet) {
                cx.say(&format!("{} :: {}: {fault}\n", cx.name(), cx.class()));
            }
        }
        cx.free_batch(batch);
        Next::Done
    }
}
