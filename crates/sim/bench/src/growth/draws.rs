//! `Draws`: the source of packets whose keys are drawn at random. It measures what becomes of
//! the time between its turns, so that making packets is not counted.

use std::net::Ipv4Addr;

use graph::annotation::PacketAnnotations;
use graph::class::{Handlers, mandatory, read};
use graph::{Class, Cx, Element, Ran, TaskId, ip_header};
use memory::Batch;
use memory::annotation::Header;
use wire::ethernet;

use super::keys::{Keys, LENGTH};
use fib::synthetic::Random;

pub(super) static CLASS: Class = Class {
    name: "Draws",
    brief: "sends packets whose keys are drawn at random",
    ports: "0/1",
    processing: "h",
    arguments: &[
        mandatory("KEYS", "flows, prefixes or rules"),
        mandatory("COUNT", "of how many it draws"),
        mandatory("PACKETS", "packets in a window"),
        mandatory("WINDOWS", "how many windows"),
        mandatory("BURST", "packets at a time"),
    ],
    handlers: &Handlers::<Draws>(&[
        read("count", "packets sent", |draws| draws.sent.to_string()),
        read("windows", "TSC cycles for each packet of a window, a line each", |draws| {
            draws.windows.iter().map(|ticks| format!("{}\n", *ticks as f64 / draws.packets as f64)).collect()
        }),
    ]),
    make: |_, conf| {
        let name: String = conf.mandatory("KEYS")?;
        let count: u64 = conf.mandatory("COUNT")?;
        let packets: u64 = conf.mandatory("PACKETS")?;
        let windows: usize = conf.mandatory("WINDOWS")?;
        let burst: usize = conf.mandatory("BURST")?;
        conf.complete()?;
        let keys = Keys::new(&name, count).ok_or("there are no such keys")?;
        let burst = burst.clamp(1, Batch::MAX) as u64;
        // Windows end between bursts.
        let packets = packets.max(1).next_multiple_of(burst);
        let warm = keys.round().max(packets / 4).next_multiple_of(burst);
        Ok(Box::new(Draws {
            keys,
            random: Random::new(count),
            burst,
            packets,
            warm,
            sent: 0,
            out_at: None,
            windows: vec![0; windows],
            task: None,
        }))
    },
    ..Class::BASE
};

/// A `Draws` element; [`CLASS`] says what it does.
struct Draws {
    keys: Keys,
    random: Random,
    burst: u64,
    packets: u64,
    /// Packets in front of the first window: each key comes once.
    warm: u64,
    sent: u64,
    /// When the last burst left.
    out_at: Option<u64>,
    /// Ticks of each window.
    windows: Vec<u64>,
    task: Option<TaskId>,
}

impl Draws {
    /// The burst that was sent last has taken its way.
    fn account(&mut self) {
        let Some(out_at) = self.out_at.take() else { return };
        let ticks = bus::tsc::now().wrapping_sub(out_at);
        let Some(number) = self.sent.checked_sub(self.warm + 1) else { return };
        if let Some(window) = self.windows.get_mut((number / self.packets) as usize) {
            *window += ticks;
        }
    }

    fn all(&self) -> u64 {
        self.warm + self.packets * self.windows.len() as u64
    }
}

impl Element for Draws {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let task = cx.new_task();
        self.task = Some(task);
        cx.schedule(task);
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>, task: TaskId, batch: &mut Batch) -> Ran {
        self.account();
        if self.sent >= self.all() {
            cx.stop();
            return Ran::IDLE;
        }
        let now_ns = cx.now_ns();
        let Draws { keys, random, burst, sent, .. } = self;
        let mut number = *sent;
        let mut frame = [0; LENGTH];
        let made = cx.alloc_batch(batch, *burst as usize, |packet| {
            let to = keys.write(number, random, &mut frame);
            number += 1;
            let _fits = packet.copy_from(&frame);
            // As the elements in front of what is measured leave it.
            packet.set_header(Header::Link, 0);
            ip_header::mark(packet, ethernet::HEADER_LEN, ip_header::LEN);
            packet.set_dst_ip(Ipv4Addr::from_bits(to));
            packet.annotations_mut().timestamp_ns = now_ns;
        });
        self.sent += made as u64;
        if made < self.burst as usize {
            cx.say("no buffers: not a whole burst\n");
            cx.stop();
            return Ran::IDLE;
        }
        cx.schedule(task);
        self.out_at = Some(bus::tsc::now());
        Ran::push(0)
    }
}
