//! Names of the machine's interfaces and of the router's ports in place of their addresses.
#![allow(clippy::unwrap_used)]

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use element::io::PortNumbers;
use element::io::router_ports::RouterPorts;

use graph::clock::{Clock, SIMULATION_START_NS};
use graph::element::interfaces::{InterfaceAddresses, Interfaces, MachineInterfaces};
use graph::{Options, Services};

use crate::{Rig, registry};

/// A machine with one interface, and one that has no addresses; and a router's ports.
#[derive(Default)]
struct Machine {
    /// Whether the ports are open.
    open: Arc<AtomicBool>,
}

impl Interfaces for Machine {
    fn addresses(&self, name: &str) -> Option<InterfaceAddresses> {
        let eth0 = InterfaceAddresses {
            ethernet: Some([2, 0, 0, 0, 0, 9]),
            ipv4: Some((Ipv4Addr::new(10, 1, 2, 3), 20)),
            ipv6: Some(("2001:db8::3".parse().unwrap(), 64)),
        };
        match name {
            "eth0" | "af_packet:eth0" => Some(eth0),
            "eth1" => Some(InterfaceAddresses::default()),
            _ => None,
        }
    }

    fn gateway(&self, name: &str) -> Option<Ipv4Addr> {
        (name == "eth0").then_some(Ipv4Addr::new(10, 1, 15, 254))
    }

    fn port(&self, name: &str) -> Option<[u8; 6]> {
        let last = match name {
            "model:82599,wire=loop" => 0x11,
            "0000:03:00.0" => 0x12,
            "tap:fake0" => 0x13,
            _ => return None,
        };
        self.open.load(Ordering::Relaxed).then_some([2, 0, 0, 0, 0, last])
    }
}

/// What a router is built with, and is planned with; ports are open once it is prepared.
fn options() -> Options {
    let (machine, mut services) = (Machine::default(), Services::default());
    let open = machine.open.clone();
    services.add(Arc::new(MachineInterfaces(Box::new(machine))));
    services.add(Arc::new(PortNumbers([(3, "0000:03:00.0".to_string())].into())));
    services.add(Arc::new(RouterPorts::new(Box::new(|_| Err("nothing is opened here".into())))));
    let clock = Arc::new(Clock::simulated(SIMULATION_START_NS));
    let prepare = move |_: &[graph::plan::Planned]| {
        open.store(true, Ordering::Relaxed);
        Ok(())
    };
    Options { clock, services, prepare: Some(Box::new(prepare)), ..Options::default() }
}

fn build(config: &str) -> Result<Rig, String> {
    let flat = element::fixture::flatten(config, &registry())?;
    element::fixture::Rig::build(config, flat, &registry(), options()).map(Rig)
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

const PORTS: &str = "p0 :: FromDevice(\"model:82599,wire=loop\") -> Discard; FromDPDKDevice(3) -> Discard;
    host :: FromHost(fake0) -> Discard; e0 :: FromDevice(eth0) -> Discard;
    c :: { Idle -> q1 :: ToDevice(0000:03:00.0) };";

/// A port's address is known when it is open, and elements are made before that.
#[test]
fn a_ports_name_is_its_ethernet_address() {
    for (name, last) in [
        ("p0", 0x11),
        ("p0:eth", 0x11),
        ("\"model:82599,wire=loop:eth\"", 0x11),
        ("3:eth", 0x12),
        ("0000:03:00.0:eth", 0x12),
        ("c/q1", 0x12),
        ("host:eth", 0x13),
        ("tap:fake0:eth", 0x13),
        ("e0:eth", 0x09),
    ] {
        let said = printed(&format!(
            "{PORTS} InfiniteSource(DATA abcd, LIMIT 1, STOP true) -> EtherEncap(0x0800, {name}, {name}) -> Print(x)
             -> Discard"
        ));
        let header = format!("02000000 00{last:02x}0200 000000{last:02x} 0800");
        assert!(said.contains(&header), "{name}: {said}");
    }
}

/// What is declared with a port's address has it, too, where it is looked up before or after.
#[test]
fn names_are_declared_with_a_ports_address() {
    let said = printed(&format!(
        "{PORTS} InfiniteSource(DATA abcd, LIMIT 1, STOP true) -> EtherEncap(0x0800, me, you:eth) -> Print(x)
         -> Discard; AddressInfo(me 192.0.2.1 p0, you 192.0.2.2/24 3:eth)"
    ));
    assert!(said.contains("02000000 00120200 00000011 0800"), "{said}");
}

#[test]
fn responders_and_classifiers_take_ports() {
    let request =
        "ffffffff ffff0200 00000011 0806 0001 0800 0604 0001 020000000011 0a010204 000000000000 0a010203";
    let said = printed(&format!(
        "{PORTS} InfiniteSource(DATA \\<{request}>, LIMIT 1, STOP true) -> t :: Tee
         -> ARPResponder(e0 p0) -> Print(reply, 32) -> Discard;
         t[1] -> MarkMACHeader(0) -> MarkIPHeader(14) -> f :: IPClassifier(ether src p0:eth, -); f[0] -> Print(ours) -> Discard;
         f[1] -> Discard"
    ));
    assert!(said.contains("02000000 00110200 00000011 0806") && said.contains("ours:"), "{said}");
    let packet = "\\<45000014 00000000 40110000 0a010203 0a01020f>";
    let said = printed(&format!(
        "{PORTS} InfiniteSource(DATA {packet}, LIMIT 1, STOP true) -> MarkIPHeader
         -> f :: IPClassifier(dst host e0, src host e0, -); f[0] -> Print(to) -> Discard;
         f[1] -> Print(from) -> SetIPAddress(e0) -> Discard; f[2] -> Discard"
    ));
    assert!(said.starts_with("from:"), "{said}");
}

/// A port that is no interface has no IP address, a number is no name of one, and the name of a
/// TAP alone is that of the interface at its other end.
#[test]
fn ports_have_no_other_addresses() {
    for config in
        ["SetIPAddress(p0)", "SetIPAddress(p0:ip)", "SetIPAddress(3)", "EtherEncap(0, fake0, fake0)"]
    {
        let error = build(&format!("{PORTS} Idle -> {config} -> Discard")).err().unwrap_or_default();
        assert!(error.contains("expected"), "{config}: {error}");
    }
}

#[test]
fn who_names_one_model_twice_is_told_how_two_are_named() {
    let twice = |port: &str| format!("FromDevice({port}) -> Discard; FromDevice({port}) -> Discard");
    let error = build(&twice("model:82599")).err().unwrap_or_default();
    assert!(error.contains("has a FromDevice already") && error.contains("model:82599,wire=sink"), "{error}");
    let error = build(&twice("af_packet:fake0")).err().unwrap_or_default();
    assert!(error.contains("has a FromDevice already") && !error.contains("model"), "{error}");
}

/// Where nothing is opened it is told whose address is not known.
#[test]
fn a_plan_tells_that_a_ports_address_is_not_known() {
    let config = format!("{PORTS} Idle -> e :: EtherEncap(0x0800, p0, e0:eth) -> Discard");
    let flat = element::fixture::flatten(&config, &registry()).unwrap();
    let (plan, problems) = graph::Router::plan(config.as_str(), flat, &registry(), options());
    assert!(plan.is_ok(), "{problems:?}");
    let about: Vec<&str> =
        problems.iter().map(|problem| &*problem.message).filter(|m| m.contains("address")).collect();
    assert_eq!(about, ["the address of model:82599,wire=loop is known when the port is open"]);
}
