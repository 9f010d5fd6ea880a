//! Changes beside packets: while one thread changes entries, the underlay and groups as fast as
//! it can, another sends, and every packet says where it was to go.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use fib::exact::Extractor;
use overlay::{Network, Overlay, Owner, Sent, Target, Tunnel};
use wire::tunnel::vxlan;
use wire::{MacAddress, ipv4};

use crate::rig::{Buffers, NETWORK, frame, table, tunnel, v4};

const STATIONS: u32 = 2000;
const CHANGES: u32 = 20_000;
/// Places at which a station can be.
const PLACES: u32 = 4;

/// The tunnel to a station at a place: its identifier names the station, its remote address
/// the place and the station's parity.
fn to(station: u32, place: u32) -> Tunnel {
    let remote = Ipv4Addr::from([198, 51, 100, (1 + place * 2 + station % 2) as u8]);
    Tunnel { remote: remote.into(), ..tunnel("vxlan", false).with_identifier(station << 3 | place) }
}

fn identifier(station: u32) -> u128 {
    0x0200_0000_0000 | u128::from(station)
}

fn packet_to(station: u32) -> Vec<u8> {
    let mut bytes = frame(0, 0x0800, &v4(0, &station.to_be_bytes()));
    bytes[..6].copy_from_slice(&identifier(station).to_be_bytes()[10..]);
    bytes
}

/// Whether headers and packet belong together: the station, the place, and the next hop.
fn is_right(bytes: &[u8], station: u32) -> bool {
    let ip = ipv4::Header::of(&bytes[14..]).unwrap();
    let vni = vxlan::Header::of(&bytes[42..]).unwrap().vni();
    let expected = to(station, vni & 7);
    let is_whole = ipv4::Packet::new_checked(&bytes[14..]).unwrap().verify_checksum();
    // The next hop's address ends as the remote's, whatever else it is at the moment.
    let IpAddr::V4(remote) = expected.remote else { return false };
    vni >> 3 == station
        && ip.dst() == remote
        && bytes[5] == remote.octets()[3]
        && is_whole
        && bytes[50..] == packet_to(station)
}

/// Tells the sender that all is over, also where the changes panic: the scope waits for it.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A network that becomes one whose packets are known by other bits: none goes by an entry
/// that stands for the bits of the other.
#[test]
fn no_packet_meets_the_entries_of_another_network_of_its_number() {
    let by = |offset| Network { extractor: Extractor::new(offset, 48).unwrap(), ..Network::bridged() };
    let wrong = || tunnel("vxlan", false).with_identifier(1);
    // By its destination each packet goes into tunnel 2, by its source into tunnel 3.
    let (dst, src) = (0x0200_0000_0107, 0x0200_0000_01FF);
    let sets = [(by(0), dst, src, 2), (by(6), src, dst, 3)];
    let mut here = table();
    let mut sender = here.encapsulator();
    let is_over = AtomicBool::new(false);
    let mut put = |(network, right, other, identifier): (Network, u128, u128, u32)| {
        let _ = here.remove_network(NETWORK);
        here.add_network(NETWORK, network).unwrap();
        here.insert(NETWORK, right, tunnel("vxlan", false).with_identifier(identifier)).unwrap();
        here.insert(NETWORK, other, wrong()).unwrap();
        // Others make the publication of entries take its time.
        for n in 0..64 {
            here.insert(NETWORK, 0x0A00_0000_0000 | n, wrong()).unwrap();
        }
        here.publish();
    };
    put(sets[0]);
    thread::scope(|scope| {
        let over = Over(&is_over);
        let sending = scope.spawn(|| {
            let (mut buffers, mut seen) = (Buffers::new(), [0u64; 4]);
            while !is_over.load(Ordering::Relaxed) {
                let mut packet = buffers.packet(&frame(7, 0x0800, &v4(0, b"either")));
                let mut sent = [Sent::Punt];
                sender.encapsulate(NETWORK, std::slice::from_mut(&mut packet), &mut sent);
                let way = match sent {
                    [Sent::Port(_)] => vxlan::Header::of(&packet[42..]).unwrap().vni(),
                    _ => 0, // dropped
                };
                seen[way as usize] += 1;
            }
            seen
        });
        (0..400).for_each(|n| put(sets[n % 2]));
        drop(over);
        let [_, wrong, first, second] = sending.join().expect("the sender goes on");
        assert!(first > 0 && second > 0, "{first} and {second}");
        assert_eq!(wrong, 0, "of {} packets", first + second);
    });
}

