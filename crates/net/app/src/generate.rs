//! Sends UDP packets: pre-filled, so that the loop only writes a sequence number
//! and a source port.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use port::{Batch, Packet, Pool, TxQueue};
use runtime::{Instant, Poller, Queue};
use wire::ethernet::{self, EtherType};
use wire::ip::Protocol;
use wire::ip::port::DISCARD;
use wire::outer::{Outer, PerPacket};
use wire::{MacAddress, ipv4, udp};

/// Where the UDP header begins, with the source port.
const UDP: usize = ethernet::HEADER_LEN + ipv4::HEADER_LEN;
/// Where the payload begins.
const PAYLOAD: usize = UDP + udp::HEADER_LEN;

/// One transmit queue's generator.
pub struct Generator {
    /// Where packets go to.
    pub tx: Box<dyn TxQueue>,
    /// A frame of each size.
    pub templates: Vec<Vec<u8>>,
    /// Which of them is sent, over and over.
    pub cycle: &'static [u8],
    /// Source ports that are used in turn.
    pub flows: u16,
    /// The number of the next packet.
    pub sequence: u64,
    /// Packets this generator may still send.
    pub left: u64,
    /// When packets are due.
    pub pace: Pace,
    /// When packets were sent.
    pub span: Arc<Span>,
}

/// When a generator sent packets. Its thread writes that, and others read it when it has ended.
#[derive(Debug, Default)]
pub struct Span {
    /// The TSC when the first packets were sent, and the last ones.
    first: AtomicU64,
    last: AtomicU64,
    /// How many the first ones were, and all of them.
    first_packets: AtomicU64,
    packets: AtomicU64,
}

impl Span {
    // Relaxed: one thread writes, and those who read joined it.
    fn add(&self, now: Instant, sent: usize) {
        if sent == 0 {
            return;
        }
        let before = self.packets.load(Ordering::Relaxed);
        if before == 0 {
            self.first.store(now.ticks(), Ordering::Relaxed);
            self.first_packets.store(sent as u64, Ordering::Relaxed);
        }
        self.last.store(now.ticks(), Ordering::Relaxed);
        self.packets.store(before + sent as u64, Ordering::Relaxed);
    }

    /// How long generators took for `packets` packets at the rate at which they sent them between
    /// the first and the last: of n packets there are n - 1 intervals. `None` where they sent another
    /// number, or all of them at once.
    pub fn time_of(spans: &[Arc<Span>], packets: u64) -> Option<Duration> {
        let begun = || spans.iter().filter(|span| span.packets.load(Ordering::Relaxed) > 0);
        let sum =
            |count: fn(&Span) -> &AtomicU64| begun().map(|span| count(span).load(Ordering::Relaxed)).sum();
        let (all, first_packets): (u64, u64) = (sum(|span| &span.packets), sum(|span| &span.first_packets));
        let first = begun().map(|span| span.first.load(Ordering::Relaxed)).min()?;
        let last = begun().map(|span| span.last.load(Ordering::Relaxed)).max()?;
        let (ticks, later) = (last.saturating_sub(first), all - first_packets);
        if all != packets || later == 0 || ticks == 0 {
            return None;
        }
        let seconds = ticks as f64 / bus::tsc::hz() as f64;
        Some(Duration::from_secs_f64(seconds * all as f64 / later as f64))
    }
}

/// What a thread that had no turn for a while may catch up with.
const CATCH_UP: Duration = Duration::from_millis(100);
/// How long a thread may have had no turn when its run ends.
const DELAY: Duration = Duration::from_millis(20);

/// Sends so many packets per TSC tick, and catches up with what was due while others ran.
pub struct Pace {
    per_tick: Option<f64>,
    /// When the last turn was; none before the first.
    last: Option<Instant>,
    credit: f64,
    /// The most that is caught up with.
    most: f64,
    /// Packets that were due and are given up, of all generators.
    missed: Arc<AtomicU64>,
    /// Parts of packets that are.
    missed_part: f64,
}

impl Pace {
    /// So many packets per second; without a rate, as many as there is room for.
    pub fn new(rate: Option<f64>, missed: Arc<AtomicU64>) -> Pace {
        let per_tick = rate.map(|rate| rate / bus::tsc::hz() as f64);
        let most = rate.map_or(0.0, |rate| rate * CATCH_UP.as_secs_f64()).max(Batch::MAX as f64);
        Pace { per_tick, last: None, credit: 0.0, most, missed, missed_part: 0.0 }
    }

    /// How many packets of up to `most` are due now.
    fn due(&mut self, now: Instant, most: usize) -> usize {
        let Some(per_tick) = self.per_tick else { return most };
        let last = self.last.replace(now).unwrap_or(now);
        self.credit += now.ticks().saturating_sub(last.ticks()) as f64 * per_tick;
        if self.credit > self.most {
            self.give_up();
        }
        (self.credit as usize).min(most)
    }

    /// More is due than is caught up with.
    #[cold]
    fn give_up(&mut self) {
        self.missed_part += self.credit - self.most;
        self.credit = self.most;
        let whole = self.missed_part.floor();
        self.missed_part -= whole;
        self.missed.fetch_add(whole as u64, Ordering::Relaxed);
    }

    fn spend(&mut self, packets: usize) {
        self.credit -= packets as f64;
    }
}

impl Drop for Pace {
    /// What is due in the end, and was not caught up with, is given up too; but for what a
    /// thread that had no turn just then explains.
    fn drop(&mut self) {
        if let Some(rate) = self.per_tick.map(|per_tick| per_tick * bus::tsc::hz() as f64) {
            self.most = (rate * DELAY.as_secs_f64()).max(Batch::MAX as f64).min(self.most);
            if self.credit > self.most {
                self.give_up();
            }
        }
    }
}

