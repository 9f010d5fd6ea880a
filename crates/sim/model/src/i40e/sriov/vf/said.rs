//! What a message of a virtual function's driver says, and whether that is of what GET_VF_RESOURCES told
//! the driver that it has (document 331954, chapter 6; what queues can have, document 332464, chapter 8).

use regs::virtchnl::message::{
    Addresses, Classes, Promiscuous, QueuePair, Queues, Resources, Rss, Select, Vector, Vectors, Version,
    Vlans,
};
use regs::virtchnl::{VERSION, capability, op, promiscuous};
use wire::vlan;

use super::super::super::host::Counters;
use super::super::super::lint::{Location, Rule};
use super::super::super::ring::check_shape;
use super::super::super::rx::check_sizes;

/// A ring begins at a multiple of this.
const RING_UNIT: u64 = 128;
/// The highest index of a vector's times: it means none of them.
const MOST_ITR: u16 = 3;
/// Packet classes from 0 to this one are reserved.
const RESERVED_CLASSES: u32 = 28;

/// What a message says.
pub(super) enum Said {
    Version(Version),
    Queues(Queues),
    Vectors(Vectors),
    Select(Select),
    Addresses(Addresses),
    Vlans(Vlans),
    Promiscuous(Promiscuous),
    Rss(Rss),
    Classes(Classes),
    /// Nothing that could be looked at, or of a kind that is not known here.
    Other,
}

impl Said {
    /// What a message says; `None` for a length that does not fit its kind.
    pub fn of(kind: u32, bytes: &[u8]) -> Option<Said> {
        Some(match kind {
            op::VERSION => Said::Version(Version::decode(bytes)?),
            // One of version 1.0 says nothing of what it can.
            op::GET_VF_RESOURCES => [0, 4].contains(&bytes.len()).then_some(Said::Other)?,
            op::CONFIG_VSI_QUEUES => Said::Queues(Queues::decode(bytes)?),
            op::CONFIG_IRQ_MAP => Said::Vectors(Vectors::decode(bytes)?),
            op::ENABLE_QUEUES | op::DISABLE_QUEUES | op::GET_STATS => Said::Select(Select::decode(bytes)?),
            op::ADD_ETH_ADDR | op::DEL_ETH_ADDR => Said::Addresses(Addresses::decode(bytes)?),
            op::ADD_VLAN | op::DEL_VLAN => Said::Vlans(Vlans::decode(bytes)?),
            op::CONFIG_PROMISCUOUS_MODE => Said::Promiscuous(Promiscuous::decode(bytes)?),
            op::CONFIG_RSS_KEY | op::CONFIG_RSS_LUT => Said::Rss(Rss::decode(bytes)?),
            op::SET_RSS_HENA => Said::Classes(Classes::decode(bytes)?),
            _ => Said::Other,
        })
    }

    /// Reports what makes no sense in a message at `place`, for a driver that was told what it `has`.
    pub fn check(&self, place: Location, has: Option<&Resources>, counters: &mut Counters) {
        if let Said::Version(Version { major, .. }) = self
            && *major != VERSION.0
        {
            counters.report(Rule::MessageArgumentInvalid, place, u64::from(*major));
        }
        let (Some(has), Location::Message(kind)) = (has, place) else { return };
        let needed = needed(kind);
        if needed & !has.capabilities != 0 {
            counters.report(Rule::MessageNotOffered, place, needed.into());
        }
        if let Some(wrong) = self.foreign_vsi(has).or_else(|| self.wrong_argument(kind, has)) {
            counters.report(Rule::MessageArgumentInvalid, place, wrong);
        }
        match self {
            Said::Queues(queues) => queues.pairs.iter().for_each(|pair| check_pair(pair, counters)),
            Said::Rss(table) if kind == op::CONFIG_RSS_LUT => {
                if let Some(queue) = table.bytes.iter().find(|queue| u16::from(**queue) >= has.queues) {
                    counters.report(Rule::RssQueueInvalid, place, u64::from(*queue));
                }
            }
            _ => {}
        }
    }

