//! `Reframe`: packets out of a stream of bytes that others cut as they liked.

use graph::class::keyword;
use graph::element::Account;

use graph::{Class, Cx, Element, LONGEST, Next};
use memory::Batch;
use port::Reason;

pub static CLASS: Class = Class {
    name: "Reframe",
    brief: "cuts a stream of bytes into the packets that it is made of",
    doc: "Packets that come in, from a Socket say, are parts of a stream. Each packet in the stream says how \
          long it is: in FLEN bytes behind its first FOFF bytes, in units of MUL bytes, rounded up to ALIGN \
          bytes, and ADD bytes more. With FLEN 0 each has ADD bytes. Where a length is none, shorter than \
          what says it or longer than a packet can be, what came so far is dropped.",
    processing: "h/h",
    arguments: &[
        keyword("FOFF", "bytes in front of the length; 2"),
        keyword("FLEN", "bytes of the length: 0, 1, 2 or 4; 2"),
        keyword("NTOH", "whether its highest byte comes first; true"),
        keyword("MUL", "bytes for which one of it stands; 1"),
        keyword("ALIGN", "what the length is rounded up to; 1"),
        keyword("ADD", "bytes that it does not count; 0"),
    ],
    drops: &[Reason::BadLength, Reason::NoBuffers],
    account: Account::Unknown, // packets that leave are others than those that come
    example: "Socket(TCP, 0.0.0.0, 7777) -> Reframe -> CheckIPHeader -> rt;",
    see: &["Socket"],
    make: |_, conf| {
        let offset: usize = conf.keyword("FOFF")?.unwrap_or(2);
        let field: i32 = conf.keyword("FLEN")?.unwrap_or(2);
        let is_network = conf.keyword("NTOH")?.unwrap_or(true);
        let unit = conf.keyword("MUL")?.unwrap_or(1);
        let align: u64 = conf.keyword("ALIGN")?.unwrap_or(1);
        let more = conf.keyword("ADD")?.unwrap_or(0);
        conf.complete()?;
        let field = match field {
            0 | 1 | 2 | 4 => field as usize,
            _ => {
                let valid = "valid field lengths are 0, 1, 2, and 4 bytes";
                return Err(format!("invalid field length {field} ({valid})").into());
            }
        };
        if align == 0 || offset > LONGEST {
            return Err("ALIGN and FOFF: out of range".into());
        }
        Ok(Box::new(Reframe { offset, field, is_network, unit, align, more, stream: vec![], parts: 0 }))
    },
    ..Class::BASE
};

/// A `Reframe` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct Reframe {
    offset: usize,
    field: usize,
    is_network: bool,
    unit: u64,
    align: u64,
    more: u64,
    /// What came and was not sent.
    stream: Vec<u8>,
    /// Packets of which some of it is.
    parts: u64,
}

impl Reframe {
    /// How long the packet is that begins at `stream`, once that is known; `Err` when it cannot
    /// be so long.
    fn next_len(&self, stream: &[u8]) -> Result<Option<usize>, ()> {
        let least = if self.field == 0 { 1 } else { self.offset + self.field };
        if self.field > 0 && stream.len() < least {
            return Ok(None);
        }
        let digits = stream.get(self.offset..self.offset + self.field).unwrap_or(&[]);
        let fold = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        let said = match self.is_network {
            true => digits.iter().fold(0, fold),
            false => digits.iter().rev().fold(0, fold),
        };
        let length = said.saturating_mul(self.unit);
        let length = length.checked_next_multiple_of(self.align).ok_or(())?.saturating_add(self.more);
        let length = usize::try_from(length).map_err(drop)?;
        if (least..=LONGEST).contains(&length) { Ok(Some(length)) } else { Err(()) }
    }

    /// Sends all packets that are whole.
    fn cut(&mut self, cx: &mut Cx<'_>) {
        let mut at = 0;
        loop {
            let rest = &self.stream[at..];
            match self.next_len(rest) {
                Err(()) => {
                    cx.count_drops(0, self.parts);
                    at = self.stream.len();
                    break;
                }
                Ok(Some(length)) if length <= rest.len() => {
                    match cx.packet(&rest[..length]) {
                        Some(packet) => cx.emit(0, packet),
                        None => cx.count_drops(1, 1),
                    }
                    at += length;
                }
                Ok(_) => break,
            }
        }
        self.stream.drain(..at);
        if self.stream.is_empty() {
            self.parts = 0;
        }
    }
}

impl Element for Reframe {
    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) -> Next {
        for packet in batch.drain() {
            packet.segments().for_each(|segment| self.stream.extend_from_slice(segment));
            self.parts += 1;
            cx.free(packet);
            self.cut(cx);
        }
        Next::Done
    }
}
