//! Our driver on our model: frames of one device's generator come out of the
//! other, through a forwarder, and the accounting balances. In one process and over
//! vfio-user, with and without faults.

use crate::common::limit::{Limit, until};
use bus::Pci;
use driver::ixgbe::Ixgbe;
use memory::{Batch, Dma, Pool};
use port::{Options, Port, RxQueue, TxQueue};
use testbed::inprocess::{Handle, InProcess, while_stepping};
use testbed::serve::{Endpoint, Options as ServeOptions, Serving};
use testbed::wire::{CheckStats, Plug, plug};
use testbed::{Device, DeviceReport, ixgbe, vfio_user};

/// Devices with these wires, the device faults in `fault`.
fn devices(wires: &[&str], fault: &str) -> Vec<Device> {
    let plugs: Vec<Plug> = (0..)
        .zip(wires)
        .map(|(index, wire)| Plug { spec: wire.parse().unwrap(), mac: ixgbe::mac(index) })
        .collect();
    let cables = plug(&plugs, &Default::default()).unwrap();
    let device = |(index, cable)| {
        let mut options = ixgbe::Options::with_mac(ixgbe::mac(index));
        options.fault = Some(fault.parse().unwrap());
        ixgbe::open(&options, cable).unwrap()
    };
    (0..).zip(cables).map(device).collect()
}

struct Ports {
    _ports: Vec<Ixgbe>,
    rx: Vec<Box<dyn RxQueue>>,
    tx: Vec<Box<dyn TxQueue>>,
    pool: Pool,
    capacity: usize,
}

fn open(pcis: Vec<Pci>) -> Ports {
    let dma = Dma::new(Default::default());
    let pool = Pool::new(&dma, 8192).unwrap();
    let open = |pci| Ixgbe::open(pci, &dma, Options::default()).unwrap();
    let mut ports: Vec<Ixgbe> = pcis.into_iter().map(open).collect();
    let rx = ports.iter_mut().map(|port| port.rx_queue(0).unwrap()).collect();
    let tx = ports.iter_mut().map(|port| port.tx_queue(0).unwrap()).collect();
    let capacity = pool.capacity();
    Ports { _ports: ports, rx, tx, pool, capacity }
}

impl Ports {
    /// One round of forwarding each port's packets to the next.
    fn forward(&mut self) -> usize {
        let count = self.rx.len();
        let mut moved = 0;
        for from in 0..count {
            let mut batch = Batch::with_limit(32);
            moved += self.rx[from].recv(&mut self.pool, &mut batch);
            self.tx[(from + 1) % count].send(&mut self.pool, &mut batch);
        }
        moved
    }
}

fn in_process(wires: &[&str], fault: &str) -> (Ports, Vec<Handle>) {
    let (pcis, handles): (Vec<Pci>, Vec<Handle>) =
        devices(wires, fault).into_iter().map(InProcess::new).unzip();
    let ports = while_stepping(&handles, || open(pcis)).unwrap();
    (ports, handles)
}

fn clean(check: &CheckStats, received: u64) {
    let expected = CheckStats { received, generators: check.generators.clone(), ..CheckStats::default() };
    assert_eq!(*check, expected);
}

/// Nothing is lost between the wire and the driver without a name.
fn balanced(report: &DeviceReport) {
    let (counters, wire) = (&report.counters, &report.wire);
    assert!(wire.to_host.balances() && wire.from_host.balances(), "{wire:#?}");
    assert_eq!(counters["rx_offered"], wire.to_host.delivered, "{report:#?}");
    let lost: u64 = report.drops.iter().filter(|(name, _)| name.starts_with("rx_")).map(|(_, n)| n).sum();
    assert_eq!(counters["rx_offered"], counters["rx_packets"] + counters["rx_waiting"] + lost, "{report:#?}");
    assert_eq!(counters["tx_packets"], wire.from_host.offered);
}

#[test]
fn frames_cross_two_devices_in_step_without_loss() {
    let wire = "gen:count=20000,flows=16+sink:check";
    let (mut ports, handles) = in_process(&[wire, wire], "");
    let mut idle = 0;
    let mut limit = Limit::rounds(100_000, "40,000 frames to be forwarded, and nothing more to move");
    while idle < 1000 {
        limit.check();
        let moved: usize = handles.iter().map(Handle::step_now).sum();
        idle = if moved + ports.forward() > 0 { 0 } else { idle + 1 };
    }
    for handle in &handles {
        let report = handle.report();
        clean(report.wire.check.as_ref().unwrap(), 20_000);
        balanced(&report);
        assert_eq!(report.findings, [], "the linter is content with our driver");
    }
}

#[test]
fn a_rate_beyond_the_forwarder_is_missed_and_counted() {
    let (mut ports, handles) = in_process(&["gen:rate=1M,count=30000", "sink:check"], "");
    // Nobody receives for a while: ring and packet buffer fill up.
    let mut now = 1_000_000_000;
    for round in 0..40_000 {
        now += 1_000;
        handles.iter().for_each(|handle| _ = handle.step(now));
        if round > 35_000 {
            ports.forward();
        }
    }
    let (from, to) = (handles[0].report(), handles[1].report());
    balanced(&from);
    let lost: u64 = from.drops.values().sum();
    assert!(lost > 0, "{from:#?}");
    let check = to.wire.check.unwrap();
    assert_eq!((check.received + lost, check.corrupt), (from.wire.to_host.delivered, 0));
}

