//! Receive side scaling: the Toeplitz hash over addresses and ports, and the
//! queue it leads to.
//!
//! 82599 datasheet rev. 3.4, section 7.1.2.8. With pools, so many bits of an entry count as a
//! pool has queues; modes that mix RSS with traffic classes use the redirection table alone.

use regs::ixgbe::descriptor::rx_low::*;
use regs::ixgbe::{MRQC, RETA, RFCTL, RSSRK};
use wire::{ipv4, ipv6};

use super::headers::{ADDRESSES, Headers, is_udp};
use super::registers::Registers;
use crate::toeplitz::{INPUT, KEY, Toeplitz};

/// Bytes of both addresses, and of IPv4's with both ports behind them.
const ADDRESSES_V4: usize = ipv4::HEADER_LEN - ipv4::offset::SRC;
const WITH_PORTS_V4: usize = ADDRESSES_V4 + 4;
const ADDRESSES_V6: usize = ipv6::HEADER_LEN - ipv6::offset::SRC;
const _: () = assert!(INPUT == ADDRESSES_V6 + 4);

/// Where a hash leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spread {
    /// RSS type of the write-back.
    pub kind: u64,
    pub hash: u32,
    pub queue: u8,
}

/// The unit with its tables.
#[derive(Debug)]
pub(super) struct Rss {
    pub enabled: bool,
    fields: u32,
    toeplitz: Toeplitz,
    redirection: [u8; 128],
}

impl Rss {
    pub fn new() -> Rss {
        Rss { enabled: false, fields: 0, toeplitz: Toeplitz::new(), redirection: [0; 128] }
    }

    /// Takes over the registers.
    pub fn configure(&mut self, registers: &Registers) {
        let mrqc = registers.read(MRQC::AT);
        // 1: RSS; 4 and 5: with traffic classes; 10 and 11: with pools.
        self.enabled = matches!(mrqc & MRQC::MRQE_MASK, 1 | 4 | 5 | 10 | 11);
        self.fields = mrqc;
        if registers.read(RFCTL::AT) & RFCTL::IPV6_DIS != 0 {
            self.fields &= !(MRQC::RSS_FIELD_IPV6 | MRQC::RSS_FIELD_IPV6_TCP | MRQC::RSS_FIELD_IPV6_UDP);
        }
        let queues = match mrqc & MRQC::MRQE_MASK {
            MRQC::MRQE_32_POOLS_RSS => 4,
            MRQC::MRQE_64_POOLS_RSS => 2,
            _ => 16,
        };
        for n in 0..32 {
            let entries = registers.read(RETA::at(n)).to_le_bytes();
            for (entry, value) in self.redirection[4 * n..].iter_mut().zip(entries) {
                *entry = value & (queues - 1);
            }
        }
        let mut key = [0; KEY];
        for (n, word) in key.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            *word = registers.read(RSSRK::at(n)).to_le_bytes();
        }
        self.toeplitz.set_key(key);
    }

    /// Whether the key was left at zero.
    pub fn lacks_key(&self) -> bool {
        self.toeplitz.lacks_key()
    }

    /// The hash of `input`, of up to 36 bytes.
    #[inline(always)]
    pub fn hash(&self, input: &[u8]) -> u32 {
        self.toeplitz.hash(input)
    }

    /// The RSS type of a plain frame (see [`super::headers::plain`]), its hash
    /// and its queue; all zero when its kind is not hashed.
    #[inline(always)]
    pub fn spread_plain(&self, head: &[u8; 60]) -> (u64, u32, u8) {
        let udp = is_udp(head);
        let field = if udp { MRQC::RSS_FIELD_IPV4_UDP } else { MRQC::RSS_FIELD_IPV4_TCP };
        let (kind, hash) = if self.wants(field) {
            (
                if udp { RSS_TYPE_IPV4_UDP } else { RSS_TYPE_IPV4_TCP },
                self.hash(&head[ADDRESSES..ADDRESSES + WITH_PORTS_V4]),
            )
        } else if self.wants(MRQC::RSS_FIELD_IPV4) {
            (RSS_TYPE_IPV4, self.hash(&head[ADDRESSES..ADDRESSES + ADDRESSES_V4]))
        } else {
            return (0, 0, 0);
        };
        (kind, hash, self.redirection[hash as usize & 127])
    }

    /// Where a frame goes; `None` when its kind is not hashed.
    #[inline(always)]
    pub fn spread(&self, frame: &[u8], headers: &Headers) -> Option<Spread> {
        let (kind, hash) = if headers.kind & PACKET_IPV4 != 0 {
            self.ipv4(frame, headers)?
        } else {
            self.ipv6(frame, headers)?
        };
        Some(Spread { kind, hash, queue: self.redirection[hash as usize & 127] })
    }

    #[inline(always)]
    fn wants(&self, field: u32) -> bool {
        self.fields & field != 0
    }

    #[inline(always)]
    fn ipv4(&self, frame: &[u8], headers: &Headers) -> Option<(u64, u32)> {
        let l3 = usize::from(headers.l3);
        let addresses: &[u8; ADDRESSES_V4] = frame.get(l3 + ipv4::offset::SRC..)?.first_chunk()?;
        let kind = match headers.kind & (PACKET_TCP | PACKET_UDP) {
            PACKET_TCP if self.wants(MRQC::RSS_FIELD_IPV4_TCP) => RSS_TYPE_IPV4_TCP,
            PACKET_UDP if self.wants(MRQC::RSS_FIELD_IPV4_UDP) => RSS_TYPE_IPV4_UDP,
            _ if self.wants(MRQC::RSS_FIELD_IPV4) => return Some((RSS_TYPE_IPV4, self.hash(addresses))),
            _ => return None,
        };
        let ports: &[u8; 4] = frame.get(usize::from(headers.l4)..)?.first_chunk()?;
        let mut input = [0; WITH_PORTS_V4];
        input[..ADDRESSES_V4].copy_from_slice(addresses);
        input[ADDRESSES_V4..].copy_from_slice(ports);
        Some((kind, self.hash(&input)))
    }

    #[cold]
    fn ipv6(&self, frame: &[u8], headers: &Headers) -> Option<(u64, u32)> {
        if headers.kind & PACKET_IPV6 == 0 {
            return None;
        }
        let addresses: &[u8; ADDRESSES_V6] =
            frame.get(usize::from(headers.l3) + ipv6::offset::SRC..)?.first_chunk()?;
        let kind = match headers.kind & (PACKET_TCP | PACKET_UDP) {
            PACKET_TCP if self.wants(MRQC::RSS_FIELD_IPV6_TCP) => RSS_TYPE_IPV6_TCP,
            PACKET_UDP if self.wants(MRQC::RSS_FIELD_IPV6_UDP) => RSS_TYPE_IPV6_UDP,
            _ if self.wants(MRQC::RSS_FIELD_IPV6) => return Some((RSS_TYPE_IPV6, self.hash(addresses))),
            _ => return None,
        };
        let ports: &[u8; 4] = frame.get(usize::from(headers.l4)..)?.first_chunk()?;
        let mut input = [0; INPUT];
        input[..ADDRESSES_V6].copy_from_slice(addresses);
        input[ADDRESSES_V6..].copy_from_slice(ports);
        Some((kind, self.hash(&input)))
    }
}
