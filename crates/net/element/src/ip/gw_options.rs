//! `IPGWOptions`: the IP options that a router acts on (RFC 791, 3.1; RFC 1812, 5.2.4).

use std::net::Ipv4Addr;
use std::sync::Arc;

use graph::class::{Handlers, Headers, mandatory, positional, read};
use graph::element::kernel::Kernel;
use graph::value::Raw;
use graph::{Action, Class, Cx, Each, PerPacket, PerThreadCounter};
use memory::Packet;
use memory::annotation::Header;
use wire::ipv4_option::offset::{FLAGS, POINTER, ROUTE, TIMESTAMPS};
use wire::ipv4_option::{WORD_LEN, timestamp};
use wire::{ipv4, ipv4_option as option, option_list};

use super::check_header::addresses;
use crate::kernels::each;
use graph::annotation::{ICMP_PARAMETER_PROBLEM, PacketAnnotations};
use graph::ip_header;
use port::Reason;

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
    drops: &[Reason::BadOption, Reason::NoIpHeader],
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

const DAY_MS: i64 = 86_400_000;

/// An `IPGWOptions` element; [`CLASS`] says what it does.
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
        while let Some(place) = option_list::next(header, at) {
            let place = place.map_err(|start| start + option_list::LENGTH)?;
            let (start, option) = (place.start, &mut header[place.clone()]);
            let acted = match option[0] {
                option::RECORD_ROUTE => self.record(option),
                option::TIMESTAMP => self.stamp(option, now_ms),
                _ => Ok(false),
            };
            changed |= acted.map_err(|fault| start + fault)?;
            at = place.end;
        }
        if changed {
            ipv4::fill_checksum(header);
        }
        Ok(())
    }

    /// Record Route; whether it changed, or where its fault is.
    fn record(&self, option: &mut [u8]) -> Result<bool, usize> {
        let at = option::pointer(option).ok_or(POINTER)?;
        if at == option.len() {
            return Ok(false); // full, which is no fault
        }
        let rest = option.get_mut(at..).filter(|_| at >= ROUTE);
        *rest.and_then(|rest| rest.first_chunk_mut::<WORD_LEN>()).ok_or(POINTER)? = self.address.octets();
        option[POINTER] += WORD_LEN as u8;
        Ok(true)
    }

    /// Timestamp; whether it changed, or where its fault is.
    fn stamp(&self, option: &mut [u8], now_ms: u32) -> Result<bool, usize> {
        let flags = *option.get(FLAGS).ok_or(POINTER)?;
        let at = option::pointer(option).filter(|at| *at >= TIMESTAMPS).ok_or(POINTER)?;
        let format = timestamp::format(flags);
        let entry = option.get_mut(at..).and_then(|rest| rest.get_mut(..timestamp::entry_len(format)));
        match (format, entry) {
            (timestamp::TIMES, Some(entry)) => entry.copy_from_slice(&now_ms.to_be_bytes()),
            (timestamp::ADDRESSES, Some(entry)) => {
                let (address, time) = entry.split_at_mut(WORD_LEN);
                address.copy_from_slice(&self.address.octets());
                time.copy_from_slice(&now_ms.to_be_bytes());
            }
            (timestamp::NAMED, Some(entry)) => {
                if !self.all.contains(&Ipv4Addr::from(ip_header::u32_at(entry, 0))) {
                    return Ok(false);
                }
                entry[WORD_LEN..].copy_from_slice(&now_ms.to_be_bytes());
            }
            (timestamp::TIMES | timestamp::ADDRESSES, None) => {
                // One more router that found no room, as far as that can be counted.
                option[FLAGS] = flags.checked_add(timestamp::OVERFLOW).ok_or(FLAGS)?;
                return Ok(true);
            }
            _ => return Err(FLAGS),
        }
        option[POINTER] += timestamp::entry_len(format) as u8;
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
    const HAS_FAST_PATH: bool = true;

    #[inline]
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        if self.fast_path(packet) {
            return Action::ON;
        }
        match packet.header(Header::Network).is_some() {
            true => self.with_options(cx, packet),
            false => Action::drop(1),
        }
    }

    #[inline(always)]
    fn fast_path(&mut self, packet: &mut Packet) -> bool {
        let first = packet.header(Header::Network).and_then(|header| header.first());
        first.is_some_and(|first| ipv4::header_len(*first) <= ip_header::LEN)
    }

    fn replicate(&self) -> Option<IpGwOptions> {
        let drops = self.drops.for_another();
        Some(IpGwOptions { address: self.address, all: self.all.clone(), drops })
    }
}
