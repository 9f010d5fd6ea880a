//! What a device tells about a received packet, and what it is asked to do
//! with one that is sent.
//!
//! The received side is laid out as the 82599 writes it back (datasheet
//! 7.1.6.2), so that its driver copies 16 bytes and decodes nothing; other
//! drivers set the same bits. It is decoded when an application asks.

/// Whether the device verified a checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checksum {
    /// The device did not look (not such a packet, or not asked to).
    Unknown,
    /// The device looked, and it matched.
    Good,
    /// It did not match.
    Bad,
}

/// What the device said of a received packet, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RxFlags(pub u32);

impl RxFlags {
    /// A VLAN tag was stripped into the metadata.
    pub const VLAN: u32 = 1 << 3;
    /// The UDP or TCP checksum was checked.
    pub const L4_CHECKED: u32 = 1 << 5;
    /// The IPv4 header checksum was checked.
    pub const IP_CHECKED: u32 = 1 << 6;
    /// The UDP or TCP checksum was wrong.
    pub const L4_BAD: u32 = 1 << 30;
    /// The IPv4 header checksum was wrong.
    pub const IP_BAD: u32 = 1 << 31;

    #[inline]
    fn status(self, checked: u32, bad: u32) -> Checksum {
        match (self.0 & checked != 0, self.0 & bad != 0) {
            (false, _) => Checksum::Unknown,
            (true, false) => Checksum::Good,
            (true, true) => Checksum::Bad,
        }
    }

    /// The verdict on the IPv4 header checksum.
    #[inline]
    pub fn ip_checksum(self) -> Checksum {
        self.status(Self::IP_CHECKED, Self::IP_BAD)
    }

    /// The verdict on the UDP or TCP checksum.
    #[inline]
    pub fn l4_checksum(self) -> Checksum {
        self.status(Self::L4_CHECKED, Self::L4_BAD)
    }
}

/// The headers the device found, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketType(pub u16);

impl PacketType {
    /// An IPv4 header.
    pub const IPV4: u16 = 1;
    /// An IPv4 header with options.
    pub const IPV4_OPTIONS: u16 = 1 << 1;
    /// An IPv6 header.
    pub const IPV6: u16 = 1 << 2;
    /// IPv6 extension headers.
    pub const IPV6_EXTENSIONS: u16 = 1 << 3;
    /// A TCP header.
    pub const TCP: u16 = 1 << 4;
    /// A UDP header.
    pub const UDP: u16 = 1 << 5;
    /// An SCTP header.
    pub const SCTP: u16 = 1 << 6;

    /// Whether all of `bits` were found.
    pub fn has(self, bits: u16) -> bool {
        self.0 & bits == bits
    }
}

/// What the device shall do with a packet that is sent. The default asks for
/// nothing and costs nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C, align(8))]
pub struct TxOffload {
    /// [`TxOffload::VLAN`], [`TxOffload::IP_CHECKSUM`], ….
    pub flags: u8,
    /// Bytes before the network header: 14, or 18 with a tag in the packet; with
    /// [`TxOffload::TUNNEL`] all outer headers, the tunnel's own and what stands behind it.
    pub l2_len: u8,
    /// Bytes of the network header, extension headers included.
    pub l3_len: u8,
    /// Bytes of the transport header; needed for segmentation.
    pub l4_len: u8,
    /// Payload bytes in each segment, with [`TxOffload::SEGMENT`].
    pub segment_size: u16,
    /// The tag to insert, with [`TxOffload::VLAN`].
    pub vlan: u16,
}

impl TxOffload {
    /// Insert `vlan` as an 802.1Q tag.
    pub const VLAN: u8 = 1;
    /// Fill in the IPv4 header checksum.
    pub const IP_CHECKSUM: u8 = 1 << 1;
    /// Fill in the TCP checksum; the field holds the pseudo-header's sum.
    pub const TCP_CHECKSUM: u8 = 1 << 2;
    /// Fill in the UDP checksum; the field holds the pseudo-header's sum.
    pub const UDP_CHECKSUM: u8 = 1 << 3;
    /// The network header is IPv6.
    pub const IPV6: u8 = 1 << 4;
    /// Cut the payload into pieces of `segment_size`, each a packet with headers of its own: TCP
    /// segments, or with [`TxOffload::UDP_CHECKSUM`] alone UDP datagrams (Linux's UDP_SEGMENT);
    /// checksums are filled in. The transport's checksum field holds the pseudo-header's sum
    /// without its length, which differs from piece to piece (82599 datasheet 7.2.4.7).
    pub const SEGMENT: u8 = 1 << 5;
    /// The packet is a tunnel's, and all else is about the packet inside. The lengths of the
    /// outer headers are not here: the headers are whole and tell them, so that a device
    /// which has to know them costs only those packets that are sent through it.
    pub const TUNNEL: u8 = 1 << 6;

