//! The generator in the machine; this host counts what comes, and compares it
//! with packets that it makes itself.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lab::rig::Cables;
use lab::rig::line::{LONGEST, Line};
use lab::rig::load::{Checker, Pattern, Seen};
use wire::ethernet::{self, EtherType};
use wire::ip::port::DISCARD;
use wire::ip::{Ports, Protocol};
use wire::{MacAddress, ipv4, udp};

use super::arguments::Pktgen;
use super::live::Live;
use super::problem::Problem;
use super::report::{Report, Row};
use super::session::{self, Order, Session};
use super::traffic::conclude;
use super::work_dir::WorkDir;

/// After the generator's end, so long without a frame is the end.
const SILENCE: Duration = Duration::from_secs(1);

/// How long it may take to end once all has come.
const GRACE: Duration = Duration::from_secs(5);

/// Boots, counts and judges.
pub fn run(
    arguments: &Pktgen,
    place: &WorkDir,
    report: &mut Report,
    stop: &Arc<AtomicBool>,
) -> Result<(), Problem> {
    let (options, frames) = (&arguments.machine, arguments.frames);
    let mut live = Live::new(options.quiet || options.json);
    let guest = session::fetch(&mut live)?;
    let lines = session::lines(place, &["a"])?;
    let (size, rate) = (arguments.size.to_string(), arguments.rate.to_string());
    let given = [
        "--allow-short",
        "--to",
        "ff:ff:ff:ff:ff:ff",
        "--count",
        &frames.to_string(),
        "--size",
        &size,
        "--rate",
        &rate,
    ];
    let cables = Cables::Lines(&lines);
    let order = Order { app: "pktgen", words: options.program(&given), file: None, cables };
    let (sizes, cycle) = arguments.size.cycle();
    let sizes = cycle.iter().map(|&n| sizes[usize::from(n)] - 4).collect();
    let pattern = Generated { sizes, from: MacAddress(options.nic.mac(0)) };
    let (came, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let (seen, watched) = thread::scope(|scope| {
        // It sends as soon as it is at work: it finds somebody who listens.
        let receiving = scope.spawn(|| receive(&lines[0], &pattern, frames, &came, &over));
        let watched = Session::start(&guest, place, options, order, live, stop).and_then(|mut session| {
            report.times(&session);
            // It ends by itself; a signal at that moment would cut it short.
            let mut over = None;
            let done = || receiving.is_finished() && over.get_or_insert_with(Instant::now).elapsed() > GRACE;
            session.watch(done, || format!("{} of {frames} packets came", came.load(Ordering::Relaxed)))?;
            Ok(session)
        });
        over.store(true, Ordering::Relaxed);
        (receiving.join().unwrap_or_default(), watched)
    });
    let mut session = watched?;
    let concluded = conclude(&mut session, report);
    let sent = report.guest.as_ref().and_then(|guest| guest["tx_packets"].as_u64()).unwrap_or_default();
    let offered = Seen { offered: u32::try_from(sent).unwrap_or(u32::MAX), ..seen };
    report.directions.push(Row::new("out", &offered));
    report.balance();
    concluded?;
    // What the models' cable does not hold is lost on the way to this host.
    report.verdict(options.nic.cable_holds().is_some())
}

/// Takes what comes until all has, or it is over and nothing comes any more.
fn receive(line: &Line, pattern: &Generated, frames: u32, came: &AtomicU64, over: &AtomicBool) -> Seen {
    let mut checker = Checker::new(pattern, frames);
    checker.offered(frames);
    let mut buffer = vec![0; LONGEST];
    let (mut first, mut last) = (None, Instant::now());
    while checker.came() < frames {
        match line.receive(&mut buffer) {
            Some(length) => {
                checker.check(&buffer[..length]);
                last = Instant::now();
                first.get_or_insert(last);
                came.store(checker.came().into(), Ordering::Relaxed);
            }
            None if over.load(Ordering::Relaxed) && last.elapsed() > SILENCE => break,
            None => thread::sleep(Duration::from_micros(20)),
        }
    }
    Seen { elapsed: first.map_or(Duration::ZERO, |first| last - first), ..checker.seen() }
}

/// What `ixora pktgen` sends with one flow, written down a second time.
struct Generated {
    sizes: Vec<usize>,
    from: MacAddress,
}

const UDP: usize = ethernet::HEADER_LEN + ipv4::HEADER_LEN;
const NUMBER: usize = UDP + udp::HEADER_LEN;

impl Pattern for Generated {
    fn fill(&self, number: u32, frame: &mut [u8]) -> usize {
        let length = self.sizes[number as usize % self.sizes.len()];
        frame[..length].fill(0);
        let link = ethernet::Repr { dst: MacAddress::BROADCAST, src: self.from, ethertype: EtherType::IPV4 };
        link.emit(&mut ethernet::Frame::new_unchecked(&mut *frame));
        let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        let ip = ipv4::Repr::between(src, dst, Protocol::UDP, length - UDP);
        ip.emit(&mut ipv4::Packet::new_unchecked(&mut frame[ethernet::HEADER_LEN..]));
        let udp = udp::Repr { src_port: 1024, dst_port: DISCARD, payload_len: length - NUMBER };
        udp.emit(&mut udp::Datagram::new_unchecked(&mut frame[UDP..]));
        if let Some(place) = frame[..length].get_mut(NUMBER..NUMBER + 8) {
            place.copy_from_slice(&u64::from(number).to_be_bytes());
        }
        length
    }

    fn number(&self, frame: &[u8]) -> Option<u32> {
        let is_ip = ethernet::Header::of(frame)?.ethertype() == EtherType::IPV4;
        let ours = is_ip && Ports::of(frame.get(UDP..)?)?.dst() == DISCARD;
        let number = u64::from_be_bytes(*frame.get(NUMBER..)?.first_chunk()?);
        ours.then(|| u32::try_from(number).unwrap_or(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_expected_is_a_valid_packet() {
        let pattern = Generated { sizes: vec![60, 1514], from: MacAddress([2, 0, 0, 0, 0, 1]) };
        let mut frame = vec![0xEE; LONGEST];
        for number in [0, 1, 70_000] {
            let length = pattern.fill(number, &mut frame);
            let ip = ipv4::Packet::new_checked(&frame[14..length]).expect("whole");
            assert!(ip.verify_checksum() && ip.total_len() == length - 14);
            let datagram = udp::Datagram::new_checked(ip.payload()).expect("whole");
            assert_eq!((datagram.dst_port(), datagram.total_len()), (9, length - 34));
            assert_eq!(pattern.number(&frame[..length]), Some(number));
        }
    }
}
