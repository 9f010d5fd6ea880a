//! From a reset to the first packet: the physical function is asked for what belongs to the port
//! (82599 datasheet 7.10.2.9), rings are the function's own (8.3.5; 82576 datasheet 8.26).

use std::time::Duration;

use port::Options;
use regs::ixgbe::{RXDCTL, SRRCTL, TDWBAL, TXDCTL};
use regs::ixgbevf::message::{self, kind};
use regs::ixgbevf::{VECTORS, VFMAILBOX, VTIVAR};

use super::{Chip, Function};
use crate::Result;
use crate::intel::interrupt::{Signal, Write};
use crate::intel::layout::TxAdvanced;
use crate::intel::{Chip as _, Init, RxQueue, TxQueue};
use crate::vf_fault::VfFault;
use crate::wait::{Late, poll};

/// How long the driver of the physical function may take to be there.
const READY: Duration = Duration::from_secs(1);
/// How often it is looked for.
const PAUSE: Duration = Duration::from_micros(100);
/// A mask with a bit for each vector.
const ALL_VECTORS: u32 = (1 << VECTORS) - 1;

impl<F: Function> Init for Chip<F> {
    /// Resets the function's queues and interrupts (8.3.5.1) and begins anew with the physical
    /// function.
    fn reset(&self) -> Result<()> {
        self.reset_queues();
        self.wait_for_host()?;
        self.mailbox().begin(&self.bar);
        // Linux's hosts refuse it when there is no address to tell, and have done it all the same.
        let (done, answer) = self.ask_whether(&[kind::RESET])?;
        self.state().mac = if done { message::mac_of([answer[1], answer[2]]) } else { [0; 6] };
        F::begin(self, &answer)?;
        self.state().totals.begin(&self.bar);
        Ok(())
    }

    fn init_rx(&self, _mac: [u8; 6], options: &Options) -> Result<()> {
        F::take_queues(self, options)?;
        self.ask(&[kind::SET_LPE, options.max_frame as u32 + F::OVERHEAD])?;
        self.state().options = options.clone();
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
    fn enable_rx(&self, queue: &RxQueue<F::Rx>, _options: &Options) -> Result<()> {
        let (bar, r, n, ring) = (&self.bar, F::REGISTERS, queue.index, &queue.ring);
        bar.write32(r.rdbal.at(n), ring.iova() as u32);
        bar.write32(r.rdbah.at(n), (ring.iova() >> 32) as u32);
        bar.write32(r.rdlen.at(n), ring.bytes());
        bar.write32(r.rdh.at(n), 0);
        bar.write32(r.rdt.at(n), 0);
        // A full queue drops: it must not hold up the port's other functions.
        let size = (memory::DATA_ROOM as u32 >> 10) << SRRCTL::BSIZEPACKET_SHIFT;
        bar.write32(r.srrctl.at(n), r.descriptors | size);
        F::prepare_rx(self, n);
        bar.write32(r.rxdctl.at(n), F::rxdctl(self, bar.read32(r.rxdctl.at(n))));
        let (name, meaning) = (r.rxdctl.name, "the receive queue does not start");
        self.wait(100, name, r.rxdctl.at(n), RXDCTL::ENABLE, RXDCTL::ENABLE, meaning)
    }

    /// Hands a transmit ring to the device (8.3.5.5, as 4.6.8.1).
    fn enable_tx(&self, queue: &TxQueue<TxAdvanced>) -> Result<()> {
        let (bar, r, n, ring) = (&self.bar, F::REGISTERS, queue.index, &queue.ring);
        bar.write32(r.tdbal.at(n), ring.iova() as u32);
        bar.write32(r.tdbah.at(n), (ring.iova() >> 32) as u32);
        bar.write32(r.tdlen.at(n), ring.bytes());
        bar.write32(r.tdh.at(n), 0);
        bar.write32(r.tdt.at(n), 0);
        F::prepare_tx(self, n);
        let head = queue.head.as_ref().map_or(0, |head| head.iova() | u64::from(TDWBAL::HEAD_WB_EN));
        bar.write32(r.tdwbal.at(n), head as u32);
        bar.write32(r.tdwbah.at(n), (head >> 32) as u32);
        // As the physical function's: fetch ahead, and report each as asked (WTHRESH = 0).
        bar.write32(r.txdctl.at(n), r.thresholds | TXDCTL::ENABLE);
        let (name, meaning) = (r.txdctl.name, "the transmit queue does not start");
        self.wait(100, name, r.txdctl.at(n), TXDCTL::ENABLE, TXDCTL::ENABLE, meaning)
    }

    /// Each receive queue has its vector, which masks itself when it fires (8.3.5.2).
    fn init_interrupts(&self, queues: &mut [RxQueue<F::Rx>]) -> Result<()> {
        let (bar, r) = (&self.bar, F::REGISTERS);
        bar.write32(r.eiac.offset, ALL_VECTORS);
        bar.write32(r.eiam.offset, ALL_VECTORS);
        for (n, queue) in queues.iter_mut().enumerate() {
            let signal = Signal::new(self, n, |vector| {
                [r.eims.offset, r.eimc.offset]
                    .map(|mask| Write { register: bar.register(mask), value: 1 << vector })
            })?;
            let shift = 16 * (n as u32 & 1);
            let entry = (signal.vector as u32 | VTIVAR::VALID) << shift;
            bar.write32(r.ivar.at(n / 2), bar.read32(r.ivar.at(n / 2)) & !(0xFF << shift) | entry);
            bar.write32(r.eitr.at(signal.vector), r.interval);
            queue.signal = Some(signal);
        }
        Ok(())
    }

    /// The link is the port's.
    fn start_link(&self) -> Result<()> {
        Ok(())
    }
}

impl<F: Function> Chip<F> {
    /// Waits for a driver of the physical function that has said that it is ready (RSTI).
    fn wait_for_host(&self) -> Result<()> {
        let (mut state, mailbox) = (0, F::REGISTERS.mailbox);
        let ready = poll(READY, PAUSE, || {
            state = self.bar.read32(mailbox.offset);
            if state == u32::MAX {
                self.pci.health()?;
            }
            Ok((state & VFMAILBOX::RSTI == 0).then_some(()))
        })?;
        let (device, register, driver) = (self.name.clone(), mailbox.name, F::HOST);
        ready.map_err(|Late(waited_ms)| VfFault::NoHost { device, register, state, driver, waited_ms }.into())
    }
}
