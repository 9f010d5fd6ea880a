//! Streams of datagrams: a server counts what comes, what is missing, and how unevenly it
//! comes (RFC 3550, section 6.4.1), or sends. Each begins with a greeting of four bytes, which is answered; each
//! datagram behind it has the time when it was sent and a number in front.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use port::Counter;
use tcp::{Datagram, Io, Udp};

use super::message::Parameters;
use super::paced::Paced;

/// What a client says first, and its answer, as numbers in the order of the client's bytes; of iperf3
/// since 3.10, and of those before it.
const GREETINGS: [(u32, u32); 2] = [(0x3637_3839, 0x3938_3736), (123_456_789, 987_654_321)];
/// The time when a datagram was sent: seconds, then microseconds.
const TIME: usize = 8;

/// A stream's address and port.
type From = (IpAddr, u16);

/// What came of a stream.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stream {
    pub bytes: u64,
    pub seen: Seen,
    /// How long the last datagram was under way, by two clocks: only differences mean something.
    transit_s: Option<f64>,
}

/// What a receiver of datagrams tells beside their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Seen {
    /// The greatest number that came, which is how many were sent.
    pub packets: u64,
    /// Those that are missing.
    pub lost: u64,
    /// How many had been sent when counting began, in a test that leaves out its first seconds.
    pub omitted_packets: u64,
    /// How many were missing then.
    pub omitted_lost: u64,
    /// How unevenly they came, in seconds.
    pub jitter_s: f64,
}

impl Stream {
    /// Counts a datagram that was sent at a time and has a number.
    fn count(&mut self, bytes: usize, number: u64, transit_s: f64) {
        self.bytes += bytes as u64;
        let seen = &mut self.seen;
        match number.checked_sub(seen.packets) {
            Some(ahead @ 1..) => {
                seen.lost = seen.lost.saturating_add(ahead - 1);
                seen.packets = number;
            }
            // One that was taken for lost, or comes twice.
            _ => seen.lost = seen.lost.saturating_sub(1),
        }
        if let Some(before_s) = self.transit_s.replace(transit_s) {
            seen.jitter_s += ((transit_s - before_s).abs() - seen.jitter_s) / 16.0;
        }
    }
}

/// The streams of datagrams of a test.
#[derive(Debug, Default)]
struct Test {
    /// The client's address.
    client: Option<IpAddr>,
    /// As many streams as there will be.
    wanted: usize,
    /// Numbers have 64 bits.
    is_wide: bool,
    by_address: HashMap<From, usize>,
    streams: Vec<Stream>,
    /// What is sent, if this side sends.
    paced: Option<Paced>,
    /// What comes counts, or this side sends.
    is_counting: bool,
    /// Something has come since that was asked.
    has_moved: bool,
}

/// The streams of datagrams of a server, which its host's UDP fills.
#[derive(Debug, Clone, Default)]
pub struct Datagrams(Arc<Mutex<Test>>);

impl Datagrams {
    fn test(&self) -> MutexGuard<'_, Test> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for streams of a client.
    pub fn open(&self, client: IpAddr, parameters: &Parameters) {
        *self.test() = Test {
            client: Some(client),
            wanted: parameters.streams as usize,
            is_wide: parameters.wide_datagrams == Some(true),
            paced: Paced::new(parameters),
            ..Test::default()
        };
    }

    /// There are none any more.
    pub fn close(&self) {
        *self.test() = Test::default();
    }

    /// Whether all streams that are waited for are there.
    pub fn are_there(&self) -> bool {
        let test = self.test();
        test.wanted > 0 && test.streams.len() == test.wanted
    }

    /// Counts what comes, or no longer.
    pub fn set_counting(&self, is_counting: bool) {
        self.test().is_counting = is_counting;
    }

    /// Counts from here on.
    pub fn restart(&self, now_ns: i64) {
        let mut test = self.test();
        test.paced.iter_mut().for_each(|paced| paced.restart(now_ns));
        for stream in &mut test.streams {
            let seen = &mut stream.seen;
            (seen.omitted_packets, seen.omitted_lost) = (seen.packets, seen.lost);
            seen.jitter_s = 0.0;
            stream.bytes = 0;
        }
    }

