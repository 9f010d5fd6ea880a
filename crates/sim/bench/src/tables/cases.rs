//! The tables that strangers can fill, each with the router that it stands in, or the clients
//! that fill it.

use super::hosts::Client;
use super::keys::{self, Make};
use super::packets::{self, Frame};

/// A table and who fills it.
pub struct Case {
    /// Its name in the command.
    pub name: &'static str,
    /// The element and the key.
    pub about: &'static str,
    /// What stands behind the source; the table's element is named `table`.
    router: &'static str,
    pub(super) packet: fn(u64, &mut Frame),
    /// The clients that fill it, where it is one of a host's and stands in no router; a packet of
    /// the figures is a client then, with all of its segments.
    pub(super) client: Option<Client>,
    /// The table, where it stands in neither; a packet of the figures is a key then.
    pub(super) table: Option<Make>,
    /// The handler that tells how many entries there are.
    pub(super) entries: &'static str,
    /// Handlers, or a host's counters, that count what was forgotten or refused.
    pub(super) counters: &'static [&'static str],
    /// The most entries that there may be.
    pub bound: u64,
    /// Whether it is looked at when 1,000, 60,000 and all 64,512 ports are in use.
    pub(super) has_ports: bool,
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Case").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Case {
    /// The configuration that sends so many packets to the table.
    pub(super) fn router(&self, packets: u64) -> String {
        format!("strangers :: Strangers({}, {packets}) -> {}", self.name, self.router)
    }
}

const ANY: Case = Case {
    name: "",
    about: "",
    router: "",
    packet: packets::to_many_hosts,
    client: None,
    table: None,
    entries: "table_size",
    counters: &[],
    bound: 1 << 18,
    has_ports: false,
};

const NEIGHBORS: Case = Case { entries: "count", counters: &["evictions", "suppressed"], bound: 4096, ..ANY };

