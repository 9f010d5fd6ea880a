//! `Strangers`: the source of packets with distinct keys, which measures what becomes of the
//! time between its turns.

use graph::annotation::{DST_IP6, PacketAnnotations};
use graph::class::{Handlers, mandatory, read};
use graph::{Class, Cx, Element, Ran, TaskId, ip_header};
use memory::{Batch, Packet};
use wire::ipv6;

use super::packets::{Frame, Layer};
use super::{CASES, Case, Window};

/// Packets that are sent at a time.
pub(super) const BURST: u64 = 32;
/// The fills at which NAT is looked at: few flows, many, all ports of a pattern.
const FILLS: [u64; 3] = [1_000, 60_000, 64_512];

pub(super) static CLASS: Class = Class {
    name: "Strangers",
    brief: "sends packets with distinct keys",
    ports: "0/1",
    processing: "h",
    arguments: &[mandatory("CASE", "which packets"), mandatory("PACKETS", "how many")],
    handlers: &Handlers::<Strangers>(&[read("windows", "`FROM TO CYCLES`, a line each", |strangers| {
        let line = |w: &Sum| format!("{} {} {}\n", w.from, w.to, w.window().cycles_per_packet);
        strangers.windows.iter().map(line).collect()
    })]),
    make: |_, conf| {
        let name: String = conf.mandatory("CASE")?;
        let packets = conf.mandatory("PACKETS")?;
        conf.complete()?;
        let case = CASES.iter().find(|case| case.name == name).ok_or("there is no such case")?;
        let windows = windows(packets, case);
        Ok(Box::new(Strangers { case, packets, sent: 0, out_at: None, windows, task: None }))
    },
    ..Class::BASE
};

/// Cycles of a window's packets, and which these are.
pub(super) struct Sum {
    from: u64,
    to: u64,
    cycles: u64,
}

impl Sum {
    /// What each of the packets took.
    pub(super) fn window(&self) -> Window {
        let cycles_per_packet = self.cycles as f64 / (self.to - self.from) as f64;
        Window { from: self.from, to: self.to, cycles_per_packet }
    }
}

/// Adds what a burst took to the window that its last packet is in.
pub(super) fn account(windows: &mut [Sum], last: u64, cycles: u64) {
    for window in windows.iter_mut().filter(|window| (window.from..window.to).contains(&last)) {
        window.cycles += cycles;
    }
}

/// The first, a middle and the last tenth; with `has_ports` in the place of the middle what is
/// before each of the fills. All begin and end between bursts.
pub(super) fn windows(packets: u64, case: &Case) -> Vec<Sum> {
    let tenth = (packets / 10).next_multiple_of(BURST).min(packets);
    let mut ends = vec![(0, tenth)];
    if case.has_ports && packets > FILLS[2] {
        ends = vec![(0, FILLS[0] / BURST * BURST)];
        let before = |fill: u64| (fill - FILLS[0]).next_multiple_of(BURST);
        ends.extend(FILLS[1..].iter().map(|&fill| (before(fill), fill / BURST * BURST)));
    } else {
        let middle = (packets - tenth) / 2 / BURST * BURST;
        ends.push((middle, middle + tenth));
    }
    ends.push(((packets - tenth).next_multiple_of(BURST), packets));
    ends.into_iter().filter(|(from, to)| from < to).map(|(from, to)| Sum { from, to, cycles: 0 }).collect()
}

/// A window as the handler tells it.
pub(super) fn parse(line: &str) -> Option<Window> {
    let mut words = line.split(' ');
    let (from, to) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some(Window { from, to, cycles_per_packet: words.next()?.parse().ok()? })
}

/// A `Strangers` element; [`CLASS`] says what it does.
struct Strangers {
    case: &'static Case,
    packets: u64,
    sent: u64,
    /// When the last burst left.
    out_at: Option<u64>,
    windows: Vec<Sum>,
    task: Option<TaskId>,
}

impl Strangers {
    /// The burst that was sent last has taken its way.
    fn account(&mut self) {
        let Some(out_at) = self.out_at.take() else { return };
        account(&mut self.windows, self.sent - 1, bus::tsc::now().wrapping_sub(out_at));
    }
}

/// Finds the headers as a router's elements in front would have.
fn prepare(packet: &mut Packet, layer: Layer, now_ns: i64) {
    packet.annotations_mut().timestamp_ns = now_ns;
    match layer {
        Layer::Ethernet => {}
        Layer::Ipv4 => {
            let dst = ip_header::ends(packet).1;
            ip_header::mark(packet, 0, ip_header::LEN);
            packet.set_dst_ip(dst);
        }
        Layer::Ipv6 => {
            let dst = ipv6::Header::of(&packet[..]).map(|ip| ip.dst());
            ip_header::mark(packet, 0, ipv6::HEADER_LEN);
            dst.into_iter().for_each(|dst| packet.set_bytes_at(DST_IP6, dst.octets()));
        }
    }
}

impl Element for Strangers {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let task = cx.new_task();
        self.task = Some(task);
        cx.schedule(task);
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>, task: TaskId, batch: &mut Batch) -> Ran {
        self.account();
        let now_ns = cx.now_ns();
        let mut frame = Frame::default();
        for n in self.sent..self.packets.min(self.sent + BURST) {
            (self.case.packet)(n, &mut frame);
            let Some(mut packet) = cx.packet(frame.bytes()) else { break };
            prepare(&mut packet, frame.layer, now_ns);
            if let Some(packet) = batch.push(packet) {
                cx.free(packet);
                break;
            }
            self.sent += 1;
        }
        if batch.is_empty() {
            cx.stop();
            return Ran::IDLE;
        }
        cx.schedule(task);
        self.out_at = Some(bus::tsc::now());
        Ran::push(0)
    }
}
