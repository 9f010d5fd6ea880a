//! What a host was told by routers, as much of it as it keeps: whoever is on the link can send
//! advertisements.

use std::net::Ipv6Addr;

use crate::limits::SECOND_NS;

/// Addresses of prefixes.
const MOST_ADDRESSES: usize = 4;
/// Prefixes whose addresses are on the link.
const MOST_PREFIXES: usize = 8;
const MOST_ROUTERS: usize = 4;
/// A lifetime that is longer is not made shorter than this, for whoever is on the link could say
/// that an address is over (RFC 4862, section 5.5.3).
const TWO_HOURS_NS: i64 = 7_200 * SECOND_NS;

/// How far an address has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nobody was asked whether he has it.
    New,
    /// Whoever has it may say so until then.
    Asked { until_ns: i64 },
    /// It is this host's.
    Ours,
    /// Somebody else has it.
    Refused,
}

/// An address that a host has or wants.
#[derive(Debug, Clone, Copy)]
pub(super) struct Own {
    pub address: Ipv6Addr,
    pub phase: Phase,
    valid_ns: i64,
    preferred_ns: i64,
}

impl Own {
    pub fn new(address: Ipv6Addr, valid_ns: i64, preferred_ns: i64) -> Own {
        Own { address, phase: Phase::New, valid_ns, preferred_ns }
    }
}

/// For how long an address is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preference {
    /// Whether new connections may use it.
    pub is_preferred: bool,
    /// When the host has it no more, in nanoseconds; `None` when that is not foreseen.
    pub until_ns: Option<i64>,
}

/// A prefix whose addresses are on the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OnLink {
    /// The prefix, with zeros behind its bits.
    pub prefix: Ipv6Addr,
    /// Its bits, 128 at most.
    pub bits: u8,
}

impl OnLink {
    fn mask(self) -> u128 {
        !u128::MAX.checked_shr(self.bits.into()).unwrap_or(0)
    }

    /// Whether an address is of it.
    pub fn has(self, address: Ipv6Addr) -> bool {
        (self.prefix.to_bits() ^ address.to_bits()) & self.mask() == 0
    }

    /// Without the bits behind the prefix.
    pub(super) fn masked(self) -> OnLink {
        OnLink { prefix: Ipv6Addr::from_bits(self.prefix.to_bits() & self.mask()), ..self }
    }
}

/// What a host keeps.
#[derive(Debug)]
pub(super) struct Tables {
    /// The link-local address, which stays.
    local: Own,
    own: Vec<Own>,
    on_link: Vec<(OnLink, i64)>,
    /// The first who came is used.
    routers: Vec<(Ipv6Addr, i64)>,
}

impl Tables {
    pub fn new(local: Own) -> Tables {
        let own = Vec::with_capacity(MOST_ADDRESSES);
        let (on_link, routers) = (Vec::with_capacity(MOST_PREFIXES), Vec::with_capacity(MOST_ROUTERS));
        Tables { local, own, on_link, routers }
    }

    pub fn own(&self) -> impl Iterator<Item = &Own> {
        std::iter::once(&self.local).chain(&self.own)
    }

    pub fn own_mut(&mut self) -> impl Iterator<Item = &mut Own> {
        std::iter::once(&mut self.local).chain(&mut self.own)
    }

    /// The link-local address, once it is this host's.
    pub fn link_local(&self) -> Option<Ipv6Addr> {
        (self.local.phase == Phase::Ours).then_some(self.local.address)
    }

    /// The addresses that are this host's: first those that are preferred, for the longest time first,
    /// then others, and the link-local one at last.
    pub fn addresses(&self, now_ns: i64) -> Vec<(Ipv6Addr, Preference)> {
        let mut all: Vec<&Own> = self.own.iter().filter(|own| own.phase == Phase::Ours).collect();
        all.sort_by_key(|own| std::cmp::Reverse((own.preferred_ns > now_ns, own.preferred_ns)));
        let local = Some(&self.local).filter(|own| own.phase == Phase::Ours);
        let told = all.into_iter().chain(local).map(|own| {
            let until_ns = Some(own.valid_ns).filter(|until_ns| *until_ns != i64::MAX);
            (own.address, Preference { is_preferred: own.preferred_ns > now_ns, until_ns })
        });
        told.collect()
    }

