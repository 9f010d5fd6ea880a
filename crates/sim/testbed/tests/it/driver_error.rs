//! Set-up that cannot work fails in time, says why, and leaves nothing behind.

use port::{Link, Options, Port as _, RxQueue as _, TxQueue as _};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::common::broken::{Broken, Faults};
use crate::common::frames::{self, Sums, payload};
use crate::common::{devices, sound};
use driver::Error;
use driver::ixgbe::{Ixgbe, RxQueue, TxQueue};
use memory::{Batch, Dma, Pool};
use regs::ixgbe::*;
use testbed::inprocess::{Handle, while_stepping};

type Opened = (Ixgbe, Vec<RxQueue>, Vec<TxQueue>);

/// Opens a device with faults.
fn open(faults: Faults, options: Options) -> (driver::Result<Opened>, Dma, Handle, Arc<Mutex<Faults>>) {
    let (mut pcis, mut handles) = devices(&["loop"]);
    let (pci, faults) = Broken::new(pcis.remove(0), faults);
    let dma = Dma::new(Default::default());
    let opened = while_stepping(&handles, || Ixgbe::open(pci, &dma, options).map(Ixgbe::split)).unwrap();
    (opened, dma, handles.remove(0), faults)
}

/// The error of a device with faults; nothing may stay mapped behind it.
fn error(faults: Faults, options: Options) -> Error {
    let (opened, _dma, handle, _) = open(faults, options);
    let Err(error) = opened else { panic!("opened") };
    assert_eq!(handle.report().mapped, (0, 0));
    error
}

