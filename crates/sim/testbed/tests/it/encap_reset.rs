//! The table of tunnels in the device behind a reset of the NIC: it is filled again from the overlay's
//! table, and until then no packet goes into another network's tunnel, or out without its headers.

use bus::Pci;
use overlay::{Network, NicTable, Unknown};
use testbed::{MODELS, Model};
use wire::encap_tag::reason;

use crate::encap_offload::{NETWORK, PORT, Rig, frame, station, table, tunnel, v4};

/// More than half of the places that the device has for networks.
const NETWORKS: u32 = 200;

/// A device with many networks, of which all have the same station behind tunnels of their own.
fn rig(model: &'static Model) -> Rig {
    let network = Network { unknown: Unknown::Flood, ..Network::bridged() };
    let mut overlay = table(network);
    for number in NETWORK..NETWORK + NETWORKS {
        if number != NETWORK {
            overlay.add_network(number, network).unwrap();
        }
        let tunnel = tunnel("vxlan", false, 2).with_identifier(number);
        overlay.insert(number, station(7), tunnel).unwrap();
    }
    Rig::new(model, 256, overlay)
}

/// A frame to the station.
fn packet() -> Vec<u8> {
    frame(7, 0x0800, &v4(0, 1000, 100))
}

/// What is marked as before goes into the network's tunnel.
#[track_caller]
fn is_sent_as_before(rig: &mut Rig, place: u16) {
    rig.software = rig.overlay.trial_encapsulator(); // which counts from one, as the device does
    let expected = rig.by_software(&packet());
    assert_eq!(rig.leave_at(place, &packet()), [expected]);
}

#[test]
fn a_port_that_was_opened_again_relies_on_a_table_that_is_filled_again() {
    let resets: [fn(&Pci); 2] = [|_| {}, |pci| pci.reset().unwrap()];
    for model in MODELS {
        for (n, reset) in resets.into_iter().enumerate() {
            let mut rig = rig(model);
            rig.is_sent(&packet());
            let place = rig.nic.place(NETWORK).unwrap();
            rig.reopen(reset);
            // A device that was reset has no network; the other one has them all still.
            match n {
                0 => rig.is_sent(&packet()),
                _ => rig.comes_back(&packet(), reason::NETWORK),
            }
            rig.sync();
            assert_eq!(rig.nic.counts().restored, n as u64, "{}", model.name);
            if n == 1 {
                is_sent_as_before(&mut rig, place);
            }
            rig.is_sent(&packet());
            assert_eq!(rig.nic.counts().entries, NETWORKS as usize);
            // Whoever takes the table of the port that is open now begins with an empty one.
            let nic = rig.ports[0].encap_offload().unwrap();
            rig.nic = NicTable::new(nic, PORT).unwrap();
            rig.comes_back_of(place, &packet(), reason::NETWORK);
            rig.sync();
            is_sent_as_before(&mut rig, place);
            rig.finish();
        }
    }
}
