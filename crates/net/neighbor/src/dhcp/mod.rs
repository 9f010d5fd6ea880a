//! A client of DHCP for IPv4 (RFC 2131, section 4.4): it asks for an address, checks by ARP
//! that nobody else has it, keeps it by asking for more time, and gives it up in time.
//!
//! A [`Client`] is given what comes and the time, and gives what is to be sent; it reads no
//! clock and opens no socket. The first sound offer is taken. There is no RELEASE at the end and no
//! memory of an earlier lease (INIT-REBOOT), and nobody defends the address afterwards (RFC
//! 5227, section 2.4) but by answering for it.

mod lease;

use std::net::Ipv4Addr;

use wire::dhcp::{MessageType, Reply, Request};
use wire::siphash::hash_words;
use wire::{MacAddress, arp, dhcp};

use crate::Address;
use crate::arp::parse as parse_arp;
use crate::limits::SECOND_NS;
use crate::outbox::{Message, broadcast_datagram, datagram};
pub use lease::Lease;
use lease::{Times, lease_of};

/// Requests for one offer, before others are asked for.
const REQUESTS: u8 = 4;
/// The time before a message is sent again, which doubles up to the most (section 4.1).
const FIRST_RETRY_NS: i64 = 4 * SECOND_NS;
const MOST_RETRY_NS: i64 = 64 * SECOND_NS;
/// How long after a DECLINE all begins again at least (section 3.1, 5).
const AFTER_DECLINE_NS: i64 = 10 * SECOND_NS;
/// The least time between two requests for more time (section 4.4.5).
const LEAST_RENEWAL_NS: i64 = 60 * SECOND_NS;
/// Questions whether somebody has the address already, and the time between them. RFC 5227,
/// section 2.1.1, has three within up to seven seconds; the server has looked itself (RFC 2131,
/// section 2.2), and clients wait for this host meanwhile.
const PROBES: u8 = 3;
const PROBE_NS: i64 = 300_000_000;

/// Where a client is (RFC 2131, figure 5).
#[derive(Debug, Clone, Copy)]
enum State {
    /// Asks which servers there are, the so many-th time.
    Selecting { attempts: u8 },
    /// Has asked for an offered address.
    Requesting { offered: Ipv4Addr, server: Ipv4Addr, attempts: u8 },
    /// Was given an address, and asks whether somebody has it already.
    Probing { lease: Lease, times: Times, probes: u8 },
    /// Has an address.
    Bound { lease: Lease, times: Times },
}

/// What a client counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Leases that began.
    pub leases: u64,
    /// Leases that were given more time.
    pub renewals: u64,
    /// Leases that ended: their time was over, or the server took them back.
    pub lost: u64,
    /// Addresses that somebody else had.
    pub conflicts: u64,
    /// Messages that were not for this client or made no sense.
    pub refused: u64,
}

/// A client of DHCP for one interface.
#[derive(Debug)]
pub struct Client {
    mac: MacAddress,
    /// A secret, from which numbers are drawn that nobody can predict.
    key: [u64; 2],
    drawn: u32,
    state: State,
    /// Which exchange of messages the present one is.
    exchange: u32,
    /// When the exchange began, and when its last message was sent.
    since_ns: i64,
    sent_ns: i64,
    /// When there is something to do.
    due_ns: i64,
    /// How often in a row no lease came of an exchange that a server had answered.
    failures: u8,
    /// To whom an address must be declined.
    declined: Option<(Ipv4Addr, Ipv4Addr)>,
    counters: Counters,
}

impl Client {
    /// A client of the host with an Ethernet address, which begins at once. Nobody may know
    /// the key.
    pub fn new(mac: MacAddress, key: [u64; 2], now_ns: i64) -> Client {
        Client {
            mac,
            key,
            drawn: 0,
            state: State::Selecting { attempts: 0 },
            exchange: 0,
            since_ns: now_ns,
            sent_ns: now_ns,
            due_ns: now_ns,
            failures: 0,
            declined: None,
            counters: Counters::default(),
        }
    }

    /// The lease whose address the host has.
    pub fn lease(&self) -> Option<&Lease> {
        match &self.state {
            State::Bound { lease, .. } => Some(lease),
            _ => None,
        }
    }

    /// Whether it is to be told of ARP packets ([`Client::hear`]).
    pub fn is_probing(&self) -> bool {
        matches!(self.state, State::Probing { .. })
    }

    /// When [`Client::turn`] is due.
    pub fn due_ns(&self) -> i64 {
        self.due_ns
    }

