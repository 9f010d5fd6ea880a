//! Packets into a graph, and what comes out: `Feed` sends the packets it is given,
//! `Catch` keeps what arrives.

use std::sync::{Arc, Mutex};

use graph::class::rest;
use graph::clock::{Clock, SIMULATION_START_NS};
use graph::lang::{self, Source};
use graph::value::Bytes;
use graph::{Class, Console, Cx, Element, Next, Options, Ran, Router, TaskId};
use memory::annotation::{Annotations, Header};
use memory::{Batch, Packet};

/// A packet as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caught {
    /// The name of the `Catch`.
    pub at: String,
    pub bytes: Vec<u8>,
    pub annotations: Annotations,
    pub network: Option<isize>,
    pub transport: Option<isize>,
}

static FEED: Class = Class {
    name: "Feed",
    brief: "sends packets",
    ports: "0/1",
    processing: "h",
    arguments: &[rest("PACKET", "bytes")],
    make: |_, conf| {
        let scope = *conf.scope();
        let packets = conf.rest().into_iter().map(|text| Ok(graph::value::Value::parse(&text, &scope)?));
        let packets = packets.collect::<Result<Vec<Bytes>, graph::ConfFault>>()?;
        Ok(Box::new(Feed { packets, at: 0, task: None }))
    },
    ..Class::BASE
};

struct Feed {
    packets: Vec<Bytes>,
    at: usize,
    task: Option<TaskId>,
}

impl Element for Feed {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let task = cx.new_task();
        self.task = Some(task);
        cx.schedule(task);
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>, task: TaskId, batch: &mut Batch) -> Ran {
        while let Some(bytes) = self.packets.get(self.at).filter(|_| batch.room() > 0) {
            let packet = cx.packet(&bytes.0).expect("a buffer");
            assert!(batch.push(packet).is_none());
            self.at += 1;
        }
        if self.at < self.packets.len() {
            cx.schedule(task);
        }
        Ran::push(0)
    }
}

static CATCH: Class = Class {
    name: "Catch",
    brief: "keeps packets",
    ports: "1/0",
    processing: "h",
    make: |_, _| Ok(Box::new(Catch)),
    ..Class::BASE
};

struct Catch;

thread_local! {
    static CAUGHT: std::cell::RefCell<Vec<Caught>> = const { std::cell::RefCell::new(vec![]) };
}

impl Element for Catch {
    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) -> Next {
        let catch = |packet: &Packet| Caught {
            at: cx.name().to_string(),
            bytes: packet.segments().flat_map(|s| s.to_vec()).collect(),
            annotations: *packet.annotations(),
            network: packet.header_offset(Header::Network),
            transport: packet.header_offset(Header::Transport),
        };
        CAUGHT.with_borrow_mut(|all| all.extend(batch.iter().map(catch)));
        cx.free_batch(batch);
        Next::Done
    }
}

/// A graph of which all tasks have run.
pub struct Bench {
    pub router: Router,
    printed: Arc<Mutex<String>>,
}

/// Makes a router, or tells what is wrong.
pub fn try_bench(config: &str) -> Result<Bench, String> {
    let mut registry = crate::registry();
    registry.add(&FEED);
    registry.add(&CATCH);
    let options = lang::Options {
        known_class: &|name| registry.find(name).is_some(),
        class_names: &|| registry.names().map(str::to_string).collect(),
        ..lang::Options::default()
    };
    let flat = lang::read(vec![Source::new("config", config)], &options).map_err(|p| p.to_string())?;
    let printed = Arc::new(Mutex::new(String::new()));
    let clock = Arc::new(Clock::simulated(SIMULATION_START_NS));
    let options =
        Options { threads: 1, clock, console: Console::Memory(printed.clone()), ..Options::default() };
    CAUGHT.with_borrow_mut(Vec::clear);
    let router = Router::build(config, flat, &registry, options)
        .map_err(|problems| problems.iter().map(|p| p.text() + "\n").collect::<String>())?;
    Ok(Bench { router, printed })
}

/// Makes a router and lets packets flow.
pub fn bench(config: &str) -> Bench {
    let mut bench = try_bench(config).expect("a configuration");
    bench.step();
    bench
}

impl Bench {
    /// Lets packets flow.
    pub fn step(&mut self) {
        self.router.lanes_mut()[0].step(100);
    }

    /// What arrived so far, and forgets it.
    pub fn caught(&mut self) -> Vec<Caught> {
        CAUGHT.with_borrow_mut(std::mem::take)
    }

    /// The bytes of what arrived at a `Catch`.
    pub fn at(&mut self, name: &str) -> Vec<Vec<u8>> {
        CAUGHT.with_borrow(|all| all.iter().filter(|c| c.at == name).map(|c| c.bytes.clone()).collect())
    }

    pub fn read(&mut self, name: &str, parameter: &str) -> String {
        self.router.read(name, parameter).unwrap_or_else(|refused| format!("refused: {refused}"))
    }

    pub fn write(&mut self, name: &str, value: &str) -> String {
        self.router.write(name, value).err().map_or(String::new(), |refused| refused.to_string())
    }

    pub fn printed(&self) -> String {
        self.printed.lock().expect("not poisoned").clone()
    }

    /// How many packets an element dropped for each reason.
    pub fn drops(&self, element: usize) -> Vec<u64> {
        self.router.lanes()[0].counters(element).drops.to_vec()
    }
}

/// Bytes as a configuration writes them.
pub fn hex(bytes: &[u8]) -> String {
    format!("\\<{}>", bytes.iter().map(|b| format!("{b:02x}")).collect::<String>())
}

/// Bytes from hexadecimal digits.
pub fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let value = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("ascii"), 16);
    digits.chunks(2).map(|pair| value(pair).expect("digits")).collect()
}

/// An IPv4 packet with the right checksum.
pub fn ip(protocol: u8, ttl: u8, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let header_len = 20 + options.len();
    let mut packet = vec![0x40 | (header_len / 4) as u8, 0];
    packet.extend(((header_len + payload.len()) as u16).to_be_bytes());
    packet.extend([0x12, 0x34, 0, 0, ttl, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 1, 2]);
    packet.extend(options);
    let sum = wire::checksum::of(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend(payload);
    packet
}

/// Whether an IPv4 header's checksum is right.
pub fn is_sound(packet: &[u8]) -> bool {
    let header_len = usize::from(packet[0] & 0xF) * 4;
    wire::checksum::sum(&packet[..header_len]) == 0xFFFF
}
