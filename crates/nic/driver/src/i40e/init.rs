//! From power-on to the first packet (datasheet chapters 4, 7 and 8), in sections: what ran
//! before is stopped, the function is reset, the firmware is asked what there is, the VSI gets
//! its queues, filters and hash, and each queue its context.

use std::thread::sleep;
use std::time::Duration;

use memory::DATA_ROOM;
use port::Options;
use regs::i40e::admin::element::{self, SwitchElement};
use regs::i40e::admin::{Descriptor, PXE_RX_COUNT, capability, error, opcode, promiscuous, version, vsi};
use regs::i40e::*;

use super::context::Contexts;
use super::device::{Chip, Vsi};
use super::filter::Filters;
use super::interrupt::{self, NO_QUEUE};
use super::stats::{Places, Totals};
use super::{I40eFault, MOST_QUEUES, RxQueue, TxQueue};
use crate::Result;
use crate::intel::Init;

/// After a transmit queue's disabling was announced, until it may be disabled (chapter 8).
pub(super) const PREPARED: Duration = Duration::from_micros(400);
/// After queues were disabled, until the function may be reset.
const DISABLED: Duration = Duration::from_micros(50);
/// How long a reset of the whole device may take, for each unit that its register says and at
/// most.
const DEVICE_RESET_UNIT_MS: u64 = 2_000;
const DEVICE_RESET_MS: u64 = 16_000;
/// Queues in one register that announces.
const PER_ANNOUNCEMENT: usize = 128;
/// A ring's base, and a buffer, are in so many bytes.
pub(super) const UNIT: u64 = 128;
/// Vectors of queues that are silenced: as many as MSI-X tables of the family have, and no more
/// than there are registers.
const VECTORS: usize = 128;

impl Init for Chip {
    /// Stops what ran, resets, and starts the firmware's queue.
    fn reset(&self) -> Result<()> {
        self.quiesce();
        self.reset_function()?;
        self.start_admin()?;
        self.take_over()?;
        self.verify_nvm()?;
        self.ask_profiles()
    }

    /// The VSI with its queues, filters and hash. Nothing is received: the filters come last.
    fn init_rx(&self, mac: [u8; 6], options: &Options) -> Result<()> {
        let queues = options.rx_queues.max(options.tx_queues);
        self.check_queues(queues)?;
        self.state().spare_queue = queues;
        self.find_vsi(options)?;
        self.remove_first_filter(mac)?;
        let mut filters = Filters::new(mac);
        (filters.all_unicast, filters.all_multicast) = (options.promiscuous, options.promiscuous);
        filters.rx_only = self.firmware().api >= promiscuous::RX_ONLY_SINCE;
        filters.use_vlans(options.vlan_filter);
        self.state().filters = filters;
        if options.timestamps {
            self.start_timestamps();
        }
        self.spread_flows(options)
    }

    /// Memory for the contexts of queues of both kinds.
    fn init_tx(&self) -> Result<()> {
        // One more queue programs filters for flows, and those of virtual functions are the function's, too.
        let queues = self.queues().1.max(MOST_QUEUES + 1);
        let contexts = Contexts::new(&self.bar, &self.dma, queues)?;
        self.state().contexts = Some(contexts);
        Ok(())
    }

    /// Hands a receive ring to the device. It owns no buffer yet.
    fn enable_rx(&self, queue: &RxQueue, options: &Options) -> Result<()> {
        let (bar, n, ring) = (&self.bar, queue.index, &queue.ring);
        let mut words = [0; context::rx::LEN / 8];
        for (field, value) in [
            (context::rx::BASE, ring.iova() / UNIT),
            (context::rx::QLEN, ring.size().into()),
            (context::rx::DBUFF, DATA_ROOM as u64 / UNIT),
            (context::rx::CRCSTRIP, 1),
            (context::rx::L2TSEL, 1),
            (context::rx::RXMAX, options.max_frame as u64 + 12), // CRC and two tags
            (context::rx::LRXQTHRESH, 1),
            (context::rx::PREFENA, 1),
        ] {
            field.put(&mut words, value);
        }
        self.state().contexts.iter().for_each(|contexts| contexts.put_rx(n, &words));
        bar.write32(QRX_TAIL::at(n), 0);
        bar.write32(QRX_ENA::at(n), QRX_ENA::QENA_REQ);
        let (meaning, on) = ("the receive queue does not start: its context was refused", QRX_ENA::QENA_STAT);
        self.wait(100, "QRX_ENA", QRX_ENA::at(n), on, on, meaning)
    }

