//! Filters for flows: the device's Flow Director (datasheet chapter 7). A filter is programmed
//! by a descriptor on a transmit queue of a VSI of its own and a packet behind it that is not
//! sent: an answer to the packets that the filter shall match. The device tells by its count of
//! filters that it did as it was told; it tells of failures on receive queue 0, too, where they
//! are passed over.
//!
//! All is made with the first filter, for it takes a queue, a VSI and a bridge.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

use bus::{Bar, order};
use memory::Region;
use port::{Flow, FlowTarget, Transport};
use regs::i40e::admin::{Descriptor, opcode, veb, vsi};
use regs::i40e::descriptor::{FILTER_PACKET, filter, tx};
use regs::i40e::*;
use wire::ethernet::EtherType;
use wire::ip::{Addresses, Ports, Protocol, SCTP_HEADER_LEN};
use wire::{ethernet, ipv4, ipv6, tcp, udp};

use super::I40eFault;
use super::device::{Chip, Vsi};
use super::firmware::Firmware;
use super::init::UNIT;
use crate::intel::Queues;
use crate::wait::{Late, poll};
use crate::words::Words;
use crate::{Error, Result};

/// Descriptors of the queue: two for each filter, one filter at a time.
const RING: u32 = 64;
/// Where the packet lies behind the ring, and bytes of both.
const PACKET_AT: usize = 4096;
const BYTES: usize = 2 * 4096;
/// How long the device may take to program a filter.
const LIMIT: Duration = Duration::from_millis(250);
/// How often is looked whether it has.
const PAUSE: Duration = Duration::from_micros(10);

/// Hops of a packet that nobody sends.
const HOP_LIMIT: u8 = 64;

/// The words of the vector that are compared beside addresses: ports, in classes that have any. An X722
/// takes its further classes of UDP and TCP for these here.
const PORTS: u64 = inset::SRC_PORT | inset::DST_PORT;
const FIELDS: [(u32, u64); 10] = [
    (class::IPV4_UDP, PORTS),
    (class::IPV4_TCP, PORTS),
    (class::IPV4_SCTP, PORTS),
    (class::IPV4_OTHER, 0),
    (class::IPV4_FRAGMENT, 0),
    (class::IPV6_UDP, PORTS),
    (class::IPV6_TCP, PORTS),
    (class::IPV6_SCTP, PORTS),
    (class::IPV6_OTHER, 0),
    (class::IPV6_FRAGMENT, 0),
];

/// The packet classes of a flow.
fn classes(flow: &Flow) -> &'static [u32] {
    let v4 = matches!(flow.addresses, Addresses::V4 { .. });
    match (flow.transport, v4) {
        (Transport::Udp { .. }, true) => &[class::IPV4_UDP],
        (Transport::Udp { .. }, false) => &[class::IPV6_UDP],
        (Transport::Tcp { .. }, true) => &[class::IPV4_TCP],
        (Transport::Tcp { .. }, false) => &[class::IPV6_TCP],
        (Transport::Sctp { .. }, true) => &[class::IPV4_SCTP],
        (Transport::Sctp { .. }, false) => &[class::IPV6_SCTP],
        (Transport::Other, true) => &[class::IPV4_OTHER, class::IPV4_FRAGMENT],
        (Transport::Other, false) => &[class::IPV6_OTHER, class::IPV6_FRAGMENT],
    }
}

/// The transport header of an answer to a flow, and its protocol: some other for
/// [`Transport::Other`], of which the device looks at none.
fn transport_header(flow: &Flow) -> (Protocol, Vec<u8>) {
    match flow.transport {
        Transport::Udp { src, dst } => {
            let header = udp::Repr { src_port: dst, dst_port: src, payload_len: 0 }.header();
            (Protocol::UDP, header.into_inner().to_vec())
        }
        Transport::Tcp { src, dst } => {
            let mut header = tcp::Header::zeroed();
            header.set_src_port(dst);
            header.set_dst_port(src);
            header.set_header_len(tcp::HEADER_LEN);
            (Protocol::TCP, header.into_inner().to_vec())
        }
        Transport::Sctp { src, dst } => {
            let mut ports = Ports::zeroed();
            ports.set_src(dst);
            ports.set_dst(src);
            let mut header = ports.into_inner().to_vec();
            header.resize(SCTP_HEADER_LEN, 0);
            (Protocol::SCTP, header)
        }
        Transport::Other if matches!(flow.addresses, Addresses::V4 { .. }) => (Protocol::ICMP, vec![]),
        Transport::Other => (Protocol::ICMPV6, vec![]),
    }
}

