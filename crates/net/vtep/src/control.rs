//! The one who changes the table while lanes use it: applies configurations, resolves next
//! hops by ARP and neighbour discovery, and publishes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Bound;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use control::api::Controlled;
use control::{Change, Key, Owner, Program};
use neighbor::{Address, Limits, Resolution, Resolver, Table};
use overlay::{Entrance, Overlay, Result};
use wire::MacAddress;

use crate::channels::{Channels, Frame};
use crate::config::UnderlayPort;
use crate::desired::Desired;
use crate::held::{Changes, Held};
use crate::offload::Offload;

/// How often a next hop is asked for that does not answer (RFC 1122, section 2.3.2.1).
const ASK_NS: i64 = 1_000_000_000;
/// How often next hops in use are looked at.
const POLL_INTERVAL_NS: i64 = 500_000_000;
/// When a known next hop is asked again, and how long its last answer counts.
const POLL_NS: i64 = 30_000_000_000;
const TIMEOUT_NS: i64 = 120_000_000_000;

/// For how long a next hop stays where it said to be, should another one say to be it: each change
/// makes the headers of the tunnels by it anew. It is asked for by broadcast then.
const LOCK_NS: i64 = 1_000_000_000;

/// Answers of neighbours that are taken in one turn, and requests.
const ANSWERS_A_TURN: usize = 256;
/// Stations that are learned in one turn.
const OBSERVED_A_TURN: usize = 1024;
/// Changes that are kept for a NIC (2 MiB), which is told in each turn.
const CHANGES_KEPT: usize = 1 << 16;

/// The neighbours on one link, of one version of IP.
#[derive(Debug)]
struct Neighbors<A> {
    resolver: Resolver<A>,
    table: Table<A>,
}

/// Who a next hop is, and since when it is that one.
#[derive(Debug, Clone, Copy)]
struct Known {
    mac: MacAddress,
    since_ns: i64,
}

/// The neighbours on one link.
#[derive(Debug)]
struct Link {
    /// This host's Ethernet address.
    mac: MacAddress,
    v4: Option<Neighbors<Ipv4Addr>>,
    v6: Option<Neighbors<Ipv6Addr>>,
}

/// The table's owner.
#[derive(Debug)]
pub struct Control {
    held: Held,
    links: Vec<Link>,
    channels: Channels,
    /// Next hops that are asked for, with the time of the next request.
    asked: BTreeMap<(u16, IpAddr), i64>,
    /// The one that was asked for last.
    last_asked: Option<(u16, IpAddr)>,
    /// Next hops that answered. Nobody has a claim for one of these.
    known: BTreeMap<(u16, IpAddr), Known>,
    /// Those of them that were asked since they answered last.
    polled: BTreeSet<(u16, IpAddr)>,
    /// Those that somebody else said to be too early, and when they are asked for.
    disputed: BTreeMap<(u16, IpAddr), i64>,
    poll_ns: i64,
    /// The NIC that has a table like this one, and what it said when it failed.
    nic: Option<Offload>,
    nic_failure: Option<port::Error>,
}

impl Control {
    /// A table with this in it since `now_ns`, published.
    ///
    /// # Errors
    /// What the table refuses.
    pub fn new(
        ports: &[UnderlayPort],
        macs: &[MacAddress],
        desired: Desired,
        channels: Channels,
        now_ns: i64,
    ) -> Result<Control> {
        let links = ports.iter().zip(macs).map(|(port, mac)| Link::new(port, port.mac.unwrap_or(*mac)));
        let followed = ports.iter().enumerate().filter(|(_, port)| port.link.is_some());
        let mut control = Control {
            held: Held::new(followed.map(|(number, _)| number as u16).collect()),
            links: links.collect(),
            channels,
            asked: BTreeMap::new(),
            last_asked: None,
            known: BTreeMap::new(),
            polled: BTreeSet::new(),
            disputed: BTreeMap::new(),
            poll_ns: i64::MIN,
            nic: None,
            nic_failure: None,
        };
        for (number, port) in ports.iter().enumerate() {
            let Some(link) = control.links.get(number) else { continue };
            let entrance = Entrance { mac: link.mac, vlan: port.vlan };
            control.held.table.set_entrance(number as u16, entrance);
        }
        control.apply(desired, now_ns)?;
        Ok(control)
    }

    /// The table, to make lanes of it and to ask what it holds.
    pub fn table(&mut self) -> &mut Overlay {
        &mut self.held.table
    }