    /// Hands a transmit ring to the device.
    fn enable_tx(&self, queue: &TxQueue) -> Result<()> {
        let (n, ring) = (queue.index, &queue.ring);
        let mut words = [0; context::tx::LEN / 8];
        let mut put = |field: context::Field, value| field.put(&mut words, value);
        put(context::tx::NEW_CONTEXT, 1);
        put(context::tx::BASE, ring.iova() / UNIT);
        put(context::tx::QLEN, ring.size().into());
        put(context::tx::RDYLIST, self.state().vsi.queue_set.into());
        if let Some(head) = &queue.head {
            put(context::tx::HEAD_WB_ENA, 1);
            put(context::tx::HEAD_WB_ADDR, head.iova());
        }
        self.start_tx(n, &words)
    }

    fn init_interrupts(&self, queues: &mut [RxQueue]) -> Result<()> {
        interrupt::init(self, queues)
    }

    fn start_link(&self) -> Result<()> {
        let bar = &self.bar;
        let mut state = self.state();
        state.totals = Totals::new(bar, state.places);
        drop(state);
        self.bring_link_up()
    }
}

/// What stops and resets.
impl Chip {
    /// Queues of the function: the first of the device, and how many.
    pub(super) fn queues(&self) -> (usize, usize) {
        let allocated = self.bar.read32(PFLAN_QALLOC::AT);
        let first = (allocated & PFLAN_QALLOC::FIRSTQ_MASK) as usize;
        let last = ((allocated & PFLAN_QALLOC::LASTQ_MASK) >> PFLAN_QALLOC::LASTQ_SHIFT) as usize;
        match allocated & PFLAN_QALLOC::VALID {
            0 => (0, 0),
            _ => (first, (last + 1).saturating_sub(first).min(QTX_ENA::COUNT)),
        }
    }

    /// Tells the device that a transmit queue will be enabled or disabled.
    pub(super) fn announce_tx(&self, n: usize, what: u32) {
        let queue = self.queues().0 + n;
        let (block, within) = (queue / PER_ANNOUNCEMENT, (queue % PER_ANNOUNCEMENT) as u32);
        if block < GLLAN_TXPRE_QDIS::COUNT {
            self.bar.write32(GLLAN_TXPRE_QDIS::at(block), what | within);
        }
    }

    /// Enables a transmit queue with its context.
    pub(super) fn start_tx(&self, n: usize, words: &[u64; context::tx::LEN / 8]) -> Result<()> {
        self.state().contexts.iter().for_each(|contexts| contexts.put_tx(n, words));
        let bar = &self.bar;
        let function = bar.read32(PF_FUNC_RID::AT) & PF_FUNC_RID::FUNCTION_NUMBER_MASK;
        bar.write32(QTX_CTL::at(n), QTX_CTL::PFVF_Q_PF | function << QTX_CTL::PF_INDX_SHIFT);
        bar.write32(QTX_HEAD::at(n), 0);
        bar.write32(QTX_TAIL::at(n), 0);
        self.announce_tx(n, GLLAN_TXPRE_QDIS::CLEAR_QDIS);
        bar.write32(QTX_ENA::at(n), QTX_ENA::QENA_REQ);
        let (meaning, on) =
            ("the transmit queue does not start: its context was refused", QTX_ENA::QENA_STAT);
        self.wait(100, "QTX_ENA", QTX_ENA::at(n), on, on, meaning)
    }

    /// Stops what another driver left running (chapter 4): interrupts first, then queues.
    fn quiesce(&self) {
        let bar = &self.bar;
        bar.write32(PFINT_ICR0_ENA::AT, 0);
        bar.write32(PFINT_LNKLST0::AT, NO_QUEUE);
        for n in 0..VECTORS.min(PFINT_DYN_CTLN::COUNT) {
            bar.write32(PFINT_DYN_CTLN::at(n), PFINT_DYN_CTLN::ITR_INDX_NONE);
            bar.write32(PFINT_LNKLSTN::at(n), NO_QUEUE);
        }
        let (_, count) = self.queues();
        let running = |n: &usize| {
            let on = |register| bar.read32(register) & QTX_ENA::QENA_STAT != 0;
            on(QTX_ENA::at(*n)) || on(QRX_ENA::at(*n))
        };
        let running: Vec<usize> = (0..count).filter(running).collect();
        if running.is_empty() {
            return;
        }
        running.iter().for_each(|&n| self.announce_tx(n, GLLAN_TXPRE_QDIS::SET_QDIS));
        sleep(PREPARED);
        for n in running {
            for register in [QINT_TQCTL::at(n), QTX_ENA::at(n), QINT_RQCTL::at(n), QRX_ENA::at(n)] {
                bar.write32(register, 0);
            }
        }
        sleep(DISABLED);
    }