    /// What was counted.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// A number that nobody can predict.
    fn draw(&mut self) -> u32 {
        self.drawn = self.drawn.wrapping_add(1);
        hash_words(self.key, &[], self.drawn) as u32
    }

    /// The time before the next message, after so many: it doubles, and is up to a second less
    /// or more (section 4.1).
    fn retry_ns(&mut self, attempts: u8) -> i64 {
        let doubled = FIRST_RETRY_NS << attempts.min(4);
        let shift = (i64::from(self.draw()) * 2 * SECOND_NS) >> 32;
        doubled.min(MOST_RETRY_NS) - SECOND_NS + shift
    }

    /// Begins again, after a time.
    fn restart(&mut self, now_ns: i64, after_ns: i64) {
        self.state = State::Selecting { attempts: 0 };
        self.due_ns = now_ns + after_ns;
    }

    /// Begins again after a server did not give what it had offered: at once the first time, and
    /// later each time after, so that no server makes this host send without an end.
    fn fail(&mut self, now_ns: i64) {
        let after_ns = match self.failures {
            0 => 0,
            failures => (SECOND_NS << failures.min(6)).min(MOST_RETRY_NS),
        };
        self.failures = self.failures.saturating_add(1);
        self.restart(now_ns, after_ns);
    }

    /// Takes a server's message, the payload of a datagram to [`dhcp::CLIENT_PORT`]. False when
    /// it is none for this client, which is counted.
    pub fn receive(&mut self, message: &[u8], now_ns: i64) -> bool {
        let is_taken = self.take(message, now_ns).is_some();
        self.counters.refused += u64::from(!is_taken);
        is_taken
    }

    fn take(&mut self, message: &[u8], now_ns: i64) -> Option<()> {
        let is_mine = |reply: &Reply| reply.exchange == self.exchange && reply.client_mac == self.mac;
        let reply = Reply::parse(message).ok().filter(is_mine)?;
        match (self.state, reply.message_type) {
            (State::Selecting { attempts: 1.. }, MessageType::OFFER) => {
                let (lease, _) = lease_of(&reply, self.sent_ns)?;
                self.state = State::Requesting { offered: lease.address, server: lease.server, attempts: 0 };
                self.due_ns = now_ns;
            }
            (State::Requesting { offered, server, attempts: 1.. }, MessageType::ACK) => {
                let (lease, times) = lease_of(&reply, self.sent_ns)?;
                (lease.address == offered && lease.server == server).then_some(())?;
                self.state = State::Probing { lease, times, probes: 0 };
                self.due_ns = now_ns;
            }
            (State::Requesting { server, attempts: 1.., .. }, MessageType::NAK) => {
                (reply.server == Some(server)).then_some(())?;
                self.fail(now_ns);
            }
            (State::Bound { lease, times }, MessageType::ACK) if self.asks(times) => {
                let (given, times) = lease_of(&reply, self.sent_ns)?;
                (given.address == lease.address).then_some(())?;
                self.counters.renewals += 1;
                self.state = State::Bound { lease: given, times };
                self.due_ns = times.renewal_ns;
            }
            (State::Bound { lease, times }, MessageType::NAK) if self.asks(times) => {
                // Before all servers are asked, only the lease's own may take it back.
                let is_rebinding = self.sent_ns >= times.rebinding_ns;
                (is_rebinding || reply.server == Some(lease.server)).then_some(())?;
                self.counters.lost += 1;
                self.fail(now_ns);
            }
            _ => return None,
        }
        Some(())
    }

    /// Whether more time was asked for: the last message is of the time for it.
    fn asks(&self, times: Times) -> bool {
        self.sent_ns >= times.renewal_ns
    }

    /// Looks whether an ARP packet in a frame says that somebody else has the address, or is about
    /// to have it (RFC 5227, section 2.1.1).
    pub fn hear(&mut self, frame: &[u8], now_ns: i64) {
        let State::Probing { lease, .. } = self.state else { return };
        let Some(said) = parse_arp(frame).filter(|said| said.sender_mac != self.mac) else { return };
        let is_probe = said.sender_ip.is_unspecified()
            && said.target_ip == lease.address
            && said.operation == arp::Operation::REQUEST;
        if said.sender_ip == lease.address || is_probe {
            self.counters.conflicts += 1;
            self.declined = Some((lease.address, lease.server));
            self.restart(now_ns, 0);
        }
    }

