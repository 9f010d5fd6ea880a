//! Services over our own TCP: a host on a port, beside this machine's.

pub mod arguments;

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::Duration;

use ::port::{Counter, Port};
use app::services::{Application, http_server, memcached_servers, unix_time_s};
use runtime::Poller;
use runtime::confine::Needs;
use service::http::Files;
use service::memcached::{Limits, Listening};
use tcp::{
    Addresses, Configuration, Echo, Host, KeepAlive, Neighbors, Offload, Options, Origin, Report, Service,
    Sources,
};
use wire::MacAddress;
use wire::ip::port;

use arguments::{HostAddress, Serve, ServeOptions};

use crate::cli::PortOptions;
use crate::connections::{Asking, Spreading};
use crate::{Failure, open, run, signal};

/// Packets that a host's connections may keep, for each thread.
pub const BUFFERS: usize = 16_384;

/// How often it is looked which addresses a host is given.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// `ixora serve`: runs a service on ports until it is stopped.
pub fn run(what: &Serve) -> Result<(), Failure> {
    match what {
        Serve::Echo(arguments) => {
            let (stop, report) = (signal::stop_flag()?, Report::default());
            let application = || Application {
                service: Box::new(Echo::default()),
                datagrams: Some((None, Box::new(Echo::default()))),
            };
            serve(arguments, port::ECHO, &stop, &report, application)
        }
        Serve::Memcached(arguments) => memcached(arguments),
        Serve::Http(arguments) => http(arguments),
        Serve::Iperf3(arguments) => super::iperf3::serve(arguments),
        Serve::Demo(arguments) => super::serve_demo::run(arguments),
    }
}

/// The largest item that may be allowed, as in memcached: answers of the binary protocol have lengths of
/// 32 bits.
const LONGEST_ITEM: usize = 1 << 30;

/// `ixora serve memcached`: all threads serve one cache.
fn memcached(arguments: &arguments::Memcached) -> Result<(), Failure> {
    let limits = Limits {
        memory: arguments.memory.0,
        value: arguments.max_item_size.0,
        threads: arguments.serve.options.open.rx_queues,
    };
    if limits.value > LONGEST_ITEM {
        return Err(Failure::usage("--max-item-size is more than 1G, which is the most".to_owned()));
    }
    if limits.value > limits.memory / 2 {
        return Err(Failure::usage("--max-item-size is more than half of --memory".to_owned()));
    }
    let (stop, report) = (signal::stop_flag()?, Report::default());
    let shutdown = arguments.enable_shutdown.then_some(&stop);
    let listening = listening(arguments);
    let mut servers = memcached_servers(limits, &report, shutdown, Some(listening)).into_iter();
    let none = || -> Box<dyn Service> { Box::new(Echo::default()) };
    let server = || servers.next().unwrap_or_else(|| none().into());
    serve(&arguments.serve, port::MEMCACHED, &stop, &report, server)
}

/// Where clients reach a cache, and how many of them: each thread has a stack of its own.
fn listening(arguments: &arguments::Memcached) -> Listening {
    let serve = &arguments.serve;
    let addresses: Vec<String> = serve.addr.iter().map(HostAddress::to_string).collect();
    let (stack, threads) = (Options::default(), serve.options.open.rx_queues as u64);
    Listening {
        addresses: addresses.join(","),
        tcp_port: serve.listen.unwrap_or(port::MEMCACHED),
        udp_port: arguments.udp_port,
        connections: u64::from(stack.connections) * threads,
        half_open: u64::from(stack.half_open) * threads,
    }
}

/// `ixora serve http`: all threads serve the same files.
fn http(arguments: &arguments::Http) -> Result<(), Failure> {
    let files = match &arguments.root {
        Some(root) => {
            let files = Files::read(root, arguments.memory.0);
            files.map_err(|error| Failure::new(error.to_string()))?
        }
        None => fixed(arguments.size),
    };
    let (stop, files, report) = (signal::stop_flag()?, Arc::new(files), Report::default());
    serve(&arguments.serve, port::HTTP, &stop, &report, || http_server(&files, &report).into())
}

/// One text of so many bytes for all paths.
pub fn fixed(size: usize) -> Files {
    Files::fixed(fixed_text(size), unix_time_s())
}

/// A text of so many bytes.
pub fn fixed_text(size: usize) -> Vec<u8> {
    b"0123456789abcdef".iter().copied().cycle().take(size).collect()
}

