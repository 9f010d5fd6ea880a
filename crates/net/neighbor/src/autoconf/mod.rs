//! Addresses of IPv6 from router advertisements (RFC 4862), and what else a host needs of them
//! (RFC 4861, section 6.3): default routers, prefixes on the link, the MTU.
//!
//! A [`Client`] is given what comes and the time, and gives what is to be sent. It makes a
//! link-local address, and one of each prefix that routers tell, all of them with an interface
//! identifier from the Ethernet address (RFC 4291, appendix A), and asks before it has one
//! whether somebody else does. There are no temporary addresses (RFC 8981), no DHCPv6, no reports of
//! multicast listeners and no detection that a router is gone but by its lifetime.

mod table;

use std::net::Ipv6Addr;

use wire::{MacAddress, ndp};

use crate::limits::SECOND_NS;
use crate::nd;
use crate::outbox::{Message, duplicate_probe, router_solicitation};
pub use table::{OnLink, Preference};
use table::{Own, Phase, Tables};

/// How long the answer to a question whether somebody has an address is waited for, of which there
/// is one (RFC 4862, section 5.1; RetransTimer of RFC 4861, section 10).
const ANSWER_NS: i64 = SECOND_NS;
/// Questions for routers, and the time between them (RFC 4861, section 10).
const SOLICITATIONS: u8 = 3;
const SOLICITATION_NS: i64 = 4 * SECOND_NS;
/// Advertisements that are read in a second at most.
const ADVERTISEMENTS: u8 = 16;
/// The bits of a prefix that an interface identifier of 64 bits fits to (RFC 4862, section 5.5.3).
const PREFIX_BITS: u8 = 64;
/// The least MTU of IPv6 (RFC 8200, section 5).
const LEAST_MTU: u32 = 1280;
/// The link-local prefix, of which others must not be told (RFC 4862, section 5.5.3).
const LINK_LOCAL: Ipv6Addr = Ipv6Addr::new(0xFE80, 0, 0, 0, 0, 0, 0, 0);
const LINK_LOCAL_BITS: u8 = 10;

/// What a client counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Router advertisements that were taken.
    pub advertisements: u64,
    /// Those that were not looked at, because there were too many in a second.
    pub limited: u64,
    /// Prefixes and routers that were not taken: there was no room, or they made no sense.
    pub refused: u64,
    /// Addresses that somebody else had.
    pub conflicts: u64,
}

/// A host's client for one interface.
#[derive(Debug)]
pub struct Client {
    mac: MacAddress,
    tables: Tables,
    mtu: Option<u16>,
    /// Questions for routers so far, and when the next one is due; `None` once a router has
    /// answered, or none did.
    solicitations: u8,
    solicit_ns: Option<i64>,
    /// The second that advertisements are counted in, and how many came in it.
    second: i64,
    heard: u8,
    due_ns: i64,
    counters: Counters,
}

/// The address of a prefix with the interface identifier of an Ethernet address (RFC 4291, appendix
/// A).
pub fn address_of(prefix: Ipv6Addr, mac: MacAddress) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac.0;
    let identifier = u64::from_be_bytes([a ^ 2, b, c, 0xFF, 0xFE, d, e, f]);
    Ipv6Addr::from_bits(prefix.to_bits() >> 64 << 64 | u128::from(identifier))
}

impl Client {
    /// A client of the host with an Ethernet address, which begins at once.
    pub fn new(mac: MacAddress, now_ns: i64) -> Client {
        let own = Own::new(address_of(LINK_LOCAL, mac), i64::MAX, i64::MAX);
        Client {
            mac,
            tables: Tables::new(own),
            mtu: None,
            solicitations: 0,
            solicit_ns: None,
            second: i64::MIN,
            heard: 0,
            due_ns: now_ns,
            counters: Counters::default(),
        }
    }

    /// The addresses that the host has, the best to send from first, and until when.
    pub fn addresses(&self, now_ns: i64) -> Vec<(Ipv6Addr, Preference)> {
        self.tables.addresses(now_ns)
    }

    /// The prefixes whose addresses are on the link.
    pub fn on_link(&self) -> Vec<OnLink> {
        let own = OnLink { prefix: LINK_LOCAL, bits: LINK_LOCAL_BITS };
        std::iter::once(own).chain(self.tables.on_link()).collect()
    }

    /// Who forwards to all others.
    pub fn router(&self) -> Option<Ipv6Addr> {
        self.tables.router()
    }

    /// The longest IP packet of the link, if a router has said so.
    pub fn mtu(&self) -> Option<u16> {
        self.mtu
    }

    /// Whether it waits to hear that somebody else has an address.
    pub fn is_probing(&self) -> bool {
        self.tables.own().any(|own| matches!(own.phase, Phase::Asked { .. }))
    }

    /// When [`Client::turn`] is due.
    pub fn due_ns(&self) -> i64 {
        self.due_ns
    }

