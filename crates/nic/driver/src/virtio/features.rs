//! Which features are taken, and why (virtio 1.3, 2.2, 5.1.3 and 6). Every bit
//! that the specification names is decided here, in one table; what a device
//! offers beyond it is not taken.

use memory::DATA_ROOM;
use port::{OptionError, Options};
use regs::virtio::feature::*;
use regs::virtio::net::header;

use super::fault::VirtioFault;
use super::transport::Transport;
use crate::Result;

/// Bytes of the largest frame with the two VLAN tags it may carry.
pub(super) fn frame_bytes(options: &Options) -> usize {
    options.max_frame + 8
}

/// What the decisions depend on.
pub(super) struct Context<'a> {
    pub offered: u64,
    pub options: &'a Options,
    pub legacy: bool,
    /// Queue pairs are switched on without a control queue.
    pub steered: bool,
    /// The device's MTU, read before features are agreed upon (5.1.4.1).
    pub mtu: Option<u16>,
}

impl Context<'_> {
    fn offers(&self, bits: u64) -> bool {
        self.offered & self.options.virtio.features & bits == bits
    }

    /// Whether the rings are packed.
    fn packs(&self) -> bool {
        !self.legacy && self.offers(INDIRECT_DESC | RING_PACKED)
    }

    /// Whether a frame may be larger than one buffer.
    fn scatters(&self) -> bool {
        frame_bytes(self.options) + header::BYTES_HASH > DATA_ROOM
    }
}

