//! A configuration of many classes as it is, and as `ixora compile` made programs of it: the
//! same packets come out at the same places, and the same is dropped for the same reasons.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use element::fixture::{Rig, flatten};
use graph::class::mandatory;
use graph::clock::{Clock, SIMULATION_START_NS};
use graph::fused::Region;
use graph::lang::Flat;
use graph::{Class, Cx, Element, Next, Options, Ran, Registry, Services, TaskId};
use memory::annotation::Header;
use memory::{Batch, DATA_ROOM};

/// The code of the configuration, which a test of the compiler compares with what it writes.
#[allow(missing_docs, unused_imports, clippy::all, clippy::pedantic)]
mod classes {
    include!("../../crates/ixora/tests/it/compile/classes.rs");
}

const TEXT: &str = include_str!("../../crates/ixora/tests/it/compile/classes.click");
/// Packet buffers of a router, and packets of a run.
const BUFFERS: usize = 128;
const PACKETS: usize = 32;

/// What goes in, in order.
struct Input(Vec<Vec<u8>>);

/// What came out, by sink; not in order, which a program changes between flows.
type Arrived = BTreeMap<u32, Vec<Vec<u8>>>;

#[derive(Default)]
struct Output(Mutex<Arrived>);

static FEED: Class = Class {
    name: "Feed",
    ports: "0/1",
    processing: "h",
    arguments: &[mandatory("N", ""), mandatory("BURST", "")],
    make: |setup, conf| {
        let _: (u32, u32) = (conf.mandatory("N")?, conf.mandatory("BURST")?);
        Ok(Box::new(Feed(setup.services.get().ok_or("nothing is fed")?)))
    },
    ..Class::BASE
};

struct Feed(Arc<Input>);

impl Element for Feed {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let task = cx.new_task();
        cx.schedule(task);
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>, _: TaskId, batch: &mut Batch) -> Ran {
        for bytes in &self.0.0 {
            let mut packet = cx.packet(bytes).expect("as many buffers as packets");
            packet.set_header(Header::Link, 0);
            assert!(batch.push(packet).is_none());
        }
        Ran::push(0)
    }
}

static KEEP: Class = Class {
    name: "Keep",
    ports: "1/0",
    processing: "h",
    arguments: &[mandatory("N", "")],
    make: |setup, conf| {
        let output = setup.services.get().ok_or("nothing is kept")?;
        Ok(Box::new(Keep { sink: conf.mandatory("N")?, output }))
    },
    ..Class::BASE
};

struct Keep {
    sink: u32,
    output: Arc<Output>,
}

impl Element for Keep {
    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) -> Next {
        let mut output = self.output.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |packet: &memory::Packet| packet.segments().flat_map(|segment| segment.to_vec()).collect();
        output.entry(self.sink).or_default().extend(batch.iter_mut().map(|packet| of(packet)));
        cx.free_batch(batch);
        Next::Done
    }
}

/// The configuration, read.
pub struct Both {
    registry: Registry,
    flat: Flat,
}

impl Default for Both {
    fn default() -> Both {
        let mut registry = element::registry();
        [&FEED, &KEEP].into_iter().for_each(|class| registry.add(class));
        let flat = flatten(TEXT, &registry).unwrap_or_else(|problems| panic!("{problems}"));
        Both { registry, flat }
    }
}

impl Both {
    /// Packets through the configuration, and through the programs.
    ///
    /// # Panics
    /// When something else comes of them.
    pub fn run(&self, packets: impl Iterator<Item = Vec<u8>>) {
        let cut = |mut bytes: Vec<u8>| {
            bytes.truncate(DATA_ROOM);
            bytes
        };
        let input = Arc::new(Input(packets.take(PACKETS).map(cut).collect()));
        let [interpreted, compiled] = [&[][..], classes::REGIONS].map(|regions| self.one(&input, regions));
        assert_eq!(interpreted, compiled);
    }

    /// What arrived, and what each element dropped by reason.
    fn one(&self, input: &Arc<Input>, fused: &'static [Region]) -> (Arrived, Vec<Vec<u64>>) {
        let (output, mut services) = (Arc::new(Output::default()), Services::default());
        services.add(input.clone());
        services.add(output.clone());
        let clock = Arc::new(Clock::simulated(SIMULATION_START_NS));
        let options = Options {
            fused,
            services,
            clock,
            buffers: Some(BUFFERS),
            dma: crate::dma::space(),
            ..Options::default()
        };
        let rig = Rig::build(TEXT, self.flat.clone(), &self.registry, options);
        let mut router = rig.unwrap_or_else(|error| panic!("{error}")).router;
        router.lanes_mut()[0].step(100);
        let elements = 0..router.shared().plan.elements.len();
        let drops = elements.map(|number| router.lanes()[0].counters(number).drops.to_vec()).collect();
        let mut arrived = std::mem::take(&mut *output.0.lock().unwrap_or_else(PoisonError::into_inner));
        arrived.values_mut().for_each(|packets| packets.sort());
        (arrived, drops)
    }
}
