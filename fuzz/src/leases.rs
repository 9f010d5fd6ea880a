//! A host that leases its addresses, and servers and routers of its link that mean harm: any message of
//! DHCP, any router advertisement, any ARP packet, at any time.
//!
//! What holds whatever comes: an address that a host can have or none, tables that stay within their
//! bounds, and a host that sleeps between its messages.

use std::net::Ipv4Addr;

use arbitrary::Arbitrary;
use neighbor::{Message, autoconf, dhcp};
use wire::dhcp::option;
use wire::ethernet::{self, EtherType};
use wire::ip::Protocol;
use wire::{MacAddress, icmpv6, ipv4, ipv6, ndp, udp};

const SECOND_NS: i64 = 1_000_000_000;
const OWN: MacAddress = MacAddress([2, 0, 0, 0, 0, 9]);
const OTHER: MacAddress = MacAddress([2, 0, 0, 0, 0, 7]);
/// Turns in a row after which there is nothing to do at the same time.
const TURNS: usize = 4;
/// Bounds of what routers tell (`autoconf`), each with what the host has of its own.
const MOST_ADDRESSES: usize = 5;
const MOST_PREFIXES: usize = 9;

/// What happens next.
#[derive(Arbitrary, Debug)]
pub enum Act {
    /// Time goes on, in milliseconds, or to when something is due.
    Wait(Option<u32>),
    /// A server says something: which of the options it has are bits of `has`.
    Says { kind: u8, other: bool, address: [u8; 4], server: u8, mask: u8, times: [u16; 3], mtu: u16, has: u8 },
    /// Any bytes behind the header that is right.
    Bytes([u8; 20]),
    /// Somebody asks or answers by ARP.
    Arp { operation: u8, sender: u8, target: u8 },
    /// A router tells a prefix and an MTU.
    Told { lifetime: u16, prefix: [u8; 3], bits: u8, flags: u8, times: [u16; 2], mtu: u16, router: u8 },
    /// A router tells any option.
    Option([u8; 16]),
}

/// Both clients of a host, and the time.
pub struct Host {
    dhcp: dhcp::Client,
    autoconf: autoconf::Client,
    now_ns: i64,
    /// The number of the last message's exchange.
    exchange: u32,
}

impl Default for Host {
    fn default() -> Host {
        let (dhcp, autoconf) = (dhcp::Client::new(OWN, [1, 2], 0), autoconf::Client::new(OWN, 0));
        Host { dhcp, autoconf, now_ns: 0, exchange: 0 }
    }
}

impl Host {
    /// Does these acts, the host's turn behind each.
    pub fn run(mut self, acts: &[Act]) {
        self.turn();
        for act in acts {
            self.act(act);
            self.turn();
            self.check();
        }
    }

    fn act(&mut self, act: &Act) {
        match *act {
            Act::Wait(None) => {
                let due = self.dhcp.due_ns().min(self.autoconf.due_ns());
                self.now_ns = due.clamp(self.now_ns, self.now_ns + (1 << 40) * 1000);
            }
            Act::Wait(Some(ms)) => self.now_ns += i64::from(ms) * 1_000_000,
            Act::Says { kind, other, address, server, mask, times, mtu, has } => {
                let exchange = self.exchange.wrapping_add(other.into());
                let mut bytes = message(exchange, address.into());
                bytes.extend([option::MESSAGE_TYPE, 1, 1 + kind % 8]);
                let mask = u32::MAX.checked_shl(u32::from(mask) % 33).unwrap_or(0).to_be_bytes();
                let words = [
                    (option::SERVER, [10, 0, 0, server]),
                    (option::SUBNET_MASK, mask),
                    (option::LEASE_TIME, u32::from(times[0]).to_be_bytes()),
                    (option::RENEWAL, u32::from(times[1]).to_be_bytes()),
                    (option::REBINDING, u32::from(times[2]).to_be_bytes()),
                    (option::ROUTER, [10, 0, 0, mtu as u8]),
                ];
                for (code, word) in words.iter().enumerate().filter(|(n, _)| has >> n & 1 == 0).map(|it| it.1)
                {
                    bytes.extend([*code, 4]);
                    bytes.extend(word);
                }
                bytes.extend([option::MTU, 2]);
                bytes.extend(mtu.to_be_bytes());
                self.dhcp.receive(&bytes, self.now_ns);
            }
            Act::Bytes(ref some) => {
                let bytes = [&message(self.exchange, Ipv4Addr::new(10, 0, 0, 5))[..], some].concat();
                self.dhcp.receive(&bytes, self.now_ns);
            }
            Act::Arp { operation, sender, target } => {
                let ends = [[10, 0, 0, sender], [10, 0, 0, target]];
                let fixed = [0, 1, 8, 0, 6, 4, 0, operation % 4];
                let packet = [&fixed[..], &OTHER.0, &ends[0], &[0; 6], &ends[1]].concat();
                let link = ethernet::Header::between(OWN, OTHER, EtherType::ARP).into_inner();
                self.dhcp.hear(&[&link[..], &packet].concat(), self.now_ns);
            }
            Act::Told { lifetime, prefix: [a, b, c], bits, flags, times, mtu, router } => {
                let mut prefix = ndp::PrefixOption::zeroed();
                prefix.set_prefix([a, b, c, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0].into(), bits, flags);
                prefix.set_lifetimes_s(times[0].into(), times[1].into());
                let mut longest = ndp::MtuOption::zeroed();
                longest.set_mtu(mtu.into());
                self.tell(router, lifetime, &[&prefix.into_inner()[..], &longest.into_inner()].concat());
            }
            Act::Option(ref some) => self.tell(1, 1800, some),
        }
    }