#[test]
fn no_buffer_is_lost_when_the_ports_close() {
    let (mut ports, handles) = in_process(&["gen:count=5000+sink", "gen:count=5000+sink"], "");
    for _ in 0..2_000 {
        handles.iter().for_each(|handle| _ = handle.step_now());
        ports.forward();
    }
    let Ports { mut _ports, rx, tx, mut pool, capacity } = ports;
    drop((rx, tx));
    while_stepping(&handles, || _ports.iter_mut().for_each(|port| port.stop().unwrap())).unwrap();
    drop(_ports);
    assert_eq!(pool.available(), capacity);
    assert_eq!(handles[0].report().mapped.0, 0, "unmapped when the device went");
}

#[test]
fn a_device_that_writes_garbage_harms_nobody() {
    for fault in
        ["garbage=0.01", "length=0.05", "late=0.2", "stuck=0.001", "late=0.1,length=0.1,garbage=0.1,seed=9"]
    {
        let wire = "gen:size=64-1518,count=20000+sink:check+fault:corrupt=0.01,truncate=0.01,crc=0.01";
        let (mut ports, handles) = in_process(&[wire, wire], fault);
        for _ in 0..5_000 {
            handles.iter().for_each(|handle| _ = handle.step_now());
            ports.forward();
        }
        let report = handles[0].report();
        let name = fault.split('=').next().unwrap();
        assert!(report.faults[name] > 0, "{fault}: {:?}", report.faults);
        assert!(report.counters["rx_packets"] > 0, "{report:#?}");
    }
}

#[test]
fn frames_cross_over_vfio_user_and_clients_come_and_go() {
    let directory = tempfile::tempdir().unwrap();
    let sockets = [directory.path().join("a"), directory.path().join("b")];
    let wire = "gen:flows=16+sink:check";
    let endpoints = devices(&[wire, wire], "").into_iter().zip(&sockets);
    let endpoints = endpoints.map(|(device, socket)| Endpoint { socket: socket.clone(), device }).collect();
    let serving = vfio_user::bind(endpoints).unwrap().serve(ServeOptions::default()).unwrap();
    for client in 1..=2 {
        let pcis = sockets.iter().map(|socket| Pci::connect(socket).unwrap()).collect();
        let mut ports = open(pcis);
        let received = |serving: &Serving| {
            let report = serving.report();
            report.endpoints.iter().map(|it| it.device.wire.check.as_ref().unwrap().received).min().unwrap()
        };
        until("packets", || {
            (0..100).for_each(|_| _ = ports.forward());
            received(&serving) > client * 10_000
        });
        let report = serving.report();
        assert!(report.endpoints.iter().all(|it| it.attached && it.device.clients == client));
        drop(ports);
        until("the clients to be gone", || serving.report().endpoints.iter().all(|it| !it.attached));
    }
    serving.stop_sources();
    let report = serving.stop();
    for endpoint in &report.endpoints {
        assert_eq!((endpoint.device.mapped.0, endpoint.client_faults), (0, 0), "{endpoint:#?}");
        assert_eq!(endpoint.left_mapped, (0, 0), "the driver unmapped all before it went");
        let check = endpoint.device.wire.check.as_ref().unwrap();
        assert_eq!((check.corrupt, check.duplicated, check.reordered, check.foreign), (0, 0, 0, 0));
        balanced(&endpoint.device);
    }
    assert!(sockets.iter().all(|socket| !socket.exists()), "sockets go away");
    let json = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<testbed::serve::Report>(&json).unwrap(), report);
}

#[test]
fn what_a_client_leaves_mapped_is_told_when_it_is_gone() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("a");
    let device = devices(&["sink"], "").pop().unwrap();
    let endpoint = Endpoint { socket: socket.clone(), device };
    let serving = vfio_user::bind(vec![endpoint]).unwrap().serve(ServeOptions::default()).unwrap();
    let report = || serving.report().endpoints.remove(0);
    for ranges in [2, 0] {
        let pci = Pci::connect(&socket).unwrap();
        for n in 0..ranges {
            let memory = &mut [0; 4096];
            // SAFETY: without a file there is nothing that the device could reach.
            let range = unsafe { bus::DmaRange::new(memory.as_mut_ptr(), 4096, n << 20, None) };
            pci.map_dma(&range).unwrap();
        }
        until("the ranges", || report().device.mapped.0 as u64 == ranges);
        drop(pci);
        until("the client to be gone", || !report().attached);
        assert_eq!((report().device.mapped, report().left_mapped.0 as u64), ((0, 0), ranges));
    }
}

#[test]
fn a_client_that_breaks_the_protocol_is_counted_and_the_next_one_served() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("a");
    let device = devices(&["gen"], "").pop().unwrap();
    let endpoint = Endpoint { socket: socket.clone(), device };
    let serving = vfio_user::bind(vec![endpoint]).unwrap().serve(ServeOptions::default()).unwrap();
    let mut broken = std::os::unix::net::UnixStream::connect(&socket).unwrap();
    std::io::Write::write_all(&mut broken, &[0xFF; 64]).unwrap();
    until("the fault", || serving.report().endpoints[0].client_faults == 1);
    assert!(serving.report().endpoints[0].last_fault.is_some());
    let pci = Pci::connect(&socket).unwrap();
    assert_eq!(pci.ids().unwrap().device, 0x10FB);
    assert_eq!(pci.bar(0).unwrap().len(), 128 << 10);
}