/// A feature, when it is taken, and the reason.
pub(super) struct Decision {
    pub bit: u64,
    pub name: &'static str,
    take: fn(&Context<'_>) -> bool,
    #[cfg_attr(not(test), expect(dead_code, reason = "for the reader, and a test"))]
    pub why: &'static str,
}

macro_rules! decisions {
    ($($name:ident $(:: $net:ident)?, $take:expr, $why:literal;)*) => {
        /// What is decided of each bit that the specification names.
        pub(super) const DECISIONS: &[Decision] = &[$(Decision {
            bit: $name $(:: $net)?,
            name: decisions!(@ $name $($net)?),
            take: $take,
            why: $why,
        }),*];
    };
    (@ $name:ident) => { stringify!($name) };
    (@ net $net:ident) => { stringify!($net) };
}

decisions! {
    net::CSUM, |c| c.options.tx_checksum.at_a_cost(), "asked for: a device that has it must look at each header";
    net::GUEST_CSUM, |c| c.options.rx_checksum.at_a_cost(), "asked for: the driver must look at each header";
    net::CTRL_GUEST_OFFLOADS, |_| false, "receive offloads do not change while the port is open";
    net::MTU, |c| c.mtu.is_some_and(|mtu| usize::from(mtu) + 14 <= c.options.max_frame), "frames of that size must be received (5.1.4.2)";
    net::MAC, |_| true, "costs nothing";
    net::GSO, |_| false, "legacy name of what HOST_TSO4 and its kin say";
    net::GUEST_TSO4, |_| false, "applications get frames as they came over the wire";
    net::GUEST_TSO6, |_| false, "likewise";
    net::GUEST_ECN, |_| false, "likewise";
    net::GUEST_UFO, |_| false, "likewise";
    net::HOST_TSO4, |c| c.options.tx_checksum.at_a_cost() && c.offers(net::CSUM), "applications may ask for segmentation";
    net::HOST_TSO6, |c| c.options.tx_checksum.at_a_cost() && c.offers(net::CSUM), "likewise";
    net::HOST_ECN, |_| false, "no application asks for segmentation with ECN";
    net::HOST_UFO, |_| false, "no application asks for it";
    net::MRG_RXBUF, |c| c.scatters(), "frames may need several buffers; else the count in each header need not be read";
    net::STATUS, |_| true, "tells the link";
    net::CTRL_VQ, |_| true, "modes, addresses and queues are set through it";
    net::CTRL_RX, |c| c.offers(net::CTRL_VQ), "promiscuous mode";
    net::CTRL_VLAN, |c| c.options.vlan_filter && c.offers(net::CTRL_VQ), "asked for: with it no VLAN comes through that was not added";
    net::CTRL_RX_EXTRA, |_| false, "promiscuous and multicast suffice";
    net::GUEST_ANNOUNCE, |_| false, "a port does not answer for the hosts behind it";
    net::MQ, |c| c.options.rx_queues > 1 && (c.steered || c.offers(net::CTRL_VQ)), "several pairs are wanted";
    net::CTRL_MAC_ADDR, |c| c.offers(net::CTRL_VQ), "the address may be changed";
    net::DEVICE_STATS, |_| false, "the driver counts what it hands over";
    net::VQ_NOTF_COAL, |_| false, "polling needs no interrupts, waiting wants the first";
    net::NOTF_COAL, |_| false, "likewise";
    net::GUEST_USO4, |_| false, "applications get frames as they came over the wire";
    net::GUEST_USO6, |_| false, "likewise";
    net::HOST_USO, |c| c.options.tx_checksum.at_a_cost() && c.offers(net::CSUM), "applications may ask for datagrams of both versions of IP to be cut";
    net::HASH_REPORT, |c| c.options.rss.report && c.offers(net::CTRL_VQ), "asked for: the header grows by eight bytes, which the driver must read";
    net::GUEST_HDRLEN, |_| false, "the length of headers is a hint and given in any case";
    net::RSS, |c| c.options.rss.report && c.options.rx_queues > 1 && c.offers(net::CTRL_VQ), "asked for, and there are queues to choose from";
    net::RSC_EXT, |_| false, "no segments are merged";
    net::STANDBY, |_| false, "a port stands for itself";
    net::SPEED_DUPLEX, |_| true, "tells the link's speed";

    NOTIFY_ON_EMPTY, |_| false, "interrupts are for receiving";
    ANY_LAYOUT, |c| c.legacy, "header and frame in one descriptor; modern devices always can";
    INDIRECT_DESC, |_| true, "a frame of several segments takes one slot of the ring";
    EVENT_IDX, |c| c.options.interrupts && (c.options.virtio.packed_event_index || !c.packs()), "one interrupt ends a wait; a polling side is better told by a flag, which costs it no arithmetic";
    VERSION_1, |c| !c.legacy, "the modern interface";
    ACCESS_PLATFORM, |_| true, "the driver gives the addresses that the platform translates";
    RING_PACKED, |c| c.packs(), "one cache line where split rings touch three; a slot is one descriptor only with tables";
    IN_ORDER, |_| true, "one used entry may stand for a batch, and order need not be looked up";
    ORDER_PLATFORM, |_| true, "the barriers used are the platform's (bus::order)";
    SR_IOV, |_| false, "no virtual functions are made";
    NOTIFICATION_DATA, |_| false, "the position stands in memory already";
    NOTIF_CONFIG_DATA, |_| false, "the queue's number is enough";
    RING_RESET, |_| false, "queues live as long as their port";
    ADMIN_VQ, |_| false, "nothing to administer";
}

/// The bits to take of those offered.
pub(super) fn decide(context: &Context<'_>) -> u64 {
    let takes = |d: &&Decision| context.offers(d.bit) && (d.take)(context);
    DECISIONS.iter().filter(takes).fold(0, |bits, d| bits | d.bit)
}

/// The names of some bits.
pub(super) fn names(bits: u64) -> String {
    let named = DECISIONS.iter().filter(|d| d.bit & bits != 0).map(|d| d.name);
    named.collect::<Vec<_>>().join(" ")
}

/// Whether the device can be driven with the features decided on.
pub(super) fn check(transport: &dyn Transport, options: &Options, offered: u64, taken: u64) -> Result<()> {
    let device = transport.pci().name();
    if transport.needs_translation() && offered & ACCESS_PLATFORM == 0 {
        return Err(VirtioFault::Untranslated { device }.into());
    }
    if !transport.is_legacy() && taken & VERSION_1 == 0 {
        let why = "the device speaks through the modern interface";
        return Err(VirtioFault::Lacks { device, missing: VERSION_1, why }.into());
    }
    let scatters = frame_bytes(options) + header::BYTES_HASH > DATA_ROOM;
    if scatters && taken & net::MRG_RXBUF == 0 {
        let limit = "the device fills one buffer only (no MRG_RXBUF): 2,020 bytes at most";
        return Err(OptionError { option: "the largest frame", value: options.max_frame, limit }.into());
    }
    Ok(())
}

/// Bytes of the header in front of each packet (5.1.6).
pub(super) fn header_len(features: u64) -> usize {
    match features {
        f if f & net::HASH_REPORT != 0 => header::BYTES_HASH,
        f if f & (VERSION_1 | net::MRG_RXBUF) != 0 => header::BYTES,
        _ => header::BYTES_LEGACY,
    }
}

/// Whether header and frame may stand in one descriptor (5.1.6.6: legacy devices
/// may want the header by itself).
pub(super) fn any_layout(features: u64) -> bool {
    features & (VERSION_1 | ANY_LAYOUT) != 0
}

#[cfg(test)]
mod tests {
    use port::Offload;

