//! The virtual function while it runs: its address, modes, counters, whether it was reset, and taking
//! rings back when queues go.

use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use port::{Counter, FlowTable, Link, Options, Reason};
use regs::virtchnl::message::{Counters, Promiscuous, QueuePair, Resources, Rss, Select};
use regs::virtchnl::{op, promiscuous};
use wire::MacAddress;

use super::filter::Filters;
use super::info::INFO;
use super::mailbox::{Mailbox, STRAYS};
use super::{NAME, VfFault};
use crate::i40e::admin::FORGED;
use crate::i40e::{RxXl710Long, TxXl710};
use crate::intel::{self, ChipInfo, Device, Queues};
use crate::{Error, Result};

/// How long a reset that the driver asks for in the end may take.
const RESET: Duration = Duration::from_secs(1);

/// The counters of frames received and sent.
const RECEIVED: &str = "PRC";
const SENT: &str = "PTC";

/// What each of [`Counters::NAMES`] counts, and which loss it is.
const WHAT: [(&str, Option<Reason>); Counters::NAMES.len()] = [
    ("bytes received", None),
    ("unicast frames received", None),
    ("multicast frames received", None),
    ("broadcast frames received", None),
    ("frames dropped because a queue had no descriptor", Some(Reason::RxNoDescriptor)),
    ("frames of an unknown protocol", None),
    ("bytes sent", None),
    ("unicast frames sent", None),
    ("multicast frames sent", None),
    ("broadcast frames sent", None),
    ("frames that were not sent", None),
    ("frames that the virtual function may not send", Some(Reason::TxSpoofed)),
];

/// A virtual function, as its port and queues share it. Whoever locks both takes the mailbox first.
pub struct Chip {
    device: Device,
    mailbox: Mutex<Option<Mailbox>>,
    state: Mutex<State>,
}

/// What the driver knows.
#[derive(Default)]
pub(super) struct State {
    /// What the physical function gives.
    pub resources: Option<Resources>,
    pub options: Options,
    /// Rings, and the vectors of receive queues.
    pub pairs: Vec<QueuePair>,
    pub vectors: Vec<usize>,
    /// The queues run, and whether they were stopped again.
    pub started: bool,
    pub stopped: bool,
    pub filters: Filters,
    /// When a reset that was announced is not waited for any more.
    reset_by: Option<Instant>,
    /// Counters as they were told last, and what was counted since the device was opened.
    pub last: Counters,
    pub sums: Counters,
    /// The most frames that were told as received: one may be counted as dropped after it was read
    /// as come.
    received: u64,
}

impl Deref for Chip {
    type Target = Device;

    fn deref(&self) -> &Device {
        &self.device
    }
}

impl intel::Chip for Chip {
    type Rx = RxXl710Long;
    type Tx = TxXl710;
    const DRIVER: &'static str = NAME;
    const INFO: &'static ChipInfo = &INFO;
    const DEFERS_START: bool = false;

    fn new(device: Device) -> Chip {
        Chip { device, mailbox: Mutex::default(), state: Mutex::default() }
    }

