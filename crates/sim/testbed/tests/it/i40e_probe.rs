//! Our driver of the XL710 through everything that it can do, on our model: the linter finds
//! nothing, and `cargo xtask mutants` sees what it says of a driver with a seeded bug.

use std::net::Ipv4Addr;

use crate::common::i40e::{Bench, devices};
use crate::common::probe::{Clock, Phase, all, phases, ports, traffic_once};
use port::{Filters as _, Flow, FlowTarget, Options, Transport};
use regs::i40e::{QRX_ENA, QTX_ENA};
use testbed::inprocess::while_stepping;
use wire::ip::Addresses;

ports!(Bench, [QRX_ENA::at(0), QTX_ENA::at(0)], devices, Bench::over);

/// Filters for flows, which come and go.
fn flows(bench: &mut Bench, clock: &mut Clock) {
    let addresses = Addresses::V4 { src: Ipv4Addr::new(10, 0, 0, 1), dst: Ipv4Addr::new(10, 0, 0, 2) };
    let (udp, tcp) = (Transport::Udp { src: 7, dst: 9 }, Transport::Tcp { src: 7, dst: 9 });
    for transport in [udp, tcp, Transport::Other] {
        let flow = Flow { addresses, transport };
        let port = &mut bench.sides[1].device;
        let changed = while_stepping(&bench.handles, || -> port::Result<bool> {
            port.add_flow(&flow, FlowTarget::Queue(1))?;
            port.add_flow(&flow, FlowTarget::Drop)?;
            port.remove_flow(&flow)
        });
        assert!(changed.unwrap().unwrap(), "it was there");
        traffic_once(bench, clock);
    }
}

#[test]
pub fn the_linter_finds_nothing_whatever_the_driver_is_asked_to_do() {
    let mut phases = phases::<Bench>(Options { rx_queues: 4, tx_queues: 4, ..Options::default() });
    phases.push(Phase::new("flows", Options { rx_queues: 3, ..Options::default() }, flows));
    all(&phases);
}