    /// A router advertisement with options.
    fn tell(&mut self, router: u8, lifetime_s: u16, options: &[u8]) {
        let mut head = ndp::RouterAdvertisement::zeroed();
        head.set_kind();
        head.set_lifetime_s(lifetime_s);
        let message = [&head.into_inner()[..], options].concat();
        let src = [0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, router].into();
        let mut header = ipv6::Header::zeroed();
        let addresses = header.fill(src, ndp::ALL_NODES, Protocol::ICMPV6, message.len() as u16, 255);
        let dst = MacAddress::of_ipv6_group(ndp::ALL_NODES);
        let link = ethernet::Header::between(dst, OTHER, EtherType::IPV6).into_inner();
        let mut frame = [&link[..], &header.into_inner(), &message].concat();
        let start = frame.len() - message.len();
        icmpv6::Packet::new_unchecked(&mut frame[start..]).fill_checksum(addresses);
        self.autoconf.hear(&frame, self.now_ns);
    }

    /// Does what is due. Afterwards there is nothing to do for a while.
    fn turn(&mut self) {
        let mut out = Vec::new();
        for _ in 0..TURNS {
            self.dhcp.turn(self.now_ns, &mut out);
            self.autoconf.turn(self.now_ns, &mut out);
        }
        let due = [self.dhcp.due_ns(), self.autoconf.due_ns()];
        assert!(due.iter().all(|due| *due > self.now_ns), "due at {due:?}, at {}", self.now_ns);
        for message in out {
            let (bytes, link) = match &message {
                Message::Frame(frame) => (frame, ethernet::HEADER_LEN),
                Message::Packet(packet) => (packet, 0),
            };
            let at = link + ipv4::HEADER_LEN + udp::HEADER_LEN;
            if let Some(header) = bytes.get(at..).and_then(wire::dhcp::Header::of)
                && bytes.len() >= at + wire::dhcp::MESSAGE_LEN
            {
                self.exchange = header.exchange();
            }
        }
    }

    fn check(&self) {
        if let Some(lease) = self.dhcp.lease() {
            let address = lease.address;
            let is_host = !(address.is_unspecified() || address.is_loopback() || address.is_multicast());
            assert!(is_host && !address.is_broadcast() && address != lease.server, "{lease:?}");
            assert!((1..=32).contains(&lease.bits) && lease.mtu.is_none_or(|mtu| mtu >= 576), "{lease:?}");
            assert!(lease.until_ns.is_none_or(|until| until > self.now_ns), "{lease:?} at {}", self.now_ns);
        }
        let addresses = self.autoconf.addresses(self.now_ns);
        assert!(addresses.len() <= MOST_ADDRESSES && self.autoconf.on_link().len() <= MOST_PREFIXES);
        assert!(addresses.iter().all(|(address, _)| !address.is_multicast() && !address.is_unspecified()));
        assert!(self.autoconf.mtu().is_none_or(|mtu| mtu >= 1280));
        let seconds = self.now_ns / SECOND_NS;
        assert!(self.dhcp.counters().leases <= 1 + seconds as u64, "a lease takes its time");
    }
}

/// A server's message up to its options.
fn message(exchange: u32, address: Ipv4Addr) -> Vec<u8> {
    let mut header = wire::dhcp::Header::zeroed();
    header.set_kind(true);
    header.set_exchange(exchange);
    header.set_your_address(address);
    header.set_client_mac(OWN);
    header.into_inner().to_vec()
}
