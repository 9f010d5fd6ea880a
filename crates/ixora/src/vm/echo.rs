//! A host in the machine: it is asked for its address (ARP), pinged, and sent
//! UDP packets that must come back with their Ethernet addresses swapped.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use lab::rig::Cables;
use lab::rig::line::{LONGEST, Line};
use lab::rig::load::{Pattern, scramble};
use neighbor::Resolver;
use wire::arp::Operation;
use wire::ethernet::{self, EtherType};
use wire::ip::{Protocol, port};
use wire::{MacAddress, icmpv4, ipv4, udp};

use super::arguments::{Echo, Speed};
use super::live::Live;
use super::problem::Problem;
use super::report::{Report, Row};
use super::session::{self, Order, Session};
use super::traffic::{FramePath, conclude, exchange};
use super::work_dir::WorkDir;

const OURS: (MacAddress, Ipv4Addr) = (MacAddress([2, 0, 0, 0, 0, 1]), Ipv4Addr::new(10, 9, 9, 1));
const THEIRS: Ipv4Addr = Ipv4Addr::new(10, 9, 9, 2);
/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(5);
const PINGS: u16 = 10;

/// Boots, asks and checks the answers.
pub fn run(
    arguments: &Echo,
    place: &WorkDir,
    report: &mut Report,
    stop: &Arc<AtomicBool>,
) -> Result<(), Problem> {
    let (offer, options) = (&arguments.offer, &arguments.machine);
    let mut live = Live::new(options.quiet || options.json);
    let guest = session::fetch(&mut live)?;
    let lines = session::lines(place, &["a"])?;
    let words = options.program(&["--ip", &THEIRS.to_string()]);
    let order = Order { app: "echo", words, file: None, cables: Cables::Lines(&lines) };
    let mut session = Session::start(&guest, place, options, order, live, stop)?;
    report.times(&session);
    let [line] = &lines[..] else { return Err(Problem::new("one line was wanted")) };
    let theirs = resolve(line, report).unwrap_or(MacAddress::BROADCAST);
    ping(line, theirs, report);
    let pattern = Datagrams { sizes: offer.size.0.clone(), theirs };
    let way = FramePath { name: "udp", into: line, out_of: line, pattern: &pattern };
    exchange(&mut session, &[way], offer.frames, offer.rate.pace(options.nic), report)?;
    report.compare(offer.rate);
    conclude(&mut session, report)?;
    report.verdict(offer.rate == Speed::Max)
}

/// Asks who has the machine's address.
fn resolve(line: &Line, report: &mut Report) -> Option<MacAddress> {
    let (mac, ip) = OURS;
    let mut bytes = Resolver::new(mac, ip).request(THEIRS, None).to_vec();
    bytes.resize(60, 0);
    let mut found = None;
    let mut row = Row { name: "arp", ..Row::default() };
    ask(line, &bytes, &mut row, |answer| {
        let reply = neighbor::arp::parse(answer).filter(|packet| packet.operation == Operation::REPLY)?;
        let link = ethernet::Header::of(answer)?;
        found = Some(reply.sender_mac);
        let right = reply.sender_ip == THEIRS && reply.target_mac == mac && reply.target_ip == ip;
        Some(right && link.src() == reply.sender_mac && link.dst() == mac)
    });
    report.directions.push(row);
    found
}

fn ping(line: &Line, theirs: MacAddress, report: &mut Report) {
    let start = Instant::now();
    let mut row = Row { name: "ping", ..Row::default() };
    for sequence in 0..PINGS {
        let mut data = [0; 56];
        scramble(sequence.into(), 7, &mut data);
        let message = icmpv4::Repr { reply: false, identifier: 0x4958, sequence, data: &data };
        let mut bytes = packet(theirs, Protocol::ICMP, message.len());
        emit(&message, &mut bytes);
        ask(line, &bytes, &mut row, |answer| is_reply(answer, &message));
    }
    report.directions.push(row.over(start.elapsed()));
}

/// Where what is in the IP packet begins.
const ICMP: usize = ethernet::HEADER_LEN + ipv4::HEADER_LEN;

fn emit(message: &icmpv4::Repr<'_>, bytes: &mut [u8]) {
    let mut packet = icmpv4::Packet::new_unchecked(&mut bytes[ICMP..]);
    message.emit(&mut packet);
    packet.fill_checksum();
}

/// `None` for what is no reply at all, else whether it is right.
fn is_reply(answer: &[u8], asked: &icmpv4::Repr<'_>) -> Option<bool> {
    let frame = ethernet::Frame::new_checked(answer).ok()?;
    let ip = ipv4::Packet::new_checked(frame.payload()).ok()?;
    if frame.ethertype() != EtherType::IPV4 || ip.protocol() != Protocol::ICMP {
        return None;
    }
    let message = icmpv4::Packet::new_checked(ip.payload()).ok()?;
    let reply = icmpv4::Repr::parse(&message).ok()?;
    let right = reply == icmpv4::Repr { reply: true, ..*asked } && message.verify_checksum();
    Some(right && ip.verify_checksum() && ip.src() == THEIRS && ip.dst() == OURS.1)
}