    /// Whether something came since this was asked.
    pub fn have_moved(&self) -> bool {
        std::mem::take(&mut self.test().has_moved)
    }

    /// What came of each stream.
    pub fn streams(&self) -> Vec<Stream> {
        self.test().streams.clone()
    }
}

impl Test {
    /// Takes a datagram to an end of this host: the answer to a greeting, nothing, or that it is no
    /// stream's.
    fn take(
        &mut self,
        (from, to): (From, From),
        bytes: &[u8],
        now_ns: i64,
    ) -> Result<Option<[u8; 4]>, NoStream> {
        if self.client != Some(from.0) {
            return Err(NoStream);
        }
        let known = self.by_address.get(&from).copied();
        if let Some(answer) = greeting(bytes) {
            // A greeting may be said again, whose answer was lost.
            if known.is_none() {
                if self.streams.len() == self.wanted {
                    return Err(NoStream);
                }
                self.by_address.insert(from, self.streams.len());
                self.streams.push(Stream::default());
                self.paced.iter_mut().for_each(|paced| paced.add(to, from));
            }
            return Ok(Some(answer));
        }
        let stream = known.and_then(|at| self.streams.get_mut(at)).ok_or(NoStream)?;
        let (sent_s, number) = head(bytes, self.is_wide).ok_or(NoStream)?;
        if self.is_counting && self.paced.is_none() {
            stream.count(bytes.len(), number, now_ns as f64 / 1e9 - sent_s);
            self.has_moved = true;
        }
        Ok(None)
    }

    /// When this side is to send.
    fn deadline_ns(&self) -> Option<i64> {
        let sent = self.streams.iter().map(|stream| stream.bytes).sum();
        self.paced.as_ref().filter(|_| self.is_counting)?.deadline_ns(sent)
    }

    /// Sends what is due, if this side sends.
    fn send(&mut self, udp: &mut Udp, io: &mut Io) {
        if let Some(paced) = self.paced.as_mut().filter(|_| self.is_counting) {
            self.has_moved |= paced.send(&mut self.streams, udp, io);
        }
    }
}

/// A datagram belongs to no stream.
#[derive(Debug, PartialEq, Eq)]
struct NoStream;

/// The answer to a greeting, in the order of its bytes.
fn greeting(bytes: &[u8]) -> Option<[u8; 4]> {
    let said: [u8; 4] = bytes.try_into().ok()?;
    GREETINGS.into_iter().find_map(|(greeting, answer)| match said {
        _ if said == greeting.to_le_bytes() => Some(answer.to_le_bytes()),
        _ if said == greeting.to_be_bytes() => Some(answer.to_be_bytes()),
        _ => None,
    })
}

/// When a datagram was sent, in seconds, and its number.
fn head(bytes: &[u8], is_wide: bool) -> Option<(f64, u64)> {
    let (time, rest) = bytes.split_first_chunk::<TIME>()?;
    let time = u64::from_be_bytes(*time);
    let (seconds, micros) = ((time >> 32) as u32, time as u32);
    let number = match is_wide {
        true => u64::from_be_bytes(*rest.first_chunk()?),
        false => u32::from_be_bytes(*rest.first_chunk()?).into(),
    };
    Some((f64::from(seconds) + f64::from(micros) / 1e6, number))
}

/// What a host's UDP hands the streams of a server.
#[derive(Debug)]
pub struct Receiver {
    streams: Datagrams,
    foreign: u64,
    report: tcp::Report,
}

impl Receiver {
    /// Fills the streams of a server, and tells what is none's when it ends.
    pub(super) fn new(streams: &Datagrams, report: &tcp::Report) -> Receiver {
        Receiver { streams: streams.clone(), foreign: 0, report: report.clone() }
    }
}

impl tcp::Datagrams for Receiver {
    fn serve(&mut self, datagrams: &mut Vec<Datagram>, udp: &mut Udp, io: &mut Io) {
        let mut test = self.streams.test();
        for datagram in datagrams.drain(..) {
            let (from, to) = (datagram.from, datagram.to);
            let taken = test.take((from, to), &datagram.payload(), io.now_ns);
            let Datagram { mut packet, .. } = datagram;
            match taken {
                // The packet that came has room for what goes back, which is as long.
                Ok(Some(answer)) if packet.copy_from(&answer).is_ok() => {
                    if let Err((packet, _)) = udp.send(to, from, packet, io) {
                        udp.give_up(packet, io);
                    }
                }
                Ok(_) => io.pool.free(packet),
                Err(NoStream) => {
                    self.foreign += 1;
                    io.pool.free(packet);
                }
            }
        }
        if test.deadline_ns().is_some_and(|at_ns| at_ns <= io.now_ns) {
            test.send(udp, io);
        }
    }