/// Runs an application, over UDP too where it has that: a host of its own on each pair of queues,
/// which the device deals the connections out to.
pub fn serve(
    arguments: &ServeOptions,
    listen: u16,
    stop: &Arc<AtomicBool>,
    report: &Report,
    mut application: impl FnMut() -> Application,
) -> Result<(), Failure> {
    let options = &arguments.options;
    let mut ports = open::ports(&[&arguments.port], options, stop)?;
    let mac = MacAddress(ports.mac(0));
    let (addresses, configuration) = configured(&arguments.addr, &arguments.gateway, mac)?;
    let neighbors = Neighbors::default();
    let tcp = host_options(&*ports.list[0]);
    let mut pollers: Vec<Box<dyn Poller>> = Vec::new();
    let (mut watches, mut copies) = (Vec::new(), Vec::new());
    let mut spreading = Spreading::new(&*ports.list[0], options.open.rx_queues, options.open.rx_ring)?;
    for n in 0..options.open.rx_queues {
        let queues = (ports.rx(0, n)?, ports.tx(0, n)?);
        let Application { service, datagrams } = application();
        let mut host = Host::new(queues, addresses.clone(), &neighbors, tcp, service, BUFFERS);
        let listen = arguments.listen.unwrap_or(listen);
        host.stack().listen(listen);
        if let Some((port, datagrams)) = datagrams {
            host.speak_udp(datagrams).bind(port.unwrap_or(listen));
        }
        host.report_to(report);
        configuration.iter().for_each(|configuration| host.configure_by(configuration, n == 0));
        spreading.share(&mut host, n, arguments.control.is_some());
        watches.push(host.watch());
        copies.push(host.copies());
        pollers.push(Box::new(host));
    }
    drop(neighbors); // the hosts have it: what waits in it comes back when they end
    let place = (arguments.control.as_deref(), arguments.metrics.place);
    let asking = Asking::new(place, watches, spreading, copies)?;
    run_asked(ports, pollers, options, stop, report, (asking, configuration))
}

/// Runs hosts, answers those who ask about their connections meanwhile, and tells which addresses
/// they are given.
fn run_asked(
    mut ports: open::Ports,
    pollers: Vec<Box<dyn Poller>>,
    options: &PortOptions,
    stop: &Arc<AtomicBool>,
    report: &Report,
    (asking, configuration): (Option<Asking>, Option<Configuration>),
) -> Result<(), Failure> {
    let runtime = run::threads("serve", &ports, pollers, options, stop, &Arc::default())?;
    let has_clients = asking.is_some();
    let needs = Needs { clients: has_clients, sending: has_clients, ..Needs::default() };
    let confinement = ports.confine_but(options, needs)?;
    let ended = AtomicBool::new(false);
    let mut outcome = thread::scope(|scope| {
        if let Some(asking) = &asking {
            asking.server().into_iter().for_each(|server| _ = scope.spawn(|| server.run(&ended)));
            scope.spawn(|| asking.answer(&ended));
        }
        if let Some(configuration) = configuration.filter(|_| !options.quiet && !options.json) {
            let ended = &ended;
            scope.spawn(move || tell_addresses(&configuration, ended));
        }
        let look = |ports: &mut open::Ports| {
            asking.iter().for_each(|asking| asking.serve(&mut ports.list));
        };
        let watch = run::Watch { look: &look, ..run::Watch::default() };
        let outcome = run::measure_watched("serve", runtime, &mut ports, options, confinement, &watch);
        ended.store(true, Ordering::Relaxed);
        outcome
    });
    drop(ports);
    outcome.summary.add_counters(&taken(report));
    outcome.summary.print(options.json);
    outcome.failure.or_else(|| outcome.summary.missing()).map_or(Ok(()), Err)
}

/// Tells which addresses a host is given, as soon as it has them.
fn tell_addresses(configuration: &Configuration, ended: &AtomicBool) {
    let mut told: Vec<IpAddr> = Vec::new();
    while !ended.load(Ordering::Relaxed) {
        let assigned = configuration.assigned();
        for it in assigned.iter().filter(|it| !told.contains(&it.address)) {
            eprintln!("{}/{} {}", it.address, it.bits, origin(it.origin));
        }
        for lost in told.iter().filter(|told| assigned.iter().all(|it| it.address != **told)) {
            eprintln!("{lost} is no longer this host's");
        }
        told = assigned.iter().map(|it| it.address).collect();
        thread::sleep(POLL_INTERVAL);
    }
}

