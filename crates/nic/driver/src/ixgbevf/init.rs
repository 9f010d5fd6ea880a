//! From a reset to the first packet: the physical function is asked for what belongs to the port
//! (82599 datasheet 7.10.2.9), rings are the function's own (8.3.5).

use std::time::Duration;

use port::Options;
use regs::ixgbe::{DCA_RXCTRL, RXDCTL, SRRCTL, TDWBAL, TXDCTL};
use regs::ixgbevf::message::{self, kind, queues, version};
use regs::ixgbevf::*;

use super::device::{Chip, Spread};
use super::mailbox::Words;
use super::{Fault, RxQueue, TxQueue};
use crate::intel::interrupt::{Signal, Write};
use crate::intel::{Chip as _, Init};
use crate::wait::{Late, poll};
use crate::{Error, Result};

/// How long the driver of the physical function may take to be there.
const READY: Duration = Duration::from_secs(1);
/// How often it is looked for.
const PAUSE: Duration = Duration::from_micros(100);
/// At most one interrupt per vector in this time: 2.048 µs units in bits 11:3 (8.2.3.5.12).
const INTERVAL: u32 = 8 << 3;
/// Every vector.
const ALL_VECTORS: u32 = (1 << VECTORS) - 1;
/// Versions that are spoken, the latest first.
const SPOKEN: [u32; 3] = [version::V1_3, version::V1_2, version::V1_1];
/// Bytes of a frame's CRC.
const CRC: u32 = 4;

impl Init for Chip {
    /// Resets the function's queues and interrupts (8.3.5.1) and begins anew with the physical
    /// function.
    fn reset(&self) -> Result<()> {
        self.mask_interrupts();
        self.bar.write32(VFCTRL::AT, VFCTRL::RST);
        self.bar.read32(VFSTATUS::AT); // the write has arrived
        self.wait_for_host()?;
        self.begin_mailbox();
        // Linux's ixgbe refuses it when there is no address to tell, and has done it all the same.
        let (done, answer) = self.ask_whether(&[kind::RESET])?;
        let mut state = self.state();
        state.mac = if done { message::mac_of([answer[1], answer[2]]) } else { [0; 6] };
        state.multicast_filter = answer[3];
        state.version = version::V1_0;
        drop(state);
        self.agree_on_version()?;
        self.state().totals.begin(&self.bar);
        Ok(())
    }

    fn init_rx(&self, _mac: [u8; 6], options: &Options) -> Result<()> {
        let (has, transparent) = self.ask_for_queues()?;
        let wanted = options.rx_queues.max(options.tx_queues);
        if has < wanted {
            return Err(Fault::FewQueues { device: self.name.clone(), has, wanted }.into());
        }
        self.spread_flows(options.rx_queues)?;
        self.ask(&[kind::SET_LPE, options.max_frame as u32 + CRC])?;
        let mut state = self.state();
        state.options = options.clone();
        // The tag that the port puts outside is not for the application.
        state.strips = options.vlan_strip || transparent;
        drop(state);
        if options.promiscuous
            && let Err(error) = self.set_modes(true, true)
        {
            tracing::warn!(port = self.name, "{error}; only frames to its own addresses are received");
            self.set_modes(false, true).or_else(|_| self.set_modes(false, false))?;
            self.state().not_promiscuous = true;
        }
        Ok(())
    }

    fn init_tx(&self) -> Result<()> {
        Ok(())
    }

    /// Hands a receive ring to the device (8.3.5.4, as 4.6.7.1). It owns no buffer yet.
    fn enable_rx(&self, queue: &RxQueue, _options: &Options) -> Result<()> {
        let (bar, n, ring) = (&self.bar, queue.index, &queue.ring);
        bar.write32(VFRDBAL::at(n), ring.iova() as u32);
        bar.write32(VFRDBAH::at(n), (ring.iova() >> 32) as u32);
        bar.write32(VFRDLEN::at(n), ring.bytes());
        bar.write32(VFRDH::at(n), 0);
        bar.write32(VFRDT::at(n), 0);
        // A full queue drops: it must not hold up the port's other functions.
        let size = (memory::DATA_ROOM as u32 >> 10) << SRRCTL::BSIZEPACKET_SHIFT;
        bar.write32(VFSRRCTL::at(n), SRRCTL::DESCTYPE_ADV_ONE_BUFFER | size | SRRCTL::DROP_EN);
        bar.clear32(VFDCA_RXCTRL::at(n), DCA_RXCTRL::MUST_CLEAR);
        let vlan = if self.state().strips { RXDCTL::VME } else { 0 };
        bar.write32(VFRXDCTL::at(n), bar.read32(VFRXDCTL::at(n)) | RXDCTL::ENABLE | vlan);
        let meaning = "the receive queue does not start";
        self.wait(100, "VFRXDCTL", VFRXDCTL::at(n), RXDCTL::ENABLE, RXDCTL::ENABLE, meaning)
    }

    /// Hands a transmit ring to the device (8.3.5.5, as 4.6.8.1).
    fn enable_tx(&self, queue: &TxQueue) -> Result<()> {
        let (bar, n, ring) = (&self.bar, queue.index, &queue.ring);
        bar.write32(VFTDBAL::at(n), ring.iova() as u32);
        bar.write32(VFTDBAH::at(n), (ring.iova() >> 32) as u32);
        bar.write32(VFTDLEN::at(n), ring.bytes());
        bar.write32(VFTDH::at(n), 0);
        bar.write32(VFTDT::at(n), 0);
        let head = queue.head.as_ref().map_or(0, |head| head.iova() | u64::from(TDWBAL::HEAD_WB_EN));
        bar.write32(VFTDWBAL::at(n), head as u32);
        bar.write32(VFTDWBAH::at(n), (head >> 32) as u32);
        // As the physical function's: fetch ahead, and report each as asked (WTHRESH = 0).
        let thresholds = 36 << TXDCTL::PTHRESH_SHIFT | 8 << TXDCTL::HTHRESH_SHIFT;
        bar.write32(VFTXDCTL::at(n), thresholds | TXDCTL::ENABLE);
        let meaning = "the transmit queue does not start";
        self.wait(100, "VFTXDCTL", VFTXDCTL::at(n), TXDCTL::ENABLE, TXDCTL::ENABLE, meaning)
    }

