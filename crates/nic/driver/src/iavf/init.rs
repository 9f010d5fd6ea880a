//! From power-on to the first packet, in sections: the physical function must be there, the virtual
//! one is reset, both agree on a version and on what it has; then its hash is set up, and all its
//! queues are told and started at once.

use std::time::Duration;

use memory::DATA_ROOM;
use port::Options;
use regs::i40e::reset_state;
use regs::iavf::*;
use regs::virtchnl::message::{
    Classes, Counters, QueuePair, Queues, Resources, Rss, Select, Vector, Vectors, Version,
};
use regs::virtchnl::{self, capability, op};

use super::device::Chip;
use super::info::RSS_TABLE;
use super::{RxQueue, TxQueue, VfFault};
use crate::Result;
use crate::i40e::generation;
use crate::intel::Init;
use crate::intel::interrupt::{Signal, Write};
use crate::wait::{Late, poll};

/// How long a reset may take, and how often it is looked for.
const ACTIVE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_micros(100);
/// Which time of its vector a queue has.
const RX_ITR: u16 = 0;
/// At most one interrupt per vector in this time, in units of 2 microseconds.
const INTERVAL: u32 = 8;
/// Bytes of the hash's key.
const KEY: usize = 4 * VFQF_HKEY::COUNT;

impl Init for Chip {
    /// Waits for the physical function, has it reset this one, and asks what there is.
    fn reset(&self) -> Result<()> {
        self.wait_until_active()?;
        self.start_mailbox()?;
        self.agree_on_version()?;
        self.with_mailbox(|mailbox| mailbox.tell(op::RESET_VF, &[]))?;
        let begun = poll(ACTIVE, PAUSE, || {
            let disabled = self.with_mailbox(|mailbox| Ok(mailbox.is_disabled()))?;
            Ok(disabled.then_some(()))
        })?;
        if let Err(Late(waited_ms)) = begun {
            let (device, message) = (self.name.clone(), virtchnl::name(op::RESET_VF));
            return Err(VfFault::NoAnswer { device, message, opcode: op::RESET_VF, waited_ms }.into());
        }
        self.wait_until_active()?;
        self.start_mailbox()?;
        self.agree_on_version()?;
        let resources = self.ask_for_resources()?;
        self.state().resources = Some(resources);
        Ok(())
    }

    fn init_rx(&self, _mac: [u8; 6], options: &Options) -> Result<()> {
        let resources = self.resources()?;
        let (has, wanted) = (usize::from(resources.queues), options.rx_queues.max(options.tx_queues));
        if has < wanted {
            return Err(VfFault::FewQueues { device: self.name.clone(), has, wanted }.into());
        }
        self.state().options = options.clone();
        self.spread_flows(&resources, options)?;
        self.handle_tags(&resources, options)
    }

    fn init_tx(&self) -> Result<()> {
        Ok(())
    }

    /// Notes a ring: all are told at once.
    fn enable_rx(&self, queue: &RxQueue, options: &Options) -> Result<()> {
        self.bar.write32(QRX_TAIL1::at(queue.index), 0);
        self.change_pair(queue.index, |pair| {
            (pair.rx_len, pair.rx_ring) = (queue.ring.size(), queue.ring.iova());
            (pair.rx_buffer, pair.rx_max) = (DATA_ROOM as u32, options.max_frame as u32 + 12); // CRC and two tags
        });
        Ok(())
    }

    fn enable_tx(&self, queue: &TxQueue) -> Result<()> {
        self.bar.write32(QTX_TAIL1::at(queue.index), 0);
        self.change_pair(queue.index, |pair| {
            (pair.tx_len, pair.tx_ring) = (queue.ring.size() as u16, queue.ring.iova());
            pair.tx_head = queue.head.as_ref().map(|head| head.iova());
        });
        Ok(())
    }

    fn init_interrupts(&self, queues: &mut [RxQueue]) -> Result<()> {
        let bar = &self.bar;
        for (n, queue) in queues.iter_mut().enumerate() {
            let signal = Signal::new(self, n, |vector| {
                // The registers of vectors begin with vector 1.
                let register = || bar.register(VFINT_DYN_CTLN1::at(vector - 1));
                let none = VFINT_DYN_CTLN1::ITR_INDX_NONE;
                let on = none | VFINT_DYN_CTLN1::INTENA | VFINT_DYN_CTLN1::CLEARPBA;
                [Write { register: register(), value: on }, Write { register: register(), value: none }]
            })?;
            bar.write32(VFINT_ITRN1::at(signal.vector - 1), INTERVAL);
            self.state().vectors.push(signal.vector);
            queue.signal = Some(signal);
        }
        Ok(())
    }

    /// The physical function tells of the link when queues are started.
    fn start_link(&self) -> Result<()> {
        let now = self.read_counters()?;
        let mut state = self.state();
        (state.last, state.sums) = (now, Counters::default());
        Ok(())
    }
}

impl Chip {
    /// Changes what is known of a pair of queues.
    fn change_pair(&self, queue: usize, change: impl FnOnce(&mut QueuePair)) {
        let pairs = &mut self.state().pairs;
        let queue = queue as u16;
        match pairs.iter_mut().find(|pair| pair.queue == queue) {
            Some(pair) => change(pair),
            None => {
                let mut pair = QueuePair { queue, ..QueuePair::default() };
                change(&mut pair);
                pairs.push(pair);
            }
        }
    }