    /// Whether the device is asked for anything.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.flags == 0
    }

    /// Whether any of these flags is set.
    #[inline]
    pub fn has(self, flags: u8) -> bool {
        self.flags & flags != 0
    }

    /// Whether the packet is to be cut into UDP datagrams.
    #[inline]
    pub fn cuts_udp(self) -> bool {
        const UDP: u8 = TxOffload::SEGMENT | TxOffload::UDP_CHECKSUM;
        self.flags & (UDP | TxOffload::TCP_CHECKSUM) == UDP
    }

    /// Whether the transport that is to be summed or cut is TCP.
    #[inline]
    pub fn is_tcp(self) -> bool {
        self.has(Self::TCP_CHECKSUM | Self::SEGMENT) && !self.cuts_udp()
    }

    /// The same without these flags.
    pub fn without(self, flags: u8) -> TxOffload {
        TxOffload { flags: self.flags & !flags, ..self }
    }

    /// Where the transport header begins, in bytes.
    pub fn transport_offset(self) -> usize {
        usize::from(self.l2_len) + usize::from(self.l3_len)
    }

    /// Bytes of all headers up to the payload.
    pub fn header_len(self) -> u64 {
        u64::from(self.l2_len) + u64::from(self.l3_len) + u64::from(self.l4_len)
    }

    /// Whether the headers that are to be summed or cut can be what they are said to be: no shorter
    /// than their kind is, and with their checksums' fields in the first `len` bytes of the packet.
    pub fn fits(self, len: usize) -> bool {
        const SUMS: u8 = TxOffload::TCP_CHECKSUM | TxOffload::UDP_CHECKSUM | TxOffload::SEGMENT;
        let network = match self.flags {
            flags if flags & (SUMS | Self::IP_CHECKSUM) == 0 => 0,
            flags if flags & Self::IPV6 != 0 => 40,
            _ => 20,
        };
        // Where the checksum's field ends (RFC 9293 3.1; RFC 768).
        let field = match self.flags & SUMS {
            0 => 0,
            _ if self.is_tcp() => 18,
            _ => 8,
        };
        // UDP's header has one length, TCP's has options.
        let transport = match self.has(Self::SEGMENT) {
            true if self.cuts_udp() => self.l4_len == 8,
            true => self.l4_len >= 20,
            false => true,
        };
        let end = self.transport_offset() + field.max(usize::from(self.l4_len));
        self.l3_len >= network && transport && end <= len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_have_their_least_length_and_end_in_the_first_bytes() {
        let of =
            |flags, l3_len, l4_len| TxOffload { flags, l2_len: 14, l3_len, l4_len, ..TxOffload::default() };
        let tcp = of(TxOffload::TCP_CHECKSUM, 20, 0);
        assert!(tcp.fits(52) && !tcp.fits(51), "the field ends 18 bytes behind the header's begin");
        let udp = of(TxOffload::UDP_CHECKSUM | TxOffload::IPV6, 40, 0);
        assert!(udp.fits(62) && !udp.fits(61));
        assert!(!of(TxOffload::UDP_CHECKSUM | TxOffload::IPV6, 39, 0).fits(1500));
        assert!(of(TxOffload::IP_CHECKSUM, 20, 0).fits(34) && !of(TxOffload::IP_CHECKSUM, 19, 0).fits(34));
        let cut = TxOffload::SEGMENT | TxOffload::TCP_CHECKSUM;
        assert!(of(cut, 20, 32).fits(66) && !of(cut, 20, 32).fits(65) && !of(cut, 20, 19).fits(1500));
        let datagrams = TxOffload::SEGMENT | TxOffload::UDP_CHECKSUM;
        assert!(of(datagrams, 20, 8).fits(42) && !of(datagrams, 20, 8).fits(41));
        assert!([0, 7, 9, 20].iter().all(|l4_len| !of(datagrams, 20, *l4_len).fits(1500)));
        assert!(of(TxOffload::VLAN, 0, 0).fits(14), "of a tag alone nothing is read");
    }

    #[test]
    fn a_packet_is_cut_into_datagrams_where_udps_checksum_alone_is_asked_for() {
        let cut = |flags| {
            let asked = TxOffload { flags, ..TxOffload::default() };
            (asked.is_tcp(), asked.cuts_udp())
        };
        let (segment, tcp, udp) = (TxOffload::SEGMENT, TxOffload::TCP_CHECKSUM, TxOffload::UDP_CHECKSUM);
        assert_eq!([cut(segment), cut(segment | tcp), cut(segment | tcp | udp)], [(true, false); 3]);
        assert_eq!(cut(segment | udp | TxOffload::IP_CHECKSUM), (false, true));
        assert_eq!([cut(udp), cut(tcp), cut(0)], [(false, false), (true, false), (false, false)]);
    }
}