    /// Resets the function (chapter 4), once the device itself is in no reset.
    pub(super) fn reset_function(&self) -> Result<()> {
        let bar = &self.bar;
        let state = GLGEN_RSTAT::DEVSTATE_MASK;
        let meaning = "the device is being reset as a whole, for longer than it says that takes";
        let units = bar.read32(GLGEN_RSTCTL::AT) & GLGEN_RSTCTL::GRSTDEL_MASK;
        let limit_ms = (u64::from(units) * DEVICE_RESET_UNIT_MS).clamp(1000, DEVICE_RESET_MS);
        self.wait(limit_ms, "GLGEN_RSTAT", GLGEN_RSTAT::AT, state, 0, meaning)?;
        let loaded = GLNVM_ULD::CONF_CORE_DONE | GLNVM_ULD::CONF_GLOBAL_DONE;
        let meaning = "the device did not load its configuration: its NVM may be blank";
        self.wait(1000, "GLNVM_ULD", GLNVM_ULD::AT, loaded, loaded, meaning)?;
        bar.write32(PFGEN_CTRL::AT, bar.read32(PFGEN_CTRL::AT) | PFGEN_CTRL::PFSWR);
        let meaning = "the function did not come out of reset; a power cycle may help";
        self.wait(1000, "PFGEN_CTRL", PFGEN_CTRL::AT, PFGEN_CTRL::PFSWR, 0, meaning)?;
        // What a driver before did wrong stays, for a reset of the function does not clear it.
        bar.write32(PF_MDET_TX::AT, PF_MDET_TX::VALID);
        Ok(())
    }
}

/// What the firmware is asked and told.
impl Chip {
    /// Takes the function over from the boot agent, and its frames from the firmware's LLDP.
    fn take_over(&self) -> Result<()> {
        self.ask_version()?;
        let mut pxe = Descriptor::new(opcode::CLEAR_PXE_MODE);
        pxe.set_param(0, &[PXE_RX_COUNT]);
        self.with_admin(|admin| admin.command_unless(pxe, &[error::EEXIST]))?;
        // Descriptors are fetched and written back one by one until this is set.
        self.bar.write32(GLLAN_RCTL_0::AT, GLLAN_RCTL_0::PXE_MODE);
        let lldp = Descriptor::new(opcode::LLDP_STOP);
        self.with_admin(|admin| admin.command_unless(lldp, &[error::EPERM, error::ENOENT]))
    }

    /// Whether the function has so many queues of each kind.
    fn check_queues(&self, wanted: usize) -> Result<()> {
        let all = self.capabilities()?;
        let queues = all.iter().filter(|(kind, ..)| [capability::RXQ, capability::TXQ].contains(kind));
        match queues.map(|(_, has, _)| *has as usize).find(|has| *has < wanted) {
            Some(has) => Err(I40eFault::FewQueues { device: self.name.clone(), has, wanted }.into()),
            None => Ok(()),
        }
    }

    /// What the function has: kinds, each with its two numbers.
    pub(super) fn capabilities(&self) -> Result<Vec<(u16, u32, u32)>> {
        const LEN: usize = regs::i40e::admin::BUFFER;
        let command = Descriptor::new(opcode::LIST_FUNC_CAPABILITIES);
        let (_, data) = self.with_admin(|admin| admin.read(command, LEN))?;
        let word =
            |one: &[u8], at: usize| u32::from_le_bytes(one[at..].first_chunk().copied().unwrap_or_default());
        let of = |one: &[u8]| {
            let kind = u16::from_le_bytes([one[0], one[1]]);
            (kind, word(one, capability::NUMBER), word(one, capability::LOGICAL))
        };
        Ok(data.chunks_exact(capability::LEN).map(of).collect())
    }