/// The packet that programs a filter for a flow: from its receiver to its sender.
fn answer(flow: &Flow) -> [u8; FILTER_PACKET] {
    let (protocol, transport) = transport_header(flow);
    let (kind, header) = match flow.addresses {
        Addresses::V4 { src, dst } => {
            let mut header = ipv4::Header::zeroed();
            ipv4::Repr::between(dst, src, protocol, transport.len()).write(&mut header);
            (EtherType::IPV4, header.into_inner().to_vec())
        }
        Addresses::V6 { src, dst } => {
            let mut header = ipv6::Header::zeroed();
            header.fill(dst, src, protocol, transport.len() as u16, HOP_LIMIT);
            (EtherType::IPV6, header.into_inner().to_vec())
        }
    };
    let mut frame = ethernet::Header::zeroed();
    frame.set_ethertype(kind);
    let headers = [&frame.into_inner()[..], &header, &transport].concat();
    let mut packet = [0; FILTER_PACKET];
    packet[..headers.len()].copy_from_slice(&headers);
    packet
}

/// The queue that programs filters, and those that there are.
pub(super) struct Director {
    bar: Bar,
    device: String,
    /// What errors name: a profile may have other classes of packets.
    firmware: Arc<Firmware>,
    ring: Words<[AtomicU64; 2]>,
    packet: Words<AtomicU32>,
    region: Region,
    /// The transmit queue.
    queue: usize,
    /// The number of the VSI whose queues flows are led to, and the first counter.
    vsi: u16,
    counter: usize,
    /// Filters that there can be.
    capacity: usize,
    /// The next descriptor.
    next: u32,
    filters: HashMap<Flow, FlowTarget>,
    /// The device did not do as it was told: which filters it has is not known.
    unknown: bool,
}

impl Director {
    /// A queue whose ring is empty.
    fn new(chip: &Chip) -> Result<Director> {
        let region = chip.dma.alloc(BYTES)?;
        let state = chip.state();
        Ok(Director {
            bar: chip.bar.clone(),
            device: chip.name.clone(),
            firmware: state.firmware.clone(),
            ring: Words::new(&region, 0, RING),
            packet: Words::new(&region, PACKET_AT, (FILTER_PACKET / 4) as u32),
            region,
            queue: state.spare_queue,
            vsi: state.vsi.number,
            counter: state.places.flows,
            capacity: chip.flow_capacity(),
            next: 0,
            filters: HashMap::new(),
            unknown: false,
        })
    }

    /// Programs the filter of one class, and waits until the device counts so many filters in all.
    fn program(&mut self, class: u32, flow: &Flow, target: Option<FlowTarget>, count: i64) -> Result<bool> {
        if self.unknown {
            return Err(I40eFault::FiltersUnknown { device: self.device.clone() }.into());
        }
        self.put(class, flow, target);
        let last = &self.ring.at(self.next.wrapping_sub(1))[1];
        let done = || Ok((last.load(Relaxed) & tx::DTYPE_MASK == tx::DTYPE_DONE).then_some(()));
        let taken = poll(LIMIT, PAUSE, done)?;
        if let Err(Late(waited_ms)) = taken {
            self.unknown = true;
            let (device, firmware) = (self.device.clone(), self.firmware.clone());
            return Err(I40eFault::FilterNotTaken { device, waited_ms, firmware }.into());
        }
        order::after_ready(); // the device has read the packet, whose place the next one takes
        let counted = || Ok((self.count() == count).then_some(()));
        Ok(poll(LIMIT, PAUSE, counted)?.is_ok())
    }

    /// How many filters the device says that there are.
    fn count(&self) -> i64 {
        let count = self.bar.read32(PFQF_FDSTAT::AT);
        let best = (count & PFQF_FDSTAT::BEST_CNT_MASK) >> PFQF_FDSTAT::BEST_CNT_SHIFT;
        i64::from(count & PFQF_FDSTAT::GUARANT_CNT_MASK) + i64::from(best)
    }