    use super::*;

    fn decided(offered: u64, legacy: bool, change: impl FnOnce(&mut Options)) -> u64 {
        let mut options = Options::default();
        change(&mut options);
        decide(&Context { offered, options: &options, legacy, steered: false, mtu: Some(1500) })
    }

    #[test]
    fn every_bit_is_decided_once_and_has_a_reason() {
        let mut seen = 0;
        for decision in DECISIONS {
            assert_eq!(decision.bit.count_ones(), 1, "{}", decision.name);
            assert_eq!(seen & decision.bit, 0, "{} stands twice", decision.name);
            assert!(!decision.why.is_empty());
            seen |= decision.bit;
        }
        // 4, 25, 26, 30, 31, 42 to 49, 51 and 58 have no meaning here.
        let unnamed = [4, 25, 26, 30, 31, 42, 43, 44, 45, 46, 47, 48, 49, 51, 58];
        assert_eq!(!seen, unnamed.iter().fold(0, |bits, bit| bits | 1 << bit));
    }

    #[test]
    fn what_is_not_offered_or_not_allowed_is_not_taken() {
        assert_eq!(decided(0, false, |_| ()), 0);
        assert_eq!(decided(u64::MAX, false, |o| o.virtio.features = 0), 0);
        let all = decided(u64::MAX, false, |_| ());
        assert_eq!(decided(!RING_PACKED, false, |_| ()), all & !RING_PACKED);
    }

    #[test]
    fn what_depends_on_another_bit_goes_with_it() {
        let without = |bit: u64| {
            decided(!bit, false, |o| {
                (o.rx_queues, o.tx_checksum) = (4, Offload::On);
            })
        };
        assert_eq!(without(net::CTRL_VQ) & (net::CTRL_RX | net::MQ | net::CTRL_MAC_ADDR), 0);
        assert_eq!(without(net::CSUM) & (net::HOST_TSO4 | net::HOST_TSO6 | net::HOST_USO), 0);
        assert_eq!(without(INDIRECT_DESC) & RING_PACKED, 0);
        let legacy = decided(u64::MAX, true, |_| ());
        assert_eq!(legacy & (VERSION_1 | RING_PACKED), 0);
        assert_ne!(legacy & ANY_LAYOUT, 0);
    }

    #[test]
    fn headers_are_as_long_as_the_features_say() {
        assert_eq!(header_len(0), 10);
        assert_eq!(header_len(net::MRG_RXBUF), 12);
        assert_eq!(header_len(VERSION_1), 12);
        assert_eq!(header_len(VERSION_1 | net::HASH_REPORT), 20);
    }
}