    /// Finds the function's VSI, and gives it the queues and the ways with tags that are wanted.
    fn find_vsi(&self, options: &Options) -> Result<()> {
        let command = Descriptor::new(opcode::GET_SWITCH_CONFIG);
        let (_, data) = self.with_admin(|admin| admin.read(command, regs::i40e::admin::BUFFER))?;
        let half = |bytes: &[u8], at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let mut elements = data.as_chunks().0.iter().skip(1).map(SwitchElement::of);
        let found = elements.find(|element| element.kind == element::VSI);
        let SwitchElement { seid, uplink, .. } =
            found.ok_or_else(|| self.nonsense("GET_SWITCH_CONFIG", "the function has no VSI"))?;

        let mut command = Descriptor::new(opcode::GET_VSI);
        command.set_param(0, &seid.to_le_bytes());
        let (answer, mut properties) = self.with_admin(|admin| admin.read(command, vsi::LEN))?;
        if properties.len() < vsi::LEN {
            return Err(self.nonsense("GET_VSI", "it is too short"));
        }
        let queue_set = half(&properties, vsi::QS_HANDLE);
        let counter = usize::from(half(&properties, vsi::STAT_COUNTER));
        let mut put = |at: usize, value: u16| properties[at..at + 2].copy_from_slice(&value.to_le_bytes());
        put(vsi::VALID_SECTIONS, vsi::VLAN_VALID | vsi::QUEUE_MAP_VALID);
        put(vsi::MAPPING_FLAGS, 0);
        put(vsi::QUEUE_MAPPING, 0);
        // A power of two of queues; the table names those that there are.
        let number = options.rx_queues.next_power_of_two().ilog2() as u16;
        put(vsi::TC_MAPPING, number << vsi::TC_NUMBER_SHIFT);
        let tag = if options.vlan_strip { vsi::PVLAN_EMOD_STRIP } else { vsi::PVLAN_EMOD_NOTHING };
        properties[vsi::PORT_VLAN_FLAGS] = vsi::PVLAN_MODE_ALL | tag;
        let mut command = Descriptor::new(opcode::UPDATE_VSI);
        command.set_param(0, &seid.to_le_bytes());
        self.with_admin(|admin| admin.write(command, &properties))?;

        let port = (self.bar.read32(PFGEN_PORTNUM::AT) & PFGEN_PORTNUM::PORT_NUM_MASK) as usize;
        let function = (self.bar.read32(PF_FUNC_RID::AT) & PF_FUNC_RID::FUNCTION_NUMBER_MASK) as usize;
        let mut state = self.state();
        state.vsi = Vsi { seid, number: answer.param16(2), uplink, queue_set };
        state.places = Places::new(port, counter, function);
        Ok(())
    }

    /// Writes a register that functions of the card have in common, unless it is right; what it
    /// had is written back when the port is closed. Another function that has it right by then
    /// does not learn of that.
    pub(super) fn set_shared(&self, offset: u32, wanted: u32) -> Result<()> {
        let before = self.read_receive_register(offset)?;
        if before == wanted {
            return Ok(());
        }
        self.state().insets.push((offset, before));
        self.write_receive_register(offset, wanted)
    }

    /// Has the card hash and compare what it did before.
    pub(super) fn restore_insets(&self) -> Result<()> {
        let insets = std::mem::take(&mut self.state().insets);
        insets.into_iter().try_for_each(|(offset, before)| self.write_receive_register(offset, before))
    }

    /// Whether the firmware has commands for such registers; one that is older has none.
    fn receives_by_commands(&self) -> bool {
        self.generation.receive_by_commands && self.firmware().api >= version::RX_CTL_SINCE
    }

    /// Reads a register that packets are hashed and matched by.
    fn read_receive_register(&self, offset: u32) -> Result<u32> {
        if !self.receives_by_commands() {
            return Ok(self.bar.read32(offset));
        }
        let mut command = Descriptor::new(opcode::RX_CTL_REG_READ);
        command.set_param(4, &offset.to_le_bytes());
        Ok(self.with_admin(|admin| admin.command(command))?.param32(12))
    }

    /// Writes a register that belongs to the receive unit, by a command where the firmware wants that.
    pub(super) fn write_receive_register(&self, offset: u32, value: u32) -> Result<()> {
        if !self.receives_by_commands() {
            self.bar.write32(offset, value);
            return Ok(());
        }
        let mut command = Descriptor::new(opcode::RX_CTL_REG_WRITE);
        command.set_param(4, &offset.to_le_bytes());
        command.set_param(12, &value.to_le_bytes());
        self.with_admin(|admin| admin.command(command)).map(|_| ())
    }
}
