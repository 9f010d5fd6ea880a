//! Services over our own TCP: a host on a port, beside this machine's.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use runtime::Poller;
use service::http::Files;
use service::memcached::Limits;
use service::{Http, Memcached, Protocol, Server};
use tcp::{Addresses, Datagrams, Echo, Host, KeepAlive, Neighbors, Offload, Options, Report, Service};
use wire::MacAddress;
use wire::ip::port;

use crate::cli::serve::{self, Serve, ServeOptions};
use crate::{Failure, open, run, signal};

/// Packets that a host's connections may keep, for each thread.
const BUFFERS: usize = 16_384;

/// Bytes of unanswered requests and unsent answers that a thread keeps for all connections.
const KEPT: usize = 64 << 20;

/// `ixora serve`.
pub fn run(what: &Serve) -> Result<(), Failure> {
    match what {
        Serve::Echo(arguments) => {
            let datagrams = || -> Box<dyn Datagrams> { Box::new(Echo::default()) };
            serve(arguments, port::ECHO, |_| Box::new(Echo::default()), Some(datagrams))
        }
        Serve::Memcached(arguments) => memcached(arguments),
        Serve::Http(arguments) => http(arguments),
    }
}

/// `ixora serve memcached`: all threads serve one cache.
fn memcached(arguments: &serve::Memcached) -> Result<(), Failure> {
    let limits = Limits {
        memory: arguments.memory.0,
        value: arguments.max_item_size.0,
        threads: arguments.serve.options.open.rx_queues,
    };
    if limits.value > limits.memory / 2 {
        return Err(Failure::usage("--max-item-size is more than half of --memory".to_owned()));
    }
    let mut servers = Memcached::servers(limits, unix_time_s()).into_iter();
    serve(
        &arguments.serve,
        port::MEMCACHED,
        |report| match servers.next() {
            Some(server) => boxed(server, report),
            None => Box::new(Echo::default()),
        },
        None,
    )
}

/// `ixora serve http`: all threads serve the same files.
fn http(arguments: &serve::Http) -> Result<(), Failure> {
    let files = match &arguments.root {
        Some(root) => {
            let files = Files::read(root, arguments.memory.0);
            files.map_err(|error| Failure::new(error.to_string()))?
        }
        None => Files::fixed(fixed_text(arguments.size), unix_time_s()),
    };
    let files = Arc::new(files);
    serve(&arguments.serve, port::HTTP, |report| boxed(Http::new(files.clone(), unix_time_s()), report), None)
}

/// A text of so many bytes.
fn fixed_text(size: usize) -> Vec<u8> {
    b"0123456789abcdef".iter().copied().cycle().take(size).collect()
}

/// A protocol as a service that reports what it counted.
fn boxed<P: Protocol + 'static>(protocol: P, report: &Report) -> Box<dyn Service> {
    let mut server = Server::new(protocol, KEPT);
    server.report_to(report);
    Box::new(server)
}

fn unix_time_s() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs() as i64)
}

/// Runs a service, over UDP too where that is given: a host of its own on each pair of queues,
/// which the device deals the connections out to.
fn serve(
    arguments: &ServeOptions,
    listen: u16,
    mut service: impl FnMut(&Report) -> Box<dyn Service>,
    datagrams: Option<fn() -> Box<dyn Datagrams>>,
) -> Result<(), Failure> {
    let options = &arguments.options;
    let stop = signal::stop_flag()?;
    let mut ports = open::ports(&[&arguments.port], options, &stop)?;
    let addresses = addresses(&arguments.addr, MacAddress(ports.mac(0)))?;
    let (neighbors, report) = (Neighbors::default(), Report::default());
    // The standard library's hasher has a random key.
    let random = RandomState::new();
    let key = [random.hash_one(1), random.hash_one(2)];
    let mtu = options.open.max_frame.saturating_sub(wire::ethernet::HEADER_LEN).min(memory::DATA_ROOM);
    let mut pollers: Vec<Box<dyn Poller>> = Vec::new();
    for n in 0..options.open.rx_queues {
        let queues = (ports.rx(0, n)?, ports.tx(0, n)?);
        let keep_alive = Some(KeepAlive::default());
        let offload = Offload::from(&ports.list[0].capabilities());
        // Services answer all that came in one turn, and clients wait for each answer.
        let tcp = Options {
            key,
            mtu: mtu.min(1500) as u16,
            keep_alive,
            nagle: false,
            offload,
            ..Options::default()
        };
        let mut host = Host::new(queues, addresses.clone(), &neighbors, tcp, service(&report), BUFFERS);
        let listen = arguments.listen.unwrap_or(listen);
        host.stack().listen(listen);
        if let Some(datagrams) = datagrams {
            host.speak_udp(datagrams()).bind(listen);
        }
        host.report_to(&report);
        pollers.push(Box::new(host));
    }
    let counted = move || std::mem::take(&mut *report.lock().unwrap_or_else(PoisonError::into_inner));
    run::run_counted("serve", ports, pollers, options, &stop, counted).map(drop)
}

/// A host's addresses as they were given, one of each version at most.
fn addresses(given: &[(IpAddr, u8)], mac: MacAddress) -> Result<Addresses, Failure> {
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

/// Reads `10.0.0.2/24`, an address of a host with the bits of its network.
pub fn prefixed(text: &str) -> Result<(IpAddr, u8), String> {
    let wanted = || format!("`{text}` is no address with a prefix such as 10.0.0.2/24 or fd00::2/64");
    let (address, bits) = text.split_once('/').ok_or_else(wanted)?;
    let address: IpAddr = address.parse().map_err(|_| wanted())?;
    let bits: u8 = bits.parse().map_err(|_| wanted())?;
    let most = if address.is_ipv4() { Ipv4Addr::BITS } else { Ipv6Addr::BITS };
    let is_host = !(address.is_unspecified() || address.is_multicast() || address.is_loopback());
    if u32::from(bits) > most || !is_host { Err(wanted()) } else { Ok((address, bits)) }
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
}