    /// Puts both descriptors, and rings.
    fn put(&mut self, class: u32, flow: &Flow, target: Option<FlowTarget>) {
        for (n, word) in (0..).zip(answer(flow).as_chunks::<4>().0) {
            self.packet.at(n).store(u32::from_le_bytes(*word), Relaxed);
        }
        let (queue, dest, counter) = match target {
            Some(FlowTarget::Queue(queue)) => (queue as u64, filter::DEST_QUEUE, self.counter),
            _ => (0, filter::DEST_DROP, self.counter + 1),
        };
        let command = if target.is_some() { filter::PCMD_ADD } else { filter::PCMD_REMOVE };
        let low =
            queue | u64::from(class) << filter::PCTYPE_SHIFT | u64::from(self.vsi) << filter::DEST_VSI_SHIFT;
        let counts = filter::CNT_ENA | (counter as u64) << filter::CNTINDEX_SHIFT;
        let size = (FILTER_PACKET as u64) << tx::SIZE_SHIFT;
        for words in [
            [low, tx::DTYPE_FILTER | command | dest | counts],
            [self.region.iova(PACKET_AT), tx::EOP | tx::RS | tx::DUMMY | size],
        ] {
            let place = self.ring.at(self.next);
            place.iter().zip(words).for_each(|(place, word)| place.store(word, Relaxed));
            self.next = self.next.wrapping_add(1);
        }
        order::before_doorbell();
        self.bar.write32(QTX_TAIL::at(self.queue), self.next % RING);
    }

    /// Adds a filter, or changes the one that there is.
    fn add(&mut self, flow: &Flow, target: FlowTarget) -> Result<()> {
        let classes = classes(flow);
        let more = i64::from(!self.filters.contains_key(flow));
        for (n, class) in classes.iter().enumerate() {
            let before = self.count();
            if self.program(*class, flow, Some(target), before + more)? {
                continue;
            }
            // One that there was no room for is not there; another may be counted late.
            let may_be_late = more > 0 && before < self.capacity as i64;
            if may_be_late && !self.program(*class, flow, None, before)? {
                return Err(self.lose_track("adding a filter", "it counts one filter more, late"));
            }
            // A filter of all of its classes, or none.
            self.remove_classes(&classes[..n], flow)?;
            let (device, table) = (self.device.clone(), "filters for flows");
            return Err(Error::TableFull { device, table, capacity: self.capacity });
        }
        self.filters.insert(*flow, target);
        Ok(())
    }

    fn remove(&mut self, flow: &Flow) -> Result<bool> {
        if !self.filters.contains_key(flow) {
            return Ok(false);
        }
        self.remove_classes(classes(flow), flow)?;
        self.filters.remove(flow);
        Ok(true)
    }

    fn remove_classes(&mut self, classes: &[u32], flow: &Flow) -> Result<()> {
        for class in classes {
            let fewer = self.count() - 1;
            if !self.program(*class, flow, None, fewer)? {
                return Err(self.lose_track("removing a filter", "it does not count one filter fewer"));
            }
        }
        Ok(())
    }

    /// Which filters the device has is not known any more; the error that says so.
    fn lose_track(&mut self, command: &'static str, why: &'static str) -> Error {
        self.unknown = true;
        let (device, firmware) = (self.device.clone(), self.firmware.clone());
        I40eFault::Nonsense { device, command, why, firmware }.into()
    }

    /// Removes the filters that lead to a queue.
    fn remove_of_queue(&mut self, queue: usize) -> Result<()> {
        let led =
            |(flow, target): (&Flow, &FlowTarget)| (*target == FlowTarget::Queue(queue)).then_some(*flow);
        let flows: Vec<Flow> = self.filters.iter().filter_map(led).collect();
        flows.iter().try_for_each(|flow| self.remove(flow).map(drop))
    }

    /// The transmit queue.
    pub fn queue(&self) -> usize {
        self.queue
    }

    /// Keeps the memory for ever: the device may still reach it.
    pub fn leak(&self) {
        std::mem::forget(self.region.clone());
    }
}

impl Chip {
    /// Leads a flow to a queue, or drops it.
    pub(super) fn direct(&self, flow: &Flow, target: FlowTarget) -> Result<()> {
        let mut director = self.director();
        if director.is_none() {
            *director = Some(self.start_director()?);
        }
        director.as_mut().map_or(Ok(()), |director| director.add(flow, target))
    }

    /// Does so no longer; whether it did.
    pub(super) fn undirect(&self, flow: &Flow) -> Result<bool> {
        self.pci.health()?;
        self.director().as_mut().map_or(Ok(false), |director| director.remove(flow))
    }

    /// Removes the filters that lead to a queue which is about to go, or what they match would be
    /// lost.
    pub(super) fn undirect_queue(&self, queue: usize) {
        if self.pci.health().is_err() {
            return;
        }
        let removed = self.director().as_mut().map_or(Ok(()), |director| director.remove_of_queue(queue));
        if let Err(error) = removed {
            tracing::warn!("flows that filters lead to receive queue {queue} are lost: {error}");
        }
    }

