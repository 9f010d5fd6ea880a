//! `IPGWOptions`: the IP options that a router acts on (RFC 791, 3.1; RFC 1812, 5.2.4).

use std::net::Ipv4Addr;
use std::sync::Arc;

use graph::class::{Handlers, Headers, mandatory, positional, read};
use graph::element::kernel::Kernel;
use graph::value::Raw;
use graph::{Action, Class, Cx, Each, PerPacket, PerThreadCounter};
use memory::Packet;
use wire::{ipv4, ipv4_option as option};

use super::check_header::addresses;
use crate::kernels::each;
use graph::annotation::{ICMP_PARAMETER_PROBLEM, PacketAnnotations};
use graph::ip_header;

/// The class.
pub static CLASS: Class = Class {
    name: "IPGWOptions",
    brief: "records route and time in packets that ask for it",
    doc: "Acts on the options Record Route and Timestamp as the router of address MYADDR. Packets with a \
          wrong option go to output 1, with the place of the fault in the parameter problem annotation for \
          ICMPError, or are dropped. Packets without options pass untouched.",
    ports: "1/1-2",
    processing: "a/ah",
    arguments: &[
        mandatory("MYADDR", "the router's address on the port behind it"),
        positional("OTHERADDRS", "its other addresses, for timestamps that name them"),
    ],
    handlers: &Handlers::<IpGwOptions>(&[read("drops", "packets with wrong options", |options| {
        options.drops.sum().to_string()
    })]),
    drops: &["bad option", "no IP header"],
    example: "gio :: IPGWOptions(10.0.0.1); gio[1] -> ICMPError(10.0.0.1, parameterproblem) -> rt;",
    see: &["ICMPError", "CheckIPHeader"],
    headers: Headers { needs_network: true, ..Class::BASE.headers },
    kernel: Kernel::Inside(each!(IpGwOptions)),
    make: |_, conf| {
        let scope = *conf.scope();
        let address = conf.mandatory("MYADDR")?;
        let others = conf.positional::<Raw>("OTHERADDRS")?.map(|raw| addresses(&raw.0, &scope));
        let mut all = others.transpose().map_err(|e| format!("OTHERADDRS: {e}"))?.unwrap_or_default();
        conf.complete()?;
        all.push(address);
        Ok(Each::boxed(IpGwOptions { address, all: all.into(), drops: PerThreadCounter::default() }))
    },
    ..Class::BASE
};

/// What a timestamp option holds (RFC 791): times, addresses and times, or times of
/// the addresses it names.
const TIMES: u8 = 0;
const ADDRESSES: u8 = 1;
const NAMED: u8 = 3;

/// Bytes of an address, or of a time.
const WORD: usize = 4;

const DAY_MS: i64 = 86_400_000;

/// See [`CLASS`].
#[derive(Debug)]
pub struct IpGwOptions {
    address: Ipv4Addr,
    all: Arc<[Ipv4Addr]>,
    drops: PerThreadCounter,
}

impl IpGwOptions {
    /// That of one address.
    pub(super) fn of(address: Ipv4Addr) -> IpGwOptions {
        IpGwOptions { address, all: Arc::new([address]), drops: PerThreadCounter::default() }
    }

    /// Acts on a header's options; where in the header a fault is.
    fn act(&self, header: &mut [u8], now_ms: u32) -> Result<(), usize> {
        let mut at = ip_header::LEN;
        let mut changed = false;
        while let Some(&kind) = header.get(at) {
            match kind {
                option::NO_OPERATION => {
                    at += 1;
                    continue;
                }
                option::END => break,
                _ => {}
            }
            let length = header.get(at + 1).copied().map_or(0, usize::from);
            let Some(option) = header.get_mut(at..at + length).filter(|option| option.len() >= 2) else {
                return Err(at + 1);
            };
            let acted = match kind {
                option::RECORD_ROUTE => self.record(option),
                option::TIMESTAMP => self.stamp(option, now_ms),
                _ => Ok(false),
            };
            changed |= acted.map_err(|fault| at + fault)?;
            at += length;
        }
        if changed {
            ipv4::fill_checksum(header);
        }
        Ok(())
    }

    /// Record Route; whether it changed, or where its fault is.
    fn record(&self, option: &mut [u8]) -> Result<bool, usize> {
        let at = usize::from(*option.get(2).ok_or(2usize)?).wrapping_sub(1); // it counts from 1
        if at == option.len() {
            return Ok(false); // full, which is no fault
        }
        let place = option.get_mut(at..).filter(|_| at >= 3).and_then(|rest| rest.first_chunk_mut::<4>());
        *place.ok_or(2usize)? = self.address.octets();
        option[2] += 4;
        Ok(true)
    }

    /// Timestamp; whether it changed, or where its fault is.
    fn stamp(&self, option: &mut [u8], now_ms: u32) -> Result<bool, usize> {
        let flags = *option.get(3).ok_or(2usize)?;
        let at = usize::from(option[2]).wrapping_sub(1);
        if !(4..0xFF).contains(&at) {
            return Err(2);
        }
        let rest = option.get_mut(at..).unwrap_or_default();
        let time = now_ms.to_be_bytes();
        let taken = match (flags & 0xF, rest.len()) {
            (TIMES, 4..) => {
                rest[..WORD].copy_from_slice(&time);
                WORD
            }
            (ADDRESSES, 8..) => {
                rest[..WORD].copy_from_slice(&self.address.octets());
                rest[WORD..2 * WORD].copy_from_slice(&time);
                2 * WORD
            }
            (NAMED, 8..) => {
                let named = Ipv4Addr::from(ip_header::u32_at(rest, 0));
                if !self.all.contains(&named) {
                    return Ok(false);
                }
                rest[WORD..2 * WORD].copy_from_slice(&time);
                2 * WORD
            }
            (TIMES | ADDRESSES, _) if flags < 0xF0 => {
                option[3] += 0x10; // one more router that found no room
                return Ok(true);
            }
            _ => return Err(3),
        };
        option[2] += taken as u8;
        Ok(true)
    }

    #[cold]
    fn with_options(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Action {
        let now_ms = cx.now_ns().div_euclid(1_000_000).rem_euclid(DAY_MS) as u32;
        let acted = ip_header::split_mut(packet).map(|(header, _)| self.act(header, now_ms));
        match acted {
            Some(Ok(())) => Action::ON,
            Some(Err(fault)) => {
                self.drops.add(1);
                packet.set_u8_at(ICMP_PARAMETER_PROBLEM, fault as u8);
                Action::out_or_drop(1, 0)
            }
            None => Action::drop(1),
        }
    }
}

impl PerPacket for IpGwOptions {
    #[inline]
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        match packet.header(memory::annotation::Header::Network) {
            Some([first, ..]) if ipv4::header_len(*first) <= ip_header::LEN => Action::ON,
            Some(_) => self.with_options(cx, packet),
            None => Action::drop(1),
        }
    }

    fn replicate(&self) -> Option<IpGwOptions> {
        let drops = self.drops.for_another();
        Some(IpGwOptions { address: self.address, all: self.all.clone(), drops })
    }
}