    /// Queues that were stopped do not go on where they were: their port is opened again.
    fn set_receiving(&self, on: bool) -> Result<()> {
        let state = self.state();
        let (started, stopped) = (state.started, state.stopped);
        drop(state);
        match (on, started) {
            (true, false) => self.start_queues(),
            (true, true) if stopped => {
                let (device, what) = (self.name.clone(), "going on with queues that were stopped");
                Err(VfFault::NotOffered { device, what, fix: "open the port again" }.into())
            }
            (false, true) => {
                let rx = self.bits(|pair| pair.rx_len > 0);
                self.disable(rx, 0)?;
                self.state().stopped = true;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn mac(&self) -> Result<[u8; 6]> {
        let mac = self.resources()?.mac;
        MacAddress(mac).is_station().then_some(mac).ok_or_else(|| {
            let (device, what) = (self.name.clone(), "an address");
            VfFault::NotOffered {
                device,
                what,
                fix: "set one for it (ixora pf --vf N,mac=…; ip link set … vf N mac …)",
            }
            .into()
        })
    }

    fn link(&self) -> Link {
        let told = self.with_mailbox(|mailbox| {
            mailbox.take_events();
            Ok(if mailbox.is_reset() { Link::DOWN } else { mailbox.link })
        });
        told.unwrap_or(Link::DOWN)
    }

    fn health(&self) -> Result<()> {
        self.with_mailbox(|mailbox| {
            mailbox.take_events();
            match mailbox.is_reset() {
                true => Err(VfFault::Reset { device: self.name.clone() }.into()),
                false => Ok(()),
            }
        })
    }

    fn set_flow_queues(&self, _: &[(usize, usize)], table: &FlowTable) -> Result<()> {
        let vsi = self.resources()?.vsi;
        let bytes = table.queues().iter().map(|queue| *queue as u8).collect();
        self.ask(op::CONFIG_RSS_LUT, &Rss { vsi, bytes }.encode()).map(|_| ())
    }

    /// As the physical function tells them; what it told last while it does not.
    fn counters(&self) -> Vec<Counter> {
        let told = self.read_counters();
        let mailbox = self.mailbox.lock().unwrap_or_else(PoisonError::into_inner);
        let of_mailbox = mailbox.as_ref().map(Mailbox::counters);
        drop(mailbox);
        let mut state = self.state();
        match told {
            Ok(now) => state.count(now),
            Err(error) => tracing::debug!(port = self.name, "{error}"),
        }
        state.counters().into_iter().chain(of_mailbox.into_iter().flatten()).collect()
    }

    fn counter_names() -> Vec<&'static str> {
        Counters::NAMES.into_iter().chain([RECEIVED, SENT, STRAYS, FORGED]).collect()
    }

    fn set_modes(&self, unicast: bool, multicast: bool) -> Result<()> {
        let bit = |on: bool, bit: u16| if on { bit } else { 0 };
        let modes = bit(unicast, promiscuous::UNICAST) | bit(multicast, promiscuous::MULTICAST);
        let of = Promiscuous { vsi: self.resources()?.vsi, modes };
        self.ask(op::CONFIG_PROMISCUOUS_MODE, &of.encode()).map(|_| ())
    }
}

impl Chip {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the mailbox, which runs from the reset on.
    pub(super) fn with_mailbox<T>(&self, work: impl FnOnce(&mut Mailbox) -> Result<T>) -> Result<T> {
        self.pci.health()?;
        let mut mailbox = self.mailbox.lock().unwrap_or_else(PoisonError::into_inner);
        match mailbox.as_mut() {
            Some(mailbox) => work(mailbox),
            None => Err(VfFault::Reset { device: self.name.clone() }.into()),
        }
    }

    /// Starts the mailbox anew.
    pub(super) fn start_mailbox(&self) -> Result<()> {
        let mailbox = Mailbox::new(&self.bar, &self.name, &self.dma)?;
        *self.mailbox.lock().unwrap_or_else(PoisonError::into_inner) = Some(mailbox);
        Ok(())
    }

    /// Sends a message; the bytes of its answer.
    pub(super) fn ask(&self, kind: u32, bytes: &[u8]) -> Result<Vec<u8>> {
        self.with_mailbox(|mailbox| mailbox.ask(kind, bytes))
    }

    /// What the physical function gives.
    pub(super) fn resources(&self) -> Result<Resources> {
        self.state().resources.ok_or_else(|| VfFault::Reset { device: self.name.clone() }.into())
    }

    /// The counters now.
    pub(super) fn read_counters(&self) -> Result<Counters> {
        let select = Select { vsi: self.resources()?.vsi, rx: 0, tx: 0 };
        self.with_mailbox(|mailbox| {
            // Whoever asks for counters asks often: not in vain each time.
            mailbox.answers(op::GET_STATS)?;
            let answer = mailbox.ask(op::GET_STATS, &select.encode())?;
            Counters::decode(&answer).ok_or_else(|| mailbox.nonsense(op::GET_STATS, "its length is wrong"))
        })
    }

    /// The queues for which `has` holds, a bit each.
    pub(super) fn bits(&self, has: impl Fn(&QueuePair) -> bool) -> u32 {
        self.state().pairs.iter().filter(|pair| has(pair)).fold(0, |bits, pair| bits | 1 << pair.queue)
    }

    /// Stops queues, a bit each.
    fn disable(&self, rx: u32, tx: u32) -> Result<()> {
        let select = Select { vsi: self.resources()?.vsi, rx, tx };
        self.ask(op::DISABLE_QUEUES, &select.encode()).map(|_| ())
    }

    /// Whether the device reaches a ring no more: it was stopped, or all were by a reset. One that was
    /// announced only has stopped none yet.
    fn has_released(&self, stopped: Result<()>) -> bool {
        let was_reset = matches!(stopped, Err(Error::Vf(VfFault::Reset { .. }))) && self.is_reset_in_time();
        was_reset || self.device.has_released(stopped)
    }

    /// Waits for a reset that was announced; all queues together wait no longer than for one.
    fn is_reset_in_time(&self) -> bool {
        let end = *self.state().reset_by.get_or_insert_with(|| Instant::now() + RESET);
        loop {
            // A mailbox that cannot be asked is a device's that is gone.
            if self.with_mailbox(|mailbox| Ok(mailbox.is_disabled())).unwrap_or(true) {
                return true;
            }
            if Instant::now() >= end {
                return false;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    /// Asks for a reset and waits for it: after that nothing of this driver's is the device's.
    fn reset_in_the_end(&self) -> bool {
        let told = self.with_mailbox(|mailbox| match mailbox.is_disabled() {
            true => Ok(()),
            false => mailbox.tell(op::RESET_VF, &[]),
        });
        let begin = Instant::now();
        let gone = || self.with_mailbox(|mailbox| Ok(mailbox.is_disabled())).unwrap_or(true);
        while told.is_ok() && begin.elapsed() < RESET {
            if gone() {
                return true;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        gone()
    }
}

impl State {
    /// Adds what was counted since the last time. A counter that went back was begun anew, and the
    /// physical function may tell anything: no sum goes back.
    fn count(&mut self, now: Counters) {
        for ((sum, last), now) in self.sums.0.iter_mut().zip(self.last.0).zip(now.0) {
            *sum = sum.saturating_add(now.saturating_sub(last));
        }
        self.last = now;
    }

    /// Every counter, and the sums of some.
    fn counters(&mut self) -> Vec<Counter> {
        let values = &self.sums.0;
        let sum =
            |from: usize| values[from..from + 3].iter().fold(0, |sum: u64, value| sum.saturating_add(*value));
        // What had no descriptor came, too.
        self.received = sum(1).saturating_sub(values[4]).max(self.received);
        let all = Counters::NAMES.iter().zip(WHAT).zip(values);
        let mut counters: Vec<Counter> =
            all.map(|((name, (what, loss)), value)| Counter { name, value: *value, loss, what }).collect();
        counters.push(Counter { name: RECEIVED, value: self.received, loss: None, what: "frames received" });
        counters.push(Counter { name: SENT, value: sum(7), loss: None, what: "frames sent" });
        counters
    }
}

impl Queues for Chip {
    fn disable_rx(&self, queue: usize) -> bool {
        let started = self.state().started;
        !started || self.has_released(self.disable(1 << queue, 0))
    }

    fn disable_tx(&self, queue: usize) -> bool {
        let started = self.state().started;
        !started || self.has_released(self.disable(0, 1 << queue))
    }

    fn device(&self) -> &Device {
        self
    }
}

impl Drop for Chip {
    /// Leaves the device reset, no bus master.
    fn drop(&mut self) {
        let running = self.mailbox.get_mut().is_ok_and(|mailbox| mailbox.is_some());
        if self.pci.health().is_err() || !running {
            return;
        }
        // What a physical function that does not answer has not reset, the bus resets (a function
        // level reset); a function that is gone by then does no DMA.
        if self.reset_in_the_end() || self.pci.reset().is_ok() {
            self.was_reset();
        } else if self.pci.health().is_ok() {
            tracing::error!(
                port = self.name,
                "the virtual function was not reset: its memory is kept for good"
            );
            let mailbox = self.mailbox.get_mut().unwrap_or_else(PoisonError::into_inner);
            mailbox.iter().for_each(Mailbox::give_up);
        }
        self.release_bus();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_never_go_back_whatever_is_told() {
        let mut state = State { last: Counters([5; _]), ..State::default() };
        for (told, sum) in [(7, 2), (3, 2), (4, 3), (u64::MAX, u64::MAX - 1), (0, u64::MAX - 1)] {
            state.count(Counters([told; _]));
            assert_eq!(state.sums, Counters([sum; _]), "after {told}");
        }
        let counters = state.counters();
        let of =
            |name: &str| counters.iter().find(|counter| counter.name == name).map(|counter| counter.value);
        assert_eq!((of("PRC"), of("PTC")), (Some(1), Some(u64::MAX)));
    }
}
