//! A host that is told its addresses while it runs: what of that concerns one core.

use memory::{Packet, Pool};
use neighbor::Message;
use port::Counter;
use wire::ethernet::{self, EtherType};
use wire::{Flow, MacAddress, dhcp, icmpv6, udp};

use super::Host;
use super::headers::check_header;
use crate::configuration::{Assigned, Configuration, Network, Sources};
use crate::rate::Rate;

/// Messages about addresses that a core looks at in a second: more are none that a host needs.
const EACH_SECOND: u32 = 64;

/// What a core has of its host's configuration.
pub(super) struct Configured {
    shared: Configuration,
    sources: Sources,
    /// Whether this is the core that shows what was counted for all.
    is_first: bool,
    seen: u64,
    assigned: Vec<Assigned>,
    /// How many messages were looked at lately.
    heard: Rate,
    /// Messages that made no sense, or were too many.
    lost: u64,
    /// The longest IP packet of the port.
    mtu: u16,
    out: Vec<Message>,
}

impl Configured {
    /// Whether one more message may be looked at; one that may not is counted.
    fn may_hear(&mut self, now_ns: i64) -> bool {
        let may = self.heard.allows(EACH_SECOND, now_ns);
        self.lost += u64::from(!may);
        may
    }

    /// When there is something to do.
    pub fn due_ns(&self) -> i64 {
        self.shared.due_ns()
    }

    /// What was told to the host.
    pub fn assigned(&self) -> &[Assigned] {
        &self.assigned
    }

    /// Messages that were not taken, and what else was counted.
    pub fn counters(&self) -> (u64, Vec<Counter>) {
        let (lost, counters) = if self.is_first { self.shared.counters() } else { (0, vec![]) };
        (lost + self.lost, counters)
    }
}

impl Host {
    /// Has the host take its addresses from what it is told. All cores of a host share the
    /// configuration, and `is_first` is true for one of them.
    pub fn configure_by(&mut self, shared: &Configuration, is_first: bool) {
        self.configured = Some(Box::new(Configured {
            shared: shared.clone(),
            sources: shared.sources(),
            is_first,
            seen: 0,
            assigned: Vec::new(),
            heard: Rate::default(),
            lost: 0,
            mtu: self.stack.options().mtu,
            out: Vec::new(),
        }));
    }

    /// Does what is due for the host's addresses, and takes those that others brought.
    pub(super) fn configure(&mut self, now_ns: i64, pool: &mut Pool) {
        let Some(mut configured) = self.configured.take() else { return };
        if configured.due_ns() <= now_ns {
            configured.shared.turn(now_ns, &mut configured.out);
        }
        if let Some(network) = configured.shared.changed(&mut configured.seen) {
            self.take_network(&network, configured.mtu);
            configured.assigned = network.assigned;
        }
        for message in configured.out.drain(..) {
            // What finds no buffer and no room is sent again in time, as if it were lost.
            let (bytes, queue) = match &message {
                Message::Frame(bytes) => (bytes, &mut self.frames),
                Message::Packet(bytes) => (bytes, &mut self.segments),
            };
            let Some(mut packet) = pool.alloc() else { continue };
            match packet.copy_from(bytes) {
                Ok(()) => queue.push(packet).into_iter().for_each(|packet| pool.free(packet)),
                Err(_) => pool.free(packet),
            }
        }
        self.configured = Some(configured);
    }

    fn take_network(&mut self, network: &Network, mtu: u16) {
        self.addresses = network.addresses.clone();
        self.responder.addresses.clone_from(&network.own);
        self.on_link.clone_from(&network.on_link);
        if let Some((own, _)) = self.addresses.v4 {
            self.v4.set_address(own);
        }
        if let Some((own, _)) = self.addresses.v6 {
            self.v6.set_address(own);
        }
        let mtu = network.mtu.map_or(mtu, |told| told.min(mtu));
        self.stack.set_mtu(mtu);
        self.udp.set_mtu(self.stack.options().mtu);
    }

    /// Whether a datagram is for the client of DHCP: only then nobody else is to have it.
    #[inline]
    pub(super) fn is_for_client(&self, flow: &Flow) -> bool {
        let is_for_it = |configured: &Configured| {
            configured.sources.dhcp && flow.ports == Some((dhcp::SERVER_PORT, dhcp::CLIENT_PORT))
        };
        self.configured.as_deref().is_some_and(is_for_it)
    }

    /// Takes a datagram of a server of DHCP: a host without an address is sent to by its Ethernet
    /// address, or by that of all.
    #[cold]
    pub(super) fn take_lease(&mut self, packet: Packet, flow: &Flow, now_ns: i64, pool: &mut Pool) {
        let to = ethernet::Header::of(&packet).map(|header| header.dst());
        let is_ours = to.is_some_and(|to| to == self.addresses.mac || to == MacAddress::BROADCAST);
        if let Some(configured) = self.configured.as_deref_mut()
            && configured.may_hear(now_ns)
        {
            let ip = packet.get(flow.l3_offset()..flow.l4_offset()).unwrap_or_default();
            let datagram = packet.get(flow.l4_offset()..flow.end).unwrap_or_default();
            let is_sound = is_ours && packet.next().is_none() && check_header(ip, &packet).0;
            match udp::Datagram::new_checked(datagram) {
                Ok(datagram) if is_sound && datagram.verify_checksum(flow.addresses) => {
                    configured.shared.receive(datagram.payload(), now_ns);
                }
                _ => configured.lost += 1,
            }
        }
        pool.free(packet);
    }

    /// Has the configuration look at a frame that is no TCP and no UDP; true for a router
    /// advertisement, which nobody else needs to look at.
    #[cold]
    pub(super) fn hear_of_addresses(&mut self, packet: &Packet, now_ns: i64) -> bool {
        let Some(configured) = self.configured.as_deref_mut() else { return false };
        let is_told = configured.sources.advertisements && is_router_advertisement(packet);
        if !is_told && !configured.shared.is_probing() {
            return false;
        }
        if !is_told || configured.may_hear(now_ns) {
            let is_valid = configured.shared.hear(packet, now_ns);
            configured.lost += u64::from(is_told && !is_valid);
        }
        is_told
    }
}

/// Whether a frame says that it is a router advertisement, which may still be wrong.
fn is_router_advertisement(frame: &[u8]) -> bool {
    let is_v6 = ethernet::Header::of(frame).is_some_and(|header| header.ethertype() == EtherType::IPV6);
    let message = frame.get(ethernet::HEADER_LEN + wire::ipv6::HEADER_LEN..);
    let kind = message.and_then(icmpv6::Header::of).map(|header| header.message_type());
    is_v6 && kind == Some(icmpv6::ROUTER_ADVERTISEMENT)
}
