//! Filters for flows of our XL710 driver on our XL710 model: where packets come to, what is
//! counted, and a device that does not do as it was told.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::between::{Between, in_front_of};
use crate::common::frames::{self, Sums, payload};
use crate::common::i40e::Bench;
use crate::common::run_until_idle;
use driver::i40e::{I40e, I40eFault};
use memory::{Batch, Dma, TxOffload};
use port::{
    Feature, Filters as _, Flow, FlowTarget, Options, Port as _, Reason, RxQueue as _, Support, Transport,
};
use regs::i40e::{PFQF_FDSTAT, PRTQF_FD_INSET, QTX_ENA, QTX_TAIL, class, inset};
use testbed::inprocess::{Handle, InProcess, while_stepping};
use testbed::{i40e, ixgbe};
use wire::ip::Addresses;

/// The flows of the frames of [`frames`].
const PORTS: (u16, u16) = (0x1234, 0x5678);
const V4: Addresses = Addresses::V4 { src: Ipv4Addr::new(10, 1, 2, 3), dst: Ipv4Addr::new(198, 18, 0, 9) };
const V6: Addresses = Addresses::V6 {
    src: Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 1),
    dst: Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 2),
};
const UDP: Transport = Transport::Udp { src: PORTS.0, dst: PORTS.1 };
const TCP: Transport = Transport::Tcp { src: PORTS.0, dst: PORTS.1 };

const fn flow(addresses: Addresses, transport: Transport) -> Flow {
    Flow { addresses, transport }
}

/// A port with four receive queues, and one that sends to it.
fn bench() -> Bench {
    Bench::pair(&Options { rx_queues: 4, ..Options::default() })
}

fn add(bench: &mut Bench, flow: Flow, target: FlowTarget) -> port::Result<()> {
    let (handles, device) = (bench.handles.clone(), &mut bench.sides[1].device);
    while_stepping(&handles, || device.add_flow(&flow, target)).unwrap()
}

fn remove(bench: &mut Bench, flow: Flow) -> bool {
    let (handles, device) = (bench.handles.clone(), &mut bench.sides[1].device);
    while_stepping(&handles, || device.remove_flow(&flow)).unwrap().unwrap()
}

/// The queues to which a frame comes.
fn queues_of(bench: &mut Bench, frame: &[u8]) -> Vec<usize> {
    bench.send(0, frame, TxOffload::default());
    run_until_idle(&bench.handles);
    let mut queues = Vec::new();
    for (n, queue) in bench.sides[1].rx.iter_mut().enumerate() {
        let mut batch = Batch::default();
        queue.recv(&mut bench.pool, &mut batch);
        queues.extend(batch.drain().map(|packet| {
            assert_eq!(&packet[..], frame);
            n
        }));
    }
    queues
}

#[test]
pub fn a_flow_comes_to_the_queue_that_it_is_led_to() {
    let mut bench = bench();
    let bytes = payload(99);
    for (flow, frame) in [
        (flow(V4, UDP), frames::udp4(&bytes, Sums::Full)),
        (flow(V4, TCP), frames::tcp4(&bytes, Sums::Full)),
        (flow(V6, UDP), frames::udp6(&bytes, Sums::Full)),
        (flow(V6, TCP), frames::tcp6(&bytes, Sums::Full)),
    ] {
        let before = queues_of(&mut bench, &frame);
        for queue in [2, 0, 3, 1] {
            add(&mut bench, flow, FlowTarget::Queue(queue)).unwrap();
            assert_eq!(queues_of(&mut bench, &frame), [queue], "{flow:?}");
        }
        assert!(remove(&mut bench, flow) && !remove(&mut bench, flow));
        assert_eq!(queues_of(&mut bench, &frame), before, "{flow:?}");
    }
    assert_eq!(bench.counter(1, "FDLED"), 16);
    bench.finish();
}

#[test]
pub fn a_flow_is_dropped_and_counted_and_others_are_not() {
    let mut bench = bench();
    let udp = flow(V4, UDP);
    add(&mut bench, udp, FlowTarget::Drop).unwrap();
    let frame = frames::udp4(b"dropped", Sums::Full);
    for _ in 0..3 {
        assert!(queues_of(&mut bench, &frame).is_empty());
    }
    assert_eq!(queues_of(&mut bench, &frames::tcp4(b"another", Sums::Full)).len(), 1);
    let stats = bench.sides[1].device.stats();
    assert_eq!((stats.lost(Reason::RxFlowFilter), stats.rx_packets), (3, 1));
    assert!(remove(&mut bench, udp));
    assert_eq!(queues_of(&mut bench, &frame).len(), 1);
    assert_eq!(bench.sides[1].device.stats().rx_packets, 2);
    bench.finish();
}