impl Poller for Generator {
    fn turn(&mut self, now: Instant, pool: &mut Pool, batch: &mut Batch) -> usize {
        let due = self.pace.due(now, batch.room()).min(usize::try_from(self.left).unwrap_or(usize::MAX));
        if due == 0 {
            self.tx.clean(pool);
            return 0;
        }
        if pool.alloc_batch(batch, due) == 0 {
            self.tx.clean(pool);
        }
        for packet in batch.iter_mut() {
            let turn = (self.sequence % self.cycle.len() as u64) as usize;
            let template = &self.templates[usize::from(self.cycle[turn])];
            fill(packet, template, self.sequence, self.flows);
            self.sequence += 1;
        }
        let sent = self.tx.send(pool, batch);
        // Not lost: those the ring had no room for were not sent yet.
        self.sequence -= batch.len() as u64;
        pool.free_batch(batch);
        self.pace.spend(sent);
        self.span.add(now, sent);
        self.left -= sent as u64;
        sent
    }

    fn queues<'a>(&'a mut self, visit: &mut dyn FnMut(Queue<'a>)) {
        visit(Queue::Tx(&mut *self.tx));
    }

    fn retries(&self) -> bool {
        true
    }

    fn is_done(&self) -> bool {
        self.left == 0
    }
}

/// Writes the packet: the template, its flow and its number.
fn fill(packet: &mut Packet, template: &[u8], sequence: u64, flows: u16) {
    if packet.copy_from(template).is_err() {
        return; // the size was checked against the buffer's
    }
    let port = 1024_u16.wrapping_add((sequence % u64::from(flows.max(1))) as u16);
    packet[UDP..UDP + 2].copy_from_slice(&port.to_be_bytes());
    if let Some(number) = packet.get_mut(PAYLOAD..PAYLOAD + 8) {
        number.copy_from_slice(&sequence.to_be_bytes());
    }
}

/// An Ethernet frame of `size` bytes, CRC included in the count but not in the
/// frame: IPv4, UDP without checksum (RFC 768 allows that over IPv4).
pub fn template(from: MacAddress, to: MacAddress, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size - 4];
    let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    let link = ethernet::Repr { dst: to, src: from, ethertype: EtherType::IPV4 };
    let ip = ipv4::Repr::between(src, dst, Protocol::UDP, 0);
    let headers = Outer::<PAYLOAD>::new().ethernet(&link).and_then(|outer| outer.ipv4(&ip));
    let headers = headers.and_then(|outer| outer.udp(0, DISCARD)).expect("they are so long");
    headers.write(&mut bytes, size - 4 - PAYLOAD, PerPacket::default());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_due_while_others_ran_is_caught_up_with() {
        let missed = Arc::<AtomicU64>::default();
        let start = Instant::now();
        let mut pace = Pace::new(Some(1e6), missed.clone());
        let at = |ms: u64| start + Duration::from_millis(ms);
        assert_eq!(pace.due(at(0), 64), 0);
        // 20 ms are 20,000 packets: more than one batch.
        let mut sent = 0;
        loop {
            let due = pace.due(at(20), 64);
            if due == 0 {
                break;
            }
            pace.spend(due);
            sent += due;
        }
        assert!((19_999..=20_001).contains(&sent) && missed.load(Ordering::Relaxed) == 0, "{sent}");
        // A second is not: nine tenths are given up, and told.
        assert_eq!(pace.due(at(1020), 64), 64);
        let given_up = missed.load(Ordering::Relaxed);
        assert!((899_000..=901_000).contains(&given_up), "{given_up}");
    }

    #[test]
    fn packets_are_timed_from_the_first_to_the_last() {
        let (start, spans) = (Instant::now(), [Arc::<Span>::default(), Arc::default(), Arc::default()]);
        let at = |us: u64| start + Duration::from_micros(us);
        assert_eq!(Span::time_of(&spans, 0), None);
        // Two threads begin after 6 ms, and have a packet each every 20 us; a third has none to send.
        for n in 0..50 {
            spans[0].add(at(6000 + 20 * n), 1);
            spans[1].add(at(6000 + 20 * n), 1);
            spans[1].add(at(6001 + 20 * n), 0);
        }
        let time = Span::time_of(&spans, 100).expect("all were sent");
        assert!((999_000..1_001_000).contains(&time.as_nanos()), "{time:?}");
        assert_eq!(Span::time_of(&spans, 200), None, "not all were sent");
        assert_eq!(Span::time_of(&spans[2..], 0), None);
        let at_once = [Arc::<Span>::default()];
        at_once[0].add(start, 64);
        assert_eq!(Span::time_of(&at_once, 64), None);
    }

    /// A run that is shorter than what is caught up with sent half of what was due.
    #[test]
    fn what_is_due_at_the_end_of_a_short_run_is_given_up() {
        let missed = Arc::<AtomicU64>::default();
        let start = Instant::now();
        let mut pace = Pace::new(Some(1e6), missed.clone());
        pace.due(start, 64);
        pace.due(start + Duration::from_millis(80), 64);
        pace.spend(40_000);
        assert_eq!(missed.load(Ordering::Relaxed), 0);
        drop(pace);
        let given_up = missed.load(Ordering::Relaxed);
        assert!((19_000..=21_000).contains(&given_up), "{given_up}");
    }
}