    /// The table, and what was applied to it last.
    pub fn state(&self) -> (&Overlay, &Desired) {
        (&self.held.table, self.held.desired())
    }

    /// Next hops that answered, and who they are.
    pub fn neighbors(&self) -> impl Iterator<Item = (u16, IpAddr, MacAddress)> {
        self.known.iter().map(|((port, address), known)| (*port, *address, known.mac))
    }

    /// What all owners want of the table.
    pub fn program(&self) -> &Program {
        self.held.program()
    }

    /// Who wants what is at a place, and for how many seconds.
    pub fn told(&self, key: &Key, now_ns: i64) -> Option<(Owner, f64)> {
        self.held.told(key, now_ns)
    }

    /// What controllers read and change.
    pub fn controlled(&mut self, now_ns: i64, status: serde_json::Value) -> Controlled<'_> {
        let (program, overlay) = self.held.parts();
        Controlled { program, overlay, now_ns, status }
    }

    /// Replaces all that a configuration says, in one publication. What resolution has found
    /// stays.
    ///
    /// # Errors
    /// What a table refuses; nothing is different then.
    pub fn apply(&mut self, desired: Desired, now_ns: i64) -> Result<Changes> {
        let changes = self.held.apply(desired, now_ns)?;
        self.forget_named();
        self.held.table.publish();
        self.tell_nic(now_ns);
        self.poll_ns = i64::MIN;
        Ok(changes)
    }

    /// Keeps the table of a NIC in step with this one from now on.
    pub fn set_nic(&mut self, nic: Offload) {
        self.held.table.keep_changes(CHANGES_KEPT);
        self.nic = Some(nic);
        self.tell_nic(i64::MIN);
    }

    /// The table of the NIC that has one like this, as long as it does not fail.
    pub fn nic(&self) -> Option<&Offload> {
        self.nic.as_ref()
    }

    /// Why the NIC holds nothing any more, once: software sends all from then on.
    pub fn nic_failure(&mut self) -> Option<port::Error> {
        self.nic_failure.take()
    }

    fn tell_nic(&mut self, now_ns: i64) {
        let Some(nic) = &mut self.nic else { return };
        if let Err(error) = nic.sync(&self.held.table, now_ns) {
            self.nic_failure = Some(error);
            self.nic = None;
        }
    }

    /// Notes whether the link of a port of the underlay is up. What goes by it is dropped by name
    /// at once, or goes by another member of its group, and all else goes on. Of a port that is a
    /// device of the kernel's the kernel tells.
    pub fn set_link(&mut self, port: u16, is_up: bool, now_ns: i64) {
        if self.held.set_link(port, is_up, now_ns) {
            self.held.table.publish();
        }
    }

    /// Changes what an owner wants, and the table by what is different then; how many places
    /// are. The caller publishes.
    pub fn change(&mut self, owner: Owner, changes: Vec<Change>, now_ns: i64) -> usize {
        let has_neighbors = changes.iter().any(|change| matches!(change.key, Key::Neighbor(..)));
        let different = self.held.change(owner, changes, now_ns);
        if has_neighbors {
            self.forget_named();
        }
        different
    }

    /// An address that somebody names is not asked for.
    fn forget_named(&mut self) {
        let program = self.held.program();
        let is_named =
            |(port, address): &(u16, IpAddr)| program.value(&Key::Neighbor(*port, *address)).is_some();
        self.known.retain(|next_hop, _| !is_named(next_hop));
        self.polled.retain(|next_hop| !is_named(next_hop));
        self.disputed.retain(|next_hop, _| !is_named(next_hop));
        self.asked.retain(|next_hop, _| !is_named(next_hop));
    }

    /// Waits for an answer of a neighbour's, for so long at most, and does what is due. True
    /// as long as there are lanes.
    pub fn turn(&mut self, wait: Duration, now_ns: impl Fn() -> i64) -> bool {
        let mut is_new = false;
        let there = match self.channels.received.recv_timeout(wait) {
            Ok(frame) => {
                is_new |= self.learn_answer(&frame, now_ns());
                // Strangers may answer faster than this is done: the rest has its turn later.
                for _ in 1..ANSWERS_A_TURN {
                    let Ok(frame) = self.channels.received.try_recv() else { break };
                    is_new |= self.learn_answer(&frame, now_ns());
                }
                true
            }
            Err(RecvTimeoutError::Timeout) => true,
            Err(RecvTimeoutError::Disconnected) => false,
        };
        for _ in 0..ANSWERS_A_TURN {
            let Ok(frame) = self.channels.asking.try_recv() else { break };
            is_new |= self.learn_request(&frame, now_ns());
        }
        if is_new {
            self.held.table.publish();
        }
        self.hear(now_ns());
        self.ask_next_hops(now_ns());
        self.tell_nic(now_ns());
        there
    }

    /// Makes entries of the stations that lanes heard of, and removes those not heard of for long.
    fn hear(&mut self, now_ns: i64) {
        let (table, now) = (&mut self.held.table, Duration::from_nanos(now_ns.unsigned_abs()));
        let observed = self.channels.observed.try_iter().take(OBSERVED_A_TURN);
        let is_new = observed.fold(false, |is_new, observed| table.learn(&observed, now) | is_new);
        if table.age(now) | is_new {
            table.publish();
        }
    }

    /// Learns who a next hop is from its answer; whether the table is another one.
    fn learn_answer(&mut self, frame: &Frame, now_ns: i64) -> bool {
        told(frame.bytes(), Ipv4Addr::answer, Ipv6Addr::answer)
            .is_some_and(|(address, mac)| self.learn((frame.port, address), mac, now_ns))
    }

    /// Learns who a next hop is from what it asks itself (RFC 826; RFC 4861, section 7.2.3); whether the
    /// table is another one.
    fn learn_request(&mut self, frame: &Frame, now_ns: i64) -> bool {
        let Some(own) = self.links.get(usize::from(frame.port)).map(|link| link.mac) else { return false };
        let told =
            told(frame.bytes(), |frame| Ipv4Addr::asker(frame, own), |frame| Ipv6Addr::asker(frame, own));
        let Some((address, mac)) = told else { return false };
        let key = (frame.port, address);
        // That it asks does not say that what is sent to it arrives.
        self.known.get(&key).is_none_or(|known| known.mac != mac) && self.learn(key, mac, now_ns)
    }

    /// Learns who a next hop is, of one that was asked for; whether the table is another one.
    fn learn(&mut self, key: (u16, IpAddr), mac: MacAddress, now_ns: i64) -> bool {
        let Some(link) = self.links.get_mut(usize::from(key.0)) else { return false };
        let known = self.known.get(&key).copied();
        if known.is_none() && !self.asked.contains_key(&key) {
            return false; // nobody asked: a stranger fills nothing
        }
        let is_same = known.is_some_and(|known| known.mac == mac);
        let locked_until = known.filter(|_| !is_same).map(|known| known.since_ns.saturating_add(LOCK_NS));
        if let Some(end) = locked_until.filter(|end| now_ns < *end) {
            self.disputed.insert(key, end);
            return false;
        }
        link.learn(key.1, mac, now_ns);
        self.asked.remove(&key);
        self.polled.remove(&key);
        if is_same {
            return false;
        }
        self.known.insert(key, Known { mac, since_ns: now_ns });
        self.held.table.set_neighbor(key.0, key.1, Some(mac));
        true
    }

    /// Asks for what is not known, and again for what has been known for long.
    fn ask_next_hops(&mut self, now_ns: i64) {
        if now_ns < self.poll_ns.saturating_add(POLL_INTERVAL_NS) {
            return;
        }
        self.poll_ns = now_ns;
        let unresolved: BTreeSet<(u16, IpAddr)> = self.held.table.unresolved().collect();
        self.asked.retain(|key, _| unresolved.contains(key));
        for key in unresolved {
            self.asked.entry(key).or_insert(now_ns);
        }
        // Those behind the one that was asked for last come first, so that many that are
        // silent keep none from being asked for.
        let is_due = |(key, due): (&(u16, IpAddr), &i64)| (*due <= now_ns).then_some(*key);
        let behind = self.last_asked.map_or(Bound::Unbounded, Bound::Excluded);
        let mut due: Vec<_> = self.asked.range((behind, Bound::Unbounded)).filter_map(is_due).collect();
        if let Some(last) = self.last_asked {
            due.extend(self.asked.range(..=last).filter_map(is_due));
        }
        for key in due {
            if !self.ask(key, None) {
                break; // there is no room for requests now
            }
            self.asked.insert(key, now_ns + ASK_NS);
            self.last_asked = Some(key);
        }
        let is_due = |(key, due): (&(u16, IpAddr), &i64)| (*due <= now_ns).then_some(*key);
        let disputed: Vec<_> = self.disputed.iter().filter_map(is_due).collect();
        for key in disputed {
            if !self.ask(key, None) {
                break;
            }
            self.disputed.remove(&key);
        }
        self.refresh(now_ns);
    }

    fn refresh(&mut self, now_ns: i64) {
        let mut gone = Vec::new();
        let mut again = Vec::new();
        for key in self.known.keys() {
            let Some(link) = self.links.get_mut(usize::from(key.0)) else { continue };
            match link.lookup(key.1, now_ns) {
                Resolution::Known(_) => {}
                // One that nothing goes by any more is not asked again.
                Resolution::Refresh(_) if !self.held.table.has_next_hop(*key) => gone.push(*key),
                Resolution::Refresh(mac) => again.push((*key, mac)),
                Resolution::Unspecified | Resolution::Unknown => gone.push(*key),
            }
        }
        for (key, mac) in again {
            // Whoever has the address now need not be the one who had it.
            let is_first = self.polled.insert(key);
            self.ask(key, Some(mac).filter(|_| is_first));
        }
        for key @ (port, address) in &gone {
            self.known.remove(key);
            self.polled.remove(key);
            self.disputed.remove(key);
            self.held.table.set_neighbor(*port, *address, None);
        }
        if !gone.is_empty() {
            self.held.table.publish();
        }
    }

    /// Has a request sent, if one can be made; false when there is no room for it now.
    fn ask(&mut self, (port, address): (u16, IpAddr), known: Option<MacAddress>) -> bool {
        let Some(link) = self.links.get(usize::from(port)) else { return true };
        let frame = link.request(address, known).and_then(|bytes| Frame::new(port, &bytes));
        frame.is_none_or(|frame| self.channels.requests.try_send(frame).is_ok())
    }
}

