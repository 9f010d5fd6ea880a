//! What becomes of a packet to a next hop: its Ethernet address is known, or must be asked
//! for (RFC 1122, section 2.3.2; RFC 4861, section 7.2).

use std::fmt::Debug;
use std::hash::Hash;

use wire::MacAddress;
use wire::ethernet::{self, EtherType};

use crate::table::Table;

/// An address that hosts have on a link, IPv4 or IPv6, and how one asks for it.
pub trait Address: Copy + Eq + Hash + Debug + Send + 'static {
    /// What frames with packets of this family say that they carry.
    const ETHERTYPE: EtherType;

    /// A frame that asks for an address.
    type Request: AsRef<[u8]>;

    /// Whether this is the address that stands for none.
    fn is_unspecified(self) -> bool;

    /// The Ethernet address of a group, which nobody needs to ask for; `None` for the
    /// address of a host.
    fn group_mac(self) -> Option<MacAddress>;

    /// A request for `target` from a host that has this address and `mac`: to all, or to
    /// whoever had the address.
    fn request(self, mac: MacAddress, target: Self, known: Option<MacAddress>) -> Self::Request;

    /// Who has which address, if a frame is a valid answer that says so.
    fn answer(frame: &[u8]) -> Option<(Self, MacAddress)>;

    /// Who asks for some address, and has which one itself, if a frame is a valid request that says
    /// so and comes to the host that has `mac` from another one.
    fn asker(frame: &[u8], mac: MacAddress) -> Option<(Self, MacAddress)>;
}

/// One host's side of address resolution: who asks, and how often. What it knows is in a
/// [`Table`], which several may share.
#[derive(Debug, Clone, Copy)]
pub struct Resolver<A> {
    /// The host's Ethernet address.
    pub mac: MacAddress,
    /// The host's address.
    pub address: A,
    /// An address of all hosts on the link, beside those that every link has: that of a
    /// subnet's broadcasts.
    pub broadcast: Option<A>,
    /// When an address in use is asked for again, counted from the last answer; zero for
    /// never.
    pub poll_ns: i64,
    /// Whether all are asked even then, in the place of whoever had the address.
    pub polls_all: bool,
}

/// What is known of a packet's next hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolution {
    /// Its Ethernet address, or that of its group.
    Known(MacAddress),
    /// Its Ethernet address, and that it is time to ask again: [`Resolver::request`] with
    /// this address.
    Refresh(MacAddress),
    /// There is no next hop: the address is the unspecified one.
    Unspecified,
    /// Nothing: the packet may wait ([`Table::hold`]).
    Unknown,
}

impl<A: Address> Resolver<A> {
    /// A host that asks again for addresses in use after a minute.
    pub fn new(mac: MacAddress, address: A) -> Resolver<A> {
        Resolver { mac, address, broadcast: None, poll_ns: 60_000_000_000, polls_all: false }
    }

    /// What is known of a next hop. That it is to be asked for again is noted.
    #[inline]
    pub fn lookup(&self, table: &mut Table<A>, next_hop: A, now_ns: i64) -> Resolution {
        match table.lookup(next_hop, now_ns, self.poll_ns) {
            Some((mac, false)) => Resolution::Known(mac),
            Some((mac, true)) => Resolution::Refresh(mac),
            None if self.broadcast == Some(next_hop) => Resolution::Known(MacAddress::BROADCAST),
            None => match next_hop.group_mac() {
                Some(mac) => Resolution::Known(mac),
                None if next_hop.is_unspecified() => Resolution::Unspecified,
                None => Resolution::Unknown,
            },
        }
    }

    /// A request for an address, to whoever had it if that is known.
    pub fn request(&self, target: A, known: Option<MacAddress>) -> A::Request {
        self.address.request(self.mac, target, known.filter(|_| !self.polls_all))
    }

    /// The Ethernet header of packets from this host.
    #[inline(always)]
    pub fn header(&self, dst: MacAddress) -> [u8; ethernet::HEADER_LEN] {
        ethernet::Header::between(dst, self.mac, A::ETHERTYPE).into_inner()
    }
}