    fn deadline_ns(&self) -> Option<i64> {
        self.streams.test().deadline_ns()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let what = "datagrams came that are no test's stream's";
        let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        report.push(Counter::of("iperf3_foreign", self.foreign, what));
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

    fn datagram(sent_us: u32, number: u64, is_wide: bool) -> Vec<u8> {
        let number = number.to_be_bytes();
        let number = if is_wide { &number[..] } else { &number[4..] };
        [&[0, 0, 0, 0], &sent_us.to_be_bytes()[..], number, &[7; 100]].concat()
    }

    fn take(test: &mut Test, from: From, bytes: &[u8], now_ns: i64) -> Result<Option<[u8; 4]>, NoStream> {
        test.take((from, (IpAddr::from([10, 0, 0, 2]), 5201)), bytes, now_ns)
    }

    fn test(wanted: usize, is_wide: bool) -> Test {
        Test { client: Some(CLIENT), wanted, is_wide, is_counting: true, ..Test::default() }
    }

    #[test]
    fn greetings_are_answered_in_their_order_of_bytes_and_as_often_as_they_come() {
        let mut test = test(2, false);
        for (port, said, answer) in [
            (1, *b"9876", *b"6789"),
            (2, *b"6789", *b"9876"),
            (1, 123_456_789_u32.to_le_bytes(), 987_654_321_u32.to_le_bytes()),
        ] {
            assert_eq!(take(&mut test, (CLIENT, port), &said, 0), Ok(Some(answer)));
        }
        assert_eq!(test.streams.len(), 2);
        assert_eq!(
            take(&mut test, (CLIENT, 3), b"9876", 0),
            Err(NoStream),
            "there are as many as there will be"
        );
        let other = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9));
        assert_eq!(take(&mut test, (other, 1), b"9876", 0), Err(NoStream));
        assert_eq!(take(&mut test, (CLIENT, 4), &datagram(0, 1, false), 0), Err(NoStream));
        assert_eq!(take(&mut test, (CLIENT, 1), &[0; 11], 0), Err(NoStream), "it has no number");
    }

    #[test]
    fn what_is_missing_and_late_is_counted() {
        for is_wide in [false, true] {
            let mut test = test(1, is_wide);
            let _ = take(&mut test, (CLIENT, 1), b"9876", 0);
            // 4 comes late, 6 and 7 do not come, 8 comes twice.
            for number in [1, 2, 3, 5, 4, 8, 8] {
                assert_eq!(take(&mut test, (CLIENT, 1), &datagram(0, number, is_wide), 0), Ok(None));
            }
            let Stream { bytes, seen, .. } = test.streams[0];
            assert_eq!((seen.packets, seen.lost, seen.jitter_s), (8, 1, 0.0));
            assert_eq!(bytes, 7 * datagram(0, 1, is_wide).len() as u64);
        }
        let mut test = test(1, true);
        let _ = take(&mut test, (CLIENT, 1), b"9876", 0);
        for number in [u64::MAX, 0, u64::MAX] {
            let _ = take(&mut test, (CLIENT, 1), &datagram(0, number, true), 0);
        }
        assert_eq!(test.streams[0].seen.packets, u64::MAX);
    }

    #[test]
    fn jitter_is_that_of_rfc_3550() {
        let mut test = test(1, false);
        let _ = take(&mut test, (CLIENT, 1), b"9876", 0);
        // Each is 16 ms longer under way than the one before it.
        for number in 1..=3_u32 {
            let _ = take(
                &mut test,
                (CLIENT, 1),
                &datagram(0, number.into(), false),
                i64::from(number) * 16_000_000,
            );
        }
        assert!((test.streams[0].seen.jitter_s - (0.001 + 0.015 / 16.0)).abs() < 1e-9);
    }
}