/// The Ethernet address of a tunnel's far end, as it was set for the `version`-th time.
fn far_mac(last: u8, version: u8) -> MacAddress {
    MacAddress([2, 0, 0, 1, version, last])
}

/// A table with all stations, each tenth of them behind a group of two tunnels.
fn table_of_stations() -> Overlay {
    let mut here = table();
    here.set_port(4, Some(crate::rig::port()));
    here.set_route(
        (Ipv4Addr::new(198, 51, 100, 0).into(), 24),
        Some(overlay::Route { port: 4, gateway: None }),
    )
    .unwrap();
    for last in 1..=8 {
        here.set_neighbor(4, Ipv4Addr::new(198, 51, 100, last).into(), Some(far_mac(last, 0)));
    }
    here.add_network(NETWORK, Network::bridged()).unwrap();
    for station in 0..STATIONS {
        if station % 10 == 0 {
            here.set_group(station.into(), &[to(station, 0), to(station, 1)]).unwrap();
            here.insert_as(Owner::Static, NETWORK, identifier(station), Target::Group(station.into()))
                .unwrap();
        } else {
            here.insert(NETWORK, identifier(station), to(station, 0)).unwrap();
        }
    }
    here
}

/// No packet is lost by changes, and none goes where no state of the table sends it.
#[test]
fn no_packet_is_lost_or_misdirected_by_changes() {
    let mut here = table_of_stations();
    let mut sender = here.encapsulator();
    here.publish();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let (mut buffers, mut sent, mut places) = (Buffers::new(), 0u64, [0u64; PLACES as usize]);
            while !is_over.load(Ordering::Relaxed) || sent == 0 {
                for first in (0..STATIONS).step_by(32) {
                    let stations: Vec<u32> = (first..STATIONS.min(first + 32)).collect();
                    let mut packets: Vec<_> =
                        stations.iter().map(|station| buffers.packet(&packet_to(*station))).collect();
                    let mut outcome = vec![Sent::Punt; packets.len()];
                    sender.encapsulate(NETWORK, &mut packets, &mut outcome);
                    for ((packet, outcome), station) in packets.iter().zip(outcome).zip(stations) {
                        assert_eq!(outcome, Sent::Port(4), "station {station}");
                        assert!(is_right(packet, station), "station {station} got {:x?}", &packet[..60]);
                        let vni = vxlan::Header::of(&packet[42..]).unwrap().vni();
                        places[(vni & 7) as usize] += 1;
                        sent += 1;
                    }
                }
            }
            (sent, places)
        });
        let over = Over(&is_over);
        let mut random = 1u32;
        for n in 0..CHANGES {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let (station, place) = ((random >> 8) % STATIONS, (random >> 4) % PLACES);
            match random >> 24 {
                _ if station % 10 == 0 => {
                    let members = [to(station, place), to(station, (place + 1) % PLACES)];
                    here.set_group(station.into(), &members).unwrap();
                }
                0 => {
                    let last = 1 + (random >> 8) as u8 % 8;
                    let mac = Some(far_mac(last, n as u8));
                    here.set_neighbor(4, Ipv4Addr::new(198, 51, 100, last).into(), mac);
                }
                _ => here.insert(NETWORK, identifier(station), to(station, place)).unwrap(),
            }
            if n % 256 == 255 {
                here.publish();
            }
        }
        drop(over);
        let (sent, places) = sending.join().expect("the sender saw no wrong packet");
        assert!(sent > 0 && places.iter().all(|place| *place > 0), "{places:?}");
        println!("{sent} packets beside {CHANGES} changes");
    });
    assert_eq!(sender.drops().total(), 0);
}
