//! `StoreUDPTimeSeqRecord`: a number and a time in the payload of UDP datagrams, by which
//! their delay is measured at another place.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use graph::class::{Handlers, action, keyword, mandatory, read};
use graph::{Action, Class, Cx, Each, PerPacket};
use memory::Packet;
use wire::ip::Protocol;
use wire::{checksum, ipv4, ipv6, udp};

use graph::clock::SECOND_NS;
use port::Reason;

pub static CLASS: Class = Class {
    name: "StoreUDPTimeSeqRecord",
    brief: "writes a number and the time into UDP datagrams, or how long they were on their way",
    doc: "The payload begins with five numbers of four bytes, the highest first: which datagram it is, from 1 \
          on, the seconds and nanoseconds of the time, and seconds and nanoseconds of a difference. Without \
          DELTA number and time are written, and a difference of zero; with it only the difference between \
          now and the time that stands there. The UDP checksum is kept right; where there is none it stays \
          so. Works on IPv4, and on IPv6 without extension headers.",
    arguments: &[
        mandatory("OFFSET", "bytes in front of the IP header; 14 for Ethernet frames"),
        keyword("DELTA", "writes the difference instead of the time; false"),
    ],
    handlers: &Handlers::<TimeRecord>(&[
        read("count", "datagrams so far", |record| record.written.load(Ordering::Relaxed).to_string()),
        action("reset", "counts from zero", |record: &mut TimeRecord, _| {
            record.written.store(0, Ordering::Relaxed);
        }),
    ]),
    drops: &[Reason::TooShort, Reason::NotUdp, Reason::BadIpVersion],
    example: "src -> UDPIPEncap(1.0.0.1, 9, 1.0.0.2, 9) -> StoreUDPTimeSeqRecord(0) -> wire -> StoreUDPTimeSeqRecord(0, DELTA true) -> ToDump(times.pcap)",
    see: &["StoreTimestamp", "FastUDPSource"],
    make: |_, conf| {
        let offset = conf.mandatory("OFFSET")?;
        let delta = conf.keyword("DELTA")?.unwrap_or(false);
        conf.complete()?;
        Ok(Each::boxed(TimeRecord { offset, delta, written: Arc::default(), told: Arc::default() }))
    },
    ..Class::BASE
};

/// Bytes of the numbers.
const RECORD: usize = 20;

/// A `StoreUDPTimeSeqRecord` element; [`CLASS`] says what it does.
#[derive(Debug, Clone)]
pub struct TimeRecord {
    offset: usize,
    delta: bool,
    /// Datagrams of all threads.
    written: Arc<AtomicU32>,
    /// A packet of another version was told.
    told: Arc<AtomicBool>,
}

/// The datagram in a packet of either version, of which `bytes` begin with the IP header; why
/// there is none.
fn datagram(bytes: &mut [u8]) -> Result<&mut [u8], usize> {
    let first = *bytes.first().ok_or(0_usize)?;
    let length = match ipv4::version(first) {
        4 => ipv4::header_len(first),
        6 => {
            let header = ipv6::Header::of(bytes).ok_or(0_usize)?;
            if header.next_header() != Protocol::UDP {
                return Err(1);
            }
            ipv6::HEADER_LEN
        }
        _ => return Err(2),
    };
    let datagram = bytes.get_mut(length..).ok_or(0_usize)?;
    if datagram.len() < udp::HEADER_LEN + RECORD { Err(0) } else { Ok(datagram) }
}

/// Seconds and nanoseconds, each in four bytes.
fn halves(ns: i64) -> [u32; 2] {
    [ns.div_euclid(SECOND_NS) as u32, ns.rem_euclid(SECOND_NS) as u32]
}

impl TimeRecord {
    fn write(&self, now_ns: i64, datagram: &mut [u8]) -> Option<()> {
        let (header, payload) = datagram.split_first_chunk_mut::<{ udp::HEADER_LEN }>()?;
        let record = payload.first_chunk_mut::<RECORD>()?;
        let (before, count) =
            (checksum::sum(record), self.written.fetch_add(1, Ordering::Relaxed).wrapping_add(1));
        let word =
            |n: usize| record.chunks_exact(4).nth(n).map_or(0, |word| graph::ip_header::u32_at(word, 0));
        let words = match self.delta {
            false => {
                let [seconds, ns] = halves(now_ns);
                [count, seconds, ns, 0, 0]
            }
            true => {
                let then_ns = i64::from(word(1)) * SECOND_NS + i64::from(word(2));
                let [seconds, ns] = halves(now_ns.saturating_sub(then_ns));
                [word(0), word(1), word(2), seconds, ns]
            }
        };
        for (place, word) in record.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        let mut header = udp::Header::new(header);
        if header.checksum() != 0 {
            let sum = checksum::update(header.checksum(), before, checksum::sum(record));
            header.set_checksum(checksum::never_zero(sum));
        }
        Some(())
    }
}

impl PerPacket for TimeRecord {
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let now_ns = cx.now_ns();
        let Some(bytes) = packet.get_mut(self.offset..) else { return Action::drop(0) };
        match datagram(bytes) {
            Ok(datagram) => self.write(now_ns, datagram).map_or(Action::drop(0), |()| Action::ON),
            Err(reason) => {
                if reason == 2 && !self.told.swap(true, Ordering::Relaxed) {
                    cx.say("Unknown IP version!\n");
                }
                Action::drop(reason)
            }
        }
    }

    fn replicate(&self) -> Option<TimeRecord> {
        Some(self.clone())
    }
}
