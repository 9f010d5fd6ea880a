//! What our driver does to the registers when it opens and closes a port, in order:
//! 82599 datasheet 4.6.3 (initialisation), 5.2.5.3.2 (master disable).

use port::{Completion, Options, RxQueue as _, TxQueue as _};
use std::sync::Arc;
use std::time::Duration;

use crate::common::broken::{Broken, Faults};
use crate::common::recorder::{Did, Record, Recorder};
use crate::common::{devices, sound};
use driver::ixgbe::{Ixgbe, RxQueue, TxQueue};
use memory::{Batch, Dma, Pool};
use regs::Access;
use regs::ixgbe::*;
use testbed::inprocess::{Handle, while_stepping};

/// The PCI command register (PCI 3.0, 6.2.2): its offset, and its bit for DMA.
const COMMAND: u16 = 0x04;
const BUS_MASTER: u16 = 1 << 2;

/// An open port whose registers are watched.
struct Watched {
    port: Ixgbe,
    rx: Vec<RxQueue>,
    tx: Vec<TxQueue>,
    pci: bus::Pci,
    recorder: Arc<Recorder>,
    handles: Vec<Handle>,
    dma: Dma,
    /// What opening did.
    opened: Record,
}

impl Watched {
    fn open(options: &Options) -> Watched {
        Watched::with_faults(options, Faults::default(), |_| {})
    }

    /// Opens a device with faults, after `before` has prepared what it counted.
    fn with_faults(options: &Options, faults: Faults, before: impl FnOnce(&Recorder)) -> Watched {
        let (mut pcis, handles) = devices(&["sink"]);
        let (broken, _) = Broken::new(pcis.remove(0), faults);
        let (pci, recorder) = Recorder::new(broken);
        before(&recorder);
        let dma = Dma::new(Default::default());
        let open = || Ixgbe::open(pci.clone(), &dma, options.clone()).unwrap().split();
        let (port, rx, tx) = while_stepping(&handles, open).unwrap();
        let opened = recorder.take();
        Watched { port, rx, tx, pci, recorder, handles, dma, opened }
    }

    fn read(&self, offset: u32) -> u32 {
        self.pci.bar(0).unwrap().read32(offset)
    }

    /// Closes it; what that did, and the PCI command register afterwards.
    fn close(self) -> (Record, u16) {
        let Watched { port, rx, tx, pci, recorder, handles, .. } = self;
        recorder.take();
        while_stepping(&handles, || drop((port, rx, tx))).unwrap();
        let mut command = [0; 2];
        pci.read_config(COMMAND, &mut command).unwrap();
        sound(&handles[0].report());
        (recorder.take(), u16::from_le_bytes(command))
    }
}

/// Whether the places are in this order.
#[track_caller]
fn in_order<const N: usize>(places: [usize; N]) {
    assert!(places.windows(2).all(|two| two[0] < two[1]), "{places:?}");
}

/// Master disable, the wait for it, and reset, in this order, from access `from` on;
/// the places of the first and the last.
#[track_caller]
fn disabled_and_reset(record: &Record, from: usize) -> (usize, usize) {
    let reset = record.wrote(from, "reset it", CTRL::AT, |value| value & CTRL::RST != 0);
    let disable = record.wrote(from, "disabled the master", CTRL::AT, |value| {
        value & CTRL::PCIE_MASTER_DISABLE != 0 && value & CTRL::RST == 0
    });
    let idle = record
        .read(disable, "saw the master idle", STATUS::AT, |value| value & STATUS::PCIE_MASTER_ENABLE == 0);
    in_order([disable, idle, reset]);
    (disable, reset)
}