/// Who gave an address, as it is told.
pub fn origin(origin: Origin) -> String {
    match origin {
        Origin::Dhcp(server) => format!("dhcp server {server}"),
        Origin::Advertised => "auto".to_owned(),
    }
}

/// What the stack of a host on a port is told.
pub fn host_options(port: &dyn Port) -> Options {
    let can = port.capabilities();
    let mtu = can.max_frame.saturating_sub(wire::ethernet::HEADER_LEN).min(memory::DATA_ROOM);
    Options {
        key: random_key(),
        mtu: mtu.min(1500) as u16,
        keep_alive: Some(KeepAlive::default()),
        // Services answer all that came in one turn, and clients wait for each answer.
        nagle: false,
        offload: Offload::from(&can),
        ..Options::default()
    }
}

/// Numbers that nobody can predict.
pub fn random_key() -> [u64; 2] {
    // The standard library's hasher has a random key.
    let random = RandomState::new();
    [random.hash_one(1), random.hash_one(2)]
}

/// What the hosts counted that have ended.
pub fn taken(report: &Report) -> Vec<Counter> {
    std::mem::take(&mut *report.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A host's addresses: those that were given, and what tells it the others, if anything does.
fn configured(
    wanted: &[HostAddress],
    gateways: &[IpAddr],
    mac: MacAddress,
) -> Result<(Addresses, Option<Configuration>), Failure> {
    let given = wanted.iter().filter_map(|wanted| match wanted {
        HostAddress::Given(address, bits) => Some((*address, *bits)),
        HostAddress::Dhcp | HostAddress::Auto => None,
    });
    let mut addresses = addresses(&given.collect::<Vec<_>>(), mac)?;
    let has = |way| wanted.iter().filter(|wanted| **wanted == way).count();
    let (dhcp, auto) = (has(HostAddress::Dhcp), has(HostAddress::Auto));
    let is_twice =
        dhcp + usize::from(addresses.v4.is_some()) > 1 || auto + usize::from(addresses.v6.is_some()) > 1;
    if is_twice {
        return Err(Failure::usage("give one IPv4 and one IPv6 address at most".to_owned()));
    }
    for gateway in gateways {
        set_gateway(&mut addresses, *gateway)?;
    }
    let sources = Sources { dhcp: dhcp > 0, advertisements: auto > 0 };
    let is_told = sources != Sources::default();
    let configuration = is_told.then(|| Configuration::new(addresses.clone(), sources, random_key()));
    Ok((addresses, configuration))
}

/// Has a host send to other networks by a router.
fn set_gateway(addresses: &mut Addresses, gateway: IpAddr) -> Result<(), Failure> {
    // Of an address without a network every router is as near as it says.
    let same = |common: u32, bits: u8, all: u32| common >= u32::from(bits) || u32::from(bits) == all;
    let (is_near, before) = match gateway {
        IpAddr::V4(router) => {
            let own = addresses.v4.filter(|(own, _)| *own != router);
            let is_near = own.is_some_and(|(own, bits)| {
                same((own.to_bits() ^ router.to_bits()).leading_zeros(), bits, 32)
            });
            (is_near, addresses.gateways.0.replace(router).is_some())
        }
        IpAddr::V6(router) => {
            let own = addresses.v6.filter(|(own, _)| *own != router);
            let is_near = own.is_some_and(|(own, bits)| {
                router.is_unicast_link_local()
                    || same((own.to_bits() ^ router.to_bits()).leading_zeros(), bits, 128)
            });
            (is_near, addresses.gateways.1.replace(router).is_some())
        }
    };
    match (is_near && is_router(gateway), before) {
        (true, false) => Ok(()),
        (true, true) => Err(Failure::usage("give one --gateway of each version at most".to_owned())),
        (false, _) => {
            let cause = format!("--gateway {gateway} is no router in the network of an address of --addr");
            Err(Failure::usage(cause)
                .fix("give the router's address on that link, as in --addr 10.0.0.2/24 --gateway 10.0.0.1"))
        }
    }
}

/// Whether an address may be a router's.
fn is_router(address: IpAddr) -> bool {
    !(address.is_unspecified() || address.is_multicast() || address.is_loopback())
}

/// A host's addresses as they were given, one of each version at most.
pub fn addresses(given: &[(IpAddr, u8)], mac: MacAddress) -> Result<Addresses, Failure> {
    let mut addresses = Addresses { mac, v4: None, v6: None, gateways: (None, None) };
    for (address, bits) in given {
        let before = match address {
            IpAddr::V4(address) => addresses.v4.replace((*address, *bits)).is_some(),
            IpAddr::V6(address) => addresses.v6.replace((*address, *bits)).is_some(),
        };
        if before {
            return Err(Failure::usage("give one IPv4 and one IPv6 address at most".to_owned()));
        }
    }
    Ok(addresses)
}

/// The own address from which a client reaches a server. It is one of the server's network, for clients
/// know no router.
pub fn own_address(given: &[(IpAddr, u8)], to: IpAddr) -> Result<IpAddr, Failure> {
    let own = given.iter().find(|(own, _)| own.is_ipv4() == to.is_ipv4());
    let (own, bits) =
        own.ok_or_else(|| Failure::usage("give --addr of the version of IP that --to has".to_owned()))?;
    let (common, is_on_every_link) = match (own, to) {
        (IpAddr::V4(own), IpAddr::V4(to)) => ((own.to_bits() ^ to.to_bits()).leading_zeros(), false),
        (IpAddr::V6(own), IpAddr::V6(to)) => {
            ((own.to_bits() ^ to.to_bits()).leading_zeros(), to.is_unicast_link_local())
        }
        _ => (0, false),
    };
    if common < u32::from(*bits) && !is_on_every_link {
        let cause = format!("{to} is outside of the network of {own}/{bits}, and a load knows no router");
        return Err(Failure::usage(cause).fix("give --addr an address of the network that --to is in"));
    }
    Ok(*own)
}

/// Reads `10.0.0.2/24`, an address of a host with the bits of its network.
pub fn prefixed(text: &str) -> Result<(IpAddr, u8), String> {
    let wanted = || format!("`{text}` is no address with a prefix such as 10.0.0.2/24 or fd00::2/64");
    let (address, bits) = text.split_once('/').ok_or_else(wanted)?;
    let address: IpAddr = address.parse().map_err(|_| wanted())?;
    let bits: u8 = bits.parse().map_err(|_| wanted())?;
    let most = if address.is_ipv4() { Ipv4Addr::BITS } else { Ipv6Addr::BITS };
    if u32::from(bits) > most {
        return Err(wanted());
    }
    match what_else(address, bits) {
        None => Ok((address, bits)),
        Some(what) => Err(format!("{address} is {what}, which no host has: give an address of one host")),
    }
}

/// What an address is that no host has, in a network of so many bits.
fn what_else(address: IpAddr, bits: u8) -> Option<String> {
    let of_network = match address {
        IpAddr::V4(address) => of_network(address, bits),
        // That of all routers of a network is one that a host may have for itself.
        IpAddr::V6(_) => None,
    };
    let what = match address {
        _ if address.is_unspecified() => "the unspecified address",
        _ if address.is_multicast() => "the address of a group",
        _ if address.is_loopback() => "an address of loopback",
        IpAddr::V4(address) if address.is_broadcast() => "the broadcast address of all networks",
        _ => return of_network,
    };
    Some(what.to_owned())
}

/// What an address is in its network beside a host's. Networks of 31 and 32 bits have hosts only (RFC
/// 3021).
fn of_network(address: Ipv4Addr, bits: u8) -> Option<String> {
    let hosts = u32::MAX.checked_shr(bits.into()).unwrap_or(0);
    let network = Ipv4Addr::from_bits(address.to_bits() & !hosts);
    let first = Ipv4Addr::from_bits(network.to_bits() | 1);
    match address.to_bits() & hosts {
        _ if bits >= 31 => None,
        0 => Some(format!("the address of the network {network}/{bits} itself (its hosts begin at {first})")),
        host if host == hosts => Some(format!("the broadcast address of {network}/{bits}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_prefix() {
        assert_eq!(prefixed("10.0.0.2/24"), Ok((IpAddr::from([10, 0, 0, 2]), 24)));
        assert!(prefixed("fd00::2/64").is_ok_and(|(address, bits)| address.is_ipv6() && bits == 64));
        for wrong in ["10.0.0.2", "10.0.0.2/33", "/8", "fd00::/129", "0.0.0.0/0", "224.0.0.1/4", "a/b"] {
            assert!(prefixed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn addresses_that_no_host_has_are_refused_by_what_they_are() {
        for (wrong, what) in [
            ("10.0.0.0/24", "network 10.0.0.0/24 itself (its hosts begin at 10.0.0.1)"),
            ("10.0.0.255/24", "broadcast address of 10.0.0.0/24"),
            ("10.0.0.3/30", "broadcast address of 10.0.0.0/30"),
            ("10.255.255.255/8", "broadcast"),
            ("255.255.255.255/32", "broadcast"),
            ("224.0.0.1/32", "group"),
            ("127.0.0.1/8", "loopback"),
            ("0.0.0.0/0", "unspecified"),
            ("::/64", "unspecified"),
            ("ff02::1/64", "group"),
            ("::1/128", "loopback"),
        ] {
            let told = prefixed(wrong).expect_err(wrong);
            assert!(told.contains(what) && told.contains("give an address of one host"), "{told}");
        }
        for right in
            ["10.0.0.0/31", "10.0.0.1/31", "10.0.0.0/32", "10.0.0.255/32", "10.0.0.255/23", "fd00::/64"]
        {
            assert!(prefixed(right).is_ok(), "{right}");
        }
    }

    #[test]
    fn a_server_of_another_network_is_not_reached() {
        let own = [prefixed("10.0.0.3/24").expect("an address"), prefixed("fd00::3/64").expect("an address")];
        let from = |to: &str| own_address(&own, to.parse().expect("an address"));
        assert_eq!(from("10.0.0.2").ok(), Some(own[0].0));
        assert_eq!(from("10.0.0.3").ok(), Some(own[0].0));
        for to in ["fd00::2", "fe80::1"] {
            assert_eq!(from(to).ok(), Some(own[1].0), "{to}");
        }
        assert!(own_address(&own[..1], IpAddr::from([0; 16])).is_err(), "of the other version");
        for to in ["10.0.1.2", "11.0.0.2", "fd00:0:0:1::2"] {
            let error = from(to).expect_err("it is elsewhere").to_string();
            assert!(error.contains("outside of the network"), "{error}");
        }
    }

    #[test]
    fn a_gateway_is_in_the_network_of_an_address() {
        let own: Vec<HostAddress> =
            ["10.0.0.2/24", "fd00::2/64"].iter().map(|text| text.parse().expect("an address")).collect();
        let with = |own: &[HostAddress], texts: &[&str]| {
            let gateways: Vec<IpAddr> = texts.iter().map(|text| text.parse().expect("an address")).collect();
            configured(own, &gateways, MacAddress([2; 6])).ok().map(|(addresses, _)| addresses.gateways)
        };
        let both = (Some([10, 0, 0, 1].into()), "fe80::1".parse().ok());
        assert_eq!(with(&own, &["10.0.0.1", "fe80::1"]), Some(both));
        for wrong in [&["10.0.1.1"][..], &["10.0.0.2"], &["fd00:1::1"], &["ff02::1"], &["10.0.0.1"; 2]] {
            assert_eq!(with(&own, wrong), None, "{wrong:?}");
        }
        assert_eq!(with(&[HostAddress::Dhcp], &["10.0.0.1"]), None, "the lease tells it");
        let alone = [HostAddress::Given([10, 0, 0, 2].into(), 32)];
        assert!(with(&alone, &["192.0.2.1"]).is_some());
    }

    #[test]
    fn an_address_of_each_version_comes_one_way() {
        let ways = |texts: &[&str]| {
            let wanted: Vec<HostAddress> =
                texts.iter().map(|text| text.parse().expect("an address")).collect();
            let (addresses, configuration) = configured(&wanted, &[], MacAddress([2; 6])).ok()?;
            Some((addresses.v4.is_some(), addresses.v6.is_some(), configuration.is_some()))
        };
        assert_eq!(ways(&["10.0.0.2/24", "fd00::2/64"]), Some((true, true, false)));
        assert_eq!(ways(&["dhcp", "fd00::2/64"]), Some((false, true, true)));
        assert_eq!(ways(&["auto", "dhcp"]), Some((false, false, true)));
        for wrong in [["dhcp", "10.0.0.2/24"], ["auto", "fd00::2/64"], ["dhcp", "dhcp"], ["auto", "auto"]] {
            assert_eq!(ways(&wrong), None, "{wrong:?}");
        }
    }
}