#[test]
fn options_out_of_range_are_named_with_their_limits() {
    let base = Options::default;
    let cases = [
        (Options { rx_queues: 0, ..base() }, "the number of receive queues is 0", "1 to 128"),
        (Options { rx_queues: 129, ..base() }, "the number of receive queues is 129", "1 to 128"),
        (Options { tx_queues: 129, ..base() }, "the number of transmit queues is 129", "1 to 128"),
        (Options { rx_ring: 0, ..base() }, "the receive ring is 0", "power of two"),
        (Options { rx_ring: 100, ..base() }, "the receive ring is 100", "64 to 4096"),
        (Options { rx_ring: 8192, ..base() }, "the receive ring is 8192", "64 to 4096"),
        (Options { tx_ring: 32, ..base() }, "the transmit ring is 32", "64 to 4096"),
        (Options { tx_ring: usize::MAX, ..base() }, "the transmit ring is 1844", "64 to 4096"),
        (Options { max_frame: 15_501, ..base() }, "the largest frame is 15501", "15,500"),
        (Options { max_frame: 1513, ..base() }, "the largest frame is 1513", "1,514"),
    ];
    for (options, what, limit) in cases {
        let error = error(Faults::default(), options);
        assert!(matches!(error, Error::Option { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains(what) && text.contains(limit), "{text}");
    }
}

#[test]
fn as_many_transmit_queues_as_receive_queues_when_none_are_asked_for() {
    let options = Options { rx_queues: 3, tx_queues: 0, link_wait_ms: 0, ..Options::default() };
    let (opened, _dma, handle, _) = open(Faults::default(), options);
    let (port, rx, tx) = opened.unwrap();
    assert_eq!((rx.len(), tx.len()), (3, 3));
    assert_eq!(port.options().tx_queues, 3);
    while_stepping(&[handle], || drop((port, rx, tx))).unwrap();
}

#[test]
fn all_queues_that_the_device_has_can_be_opened() {
    let options = Options { rx_queues: 128, tx_queues: 128, rx_ring: 64, tx_ring: 64, ..Options::default() };
    let (opened, _dma, handle, _) = open(Faults::default(), options);
    let (port, rx, tx) = opened.unwrap();
    assert_eq!((rx.len(), tx.len()), (128, 128));
    while_stepping(std::slice::from_ref(&handle), || drop((port, rx, tx))).unwrap();
    sound(&handle.report());
}

#[test]
fn another_device_is_refused_by_its_ids() {
    for ids in [(0x8086, 0x1572), (0x15B3, 0x10FB), (0xFFFF, 0xFFFF)] {
        let error = error(Faults { ids: Some(ids), ..Faults::default() }, Options::default());
        let Error::UnknownDevice { vendor, id, .. } = error else { panic!("{error}") };
        assert_eq!((vendor, id), ids);
    }
}

#[test]
fn a_bar_too_small_for_the_registers_is_refused() {
    let error = error(Faults { size: Some(64 << 10), ..Faults::default() }, Options::default());
    let Error::BarTooSmall { bar, len, needed, .. } = error else { panic!("{error}") };
    assert_eq!((bar, len, needed), (0, 65_536, 131_072));
}

#[test]
fn an_empty_eeprom_is_no_address() {
    let stuck = vec![(RAL::at(0), u32::MAX, 0), (RAH::at(0), 0xFFFF, 0)];
    let error = error(Faults { stuck, ..Faults::default() }, Options::default());
    assert!(matches!(error, Error::NoMacAddress { mac: [0, 0, 0, 0, 0, 0], .. }), "{error}");
}

/// A register that never comes: the error names it, its offset and the last
/// value, after the limit and not much later.
fn never(name: &str, offset: u32, mask: u32, bits: u32, limit_ms: u64) {
    let begin = Instant::now();
    let error = error(Faults { stuck: vec![(offset, mask, bits)], ..Faults::default() }, Options::default());
    let elapsed = begin.elapsed();
    let text = error.to_string();
    let Error::Timeout { register, offset: at, last, mask: waited, wanted, waited_ms, .. } = error else {
        panic!("{text}")
    };
    assert_eq!((register, at, last & mask), (name, offset, bits), "{text}");
    assert!(
        last & waited != wanted && text.contains(name) && text.contains(&format!("{last:#010x}")),
        "{text}"
    );
    assert!((limit_ms..limit_ms + 1000).contains(&waited_ms), "{text}");
    assert!(elapsed < Duration::from_millis(limit_ms + 5_000), "{elapsed:?}");
}

#[test]
fn a_reset_that_never_ends_is_named() {
    never("CTRL", CTRL::AT, CTRL::RST, CTRL::RST, 1000);
}

#[test]
fn an_eeprom_that_is_never_read_is_named() {
    never("EEC", EEC::AT, EEC::AUTO_RD, 0, 1000);
}

#[test]
fn receive_memory_that_never_initialises_is_named() {
    never("RDRXCTL", RDRXCTL::AT, RDRXCTL::DMAIDONE, 0, 1000);
}

#[test]
fn queues_that_never_start_are_named() {
    never("RXDCTL", RXDCTL::at(0), RXDCTL::ENABLE, 0, 100);
    never("TXDCTL", TXDCTL::at(0), TXDCTL::ENABLE, 0, 100);
}

#[test]
fn a_receive_path_that_never_empties_is_named() {
    never("SECRXSTAT", SECRXSTAT::AT, SECRXSTAT::SECRX_RDY, 0, 100);
}

#[test]
fn a_queue_that_never_stops_keeps_its_memory_for_good() {
    let (opened, dma, handle, faults) = open(Faults::default(), Options::default());
    let (port, mut rx, tx) = opened.unwrap();
    let mut pool = Pool::new(&dma, 1024).unwrap();
    rx[0].recv(&mut pool, &mut Batch::default());
    faults.lock().unwrap().stuck = vec![(RXDCTL::at(0), RXDCTL::ENABLE, RXDCTL::ENABLE)];
    let begin = Instant::now();
    while_stepping(&[handle], || drop((rx, port, tx))).unwrap();
    assert!(begin.elapsed() < Duration::from_secs(5));
    assert_eq!(pool.available(), pool.capacity() - 511, "the device may still write to the ring's buffers");
}

#[test]
fn a_device_that_is_gone_gives_everything_back() {
    let (opened, dma, handle, faults) = open(Faults::default(), Options::default());
    let (port, mut rx, mut tx) = opened.unwrap();
    let mut pool = Pool::new(&dma, 1024).unwrap();
    let mut batch = Batch::default();
    rx[0].recv(&mut pool, &mut batch);
    let mut packet = pool.alloc().unwrap();
    packet.copy_from(&frames::udp4(&payload(100), Sums::Full)).unwrap();
    batch.push(packet);
    tx[0].send(&mut pool, &mut batch);
    (0..4).for_each(|_| _ = handle.step_now());
    let before = port.counters();

    faults.lock().unwrap().gone = true;
    assert!(port.health().is_err());
    assert_eq!(port.link(), Link::DOWN, "all ones are no link");
    assert_eq!(port.counters(), before, "all ones are no counts");
    assert_eq!(rx[0].recv(&mut pool, &mut batch), 1, "what had come is there");
    tx[0].send(&mut pool, &mut batch);
    let begin = Instant::now();
    drop((port, rx, tx));
    assert!(begin.elapsed() < Duration::from_secs(1), "nobody waits for it");
    assert_eq!(pool.available(), pool.capacity());
    assert_eq!(handle.report().mapped, (0, 0));
}
