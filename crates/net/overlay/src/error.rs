//! Why changes of the table are refused.

use std::net::IpAddr;

use crate::end::MAX_LOCALS;
use crate::group::{MAX_MEMBERS, MAX_WEIGHT};
use crate::owner::Owner;
use crate::routes::MAX_ROUTED;
use crate::segment::MAX_PEERS;
use crate::table::MAX_FLOOD;
use crate::tunnel::InvalidTunnel;
use crate::underlay::Prefix;

/// Why a change was refused. Nothing is different then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is no such network.
    #[error("there is no virtual network {0}: add it first")]
    NoNetwork(u32),
    /// A network of this number is there.
    #[error("there is a virtual network {0} already")]
    NetworkExists(u32),
    /// An identifier that the network's packets cannot have.
    #[error(
        "the identifier {key:#x} does not fit into the {bits} bits by which packets of network {network} are known"
    )]
    Key {
        /// The network's number.
        network: u32,
        /// What was asked for.
        key: u128,
        /// Bits that there are.
        bits: u8,
    },
    /// There cannot be such a tunnel.
    #[error(transparent)]
    Tunnel(#[from] InvalidTunnel),
    /// A tunnel that does not carry the network's packets.
    #[error("{protocol} does not carry the packets of network {network}")]
    Payload {
        /// The protocol's name.
        protocol: &'static str,
        /// The network's number.
        network: u32,
    },
    /// The flood list is full.
    #[error("network {0} has {MAX_FLOOD} tunnels in its flood list, which is the most")]
    FloodFull(u32),
    /// Another protocol's packets come to this UDP port.
    #[error("packets to UDP port {port} are those of {protocol} already")]
    Port {
        /// The UDP port that was asked for.
        port: u16,
        /// The name of the protocol that has it.
        protocol: &'static str,
    },
    /// Two protocols whose packets cannot be told apart.
    #[error("packets of nvgre and gretap cannot be told apart: {0} can be the end of one of them")]
    Ambiguous(IpAddr),
    /// Another one asked for this entry.
    #[error("the entry {key:#x} of network {network} is {owner}: only its owner changes it")]
    Owned {
        /// The network's number.
        network: u32,
        /// The identifier of the entry in the network.
        key: u128,
        /// Who asked for the entry.
        owner: Owner,
    },
    /// As [`Error::Owned`], of a prefix.
    #[error("the prefix {}/{} of network {network} is {owner}: only its owner changes it", prefix.0, prefix.1)]
    OwnedPrefix {
        /// The network's number.
        network: u32,
        /// The prefix of the entry.
        prefix: Prefix,
        /// Who asked for the prefix.
        owner: Owner,
    },
    /// An identifier where entries are prefixes, a prefix where they are not, or prefixes
    /// where packets have no addresses.
    #[error(
        "network {0} finds its entries in another way: identifiers, or prefixes of IP packets' destinations"
    )]
    Matching(u32),
    /// Too many networks with prefixes.
    #[error("{MAX_ROUTED} networks have prefixes, which is the most")]
    RoutedFull,
    /// There is no such group.
    #[error("there is no group {0}: add it first")]
    NoGroup(u64),
    /// A group without members, with too many, with one twice, or with another weight than there
    /// is.
    #[error("a group has 1 to {MAX_MEMBERS} tunnels, all different, of weights from 1 to {MAX_WEIGHT}")]
    Members,
    /// A tunnel that does not carry the packets of the networks whose entries lead to its group.
    #[error("{protocol} does not carry the packets that go to group {group}")]
    Member {
        /// The protocol's name.
        protocol: &'static str,
        /// The group's number.
        group: u64,
    },
    /// Entries lead to the group.
    #[error("entries lead to group {0}: remove them first")]
    GroupUsed(u64),
    /// A network whose packets are no Ethernet frames has no Ethernet segment.
    #[error("the packets of network {0} are no frames, so that no Ethernet segment is behind its port")]
    NoFrames(u32),
    /// A segment with too many endpoints.
    #[error("an Ethernet segment has at most {MAX_PEERS} other endpoints")]
    Peers,
    /// Another network has this end.
    #[error("packets of this tunnel go to network {0} already")]
    EndExists(u32),
    /// Too many local addresses.
    #[error("{MAX_LOCALS} addresses are local, which is the most")]
    LocalsFull,
    /// The table of entries or routes refused.
    #[error(transparent)]
    Table(#[from] fib::Error),
}

/// What a change gives.
pub type Result<T> = std::result::Result<T, Error>;