/// A frame to the machine with an IP header, and so much room behind it.
fn packet(theirs: MacAddress, protocol: Protocol, payload_len: usize) -> Vec<u8> {
    let mut bytes = vec![0; ICMP + payload_len];
    let mut frame = ethernet::Frame::new_unchecked(&mut bytes[..]);
    ethernet::Repr { dst: theirs, src: OURS.0, ethertype: EtherType::IPV4 }.emit(&mut frame);
    let header = ipv4::Repr {
        src: OURS.1,
        dst: THEIRS,
        protocol,
        ttl: 64,
        traffic_class: 0,
        identification: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        payload_len,
    };
    header.emit(&mut ipv4::Packet::new_unchecked(frame.payload_mut()));
    bytes
}

/// Sends a question and waits for its answer; `check` says of each frame whether
/// it is one, and whether it is right.
fn ask(line: &Line, question: &[u8], row: &mut Row, mut check: impl FnMut(&[u8]) -> Option<bool>) {
    let end = Instant::now() + ANSWER;
    while !line.send(question) && Instant::now() < end {
        thread::sleep(Duration::from_millis(1));
    }
    row.offered += 1;
    let mut buffer = vec![0; LONGEST];
    while Instant::now() < end {
        match line.receive(&mut buffer).map(|length| check(&buffer[..length])) {
            Some(Some(true)) => return row.back += 1,
            Some(Some(false)) => return row.changed += 1,
            Some(None) => {}
            None => thread::sleep(Duration::from_micros(100)),
        }
    }
    row.lost += 1;
}

/// UDP packets with their number and bytes of their own.
struct Datagrams {
    sizes: Vec<usize>,
    theirs: MacAddress,
}

/// Where a packet has its number.
const NUMBER: usize = ICMP + udp::HEADER_LEN;
/// A port to come from, and the one that echoes.
const PORTS: (u16, u16) = (49_158, port::ECHO);

impl Pattern for Datagrams {
    fn fill(&self, number: u32, frame: &mut [u8]) -> usize {
        let length = self.sizes[number as usize % self.sizes.len()];
        let payload_len = length - NUMBER;
        let bytes = packet(self.theirs, Protocol::UDP, udp::HEADER_LEN + payload_len);
        frame[..length].copy_from_slice(&bytes);
        frame[NUMBER..NUMBER + 4].copy_from_slice(&number.to_be_bytes());
        scramble(number, 0, &mut frame[NUMBER + 4..length]);
        let mut ip = ipv4::Packet::new_unchecked(&mut frame[ethernet::HEADER_LEN..length]);
        let addresses = ip.addresses();
        let mut datagram = udp::Datagram::new_unchecked(ip.payload_mut());
        udp::Repr { src_port: PORTS.0, dst_port: PORTS.1, payload_len }.emit(&mut datagram);
        datagram.fill_checksum(addresses);
        length
    }

    fn expected(&self, number: u32, frame: &mut [u8]) -> usize {
        let length = self.fill(number, frame);
        if let Some(mut addresses) = ethernet::Addresses::of_mut(frame) {
            addresses.swap();
        }
        length
    }

    fn number(&self, frame: &[u8]) -> Option<u32> {
        let ip = ipv4::Header::of(frame.get(ethernet::HEADER_LEN..)?)?;
        let is_ip = ethernet::Header::of(frame)?.ethertype() == EtherType::IPV4;
        let number = frame.get(NUMBER..)?.first_chunk()?;
        (is_ip && ip.protocol() == Protocol::UDP).then_some(u32::from_be_bytes(*number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_is_valid_and_comes_back_swapped() {
        let theirs = MacAddress([2, 0, 0, 0, 0, 9]);
        let pattern = Datagrams { sizes: vec![60, 1514], theirs };
        let mut frame = vec![0xEE; LONGEST];
        for number in [0, 1, 70_001] {
            let length = pattern.fill(number, &mut frame);
            let ip = ipv4::Packet::new_checked(&frame[14..length]).expect("whole");
            assert!(ip.verify_checksum());
            let datagram = udp::Datagram::new_checked(ip.payload()).expect("whole");
            assert!(datagram.verify_checksum(ip.addresses()) && datagram.checksum() != 0);
            assert_eq!(pattern.number(&frame[..length]), Some(number));
            let sent = frame[..length].to_vec();
            assert_eq!(pattern.expected(number, &mut frame), length);
            assert_eq!((&frame[..6], &frame[6..12]), (&sent[6..12], &sent[..6]));
            assert_eq!(frame[12..length], sent[12..]);
        }
        assert_eq!(pattern.number(b"arp"), None);
    }

    #[test]
    fn a_reply_is_checked_by_all_it_says() {
        let data = [1, 2, 3, 4];
        let asked = icmpv4::Repr { reply: false, identifier: 1, sequence: 2, data: &data };
        let mut bytes = packet(OURS.0, Protocol::ICMP, asked.len());
        let reply = icmpv4::Repr { reply: true, ..asked };
        emit(&reply, &mut bytes);
        let mut ip = ipv4::Packet::new_unchecked(&mut bytes[14..]);
        ip.set_src(THEIRS);
        ip.set_dst(OURS.1);
        ip.fill_checksum();
        assert_eq!(is_reply(&bytes, &asked), Some(true));
        for at in [ICMP + 4, ICMP + 7, bytes.len() - 1, 24] {
            let mut wrong = bytes.clone();
            wrong[at] ^= 1;
            assert_ne!(is_reply(&wrong, &asked), Some(true), "byte {at}");
        }
        assert_eq!(is_reply(b"no frame", &asked), None);
    }
}