#[test]
fn initialisation_is_in_the_datasheets_order() {
    let options = Options { rx_queues: 2, tx_queues: 2, interrupts: true, ..Options::default() };
    let mut watched = Watched::open(&options);
    let record = &watched.opened;
    // Interrupts off, reset, interrupts off (4.6.3.1).
    let all = |value| value == 0x7FFF_FFFF;
    let masked = record.wrote(0, "masked interrupts", EIMC::AT, all);
    let (disable, reset) = disabled_and_reset(record, 0);
    let out = record.read(reset, "saw the reset end", CTRL::AT, |value| value & CTRL::RST == 0);
    let masked_again = record.wrote(reset, "masked interrupts again", EIMC::AT, all);
    in_order([masked, disable, reset, out, masked_again]);
    // 10 ms before anything else is touched (4.6.3.2).
    let pause = record.0[reset + 1].0 - record.0[reset].0;
    assert!(pause >= Duration::from_millis(10), "{pause:?}");
    // The EEPROM was read, DMA is initialised, then the set-up begins (4.6.3).
    let eeprom = record.read(reset, "waited for the EEPROM", EEC::AT, |value| value & EEC::AUTO_RD != 0);
    let dma = record.read(eeprom, "waited for DMA", RDRXCTL::AT, |value| value & RDRXCTL::DMAIDONE != 0);
    let counters = record.read(dma, "cleared the counters", GPRC::AT, |_| true);
    let filters = record.wrote(dma, "set the filters", FCTRL::AT, |_| true);
    in_order([masked_again, eeprom, dma, counters, filters]);
    let early = |at: usize| masked_again < at && at < eeprom;
    assert_eq!(record.writes(|_| true).into_iter().filter(|&at| early(at)).count(), 0);
    // Receive and transmit, their queues one by one, the receiver last (4.6.7, 4.6.8).
    let on = record.wrote(dma, "enabled receiving", RXCTRL::AT, |value| value & RXCTRL::RXEN != 0);
    let dmatx = record.wrote(dma, "enabled transmitting", DMATXCTL::AT, |value| value & DMATXCTL::TE != 0);
    for n in 0..2 {
        rx_queue(record, n, on);
        tx_queue(record, n, dmatx);
    }
    // The receive path is empty while the receiver is turned on (4.6.7).
    let hold = |value| value & SECRXCTRL::RX_DIS != 0;
    let held = record.wrote(dma, "held frames back", SECRXCTRL::AT, hold);
    let ready = |value| value & SECRXSTAT::SECRX_RDY != 0;
    let empty = record.read(held, "saw the path empty", SECRXSTAT::AT, ready);
    let let_on = record.wrote(on, "let frames on", SECRXCTRL::AT, |value| !hold(value));
    in_order([filters, held, empty, on, let_on]);
    let receive = |at: u32| [HLREG0::AT, RDRXCTL::AT, RXCSUM::AT, MRQC::AT, FCTRL::AT].contains(&at);
    assert!(record.writes(receive).into_iter().all(|at| at < on), "nothing changes under a receiver");
    // The link after all that (4.6.4).
    let link = record.wrote(0, "started the link", AUTOC::AT, |value| value & AUTOC::RESTART_AN != 0);
    in_order([let_on, link]);
    // Buffers are handed over after the queue runs (4.6.7.1).
    let tails = |record: &Record| {
        let nonzero = |&at: &usize| matches!(record.0[at].1, Did::Write(_, tail) if tail != 0);
        record.writes(|at| at == RDT::at(0)).into_iter().filter(nonzero).count()
    };
    assert_eq!(tails(record), 0);
    let mut pool = Pool::new(&watched.dma, 1200).unwrap();
    watched.rx[0].recv(&mut pool, &mut Batch::default());
    assert_eq!(tails(&watched.recorder.take()), 1);
    watched.close();
}

/// A receive queue's registers, its enabling, the wait for that (4.6.7.1), all before
/// the receiver is on.
#[track_caller]
fn rx_queue(record: &Record, n: usize, on: usize) {
    let enable = |value| value & RXDCTL::ENABLE != 0;
    let enabled = record.wrote(0, "enabled a receive queue", RXDCTL::at(n), enable);
    let seen = record.read(enabled, "waited for it", RXDCTL::at(n), enable);
    in_order([enabled, seen, on]);
    let ring = [RDBAL::at(n), RDBAH::at(n), RDLEN::at(n), RDH::at(n), RDT::at(n), SRRCTL::at(n)];
    for at in ring {
        let writes = record.writes(|offset| offset == at);
        assert!(!writes.is_empty() && writes.iter().all(|&place| place < enabled), "{at:#x}: {writes:?}");
    }
}

/// Likewise a transmit queue (4.6.8.1), after transmit DMA is on.
#[track_caller]
fn tx_queue(record: &Record, n: usize, dmatx: usize) {
    let enable = |value| value & TXDCTL::ENABLE != 0;
    let enabled = record.wrote(0, "enabled a transmit queue", TXDCTL::at(n), enable);
    let seen = record.read(enabled, "waited for it", TXDCTL::at(n), enable);
    in_order([dmatx, enabled, seen]);
    for at in [TDBAL::at(n), TDBAH::at(n), TDLEN::at(n), TDH::at(n), TDT::at(n), TDWBAL::at(n)] {
        let writes = record.writes(|offset| offset == at);
        assert!(!writes.is_empty() && writes.iter().all(|&place| place < enabled), "{at:#x}: {writes:?}");
    }
}

#[test]
fn master_is_disabled_before_reset_and_on_close() {
    let watched = Watched::open(&Options::default());
    let (first, _) = disabled_and_reset(&watched.opened, 0);
    let dma_on = |did| matches!(did, Did::Command(value) if value & BUS_MASTER != 0);
    assert!(watched.opened.find(0, "let it do DMA", dma_on) < first);
    let (closing, command) = watched.close();
    let (disable, reset) = disabled_and_reset(&closing, 0);
    // The queues stop first, and nothing is programmed any more.
    for at in [RXDCTL::at(0), TXDCTL::at(0)] {
        let stopped = closing.wrote(0, "stopped a queue", at, |value| value & RXDCTL::ENABLE == 0);
        assert!(stopped < disable);
    }
    assert_eq!(closing.writes(|_| true).last(), Some(&reset));
    let dma_off = |did| matches!(did, Did::Command(value) if value & BUS_MASTER == 0);
    assert!(closing.find(0, "took DMA away", dma_off) > reset);
    assert_eq!(command & BUS_MASTER, 0, "it cannot do DMA after it was closed");
}