    /// What was counted.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Looks at a frame: a router advertisement, or that somebody else has an address that this
    /// host wants. True for a valid advertisement, which nobody else needs to look at.
    pub fn hear(&mut self, frame: &[u8], now_ns: i64) -> bool {
        if let Some(told) = nd::router_advertisement(frame) {
            self.learn(&told, now_ns);
            return true;
        }
        let others = |mac: MacAddress| mac != self.mac;
        // Who asks from no address is about to have it (RFC 4862, section 5.4.3).
        let asked = nd::solicitation(frame)
            .filter(|asked| asked.src.is_unspecified() && others(asked.src_mac))
            .map(|asked| asked.target);
        let said = nd::advertisement(frame).filter(|said| others(said.mac)).map(|said| said.target);
        if asked.or(said).is_some_and(|address| self.tables.refuse(address)) {
            self.counters.conflicts += 1;
        }
        false
    }

    /// Takes what a router tells (RFC 4861, section 6.3.4).
    fn learn(&mut self, told: &nd::RouterAdvertisement, now_ns: i64) {
        let second = now_ns.div_euclid(SECOND_NS);
        if second != self.second {
            (self.second, self.heard) = (second, 0);
        }
        if self.heard >= ADVERTISEMENTS {
            self.counters.limited += 1;
            return;
        }
        self.heard += 1;
        self.counters.advertisements += 1;
        self.solicit_ns = None;
        let lifetime_ns = i64::from(told.lifetime_s) * SECOND_NS;
        let mut refused = u64::from(!self.tables.set_router(told.router, now_ns, lifetime_ns));
        for option in ndp::options(told.options) {
            match option.first() {
                Some(&ndp::PREFIX) => refused += self.learn_prefix(option, now_ns),
                Some(&ndp::MTU) => {
                    let told = ndp::MtuOption::of(option).map(|option| option.mtu());
                    let mtu = told.filter(|mtu| *mtu >= LEAST_MTU).and_then(|mtu| mtu.try_into().ok());
                    refused += u64::from(mtu.is_none());
                    self.mtu = mtu.or(self.mtu);
                }
                _ => {}
            }
        }
        self.counters.refused += refused;
        self.due_ns = now_ns;
    }

    /// Takes a prefix (RFC 4861, section 6.3.4; RFC 4862, section 5.5.3); how much of it was
    /// refused.
    fn learn_prefix(&mut self, option: &[u8], now_ns: i64) -> u64 {
        let Some(option) = ndp::PrefixOption::of(option) else { return 1 };
        let (bits, flags, valid, preferred) =
            (option.bits(), option.flags(), option.valid_s(), option.preferred_s());
        let told = OnLink { prefix: option.prefix(), bits };
        if bits > 128 || told.prefix.is_multicast() || told.prefix.is_unicast_link_local() {
            return 1;
        }
        let mut refused = 0;
        if flags & ndp::ON_LINK != 0 {
            refused += u64::from(!self.tables.set_on_link(told.masked(), end_ns(valid, now_ns), now_ns));
        }
        if flags & ndp::AUTONOMOUS != 0 {
            let address = address_of(told.prefix, self.mac);
            let is_taken = bits == PREFIX_BITS
                && preferred <= valid
                && self.tables.set_own(address, end_ns(valid, now_ns), end_ns(preferred, now_ns), now_ns);
            refused += u64::from(!is_taken);
        }
        refused
    }

    /// Does what is due; what is to be sent goes to `out`.
    pub fn turn(&mut self, now_ns: i64, out: &mut Vec<Message>) {
        if now_ns < self.due_ns {
            return;
        }
        self.tables.expire(now_ns);
        let mac = self.mac;
        for own in self.tables.own_mut() {
            match own.phase {
                Phase::New => {
                    out.push(Message::Frame(duplicate_probe(mac, own.address)));
                    own.phase = Phase::Asked { until_ns: now_ns + ANSWER_NS };
                }
                Phase::Asked { until_ns } if until_ns <= now_ns => own.phase = Phase::Ours,
                _ => {}
            }
        }
        self.solicit(now_ns, out);
        let solicit_ns = self.solicit_ns.unwrap_or(i64::MAX);
        self.due_ns = self.tables.due_ns().min(solicit_ns);
    }

    /// Asks for routers, as soon as there is an address to ask from.
    fn solicit(&mut self, now_ns: i64, out: &mut Vec<Message>) {
        let Some(own) = self.tables.link_local() else { return };
        if self.solicitations == 0 && self.counters.advertisements == 0 {
            self.solicit_ns.get_or_insert(now_ns);
        }
        if self.solicit_ns.is_none_or(|at_ns| now_ns < at_ns) {
            return;
        }
        self.solicit_ns = (self.solicitations < SOLICITATIONS).then_some(now_ns + SOLICITATION_NS);
        if self.solicit_ns.is_some() {
            self.solicitations += 1;
            out.push(Message::Frame(router_solicitation(self.mac, own)));
        }
    }
}

/// When a lifetime that begins now ends.
fn end_ns(seconds: u32, now_ns: i64) -> i64 {
    match seconds {
        ndp::INFINITE => i64::MAX,
        seconds => now_ns.saturating_add(i64::from(seconds) * SECOND_NS),
    }
}