/// What has no ports: other protocols, and fragments of all.
#[test]
pub fn packets_without_ports_are_a_flow_by_their_addresses() {
    let mut bench = bench();
    let other = flow(V4, Transport::Other);
    add(&mut bench, other, FlowTarget::Queue(3)).unwrap();
    let mut fragment = frames::udp4(&payload(40), Sums::Pseudo);
    (fragment[20], fragment[21]) = (0, 2); // 16 bytes behind the first one
    assert_eq!(queues_of(&mut bench, &fragment), [3]);
    let mut gre = frames::udp4(&payload(40), Sums::Pseudo);
    gre[23] = 47;
    assert_eq!(queues_of(&mut bench, &gre), [3]);
    assert!(remove(&mut bench, other));
    add(&mut bench, other, FlowTarget::Drop).unwrap();
    assert!(queues_of(&mut bench, &fragment).is_empty());
    bench.finish();
}

#[test]
pub fn the_table_of_flows_has_its_limit_and_says_so() {
    let mut bench = bench();
    let can = bench.sides[1].device.capabilities();
    assert_eq!((can.support(Feature::FlowFilter), can.limits.flow_filters), (Support::On, 8192));
    let of = |n: usize| flow(V4, Transport::Udp { src: n as u16, dst: 7 });
    for n in 0..8192 {
        add(&mut bench, of(n), FlowTarget::Queue(n % 4)).unwrap();
    }
    let full = add(&mut bench, of(8192), FlowTarget::Drop).unwrap_err();
    assert!(matches!(full, port::Error::TableFull { capacity: 8192, .. }), "{full}");
    add(&mut bench, of(5), FlowTarget::Drop).expect("one that is there is changed");
    assert!(remove(&mut bench, of(6)));
    add(&mut bench, of(8192), FlowTarget::Queue(1)).unwrap();
    // One room is not enough for both classes of what has no ports: then neither is taken.
    assert!(remove(&mut bench, of(7)));
    let other = flow(V4, Transport::Other);
    assert!(add(&mut bench, other, FlowTarget::Drop).is_err());
    assert!(!remove(&mut bench, other));
    add(&mut bench, of(7), FlowTarget::Queue(3)).unwrap();
    let absent = add(&mut bench, of(9), FlowTarget::Queue(4)).unwrap_err();
    assert!(matches!(absent, port::Error::Option(_)), "{absent}");
    let frame = frames::udp4(b"as before", Sums::Full);
    assert_eq!(queues_of(&mut bench, &frame).len(), 1, "what was told of full tables is no packet");
    bench.finish();
}

#[test]
pub fn what_the_card_compares_is_as_it_was_when_the_port_has_gone() {
    let mut bench = bench();
    let bar = bench.pcis[1].bar(0).unwrap();
    let low = || bar.read32(PRTQF_FD_INSET::at(2 * class::IPV4_SCTP as usize));
    assert_ne!(low() & inset::SCTP_TAG as u32, 0);
    add(&mut bench, flow(V4, UDP), FlowTarget::Drop).unwrap();
    assert_eq!(low() & inset::SCTP_TAG as u32, 0, "no tag is compared");
    let gone = bench.sides.remove(1);
    while_stepping(&bench.handles.clone(), || drop(gone)).unwrap();
    assert_ne!(low() & inset::SCTP_TAG as u32, 0);
    bench.finish();
}

/// What is led to a queue comes to others when the queue has gone.
#[test]
pub fn a_filter_goes_with_its_queue() {
    let mut bench = bench();
    let (gone, other) = (flow(V4, UDP), flow(V4, TCP));
    add(&mut bench, gone, FlowTarget::Queue(3)).unwrap();
    add(&mut bench, other, FlowTarget::Queue(1)).unwrap();
    let queue = bench.sides[1].rx.pop().unwrap();
    while_stepping(&bench.handles.clone(), || drop(queue)).unwrap();
    assert_eq!(queues_of(&mut bench, &frames::udp4(b"by its hash", Sums::Full)).len(), 1);
    assert_eq!(queues_of(&mut bench, &frames::tcp4(b"as before", Sums::Full)), [1]);
    assert_eq!((remove(&mut bench, gone), remove(&mut bench, other)), (false, true));
    bench.finish();
}

/// A device that does not do what it was told: it does not count filters, takes no descriptor, or
/// does not start the queue that programs filters, once.
#[derive(Debug, Default)]
struct Idle {
    counts: AtomicBool,
    /// It counts none yet.
    late: AtomicBool,
    /// It takes no doorbells of the queue that programs filters.
    no_doorbell: AtomicBool,
    lazy: AtomicBool,
}

impl Between for Idle {
    fn read_bar(&self, inner: &bus::Pci, index: usize, offset: u32, data: &mut [u8]) -> bus::Result<()> {
        inner.read_bar(index, offset, data)?;
        if offset == PFQF_FDSTAT::AT && !self.counts.load(Ordering::Relaxed) {
            data.fill(0xFF);
        }
        if offset == PFQF_FDSTAT::AT && self.late.load(Ordering::Relaxed) {
            data.fill(0);
        }
        Ok(())
    }

