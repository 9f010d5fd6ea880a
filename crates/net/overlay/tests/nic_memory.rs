//! What the mirror of a NIC's table takes of the machine's memory, in a process of its own:
//! `cargo test -p ixora-overlay --test nic_memory -- --nocapture` prints it.
#![allow(clippy::unwrap_used)]

use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;

use overlay::{Network, NicTable, Overlay, Port, Protocol, Route, Tunnel};
use port::{EncapHeaders, EncapLimits, EncapNetwork, EncapOffload, Result};
use wire::MacAddress;

const ENTRIES: u32 = 100_000;
/// Bytes for each entry at most, where many lead to one far end, and where each has its own.
const MOST_SHARED: usize = 130;
const MOST_OWN: usize = 1200;

/// A device that takes all and keeps nothing.
struct Nic;

impl EncapOffload for Nic {
    fn limits(&self) -> EncapLimits {
        EncapLimits { networks: 16, places: 1 << 20, entries: 1 << 20 }
    }

    fn generation(&self) -> Result<u32> {
        Ok(1)
    }

    fn reset(&mut self) -> Result<()> {
        Ok(())
    }

    fn set_network(&mut self, _place: u16, _network: Option<&EncapNetwork>) -> Result<()> {
        Ok(())
    }

    fn set_headers(&mut self, _place: u32, _is_v6: bool, _headers: &EncapHeaders) -> Result<()> {
        Ok(())
    }

    fn insert(&mut self, _network: u16, _identifier: u128, _place: u32) -> Result<()> {
        Ok(())
    }

    fn remove(&mut self, _network: u16, _identifier: u128) -> Result<bool> {
        Ok(true)
    }
}

/// Resident bytes of this process (proc(5)).
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}

/// Entries that lead to so many far ends in turn.
fn table(far_ends: u32) -> Overlay {
    let mut overlay = Overlay::new();
    let mac = MacAddress([2, 0, 0, 0, 0, 1]);
    overlay.set_port(0, Some(Port { mac, mtu: 1600, vlan: None, is_up: true }));
    let gateway = IpAddr::from(Ipv4Addr::new(192, 0, 2, 254));
    let anywhere = (Ipv4Addr::UNSPECIFIED.into(), 0);
    overlay.set_route(anywhere, Some(Route { port: 0, gateway: Some(gateway) })).unwrap();
    overlay.set_neighbor(0, gateway, Some(mac));
    overlay.add_network(1, Network::bridged()).unwrap();
    for entry in 0..ENTRIES {
        let remote = Ipv4Addr::from(0x0A00_0001 + entry % far_ends);
        let local = Ipv4Addr::new(192, 0, 2, 1);
        let tunnel = Tunnel::new(Protocol::named("vxlan").unwrap(), local.into(), remote.into());
        overlay.insert(1, entry.into(), tunnel.with_identifier(100)).unwrap();
    }
    overlay.publish();
    overlay
}

/// Set where this process is to measure with so many far ends.
const FAR_ENDS: &str = "IXORA_TEST_FAR_ENDS";

fn measure(far_ends: u32) {
    let overlay = table(far_ends);
    let mut table = NicTable::new(Box::new(Nic), 0).unwrap();
    let before = resident();
    table.sync(&overlay).unwrap();
    let bytes = resident().saturating_sub(before) / ENTRIES as usize;
    println!("{ENTRIES} entries, {far_ends} far ends: {bytes} bytes for each entry");
    assert_eq!(table.counts().entries, ENTRIES as usize);
    let most = if far_ends == ENTRIES { MOST_OWN } else { MOST_SHARED };
    assert!((1..most).contains(&bytes), "{bytes} bytes for each entry");
}

/// Bytes for each entry, with few far ends and with one for each entry. Each is measured in a process of
/// its own: what the one frees the other would take without getting larger.
#[test]
fn the_mirror_of_many_entries_is_small() {
    if let Ok(far_ends) = std::env::var(FAR_ENDS) {
        return measure(far_ends.parse().unwrap());
    }
    for far_ends in [100, ENTRIES] {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "the_mirror_of_many_entries_is_small", "--nocapture"]);
        let done = command.env(FAR_ENDS, far_ends.to_string()).output().unwrap();
        let said = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success(), "{said}{}", String::from_utf8_lossy(&done.stderr));
        let figures = said.lines().find(|line| line.contains("bytes for each entry"));
        println!("{}", figures.expect("it measures"));
    }
}
