//! Names of the machine's interfaces in place of their addresses, as Click has them.
#![allow(clippy::unwrap_used)]

use std::net::Ipv4Addr;
use std::sync::Arc;

use graph::clock::{Clock, SIMULATION_START_NS};
use graph::element::interfaces::{InterfaceAddresses, Interfaces, MachineInterfaces};
use graph::{Options, Services};

use crate::{Rig, registry};

/// A machine with one interface, and one that has no addresses.
struct Machine;

impl Interfaces for Machine {
    fn addresses(&self, name: &str) -> Option<InterfaceAddresses> {
        let eth0 = InterfaceAddresses {
            ethernet: Some([2, 0, 0, 0, 0, 9]),
            ipv4: Some((Ipv4Addr::new(10, 1, 2, 3), 20)),
            ipv6: Some(("2001:db8::3".parse().unwrap(), 64)),
        };
        match name {
            "eth0" => Some(eth0),
            "eth1" => Some(InterfaceAddresses::default()),
            _ => None,
        }
    }

    fn gateway(&self, name: &str) -> Option<Ipv4Addr> {
        (name == "eth0").then_some(Ipv4Addr::new(10, 1, 15, 254))
    }
}

fn build(config: &str) -> Result<Rig, String> {
    let mut services = Services::default();
    services.add(Arc::new(MachineInterfaces(Box::new(Machine))));
    let clock = Arc::new(Clock::simulated(SIMULATION_START_NS));
    let options = Options { clock, services, ..Options::default() };
    let flat = element::fixture::flatten(config, &registry())?;
    element::fixture::Rig::build(config, flat, &registry(), options).map(Rig)
}

fn printed(config: &str) -> String {
    let mut rig = build(config).unwrap_or_else(|problems| panic!("{config}: {problems}"));
    rig.run();
    rig.printed()
}

#[test]
fn an_interfaces_name_is_its_address() {
    let packet = "InfiniteSource(DATA \\<45000014 00000000 40110000 0a010203 0a01020f>, LIMIT 1, STOP true)";
    for (name, address) in [
        ("eth0", "10.1.2.3"),
        ("eth0:ip", "10.1.2.3"),
        ("eth0:IP4", "10.1.2.3"),
        ("eth0:bcast", "10.1.15.255"),
        ("eth0:gw", "10.1.15.254"),
    ] {
        let config = format!(
            "{packet} -> SetIPAddress({name}) -> StoreIPAddress(16) -> Print(x, 4, TIMESTAMP false)
             -> Strip(16) -> Print(y, 4) -> Discard"
        );
        let bytes: Ipv4Addr = address.parse().unwrap();
        let hex = bytes.octets().map(|byte| format!("{byte:02x}")).concat();
        let said = printed(&config);
        assert!(said.contains(&format!("y:    4 | {hex}")) || said.contains(&hex), "{name}: {said}");
    }
    let encapsulated = printed(
        "InfiniteSource(DATA abcd, LIMIT 1, STOP true) -> EtherEncap(0x0800, eth0, eth0:eth) -> Print(x) -> Discard",
    );
    assert!(encapsulated.contains("02000000 00090200 00000009 0800"), "{encapsulated}");
    let classified = format!(
        "{packet} -> MarkIPHeader -> c :: IPClassifier(dst host eth0, src host eth0, -);
         c[0] -> Print(to) -> Discard; c[1] -> Print(from) -> Discard; c[2] -> Discard"
    );
    assert!(printed(&classified).starts_with("from:"), "{}", printed(&classified));
}

#[test]
fn tables_and_responders_take_interfaces() {
    let mut rig = build(
        "Idle -> r :: ARPResponder(eth0) -> Discard; Idle -> s :: ARPResponder(eth0:ipnet eth0:eth) -> Discard;
         Idle -> [0] q :: ARPQuerier(eth0) -> Discard; Idle -> [1] q;
         Idle -> l :: RadixIPLookup(eth0:ipnet 0, 0/0 eth0:gw 1); l[0] -> Discard; l[1] -> Discard;
         Idle -> l6 :: LookupIP6Route(eth0:ip6net 0, ::/0 eth0:ip6 1); l6[0] -> Discard; l6[1] -> Discard",
    )
    .unwrap_or_else(|problems| panic!("{problems}"));
    assert!(rig.read("q.ipaddr").contains("10.1.2.3"), "{}", rig.read("q.ipaddr"));
    let table = rig.read("l.table");
    assert!(table.contains("10.1.0.0/20") && table.contains("10.1.15.254"), "{table}");
}

#[test]
fn what_is_declared_goes_before_an_interface() {
    let said = printed(
        "AddressInfo(eth0 192.0.2.1/24); InfiniteSource(DATA xxxxxxxxxxxxxxxxxxxx, LIMIT 1, STOP true)
         -> SetIPAddress(eth0) -> StoreIPAddress(0) -> Print(x, 4) -> SetIPAddress(eth0:gw) -> StoreIPAddress(0)
         -> Print(x, 4) -> Discard",
    );
    let shown: Vec<&str> = said.lines().map(|line| line.rsplit("| ").next().unwrap()).collect();
    assert_eq!(shown, ["c0000201", "c0000201"], "the first of its network is the gateway");
}

#[test]
fn an_interface_without_an_address_is_none() {
    for config in
        ["SetIPAddress(eth1)", "SetIPAddress(eth2)", "SetIPAddress(eth1:gw)", "SetIPAddress(eth0:eth)"]
    {
        let error = build(&format!("Idle -> {config} -> Discard")).err().unwrap_or_default();
        assert!(error.contains("expected IP address"), "{config}: {error}");
    }
}