    /// Filters for flows that the function may have, those among them that others may take first.
    pub(super) fn flow_capacity(&self) -> usize {
        let allocated = self.bar.read32(PFQF_FDALLOC::AT);
        let own = allocated & PFQF_FDALLOC::FDALLOC_MASK;
        let best = (allocated & PFQF_FDALLOC::FDBEST_MASK) >> PFQF_FDALLOC::FDBEST_SHIFT;
        ((own + best) * DIRECTOR_UNIT) as usize
    }

    /// Makes a VSI with one transmit queue, and has the device compare addresses and ports.
    fn start_director(&self) -> Result<Director> {
        let queue = self.state().spare_queue;
        let (_, has) = self.queues();
        if has <= queue {
            return Err(I40eFault::FewQueues { device: self.name.clone(), has, wanted: queue + 1 }.into());
        }
        let set = self.add_director_vsi(queue)?;
        for (class, ports) in FIELDS {
            let fields = self.generation.addresses(class) | ports;
            for (half, wanted) in [fields as u32, (fields >> 32) as u32].into_iter().enumerate() {
                self.set_shared(PRTQF_FD_INSET::at(2 * class as usize + half), wanted)?;
                self.set_shared(GLQF_FD_MSK::at(2 * class as usize + half), 0)?;
            }
        }
        let on = self.bar.read32(PFQF_CTL_0::AT) | PFQF_CTL_0::FD_ENA;
        self.write_receive_register(PFQF_CTL_0::AT, on)?;
        let director = Director::new(self)?;
        let mut words = [0; context::tx::LEN / 8];
        for (field, value) in [
            (context::tx::NEW_CONTEXT, 1),
            (context::tx::FD_ENA, 1),
            (context::tx::BASE, director.region.iova(0) / UNIT),
            (context::tx::QLEN, RING.into()),
            (context::tx::RDYLIST, set.into()),
        ] {
            field.put(&mut words, value);
        }
        if let Err(error) = self.start_tx(queue, &words) {
            // It may start late.
            if !self.disable_tx(queue) {
                director.leak();
            }
            return Err(error);
        }
        Ok(director)
    }

    /// The bridge between the port and the function's VSI, which is made when it is wanted first; its
    /// SEID.
    pub(super) fn bridge(&self) -> Result<u16> {
        let main = self.state().vsi;
        let known = self.state().bridge;
        let bridge = known.map_or_else(|| self.add_bridge(main), Ok)?;
        self.state().bridge = Some(bridge);
        Ok(bridge)
    }

    fn add_bridge(&self, main: Vsi) -> Result<u16> {
        let mut bridge = Descriptor::new(opcode::ADD_VEB);
        let flags = veb::PORT_DATA | veb::NO_STATISTICS;
        for (at, half) in [(veb::UPLINK, main.uplink), (veb::UPLINK + 2, main.seid), (veb::FLAGS, flags)] {
            bridge.set_param(at, &half.to_le_bytes());
        }
        bridge.set_param(veb::CLASSES, &[1]);
        Ok(self.with_admin(|admin| admin.command(bridge))?.param16(veb::SEID))
    }

    /// Makes a VSI at a bridge below the port; its queue set.
    fn add_director_vsi(&self, queue: usize) -> Result<u16> {
        // Where a call before failed behind this, it is there already.
        let known = self.state().director_set;
        if let Some(set) = known {
            return Ok(set);
        }
        let bridge = self.bridge()?;
        let mut properties = [0; vsi::LEN];
        for (at, half) in [(vsi::VALID_SECTIONS, vsi::QUEUE_MAP_VALID), (vsi::QUEUE_MAPPING, queue as u16)] {
            properties[at..at + 2].copy_from_slice(&half.to_le_bytes());
        }
        let mut add = Descriptor::new(opcode::ADD_VSI);
        add.set_param(0, &bridge.to_le_bytes());
        add.set_param(vsi::CONNECTION, &[vsi::CONNECTION_NORMAL]);
        add.set_param(vsi::FLAGS, &vsi::TYPE_PF.to_le_bytes());
        let (_, answered) = self.with_admin(|admin| admin.write_and_read(add, &properties))?;
        let set = answered.get(vsi::QS_HANDLE..vsi::QS_HANDLE + 2).and_then(|set| set.first_chunk());
        let Some(set) = set.map(|set| u16::from_le_bytes(*set)) else {
            return Err(self.nonsense("ADD_VSI", "it is too short"));
        };
        self.state().director_set = Some(set);
        Ok(set)
    }
}