    /// Does what is due; what is to be sent goes to `out`.
    pub fn turn(&mut self, now_ns: i64, out: &mut Vec<Message>) {
        if now_ns < self.due_ns {
            return;
        }
        if let Some((address, server)) = self.declined.take() {
            self.begin_exchange(now_ns);
            let decline = self.request(MessageType::DECLINE, now_ns, Some(address), Some(server));
            out.push(self.broadcast(&decline));
            self.due_ns = now_ns + AFTER_DECLINE_NS;
            return;
        }
        match self.state {
            State::Selecting { attempts } => self.discover(attempts, now_ns, out),
            State::Requesting { attempts: REQUESTS.., .. } => self.fail(now_ns),
            State::Requesting { offered, server, attempts } => {
                let request = self.request(MessageType::REQUEST, now_ns, Some(offered), Some(server));
                out.push(self.broadcast(&request));
                self.sent_ns = now_ns;
                self.state = State::Requesting { offered, server, attempts: attempts + 1 };
                self.due_ns = now_ns + self.retry_ns(attempts);
            }
            State::Probing { lease, times, probes: PROBES.. } => self.bind(lease, times, now_ns, out),
            State::Probing { lease, times, probes } => {
                out.push(self.ask_for(Ipv4Addr::UNSPECIFIED, lease.address));
                self.state = State::Probing { lease, times, probes: probes + 1 };
                self.due_ns = now_ns + PROBE_NS;
            }
            State::Bound { lease, times } => self.keep(lease, times, now_ns, out),
        }
    }

    fn begin_exchange(&mut self, now_ns: i64) {
        self.exchange = self.draw();
        self.since_ns = now_ns;
    }

    fn discover(&mut self, attempts: u8, now_ns: i64, out: &mut Vec<Message>) {
        if attempts == 0 {
            self.begin_exchange(now_ns);
        }
        let discover = self.request(MessageType::DISCOVER, now_ns, None, None);
        out.push(self.broadcast(&discover));
        self.sent_ns = now_ns;
        self.state = State::Selecting { attempts: attempts.saturating_add(1) };
        self.due_ns = now_ns + self.retry_ns(attempts);
    }

    /// Nobody has the address: it is this host's, and others are told (RFC 5227, section 2.3).
    fn bind(&mut self, lease: Lease, times: Times, now_ns: i64, out: &mut Vec<Message>) {
        out.push(self.ask_for(lease.address, lease.address));
        self.counters.leases += 1;
        self.failures = 0;
        self.state = State::Bound { lease, times };
        self.due_ns = times.renewal_ns.max(now_ns);
    }

    /// Asks for more time: the lease's server at first, later all, and again in half of the time
    /// that is left (section 4.4.5). In the end the address is given up.
    fn keep(&mut self, lease: Lease, times: Times, now_ns: i64, out: &mut Vec<Message>) {
        if now_ns >= times.end_ns {
            self.counters.lost += 1;
            return self.restart(now_ns, 0);
        }
        if !self.asks(times) {
            self.begin_exchange(now_ns);
        }
        let mut request = self.request(MessageType::REQUEST, now_ns, None, None);
        request.client_address = lease.address;
        let (is_rebinding, ports) = (now_ns >= times.rebinding_ns, (dhcp::CLIENT_PORT, dhcp::SERVER_PORT));
        let until_ns = if is_rebinding { times.end_ns } else { times.rebinding_ns };
        out.push(match is_rebinding {
            true => Message::Frame(broadcast_datagram(self.mac, lease.address, ports, &request.message())),
            false => Message::Packet(datagram(lease.address, lease.server, ports, &request.message())),
        });
        self.sent_ns = now_ns;
        self.due_ns = until_ns.min(now_ns + ((until_ns - now_ns) / 2).max(LEAST_RENEWAL_NS));
    }

    /// A message of the present exchange.
    fn request(
        &self,
        message_type: MessageType,
        now_ns: i64,
        requested: Option<Ipv4Addr>,
        server: Option<Ipv4Addr>,
    ) -> Request {
        let seconds = (now_ns - self.since_ns) / SECOND_NS;
        Request {
            message_type,
            exchange: self.exchange,
            seconds: seconds.clamp(0, u16::MAX.into()) as u16,
            client_mac: self.mac,
            client_address: Ipv4Addr::UNSPECIFIED,
            requested,
            server,
        }
    }

    /// A message to all servers from a host without an address.
    fn broadcast(&self, request: &Request) -> Message {
        let ports = (dhcp::CLIENT_PORT, dhcp::SERVER_PORT);
        Message::Frame(broadcast_datagram(self.mac, Ipv4Addr::UNSPECIFIED, ports, &request.message()))
    }

    /// An ARP request from an address of this host, or from none, to all.
    fn ask_for(&self, own: Ipv4Addr, target: Ipv4Addr) -> Message {
        Message::Frame(own.request(self.mac, target, None).to_vec())
    }
}