impl<A: Address> Neighbors<A> {
    fn new(mac: MacAddress, address: A) -> Neighbors<A> {
        let resolver = Resolver { poll_ns: POLL_NS, ..Resolver::new(mac, address) };
        Neighbors { resolver, table: Table::new(Limits { timeout_ns: TIMEOUT_NS, ..Limits::default() }) }
    }

    fn learn(&mut self, address: A, mac: MacAddress, now_ns: i64) {
        // No packet waits in this table.
        let _ = self.table.insert(address, Some(mac), now_ns, &mut Vec::new());
    }

    fn lookup(&mut self, address: A, now_ns: i64) -> Resolution {
        self.resolver.lookup(&mut self.table, address, now_ns)
    }
}

impl Link {
    fn new(port: &UnderlayPort, mac: MacAddress) -> Link {
        let addresses = || port.addresses.iter().map(|(address, _)| *address);
        let v4 = addresses().find_map(|address| match address {
            IpAddr::V4(address) => Some(Neighbors::new(mac, address)),
            IpAddr::V6(_) => None,
        });
        let v6 = addresses().find_map(|address| match address {
            IpAddr::V6(address) => Some(Neighbors::new(mac, address)),
            IpAddr::V4(_) => None,
        });
        Link { mac, v4, v6 }
    }