/// All cases, in the order in which they are measured.
pub const CASES: &[Case] = &[
    Case {
        name: "nat",
        about: "IPRewriter, new flows to one host: 64,512 ports",
        router: "table :: IPRewriter(pattern 203.0.113.1 1024-65535 - - 0 1, drop);
                 table[0] -> Discard; Idle -> [1] table[1] -> Discard;",
        packet: packets::to_one_host,
        bound: 64_512,
        has_ports: true,
        ..ANY
    },
    Case {
        name: "nat-udp",
        about: "UDPRewriter, the same by RoundRobinIPMapper",
        router: "table :: UDPRewriter(mapper, drop); table[0] -> Discard; Idle -> [1] table[1] -> Discard;
                 mapper :: RoundRobinIPMapper(203.0.113.1 1024-65535 - - 0 1, 203.0.113.2 1024-65535 - - 0 1);",
        packet: packets::to_one_host,
        bound: 2 * 64_512,
        has_ports: true,
        ..ANY
    },
    Case {
        name: "nat-full",
        about: "IPRewriter, new flows to all hosts, all guaranteed",
        router: "table :: IPRewriter(pattern 203.0.113.1 1024-65535 - - 0 1, drop);
                 table[0] -> Discard; Idle -> [1] table[1] -> Discard;",
        ..ANY
    },
    Case {
        name: "nat-evicting",
        about: "the same, none guaranteed",
        router: "table :: IPRewriter(pattern 203.0.113.1 1024-65535 - - 0 1, drop, UDP_GUARANTEE 0);
                 table[0] -> Discard; Idle -> [1] table[1] -> Discard;",
        counters: &["evictions"],
        ..ANY
    },
    Case {
        name: "nat-colliding",
        about: "the same, keys that collide in Click's table",
        router: "table :: IPRewriter(pattern 203.0.113.1 1024-65535 - - 0 1, drop, UDP_GUARANTEE 0);
                 table[0] -> Discard; Idle -> [1] table[1] -> Discard;",
        packet: packets::colliding,
        counters: &["evictions"],
        ..ANY
    },
    Case {
        name: "nat-host",
        about: "IPRewriter, one host, HOST_CAPACITY 4096",
        router: "table :: IPRewriter(pattern 203.0.113.1 1024-65535 - - 0 1, drop, HOST_CAPACITY 4096);
                 table[0] -> Discard; Idle -> [1] table[1] -> Discard;",
        bound: 4096,
        ..ANY
    },
    Case {
        name: "nat-ping",
        about: "ICMPPingRewriter, new destinations",
        router: "table :: ICMPPingRewriter(pattern 203.0.113.1 1024-65535 - - 0 1, drop);
                 table[0] -> Discard; Idle -> [1] table[1] -> Discard;",
        packet: packets::pings,
        ..ANY
    },
    Case {
        name: "nat-address",
        about: "IPAddrRewriter, new hosts, 65,534 addresses",
        router: "table :: IPAddrRewriter(pattern 203.1.0.0/16 - 0 1, drop);
                 table[0] -> Discard; Idle -> [1] table[1] -> Discard;",
        packet: packets::of_many_hosts,
        bound: 65_534,
        ..ANY
    },
    Case {
        name: "nat-pair",
        about: "IPAddrPairRewriter, new destinations",
        router: "table :: IPAddrPairRewriter(pattern 203.0.113.0/24 - 0 1, drop);
                 table[0] -> Discard; Idle -> [1] table[1] -> Discard;",
        ..ANY
    },
    Case {
        name: "arp-scan",
        about: "ARPQuerier, packets to hosts that do not exist",
        router: "table :: ARPQuerier(10.0.0.1, 02:00:00:00:00:01); table -> Discard; Idle -> [1] table;",
        packet: packets::scan,
        ..NEIGHBORS
    },
    Case {
        name: "arp-replies",
        about: "ARPQuerier, answers nobody asked for",
        router: "[1] table :: ARPQuerier(10.0.0.1, 02:00:00:00:00:01); table -> Discard; Idle -> table;",
        packet: packets::arp_replies,
        bound: 1 << 16,
        ..NEIGHBORS
    },
    Case {
        name: "nd-scan",
        about: "IP6NDSolicitor, packets to hosts that do not exist",
        router: "table :: IP6NDSolicitor(2001:db8::1, 02:00:00:00:00:01); table -> Discard; Idle -> [1] table;",
        packet: packets::scan6,
        ..NEIGHBORS
    },
    Case {
        name: "nd-give-up",
        about: "the same, packets wait 3 s at most",
        router: "table :: IP6NDSolicitor(2001:db8::1, 02:00:00:00:00:01); Idle -> [1] table;
                 table -> Discard; table[1] -> Discard; table[2] -> Discard;",
        packet: packets::scan6,
        ..NEIGHBORS
    },
    Case {
        name: "switch",
        about: "EtherSwitch, new stations",
        router: "table :: EtherSwitch; Idle -> [1] table; table[0] -> Discard; table[1] -> Discard;",
        packet: packets::stations,
        entries: "count",
        counters: &["evictions"],
        bound: 1 << 14,
        ..ANY
    },
    Case {
        name: "fragments",
        about: "IPReassembler, first fragments of new packets",
        router: "table :: IPReassembler -> Discard;",
        packet: packets::first_fragments,
        entries: "length",
        bound: 73, // 256 KiB, 2,560 bytes and a page for each
        ..ANY
    },
    Case {
        name: "fragments-far",
        about: "the same, fragments with high offsets",
        router: "table :: IPReassembler -> Discard;",
        packet: packets::far_fragments,
        entries: "length",
        bound: 73,
        ..ANY
    },
    Case {
        name: "fragments-many",
        about: "IPReassembler, HIMEM of 16 MiB",
        router: "table :: IPReassembler(HIMEM 16777216) -> Discard;",
        packet: packets::far_fragments,
        entries: "length",
        bound: 4_661,
        ..ANY
    },
    Case {
        name: "flows",
        about: "AggregateIPFlows, new flows",
        router: "table :: AggregateIPFlows -> Discard;",
        entries: "nflows",
        bound: 1 << 20,
        ..ANY
    },
    Case {
        name: "flows-two-hosts",
        about: "the same, all between two hosts",
        router: "table :: AggregateIPFlows -> Discard;",
        packet: packets::of_two_hosts,
        entries: "nflows",
        bound: 1 << 20,
        ..ANY
    },
    Case {
        name: "address-pairs",
        about: "AggregateIPAddrPair, new pairs",
        router: "table :: AggregateIPAddrPair -> Discard;",
        entries: "npairs",
        bound: 1 << 20,
        ..ANY
    },
    Case {
        name: "aggregates",
        about: "AggregateCounter, new aggregates",
        router: "AggregateIP(ip dst) -> table :: AggregateCounter -> Discard;",
        entries: "nagg",
        counters: &["overflow"],
        bound: 1 << 22,
        ..ANY
    },
    Case {
        name: "first-packets",
        about: "AggregateFirst, new aggregates",
        router: "AggregateIP(ip dst) -> table :: AggregateFirst; table[0] -> Discard; table[1] -> Discard;",
        entries: "nagg",
        bound: 1 << 22,
        ..ANY
    },
    Case {
        name: "tcp-half-open",
        about: "SYNs of new clients, which never answer",
        client: Some(Client::Silent),
        counters: &["tcp_cookies_sent"],
        bound: 1024,
        ..ANY
    },
    Case {
        name: "tcp-connections",
        about: "connections of new clients",
        client: Some(Client::Opens),
        counters: &["rx_tcp_limit", "tcp_cookies_sent"],
        bound: 1 << 16,
        ..ANY
    },
    Case {
        name: "tcp-time-wait",
        about: "the same, which the host ends",
        client: Some(Client::Finishes),
        counters: &["tcp_time_wait_ended"],
        bound: 1 << 14,
        ..ANY
    },
    Case {
        name: "service",
        about: "a cache's connections, with half a request each",
        client: Some(Client::Asks),
        counters: &["service_aborted", "rx_tcp_limit"],
        bound: 1 << 16,
        ..ANY
    },
    Case {
        name: "cache-items",
        about: "a cache's items, 1 MiB of memory",
        table: Some(keys::cache),
        bound: 16_384,
        ..ANY
    },
    Case {
        name: "learning",
        about: "stations that an overlay network learns, 4,096 of them",
        table: Some(keys::stations),
        bound: 4096,
        ..ANY
    },
    Case {
        name: "vf-filters",
        about: "addresses that a virtual function of an 82599 asks for",
        table: Some(keys::filters),
        bound: 3,
        ..ANY
    },
];