    pub fn on_link(&self) -> impl Iterator<Item = OnLink> {
        self.on_link.iter().map(|(prefix, _)| *prefix)
    }

    pub fn router(&self) -> Option<Ipv6Addr> {
        self.routers.first().map(|(router, _)| *router)
    }

    /// Somebody else has an address; whether this host wanted it and does not have it.
    pub fn refuse(&mut self, address: Ipv6Addr) -> bool {
        let is_wanted = |own: &Own| own.address == address && matches!(own.phase, Phase::Asked { .. });
        let Some(own) = self.own_mut().find(|own| is_wanted(own)) else { return false };
        own.phase = Phase::Refused;
        true
    }

    /// Sets for how long a router forwards; zero takes it out. False without room.
    pub fn set_router(&mut self, router: Ipv6Addr, now_ns: i64, lifetime_ns: i64) -> bool {
        if lifetime_ns == 0 {
            self.routers.retain(|(known, _)| *known != router);
            return true;
        }
        set(&mut self.routers, router, now_ns.saturating_add(lifetime_ns), MOST_ROUTERS)
    }

    /// Sets until when a prefix is on the link. False without room.
    pub fn set_on_link(&mut self, prefix: OnLink, until_ns: i64, now_ns: i64) -> bool {
        if until_ns <= now_ns {
            self.on_link.retain(|(known, _)| *known != prefix);
            return true;
        }
        set(&mut self.on_link, prefix, until_ns, MOST_PREFIXES)
    }

    /// Sets until when an address of a prefix is valid and preferred. False without room.
    pub fn set_own(&mut self, address: Ipv6Addr, valid_ns: i64, preferred_ns: i64, now_ns: i64) -> bool {
        if let Some(own) = self.own.iter_mut().find(|own| own.address == address) {
            own.preferred_ns = preferred_ns;
            let least_ns = now_ns.saturating_add(TWO_HOURS_NS).min(own.valid_ns);
            own.valid_ns = valid_ns.max(least_ns);
            return true;
        }
        let is_room = self.own.len() < MOST_ADDRESSES;
        if is_room && valid_ns > now_ns {
            self.own.push(Own::new(address, valid_ns, preferred_ns));
        }
        is_room
    }

    /// Forgets what is over.
    pub fn expire(&mut self, now_ns: i64) {
        self.own.retain(|own| own.valid_ns > now_ns);
        self.on_link.retain(|(_, until_ns)| *until_ns > now_ns);
        self.routers.retain(|(_, until_ns)| *until_ns > now_ns);
    }

    /// When something changes by itself: what is new is asked for at once.
    pub fn due_ns(&self) -> i64 {
        let of_own = |own: &Own| match own.phase {
            Phase::New => i64::MIN,
            Phase::Asked { until_ns } => until_ns.min(own.valid_ns),
            Phase::Ours | Phase::Refused => own.valid_ns,
        };
        let owns = self.own().map(of_own);
        let ends = self.on_link.iter().map(|(_, until_ns)| *until_ns);
        let routers = self.routers.iter().map(|(_, until_ns)| *until_ns);
        owns.chain(ends).chain(routers).min().unwrap_or(i64::MAX)
    }
}

/// Sets the time of an entry, or appends it; false without room.
fn set<T: PartialEq>(list: &mut Vec<(T, i64)>, entry: T, until_ns: i64, most: usize) -> bool {
    if let Some((_, known_ns)) = list.iter_mut().find(|(known, _)| *known == entry) {
        *known_ns = until_ns;
        return true;
    }
    let is_room = list.len() < most;
    if is_room {
        list.push((entry, until_ns));
    }
    is_room
}