    /// The VSI that a message names, if it is another one than the driver's.
    fn foreign_vsi(&self, has: &Resources) -> Option<u64> {
        let named = match self {
            Said::Queues(of) => of.vsi,
            Said::Vectors(of) => of.vsi,
            Said::Select(of) => of.vsi,
            Said::Addresses(of) => of.vsi,
            Said::Vlans(of) => of.vsi,
            Said::Promiscuous(of) => of.vsi,
            Said::Rss(of) => of.vsi,
            Said::Version(_) | Said::Classes(_) | Said::Other => return None,
        };
        (named != has.vsi).then_some(named.into())
    }

    /// What else in a message is not there, or beyond what it can be.
    fn wrong_argument(&self, kind: u32, has: &Resources) -> Option<u64> {
        let beyond = u32::MAX.checked_shl(has.queues.into()).unwrap_or(0);
        match self {
            Said::Queues(of) => {
                let queue = of.pairs.iter().map(|pair| pair.queue).find(|queue| *queue >= has.queues);
                queue.map(u64::from)
            }
            Said::Vectors(of) => {
                let is_wrong = |one: &&Vector| {
                    let queues = u32::from(one.rx | one.tx);
                    one.vector >= has.vectors || queues & beyond != 0 || one.rx_itr.max(one.tx_itr) > MOST_ITR
                };
                of.vectors.iter().find(is_wrong).map(|one| one.vector.into())
            }
            Said::Select(of) if kind != op::GET_STATS => {
                let queues = of.rx | of.tx;
                (queues == 0 || queues & beyond != 0).then_some(queues.into())
            }
            Said::Addresses(of) => {
                let none = of.addresses.iter().find(|mac| [[0; 6], [0xFF; 6]].contains(mac));
                none.map(|mac| mac[0].into())
            }
            Said::Vlans(of) => of.vlans.iter().find(|vlan| **vlan > vlan::ID).map(|vlan| (*vlan).into()),
            Said::Promiscuous(of) => {
                let unknown = of.modes & !(promiscuous::UNICAST | promiscuous::MULTICAST);
                (unknown != 0).then_some(unknown.into())
            }
            Said::Rss(of) => {
                let told = if kind == op::CONFIG_RSS_KEY { has.key_size } else { has.lut_size };
                (of.bytes.len() as u64 != u64::from(told)).then_some(of.bytes.len() as u64)
            }
            Said::Classes(Classes(classes)) => {
                let reserved = classes & ((2 << RESERVED_CLASSES) - 1);
                (reserved != 0).then_some(reserved)
            }
            Said::Select(_) | Said::Version(_) | Said::Other => None,
        }
    }
}

/// What must have been offered for a kind of message.
fn needed(kind: u32) -> u32 {
    match kind {
        op::CONFIG_RSS_KEY | op::CONFIG_RSS_LUT | op::GET_RSS_HENA_CAPS | op::SET_RSS_HENA => {
            capability::RSS_PF
        }
        op::ADD_VLAN | op::DEL_VLAN | op::ENABLE_VLAN_STRIPPING | op::DISABLE_VLAN_STRIPPING => {
            capability::VLAN
        }
        _ => 0,
    }
}

/// Reports what no queue can have.
fn check_pair(pair: &QueuePair, counters: &mut Counters) {
    let places = [Location::Rx(pair.queue), Location::Tx(pair.queue)];
    let rings = [(pair.rx_ring, u64::from(pair.rx_len)), (pair.tx_ring, u64::from(pair.tx_len))];
    for (place, (iova, size)) in places.into_iter().zip(rings).filter(|(_, (_, size))| *size > 0) {
        check_shape(place, iova, size, counters);
        if !iova.is_multiple_of(RING_UNIT) {
            counters.report(Rule::RingBaseUnaligned, place, iova);
        }
    }
    if pair.rx_len > 0 {
        check_sizes(pair.queue, pair.rx_buffer as usize, pair.rx_max as usize, counters);
    }
}
