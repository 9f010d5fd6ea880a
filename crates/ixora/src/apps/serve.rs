//! Services over our own TCP: a host on a port, beside this machine's.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::PoisonError;

use runtime::Poller;
use tcp::{Addresses, Echo, Host, KeepAlive, Neighbors, Options, Report, Service};
use wire::MacAddress;

use crate::cli::{Serve, ServeOptions};
use crate::{Failure, open, run, signal};

/// Packets that a host's connections may keep, for each thread.
const BUFFERS: usize = 16_384;

/// `ixora serve echo`.
pub fn run(what: &Serve) -> Result<(), Failure> {
    match what {
        Serve::Echo(arguments) => serve(arguments, || Box::new(Echo::default())),
    }
}

/// Runs a service: a host of its own on each pair of queues, which the device deals the
/// connections out to.
fn serve(arguments: &ServeOptions, service: impl Fn() -> Box<dyn Service>) -> Result<(), Failure> {
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
        let tcp = Options { key, mtu: mtu.min(1500) as u16, keep_alive, ..Options::default() };
        let mut host = Host::new(queues, addresses.clone(), &neighbors, tcp, service(), BUFFERS);
        host.stack().listen(arguments.listen);
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