    fn learn(&mut self, address: IpAddr, mac: MacAddress, now_ns: i64) {
        match (address, &mut self.v4, &mut self.v6) {
            (IpAddr::V4(address), Some(v4), _) => v4.learn(address, mac, now_ns),
            (IpAddr::V6(address), _, Some(v6)) => v6.learn(address, mac, now_ns),
            _ => {}
        }
    }

    fn lookup(&mut self, address: IpAddr, now_ns: i64) -> Resolution {
        let found = match address {
            IpAddr::V4(address) => self.v4.as_mut().map(|v4| v4.lookup(address, now_ns)),
            IpAddr::V6(address) => self.v6.as_mut().map(|v6| v6.lookup(address, now_ns)),
        };
        found.unwrap_or(Resolution::Unknown)
    }

    /// A frame that asks for an address.
    fn request(&self, address: IpAddr, known: Option<MacAddress>) -> Option<Vec<u8>> {
        match address {
            IpAddr::V4(address) => self.v4.as_ref().map(|v4| v4.resolver.request(address, known).to_vec()),
            IpAddr::V6(address) => self.v6.as_ref().map(|v6| v6.resolver.request(address, known).to_vec()),
        }
    }
}

/// Who says in a frame of either version of IP that it has which address.
fn told(
    frame: &[u8],
    v4: impl Fn(&[u8]) -> Option<(Ipv4Addr, MacAddress)>,
    v6: impl Fn(&[u8]) -> Option<(Ipv6Addr, MacAddress)>,
) -> Option<(IpAddr, MacAddress)> {
    let of_v6 = || v6(frame).map(|(address, mac)| (address.into(), mac));
    v4(frame).map(|(address, mac)| (address.into(), mac)).or_else(of_v6)
}