#[test]
fn a_master_that_does_not_stop_is_waited_for() {
    // Transactions are pending for ever.
    let pending = (STATUS::AT, STATUS::PCIE_MASTER_ENABLE, STATUS::PCIE_MASTER_ENABLE);
    let faults = Faults { stuck: vec![pending], ..Faults::default() };
    let watched = Watched::with_faults(&Options::default(), faults, |_| {});
    let record = &watched.opened;
    let disable =
        record.wrote(0, "disabled the master", CTRL::AT, |value| value & CTRL::PCIE_MASTER_DISABLE != 0);
    let reset = record.wrote(disable, "reset it", CTRL::AT, |value| value & CTRL::RST != 0);
    let looks = record.0[disable..reset].iter().filter(|(_, did)| matches!(did, Did::Read(STATUS::AT, _)));
    assert!(looks.count() > 1, "one look is no wait");
    let waited = record.0[reset].0 - record.0[disable].0;
    assert!(waited >= Duration::from_millis(100), "{waited:?}");
    watched.close();
}

#[test]
fn counters_start_at_zero() {
    // Real devices count on after a reset, until somebody reads (8.2.3.23).
    let before = |recorder: &Recorder| {
        let counters = TABLE.iter().filter(|register| register.access == Access::RC);
        let places = counters.flat_map(|register| (0..register.len()).map(|n| register.at(n)));
        recorder.counted.lock().unwrap().extend(places.map(|at| (at, 1000)));
    };
    let mut watched = Watched::with_faults(&Options::default(), Faults::default(), before);
    assert!(!watched.recorder.counted.lock().unwrap().contains_key(&GPTC::AT), "read while opening");
    for counter in watched.port.counters() {
        assert_eq!(counter.value, 0, "{}", counter.name);
    }
    // And from there they count.
    let mut pool = Pool::new(&watched.dma, 16).unwrap();
    let mut batch = Batch::default();
    pool.alloc_batch(&mut batch, 3);
    batch.iter_mut().for_each(|packet| packet.copy_from(&[0xFF; 60]).unwrap());
    assert_eq!(watched.tx[0].send(&mut pool, &mut batch), 3);
    crate::common::run_until_idle(&watched.handles);
    let counters = watched.port.counters();
    let value = |name| counters.iter().find(|counter| counter.name == name).unwrap().value;
    assert_eq!(["GPTC", "GOTC", "TPT", "PTC64", "BPTC", "QPTC", "GPRC"].map(value), [3, 192, 3, 3, 3, 3, 0]);
    watched.close();
}

#[test]
fn eitr_has_the_value_asked_for() {
    let options = Options { rx_queues: 30, interrupts: true, ..Options::default() };
    let watched = Watched::open(&options);
    for n in 0..30 {
        let value = watched.read(EITR::at(n));
        // In units of 2.048 us at 10 Gbit/s, in bits 11:3 (8.2.3.5.12); nothing else is set:
        // no low latency interrupts, the counter not touched.
        let nanoseconds = ((value & EITR::INTERVAL_MASK) >> EITR::INTERVAL_SHIFT) * 2048;
        assert_eq!(nanoseconds, 16_384, "vector {n}: {value:#x}");
        assert_eq!(value & !EITR::INTERVAL_MASK, 0, "vector {n}: {value:#x}");
    }
    let is_eitr = |at| (0..EITR::COUNT).any(|n| EITR::at(n) == at);
    assert_eq!(watched.opened.writes(is_eitr).len(), 30, "each once, and no other");
    watched.close();
    let watched = Watched::open(&Options::default());
    assert!(watched.opened.writes(is_eitr).is_empty(), "without interrupts there is nothing to space");
    watched.close();
}

#[test]
fn dca_bits_are_as_the_datasheet_wants() {
    // 8.2.3.11.1 and 8.2.3.11.2: bits 7:5 let DCA tag what is written, for a CPU in
    // bits 31:24 that nobody named.
    const DCA: u32 = 7 << 5 | 0xFF << 24;
    for completion in [Completion::Report, Completion::Head] {
        let options = Options { rx_queues: 3, tx_queues: 3, completion, ..Options::default() };
        let watched = Watched::open(&options);
        for n in 0..3 {
            let clear = |value| value & DCA_RXCTRL::MUST_CLEAR == 0;
            let cleared = watched.opened.wrote(0, "cleared DCA_RXCTRL bit 12", DCA_RXCTRL::at(n), clear);
            let enable = |value| value & RXDCTL::ENABLE != 0;
            let enabled = watched.opened.wrote(0, "enabled a receive queue", RXDCTL::at(n), enable);
            assert!(cleared < enabled, "before the queue runs (4.6.7.1)");
            assert_eq!(watched.read(DCA_RXCTRL::at(n)) & (DCA_RXCTRL::MUST_CLEAR | DCA), 0);
            assert_eq!(watched.read(DCA_TXCTRL::at(n)) & DCA, 0);
        }
        watched.close();
    }
}