    /// Waits for the physical function to let this one work.
    fn wait_until_active(&self) -> Result<()> {
        let mut state = 0;
        let active = poll(ACTIVE, PAUSE, || {
            let read = self.bar.read32(VFGEN_RSTAT::AT);
            // All ones are a device that is gone.
            self.pci.health()?;
            state = read & VFGEN_RSTAT::VFR_STATE_MASK;
            Ok((state == reset_state::ACTIVE && read != u32::MAX).then_some(()))
        })?;
        let device = self.name.clone();
        active.map_err(|Late(waited_ms)| {
            let (register, driver) = ("VFGEN_RSTAT", "i40e");
            VfFault::NoHost { device, register, state, driver, waited_ms }.into()
        })
    }

    fn agree_on_version(&self) -> Result<()> {
        let (major, minor) = virtchnl::VERSION;
        self.with_mailbox(|mailbox| {
            let answer = mailbox.ask(op::VERSION, &Version { major, minor }.encode())?;
            let theirs = Version::decode(&answer);
            let theirs = theirs.ok_or_else(|| mailbox.nonsense(op::VERSION, "its length is wrong"))?;
            match theirs.major == major {
                true => Ok(()),
                false => Err(mailbox.nonsense(op::VERSION, "it speaks another major version than 1")),
            }
        })
    }

    fn ask_for_resources(&self) -> Result<Resources> {
        let wanted = capability::L2 | capability::VLAN | capability::RSS_PF | capability::RSS_PCTYPE_V2;
        let resources = self.with_mailbox(|mailbox| {
            let kind = op::GET_VF_RESOURCES;
            let answer = mailbox.ask(kind, &wanted.to_le_bytes())?;
            Resources::decode(&answer).ok_or_else(|| mailbox.nonsense(kind, "there is no VSI in it"))
        })?;
        let Resources { queues, vectors, vsi, capabilities, .. } = resources;
        tracing::debug!(
            port = self.name,
            "VSI {vsi}, {queues} queues, {vectors} vectors, offers {capabilities:#x}"
        );
        Ok(resources)
    }

    /// Key, table and classes of the hash.
    fn spread_flows(&self, resources: &Resources, options: &Options) -> Result<()> {
        let sizes = (resources.key_size as usize, resources.lut_size as usize) == (KEY, RSS_TABLE);
        let offered = resources.capabilities & capability::RSS_PF != 0;
        if options.rx_queues < 2 {
            // A table of before may lead to queues that do not run.
            return match offered {
                true => self.ask(op::SET_RSS_HENA, &Classes(0).encode()).map(|_| ()),
                false => Ok(()),
            };
        }
        if !offered || !sizes {
            let (device, what) = (self.name.clone(), "spreading flows over several queues");
            return Err(VfFault::NotOffered { device, what, fix: "open it with one receive queue" }.into());
        }
        let vsi = resources.vsi;
        let mut key = options.rss.key.to_vec();
        // The key is longer than any packet's fields need: the rest is zero.
        key.resize(KEY, 0);
        self.ask(op::CONFIG_RSS_KEY, &Rss { vsi, bytes: key }.encode())?;
        let table = options.rss.entries(RSS_TABLE, options.rx_queues).map(|queue| queue as u8).collect();
        self.ask(op::CONFIG_RSS_LUT, &Rss { vsi, bytes: table }.encode())?;
        // Packets that an XL710 has in one class are in several of an X722, whose host says so.
        let more = resources.capabilities & capability::RSS_PCTYPE_V2 != 0;
        let generation = if more { &generation::X722 } else { &generation::XL710 };
        self.ask(op::SET_RSS_HENA, &Classes(generation.hashed()).encode()).map(|_| ())
    }

    /// Whether tags are taken out of received frames, and VLANs chosen.
    fn handle_tags(&self, resources: &Resources, options: &Options) -> Result<()> {
        let offered = resources.capabilities & capability::VLAN != 0;
        if !offered && (options.vlan_strip || options.vlan_filter) {
            let (device, what) = (self.name.clone(), "stripping and filtering of VLANs");
            let fix = "the physical function gave this one a VLAN of its own: leave the options out";
            return Err(VfFault::NotOffered { device, what, fix }.into());
        }
        if offered {
            let kind =
                if options.vlan_strip { op::ENABLE_VLAN_STRIPPING } else { op::DISABLE_VLAN_STRIPPING };
            self.ask(kind, &[])?;
        }
        match options.vlan_filter {
            true => crate::intel::FilterTables::set_vlan_filter(self, true),
            false => Ok(()),
        }
    }

    /// Tells the physical function of all rings and vectors, starts the queues, and receives.
    pub(super) fn start_queues(&self) -> Result<()> {
        let vsi = self.resources()?.vsi;
        let pairs = self.state().pairs.clone();
        let promiscuous = self.state().options.promiscuous;
        self.ask(op::CONFIG_VSI_QUEUES, &Queues { vsi, pairs }.encode())?;
        let vectors: Vec<Vector> = (0..)
            .zip(&self.state().vectors)
            .map(|(n, vector)| Vector {
                vector: *vector as u16,
                rx: 1 << n,
                tx: 0,
                rx_itr: RX_ITR,
                tx_itr: 0,
            })
            .collect();
        if !vectors.is_empty() {
            self.ask(op::CONFIG_IRQ_MAP, &Vectors { vsi, vectors }.encode())?;
        }
        let (rx, tx) = (self.bits(|pair| pair.rx_len > 0), self.bits(|pair| pair.tx_len > 0));
        // From here on the device may have the rings, whatever is answered.
        self.state().started = true;
        self.ask(op::ENABLE_QUEUES, &Select { vsi, rx, tx }.encode())?;
        crate::intel::Chip::set_modes(self, promiscuous, promiscuous)
    }
}