    /// Each receive queue has its vector, which masks itself when it fires (8.3.5.2).
    fn init_interrupts(&self, queues: &mut [RxQueue]) -> Result<()> {
        let bar = &self.bar;
        bar.write32(VTEIAC::AT, ALL_VECTORS);
        bar.write32(VTEIAM::AT, ALL_VECTORS);
        for (n, queue) in queues.iter_mut().enumerate() {
            let signal = Signal::new(self, n, |vector| {
                [VTEIMS::AT, VTEIMC::AT]
                    .map(|mask| Write { register: bar.register(mask), value: 1 << vector })
            })?;
            // VTIVAR holds four causes: receive and transmit of two queues.
            let shift = 16 * (n as u32 & 1);
            let entry = (signal.vector as u32 | VTIVAR::VALID) << shift;
            bar.write32(VTIVAR::at(n / 2), bar.read32(VTIVAR::at(n / 2)) & !(0xFF << shift) | entry);
            bar.write32(VTEITR::at(signal.vector), INTERVAL);
            queue.signal = Some(signal);
        }
        Ok(())
    }

    /// The link is the port's.
    fn start_link(&self) -> Result<()> {
        Ok(())
    }
}

impl Chip {
    /// Waits for a driver of the physical function that has said that it is ready (VFMAILBOX.RSTI).
    fn wait_for_host(&self) -> Result<()> {
        let mut state = 0;
        let ready = poll(READY, PAUSE, || {
            state = self.bar.read32(VFMAILBOX::AT);
            if state == u32::MAX {
                self.pci.health()?;
            }
            Ok((state & VFMAILBOX::RSTI == 0).then_some(()))
        })?;
        let (device, register, driver) = (self.name.clone(), "VFMAILBOX", "ixgbe");
        ready.map_err(|Late(waited_ms)| Fault::NoHost { device, register, state, driver, waited_ms }.into())
    }

    /// The latest version that both speak. One that refuses to negotiate speaks 1.0.
    fn agree_on_version(&self) -> Result<()> {
        for spoken in SPOKEN {
            match self.ask(&[kind::API_NEGOTIATE, spoken]) {
                Ok(_) => {
                    self.state().version = spoken;
                    break;
                }
                Err(Error::Vf(Fault::Refused { .. })) => {}
                Err(other) => return Err(other),
            }
        }
        Ok(())
    }

    /// Queues of each kind, and whether frames have a tag of the port's outside.
    fn ask_for_queues(&self) -> Result<(usize, bool)> {
        if self.state().version < version::V1_1 {
            return Ok((1, false));
        }
        let answer = self.ask(&[kind::GET_QUEUES, 0, 0, 0, 0])?;
        let has = answer[queues::RX].min(answer[queues::TX]) as usize;
        match has {
            0 => Err(self.nonsense(kind::GET_QUEUES, "there are no queues")),
            has => Ok((has, answer[queues::TRANSPARENT_VLAN] != 0)),
        }
    }

    /// Several queues have flows by the port's key and table, of whose entries so many bits count as
    /// VFPSRTYPE tells.
    fn spread_flows(&self, queues: usize) -> Result<()> {
        let device = || self.name.clone();
        if queues > 1 {
            if !queues.is_power_of_two() {
                let what = "spreading flows over a number of queues that is no power of two";
                return Err(Fault::NotOffered { device: device(), what, fix: "open 1, 2 or 4" }.into());
            }
            if self.state().version < version::V1_2 {
                let what = "telling the hash's key and table (mailbox version 1.2)";
                let fix = "open it with one receive queue";
                return Err(Fault::NotOffered { device: device(), what, fix }.into());
            }
            let table = self.ask_for_hash(kind::GET_RETA)?;
            let key = self.ask_for_hash(kind::GET_RSS_KEY)?;
            let words = |from: usize| table.get(from).copied().unwrap_or(0);
            let entries = message::reta_of(&std::array::from_fn(|n| words(n + 1)));
            let mut bytes = [0; 40];
            for (part, word) in bytes.chunks_exact_mut(4).zip(&key[1..]) {
                part.copy_from_slice(&word.to_le_bytes());
            }
            self.state().spread = Some(Spread { key: bytes, table: Box::new(entries) });
        }
        self.bar.write32(VFPSRTYPE::AT, queues.trailing_zeros() << VFPSRTYPE::RQPL_SHIFT);
        Ok(())
    }

    /// A part of how flows are spread, which Linux's ixgbe tells when its administrator lets it.
    fn ask_for_hash(&self, kind: u32) -> Result<Words> {
        match self.ask_whether(&[kind])? {
            (true, answer) => Ok(answer),
            (false, _) => {
                let (device, what) = (self.name.clone(), "telling the hash's key and table");
                let fix = "allow it (ip link set … vf N query_rss on), or open it with one receive queue";
                Err(Fault::NotOffered { device, what, fix }.into())
            }
        }
    }

    /// An error for a message whose answer makes no sense.
    pub(super) fn nonsense(&self, kind: u32, why: &'static str) -> Error {
        Fault::Nonsense { device: self.name.clone(), message: message::name(kind), why }.into()
    }
}
