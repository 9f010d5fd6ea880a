//! The addresses of a host that is told them while it runs: by a server of DHCP (RFC 2131) and by
//! router advertisements (RFC 4862). All cores of a host share one [`Configuration`]; a message may
//! come to any of them, and whichever has its turn first does what is due.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use neighbor::Message;
use neighbor::autoconf::{self, OnLink};
use neighbor::dhcp;
use port::Counter;
use runtime::Instant;

use crate::host::Addresses;

/// Who told a host that it has an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A server of DHCP.
    Dhcp(Ipv4Addr),
    /// A router's advertisement, or nobody for a link-local address.
    Advertised,
}

/// An address that a host was told to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assigned {
    /// The address that the host has.
    pub address: IpAddr,
    /// The bits of its network.
    pub bits: u8,
    /// Who told of it: a server of DHCP or a router.
    pub origin: Origin,
    /// Who forwards to other networks.
    pub gateway: Option<IpAddr>,
    /// When the host has it no more, in nanoseconds; `None` when that is not foreseen.
    pub until_ns: Option<i64>,
}

/// What a host is told its addresses by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sources {
    /// DHCP, for IPv4.
    pub dhcp: bool,
    /// Router advertisements, for IPv6.
    pub advertisements: bool,
}

/// All addresses of a host, and what belongs to them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Network {
    /// The address that the host sends from by itself, of each version, and the gateways.
    pub addresses: Addresses,
    /// All addresses that packets to this host are for.
    pub own: Vec<IpAddr>,
    /// Prefixes of IPv6 whose addresses are on the link.
    pub on_link: Vec<OnLink>,
    /// The longest IP packet of the link, if somebody has said so.
    pub mtu: Option<u16>,
    /// All addresses that it was told to have, by whom and for how long.
    pub assigned: Vec<Assigned>,
}

/// The addresses of a host that is told them.
#[derive(Debug, Clone)]
pub struct Configuration(Arc<SharedConfiguration>);

#[derive(Debug)]
struct SharedConfiguration {
    /// Another number after each change of what the host has. `Release` and `Acquire` have a
    /// core that sees it find the change behind the lock.
    version: AtomicU64,
    /// When there is something to do, and whether answers are waited for. Relaxed: a core that sees
    /// the value of a moment before looks again in its next turn.
    due_ns: AtomicI64,
    is_probing: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    dhcp: Option<dhcp::Client>,
    autoconf: Option<autoconf::Client>,
    /// What was given on the command line.
    fixed: Addresses,
    network: Network,
}

impl Configuration {
    /// A host that has some addresses and is told others. Nobody may know the key, from which
    /// numbers are drawn.
    pub fn new(fixed: Addresses, sources: Sources, key: [u64; 2]) -> Configuration {
        let now_ns = Instant::now().as_ns();
        let dhcp = sources.dhcp.then(|| dhcp::Client::new(fixed.mac, key, now_ns));
        let autoconf = sources.advertisements.then(|| autoconf::Client::new(fixed.mac, now_ns));
        let network = Network::new(&fixed, None, None, now_ns);
        Configuration(Arc::new(SharedConfiguration {
            version: AtomicU64::new(1),
            due_ns: AtomicI64::new(now_ns),
            is_probing: AtomicBool::new(false),
            state: Mutex::new(State { dhcp, autoconf, fixed, network }),
        }))
    }

