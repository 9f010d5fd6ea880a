//! The headers of a TCP segment over IPv4 as nearly all segments of a connection have them: an IP
//! header without options that forbids fragments, and a TCP header without options or with
//! timestamps alone (RFC 7323, appendix A). They are written at once, and both checksums are
//! added up from what is written and not read back. All other segments are put together from
//! [`tcp::Header`] and [`ipv4::Repr`].

use std::net::Ipv4Addr;

use crate::checksum::sum_of_words;
use crate::field::set_array;
use crate::ip::Protocol;
use crate::tcp::Flags;
use crate::tcp_option::{TIMESTAMPS_ALONE, TIMESTAMPS_ALONE_LEN};
use crate::{ipv4, tcp};

/// Bytes of both headers without options.
pub const LEN: usize = ipv4::HEADER_LEN + tcp::HEADER_LEN;
/// Bytes of both headers with timestamps.
pub const WITH_TIMESTAMPS_LEN: usize = LEN + TIMESTAMPS_ALONE_LEN;
/// Hops of a packet that is like any other.
const TTL: u8 = 64;

/// The sum of a segment's payload, as the checksum takes it in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sum {
    /// The one's complement sum of the payload.
    Of(u16),
    /// Whoever sends the packet adds the segment up: the field holds the pseudo header's sum.
    Later,
}

/// What the headers say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Headers {
    /// The address that it comes from.
    pub src: Ipv4Addr,
    /// The address that it goes to.
    pub dst: Ipv4Addr,
    /// DSCP in the upper six bits, ECN below.
    pub traffic_class: u8,
    /// From which port, and to which.
    pub ports: (u16, u16),
    /// The number of the first byte.
    pub sequence: u32,
    /// The number of the next byte expected.
    pub acknowledgement: u32,
    /// The control bits.
    pub flags: Flags,
    /// Bytes the sender would take, scaled.
    pub window: u16,
}

impl Headers {
    /// Writes headers without options in front of a payload of `len` bytes.
    #[inline]
    pub fn emit(&self, to: &mut [u8; LEN], len: usize, payload: Sum) {
        let sum = self.write_ip(to, LEN + len);
        let words = self.write_tcp(to, tcp::HEADER_LEN);
        set_checksum(to, sum, tcp::HEADER_LEN + len, words, payload);
    }

    /// Writes headers with timestamps, a clock and the one that it answers to, in front of a
    /// payload of `len` bytes.
    #[inline]
    pub fn emit_with_timestamps(
        &self,
        to: &mut [u8; WITH_TIMESTAMPS_LEN],
        (value, echo): (u32, u32),
        len: usize,
        payload: Sum,
    ) {
        let sum = self.write_ip(to, WITH_TIMESTAMPS_LEN + len);
        let header_len = tcp::HEADER_LEN + TIMESTAMPS_ALONE_LEN;
        let words = self.write_tcp(to, header_len);
        set_array(to, LEN, TIMESTAMPS_ALONE);
        set_array(to, LEN + 4, value.to_be_bytes());
        set_array(to, LEN + 8, echo.to_be_bytes());
        let kind = u32::from_be_bytes(TIMESTAMPS_ALONE);
        let words = words + u64::from(kind) + u64::from(value) + u64::from(echo);
        set_checksum(to, sum, header_len + len, words, payload);
    }

    /// Writes the IP header of a packet of so many bytes; the sum of its addresses.
    #[inline(always)]
    fn write_ip(&self, to: &mut [u8], len: usize) -> u64 {
        // A length that 16 bits do not hold is set anew by whoever has the packet cut.
        let len = len.min(crate::ip::LONGEST) as u32;
        let version = u32::from(ipv4::version_and_len(ipv4::HEADER_LEN));
        let first = version << 24 | u32::from(self.traffic_class) << 16 | len;
        let second = u32::from(ipv4::DONT_FRAGMENT);
        let third = u32::from(TTL) << 24 | u32::from(Protocol::TCP.0) << 16;
        let addresses = u64::from(self.src.to_bits()) + u64::from(self.dst.to_bits());
        let checksum = !sum_of_words(u64::from(first) + u64::from(second) + u64::from(third) + addresses);
        set_array(to, ipv4::offset::VERSION, first.to_be_bytes());
        set_array(to, ipv4::offset::IDENTIFICATION, second.to_be_bytes());
        set_array(to, ipv4::offset::TTL, (third | u32::from(checksum)).to_be_bytes());
        set_array(to, ipv4::offset::SRC, self.src.octets());
        set_array(to, ipv4::offset::DST, self.dst.octets());
        addresses
    }

