//! A list of connections as it goes over the control socket.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};
use tcp::{Assigned, Id, Info, Origin, Shown, State, Timer};

use super::filter::Filter;

/// A connection. Times are in microseconds and sizes in bytes, where the name says nothing else.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Connection {
    /// The queue of the host that has it.
    pub queue: usize,
    /// As `ss` calls it.
    pub state: String,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// What came and the application has not consumed.
    pub receive_queue: u32,
    /// What is to be sent, or was not acknowledged.
    pub send_queue: u32,
    pub rtt_us: i64,
    pub rtt_variation_us: i64,
    pub rtt_least_us: i64,
    pub rto_us: i64,
    pub segment_size: u32,
    pub congestion_window: u32,
    /// Above it the congestion window grows slowly; nothing before the first loss.
    pub slow_start_threshold: Option<u32>,
    /// What the other side takes.
    pub send_window: u32,
    pub in_flight: u32,
    pub lost: u32,
    pub sacked: u32,
    /// Segments that were sent again.
    pub retransmits: u32,
    /// How often in a row nobody answered.
    pub attempts: u8,
    /// Packets that came before what stands in front of them.
    pub out_of_order_packets: u32,
    pub bytes_acknowledged: u64,
    pub bytes_received: u64,
    /// How long ago something came.
    pub last_received_us: i64,
    /// What expires next, and in which time.
    pub timer: Option<(String, i64)>,
}

/// An address that the hosts were told to have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Address {
    pub address: IpAddr,
    pub bits: u8,
    /// `dhcp` or `auto`.
    pub origin: String,
    /// The server of DHCP.
    pub server: Option<IpAddr>,
    pub gateway: Option<IpAddr>,
    /// For how long the hosts have it, if that is foreseen.
    pub valid_s: Option<i64>,
}

impl Address {
    /// An address as it is at a time.
    pub fn new(it: &Assigned, now_ns: i64) -> Address {
        let (origin, server) = match it.origin {
            Origin::Dhcp(server) => ("dhcp", Some(server.into())),
            Origin::Advertised => ("auto", None),
        };
        Address {
            address: it.address,
            bits: it.bits,
            origin: origin.to_owned(),
            server,
            gateway: it.gateway,
            valid_s: it.until_ns.map(|until_ns| (until_ns - now_ns).max(0) / 1_000_000_000),
        }
    }
}

/// A counter of all hosts together.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Counted {
    pub name: String,
    pub value: u64,
}

/// What a server answers.
#[derive(Debug, Serialize, Deserialize)]
pub struct Listing {
    pub connections: Vec<Connection>,
    /// Addresses that nobody gave at the start.
    #[serde(default)]
    pub addresses: Vec<Address>,
    /// Connections that are not listed.
    pub more: usize,
    /// Packets that connections keep.
    pub kept_packets: usize,
    pub counters: Vec<Counted>,
}

impl Listing {
    /// A list of what hosts showed, of so many connections at most that a filter takes.
    pub fn new(shown: &[Shown], limit: usize, filter: &Filter) -> Listing {
        let of_queue = |(queue, shown): (usize, &Shown)| -> Vec<Connection> {
            let all = shown.connections.iter().map(|it| Connection::new(queue, it, shown.now_ns));
            all.filter(|connection| filter.takes(connection)).collect()
        };
        let mut connections: Vec<Connection> = shown.iter().enumerate().flat_map(of_queue).collect();
        // Of all hosts behind all others; each has them there itself.
        connections.sort_by_key(|connection| connection.state == state(State::TimeWait));
        let open = match filter.is_empty() {
            true => shown.iter().map(|shown| shown.open).sum(),
            false => connections.len(),
        };
        connections.truncate(limit);
        let mut counters: Vec<Counted> = vec![];
        for counter in shown.iter().flat_map(|shown| &shown.counters) {
            match counters.iter_mut().find(|counted| counted.name == counter.name) {
                Some(counted) => counted.value += counter.value,
                None => counters.push(Counted { name: counter.name.to_owned(), value: counter.value }),
            }
        }
        Listing {
            more: open.saturating_sub(connections.len()),
            connections,
            addresses: addresses(shown),
            kept_packets: shown.iter().map(|shown| shown.kept_packets).sum(),
            counters,
        }
    }
}

/// What all hosts have: they share their addresses.
fn addresses(shown: &[Shown]) -> Vec<Address> {
    let first = shown.first().into_iter();
    first.flat_map(|shown| shown.assigned.iter().map(|it| Address::new(it, shown.now_ns))).collect()
}

impl Connection {
    fn new(queue: usize, (_, info): &(Id, Info), now_ns: i64) -> Connection {
        let us = |ns: i64| ns / 1000;
        Connection {
            queue,
            state: state(info.state).to_owned(),
            local: (info.key.local, info.key.local_port).into(),
            remote: (info.key.remote, info.key.remote_port).into(),
            receive_queue: info.unconsumed,
            send_queue: info.queued,
            rtt_us: us(info.rtt_ns),
            rtt_variation_us: us(info.rtt_variation_ns),
            rtt_least_us: us(info.rtt_least_ns),
            rto_us: us(info.rto_ns),
            segment_size: info.payload_size,
            congestion_window: info.congestion_window,
            slow_start_threshold: info.slow_start_threshold,
            send_window: info.send_window,
            in_flight: info.in_flight,
            lost: info.lost,
            sacked: info.sacked,
            retransmits: info.resent,
            attempts: info.attempts,
            out_of_order_packets: info.out_of_order,
            bytes_acknowledged: info.bytes_acknowledged,
            bytes_received: info.bytes_received,
            last_received_us: us(now_ns - info.heard_ns),
            timer: info.timer.map(|(timer, at_ns)| (name(timer).to_owned(), us((at_ns - now_ns).max(0)))),
        }
    }
}

/// A state as `ss` calls it.
fn state(state: State) -> &'static str {
    match state {
        State::Closed => "UNCONN",
        State::SynSent => "SYN-SENT",
        State::SynReceived => "SYN-RECV",
        State::Established => "ESTAB",
        State::FinWait1 => "FIN-WAIT-1",
        State::FinWait2 => "FIN-WAIT-2",
        State::CloseWait => "CLOSE-WAIT",
        State::Closing => "CLOSING",
        State::LastAck => "LAST-ACK",
        State::TimeWait => "TIME-WAIT",
    }
}

fn name(timer: Timer) -> &'static str {
    match timer {
        Timer::Retransmit => "retransmit",
        Timer::Probe => "probe",
        Timer::Reorder => "reorder",
        Timer::Acknowledge => "acknowledge",
        Timer::Idle => "idle",
        Timer::Gap => "gap",
        Timer::Application => "application",
        Timer::Progress => "progress",
    }
}