    /// The addresses that the host was told to have.
    pub fn assigned(&self) -> Vec<Assigned> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner).network.assigned.clone()
    }

    /// What the host has, if that is another version than `seen`, which is set.
    pub(crate) fn changed(&self, seen: &mut u64) -> Option<Network> {
        let version = self.0.version.load(Ordering::Acquire);
        if *seen == version {
            return None;
        }
        *seen = version;
        Some(self.0.state.lock().unwrap_or_else(PoisonError::into_inner).network.clone())
    }

    /// When there is something to do.
    pub(crate) fn due_ns(&self) -> i64 {
        self.0.due_ns.load(Ordering::Relaxed)
    }

    /// Whether answers of neighbours are of interest.
    pub(crate) fn is_probing(&self) -> bool {
        self.0.is_probing.load(Ordering::Relaxed)
    }

    /// Whether datagrams of DHCP's servers are of interest, and router advertisements.
    pub(crate) fn sources(&self) -> Sources {
        let state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        Sources { dhcp: state.dhcp.is_some(), advertisements: state.autoconf.is_some() }
    }

    /// Does what is due; what is to be sent goes to `out`.
    pub(crate) fn turn(&self, now_ns: i64, out: &mut Vec<Message>) {
        self.with(now_ns, |state| {
            state.dhcp.iter_mut().for_each(|client| client.turn(now_ns, out));
            state.autoconf.iter_mut().for_each(|client| client.turn(now_ns, out));
        });
    }

    /// Takes a message of a server of DHCP.
    pub(crate) fn receive(&self, message: &[u8], now_ns: i64) {
        self.with(now_ns, |state| {
            state.dhcp.iter_mut().for_each(|client| _ = client.receive(message, now_ns))
        });
    }

    /// Looks at a frame of ARP or neighbour discovery. True for a valid router advertisement.
    pub(crate) fn hear(&self, frame: &[u8], now_ns: i64) -> bool {
        self.with(now_ns, |state| {
            state.dhcp.iter_mut().for_each(|client| client.hear(frame, now_ns));
            state.autoconf.as_mut().is_some_and(|client| client.hear(frame, now_ns))
        })
    }

    /// What was counted: messages that were not taken, and others.
    pub(crate) fn counters(&self) -> (u64, Vec<Counter>) {
        let state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut lost, mut counters) = (0, Vec::new());
        if let Some(counted) = state.dhcp.as_ref().map(dhcp::Client::counters) {
            lost += counted.refused;
            counters.extend([
                Counter::of("dhcp_leases", counted.leases, "leases of addresses began"),
                Counter::of("dhcp_renewals", counted.renewals, "leases were given more time"),
                Counter::of("dhcp_lost", counted.lost, "leases ended"),
                Counter::of("dhcp_conflicts", counted.conflicts, "leased addresses were somebody else's"),
            ]);
        }
        if let Some(counted) = state.autoconf.as_ref().map(autoconf::Client::counters) {
            lost += counted.limited;
            counters.extend([
                Counter::of("nd_advertisements", counted.advertisements, "router advertisements were taken"),
                Counter::of("nd_refused", counted.refused, "routers, prefixes and MTUs were not taken"),
                Counter::of("nd_conflicts", counted.conflicts, "addresses of prefixes were somebody else's"),
            ]);
        }
        (lost, counters)
    }

    /// Changes something, and tells all cores what follows from it.
    fn with<T>(&self, now_ns: i64, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut state);
        let State { dhcp, autoconf, fixed, network } = &mut *state;
        let due = [dhcp.as_ref().map(dhcp::Client::due_ns), autoconf.as_ref().map(autoconf::Client::due_ns)];
        self.0.due_ns.store(due.into_iter().flatten().min().unwrap_or(i64::MAX), Ordering::Relaxed);
        let is_probing = dhcp.as_ref().is_some_and(dhcp::Client::is_probing)
            || autoconf.as_ref().is_some_and(autoconf::Client::is_probing);
        self.0.is_probing.store(is_probing, Ordering::Relaxed);
        let now = Network::new(fixed, dhcp.as_ref(), autoconf.as_ref(), now_ns);
        if now != *network {
            *network = now;
            self.0.version.fetch_add(1, Ordering::Release);
        }
        result
    }
}

impl Network {
    fn new(
        fixed: &Addresses,
        dhcp: Option<&dhcp::Client>,
        autoconf: Option<&autoconf::Client>,
        now_ns: i64,
    ) -> Network {
        let addresses = fixed.clone();
        let own = [addresses.v4.map(|(own, _)| own.into()), addresses.v6.map(|(own, _)| own.into())];
        let own = own.into_iter().flatten().collect();
        let mut network = Network { addresses, own, on_link: vec![], mtu: None, assigned: vec![] };
        if let Some(lease) = dhcp.and_then(dhcp::Client::lease) {
            network.add_lease(lease);
        }
        if let Some(client) = autoconf {
            network.add_advertised(client, now_ns);
        }
        network
    }

    fn add_lease(&mut self, lease: &dhcp::Lease) {
        self.addresses.v4 = Some((lease.address, lease.bits));
        self.addresses.gateways.0 = lease.router;
        self.own.push(lease.address.into());
        self.mtu = lease.mtu;
        self.assigned.push(Assigned {
            address: lease.address.into(),
            bits: lease.bits,
            origin: Origin::Dhcp(lease.server),
            gateway: lease.router.map(IpAddr::from),
            until_ns: lease.until_ns,
        });
    }

    fn add_advertised(&mut self, client: &autoconf::Client, now_ns: i64) {
        const BITS: u8 = 64;
        let addresses = client.addresses(now_ns);
        // Which neighbours are on the link is told apart from the addresses (RFC 5942, section 3).
        self.addresses.v6 = addresses.first().map(|(own, _)| (*own, 128));
        self.addresses.gateways.1 = client.router();
        self.on_link = client.on_link();
        self.mtu = self.mtu.into_iter().chain(client.mtu()).min();
        for (address, preference) in addresses {
            self.own.push(address.into());
            self.assigned.push(Assigned {
                address: address.into(),
                bits: BITS,
                origin: Origin::Advertised,
                gateway: client.router().filter(|_| !address.is_unicast_link_local()).map(IpAddr::from),
                until_ns: preference.until_ns,
            });
        }
    }
}