    /// Writes the TCP header but for its checksum; the sum of its words.
    #[inline(always)]
    fn write_tcp(&self, to: &mut [u8], header_len: usize) -> u64 {
        let ports = u32::from(self.ports.0) << 16 | u32::from(self.ports.1);
        let control = u32::from(tcp::data_offset(header_len)) << 24
            | u32::from(self.flags.0) << 16
            | u32::from(self.window);
        let at = |offset| ipv4::HEADER_LEN + offset;
        set_array(to, at(tcp::offset::SRC_PORT), ports.to_be_bytes());
        set_array(to, at(tcp::offset::SEQUENCE), self.sequence.to_be_bytes());
        set_array(to, at(tcp::offset::ACKNOWLEDGEMENT), self.acknowledgement.to_be_bytes());
        set_array(to, at(tcp::offset::DATA_OFFSET), control.to_be_bytes());
        let words = [ports, self.sequence, self.acknowledgement, control];
        words.into_iter().map(u64::from).sum()
    }
}

/// Writes the TCP header's checksum and the urgent pointer, which points nowhere. `addresses` and
/// `words` are the sums of both addresses and of the rest of the TCP header.
#[inline(always)]
fn set_checksum(to: &mut [u8], addresses: u64, segment_len: usize, words: u64, payload: Sum) {
    let pseudo = addresses + u64::from(Protocol::TCP.0) + segment_len as u64;
    let checksum = match payload {
        Sum::Of(payload) => !sum_of_words(pseudo + words + u64::from(payload)),
        Sum::Later => sum_of_words(pseudo),
    };
    let last = u32::from(checksum) << 16;
    set_array(to, ipv4::HEADER_LEN + tcp::offset::CHECKSUM, last.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::checksum;
    use crate::ip::Addresses;
    use crate::tcp_option::emit_timestamps_alone;

    /// The same headers by the views, one field at a time.
    fn by_views(headers: &Headers, clocks: Option<(u32, u32)>, payload: &[u8], is_later: bool) -> Vec<u8> {
        let options = clocks.map(|(value, echo)| emit_timestamps_alone(value, echo));
        let options = options.as_ref().map_or(&[][..], |options| &options[..]);
        let header_len = tcp::HEADER_LEN + options.len();
        let mut bytes = vec![0; ipv4::HEADER_LEN + header_len];
        bytes.extend_from_slice(payload);
        let addresses = Addresses::V4 { src: headers.src, dst: headers.dst };
        let mut segment = tcp::Segment::new_unchecked(&mut bytes[ipv4::HEADER_LEN..]);
        segment.set_src_port(headers.ports.0);
        segment.set_dst_port(headers.ports.1);
        segment.set_sequence(headers.sequence);
        segment.set_acknowledgement(headers.acknowledgement);
        segment.set_header_len(header_len);
        segment.set_flags(headers.flags);
        segment.set_window(headers.window);
        segment.options_mut().copy_from_slice(options);
        match is_later {
            true => segment.fill_pseudo_checksum(addresses),
            false => segment.fill_checksum(addresses),
        }
        let ip = ipv4::Repr {
            dont_fragment: true,
            traffic_class: headers.traffic_class,
            ..ipv4::Repr::between(headers.src, headers.dst, Protocol::TCP, header_len + payload.len())
        };
        ip.emit(&mut ipv4::Packet::new_unchecked(&mut bytes[..]));
        bytes
    }

    proptest! {
        #[test]
        fn the_headers_are_those_of_the_views(
            (src, dst, ports, sequence) in any::<(u32, u32, (u16, u16), u32)>(),
            (acknowledgement, window, traffic_class, flags) in any::<(u32, u16, u8, u8)>(),
            (clocks, payload, is_later) in any::<(Option<(u32, u32)>, Vec<u8>, bool)>(),
        ) {
            let headers = Headers {
                src: src.into(),
                dst: dst.into(),
                traffic_class,
                ports,
                sequence,
                acknowledgement,
                flags: Flags(flags),
                window,
            };
            let sum = if is_later { Sum::Later } else { Sum::Of(checksum::sum(&payload)) };
            let mut written = match clocks {
                None => {
                    let mut front = [0xAA; LEN];
                    headers.emit(&mut front, payload.len(), sum);
                    front.to_vec()
                }
                Some(clocks) => {
                    let mut front = [0xAA; WITH_TIMESTAMPS_LEN];
                    headers.emit_with_timestamps(&mut front, clocks, payload.len(), sum);
                    front.to_vec()
                }
            };
            written.extend_from_slice(&payload);
            prop_assert_eq!(written, by_views(&headers, clocks, &payload, is_later));
        }
    }
}