    fn write_bar(&self, inner: &bus::Pci, index: usize, offset: u32, data: &[u8]) -> bus::Result<()> {
        // Of the first queue that the port has not: it has one of each kind.
        let is_tail = offset == QTX_TAIL::at(1) && self.no_doorbell.load(Ordering::Relaxed);
        let is_start = offset == QTX_ENA::at(1) && data != [0; 4];
        if is_tail || is_start && self.lazy.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        inner.write_bar(index, offset, data)
    }
}

/// A port on such a device, and what steps it.
fn idle_port(idle: &Arc<Idle>) -> (I40e, [Handle; 1]) {
    let cable = testbed::wire::Cable::open(&"loop".parse().unwrap()).unwrap();
    let options = i40e::Options::with_mac(ixgbe::mac(0));
    let (inner, handle) = InProcess::new(i40e::open(&options, cable).unwrap());
    let handles = [handle];
    let pci = in_front_of(inner, idle.clone());
    let dma = Dma::new(Default::default());
    let open = || I40e::open(pci.clone(), &dma, Options::default());
    (while_stepping(&handles, open).unwrap().unwrap(), handles)
}

/// What the driver says of adding a filter.
fn fault(added: port::Result<()>) -> driver::Error {
    driver::Error::try_from(added.unwrap_err()).unwrap()
}

#[test]
pub fn a_device_that_does_not_program_a_filter_is_an_error_with_a_name() {
    for no_doorbell in [false, true] {
        let idle =
            Arc::new(Idle { counts: no_doorbell.into(), no_doorbell: no_doorbell.into(), ..Idle::default() });
        let (mut port, handles) = idle_port(&idle);
        let mut add =
            || while_stepping(&handles, || port.add_flow(&flow(V4, UDP), FlowTarget::Drop)).unwrap();
        for again in [false, true] {
            let named = match fault(add()) {
                driver::Error::I40e(I40eFault::FilterNotTaken { .. }) => no_doorbell && !again,
                driver::Error::I40e(I40eFault::FiltersUnknown { .. }) => no_doorbell && again,
                driver::Error::TableFull { .. } => !no_doorbell,
                _ => false,
            };
            assert!(named, "no doorbell {no_doorbell}, again {again}");
        }
        while_stepping(&handles, || drop(port)).unwrap();
    }
}

/// A filter that the device counts when nobody waits for it any more is not there then.
#[test]
pub fn a_filter_that_is_counted_late_is_taken_back() {
    let idle = Arc::new(Idle { counts: true.into(), late: true.into(), ..Idle::default() });
    let (mut port, handles) = idle_port(&idle);
    let mut add = || while_stepping(&handles, || port.add_flow(&flow(V4, UDP), FlowTarget::Drop)).unwrap();
    let refused = fault(add());
    assert!(matches!(refused, driver::Error::TableFull { .. }), "{refused}");
    idle.late.store(false, Ordering::Relaxed);
    add().unwrap();
    while_stepping(&handles, || drop(port)).unwrap();
}

/// A filter that may still be there is not told to have gone, and is added no second time.
#[test]
pub fn a_filter_that_the_device_does_not_remove_is_an_error_with_a_name() {
    let idle = Arc::new(Idle { counts: true.into(), ..Idle::default() });
    let (mut port, handles) = idle_port(&idle);
    let udp = flow(V4, UDP);
    while_stepping(&handles, || port.add_flow(&udp, FlowTarget::Drop)).unwrap().unwrap();
    idle.counts.store(false, Ordering::Relaxed);
    let mut remove = || while_stepping(&handles, || port.remove_flow(&udp)).unwrap().map(drop);
    let first = fault(remove());
    assert!(matches!(first, driver::Error::I40e(I40eFault::Nonsense { .. })), "{first}");
    let again = fault(remove());
    assert!(matches!(again, driver::Error::I40e(I40eFault::FiltersUnknown { .. })), "{again}");
    let added = fault(while_stepping(&handles, || port.add_flow(&udp, FlowTarget::Drop)).unwrap());
    assert!(matches!(added, driver::Error::I40e(I40eFault::FiltersUnknown { .. })), "{added}");
    while_stepping(&handles, || drop(port)).unwrap();
}

/// What was made before it failed is used then: there is no room for a second VSI.
#[test]
pub fn a_filter_can_be_added_after_the_queue_did_not_start() {
    let idle = Arc::new(Idle { counts: true.into(), lazy: true.into(), ..Idle::default() });
    let (mut port, handles) = idle_port(&idle);
    let mut add = || while_stepping(&handles, || port.add_flow(&flow(V4, UDP), FlowTarget::Drop)).unwrap();
    let failed = fault(add());
    assert!(failed.to_string().contains("QTX_ENA"), "{failed}");
    add().unwrap();
    while_stepping(&handles, || drop(port)).unwrap();
}
