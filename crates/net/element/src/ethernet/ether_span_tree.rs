//! `EtherSpanTree`: a bridge's part in the spanning tree protocol (IEEE 802.1D).

use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};

use graph::class::{Handlers, mandatory, read};
use graph::value::Ethernet;
use graph::{Class, Cx, Element, Named, Next, TimerId};
use memory::Batch;
use memory::annotation::Header;
use port::Reason;
use wire::MacAddress;
use wire::stp;

use super::ether_switch::AddressTable;
use super::spanning_tree::{PortState, SpanningTree};
use crate::standard::Gates;
use crate::wanted::Wanted;

pub static CLASS: Class = Class {
    name: "EtherSpanTree",
    brief: "closes ports of an Ethernet switch so that frames go in no circles",
    doc: "Takes the messages of the spanning tree protocol (IEEE 802.1D-1998) that come in at each port, and sends \
          its own, one every 2 s. Its priority is 57005; bridges with a lower number, as most have, become the \
          root before it. Bridge identifiers are those of the standard: they differ from Click's, which on x86 \
          reverses the address's bytes. Ports that are not part of the tree are suppressed; one that becomes a \
          part listens for 15 s, learns for 15 s, and forwards then. When the tree changes, SWITCH forgets its \
          addresses, which Click's does not. All four elements should have the same number of ports. A new \
          configuration takes the tree over where ADDR and the number of ports are the same. Times that a root sets \
          are held within the standard's bounds; messages of the rapid protocol are dropped.",
    ports: "-/=",
    processing: "h/h",
    arguments: &[
        mandatory("ADDR", "the switch's Ethernet address"),
        mandatory("INPUT_SUPPRESSOR", "the Suppressor in front of the switch"),
        mandatory("OUTPUT_SUPPRESSOR", "the Suppressor behind it"),
        mandatory("SWITCH", "the EtherSwitch"),
    ],
    handlers: &Handlers::<EtherSpanTree>(&[
        read("states", "a line for each port: its number, and what it does", EtherSpanTree::states),
        read("msgs", "what was heard on each port, and last what is said of the root, a line each", |tree| {
            tree.tree.as_ref().map_or(String::new(), SpanningTree::listing)
        }),
    ]),
    drops: &[Reason::BadInput, Reason::NoBuffers],
    example: "st :: EtherSpanTree(0:1b:21:0:0:1, in, out, s); in, out :: Suppressor; s :: EtherSwitch; \
              FromDevice(a) -> ca :: Classifier(14/4242, -); FromDevice(b) -> cb :: Classifier(14/4242, -); \
              qa :: Queue -> ToDevice(a); qb :: Queue -> ToDevice(b); ca -> [0]st[0] -> qa; cb -> [1]st[1] -> qb; \
              ca[1] -> [0]in[0] -> [0]s[0] -> [0]out[0] -> qa; cb[1] -> [1]in[1] -> [1]s[1] -> [1]out[1] -> qb;",
    see: &["EtherSwitch", "Suppressor"],
    make: |setup, conf| {
        let address: Ethernet = conf.mandatory("ADDR")?;
        let mut names: [String; 3] = Default::default();
        for (name, wanted) in names.iter_mut().zip(&WANTED) {
            *name = conf.mandatory(wanted.key)?;
        }
        conf.complete()?;
        for ((name, wanted), classes) in names.iter().zip(&WANTED).zip(CLASSES) {
            let ports = wanted.check(setup, name, |class| classes.contains(&class.name))?;
            if ports != setup.inputs {
                setup.warn(format!("{}: {ports} inputs, {} wanted", wanted.key, setup.inputs));
            }
        }
        let address = MacAddress(address.0);
        Ok(Box::new(EtherSpanTree { address, names, switch: None, tree: None, timer: None }))
    },
    ..Class::BASE
};

const WANTED: [Wanted; 3] = [
    Wanted { key: "INPUT_SUPPRESSOR", class: "Suppressor" },
    Wanted { key: "OUTPUT_SUPPRESSOR", class: "Suppressor" },
    Wanted { key: "SWITCH", class: "EtherSwitch" },
];

/// The classes that fit each of them.
const CLASSES: [&[&str]; 3] = [&["Suppressor"], &["Suppressor"], &["EtherSwitch", "ListenEtherSwitch"]];

/// The bridge's priority, as in Click.
const PRIORITY: u16 = 0xDEAD;

// Places in the class's drops.
const BAD: usize = 0;
const NO_BUFFERS: usize = 1;

/// An `EtherSpanTree` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct EtherSpanTree {
    address: MacAddress,
    names: [String; 3],
    switch: Option<Switch>,
    tree: Option<SpanningTree>,
    timer: Option<TimerId>,
}

/// The switch that has its ports closed.
#[derive(Debug)]
struct Switch {
    /// The gates in front of it and behind it.
    gates: [Arc<Gates>; 2],
    addresses: Arc<Mutex<AddressTable>>,
}

impl EtherSpanTree {
    fn states(&self) -> String {
        let mut text = String::new();
        for (port, state) in self.tree.iter().flat_map(SpanningTree::states).enumerate() {
            let name = match state {
                PortState::Blocking => "blocking",
                PortState::Listening => "listening",
                PortState::Learning => "learning",
                PortState::Forwarding => "forwarding",
            };
            let _ = writeln!(text, "{port} {name}");
        }
        text
    }

    /// Opens and closes ports as the tree has it.
    fn show(&mut self) {
        let (Some(tree), Some(switch)) = (&mut self.tree, &self.switch) else { return };
        let [input, output] = &switch.gates;
        for (port, state) in tree.states().enumerate() {
            input.set_open(port, state >= PortState::Learning);
            output.set_open(port, state == PortState::Forwarding);
        }
        if tree.take_moved() {
            switch.addresses.lock().unwrap_or_else(PoisonError::into_inner).flush();
        }
    }
}

impl EtherSpanTree {
    /// The switch that is named.
    fn find_switch(&self, named: &Named<'_>) -> Result<Switch, String> {
        let [input, output, switch] = &self.names;
        let gates = |name, wanted: &Wanted| named.shared::<Gates>(name).ok_or_else(|| wanted.mismatch());
        let gates = [gates(input, &WANTED[0])?, gates(output, &WANTED[1])?];
        let addresses = named.shared::<Mutex<AddressTable>>(switch).ok_or_else(|| WANTED[2].mismatch())?;
        Ok(Switch { gates, addresses })
    }
}

impl Element for EtherSpanTree {
    fn check_names(&self, named: &Named<'_>) -> Result<(), String> {
        self.find_switch(named).map(drop)
    }

    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.switch = Some(self.find_switch(&cx.named())?);
        let tree = SpanningTree::new(stp::bridge_id(PRIORITY, self.address), cx.outputs(), cx.now_ns());
        let timer = cx.new_timer();
        cx.set_timer_after(timer, tree.hello_ns());
        (self.tree, self.timer) = (Some(tree), Some(timer));
        self.show();
        Ok(())
    }

    fn take_over(&mut self, _: &mut Cx<'_>, old: &mut dyn Element) {
        let Some(old) = (old as &mut dyn std::any::Any).downcast_mut::<EtherSpanTree>() else { return };
        let Some(tree) = &mut self.tree else { return };
        if let Some(old) = old.tree.take_if(|old| old.is_of_same_bridge(tree)) {
            *tree = old;
            self.show();
        }
    }

    fn push(&mut self, cx: &mut Cx<'_>, input: usize, batch: &mut Batch) -> Next {
        let now_ns = cx.now_ns();
        for packet in batch.drain() {
            match (stp::read(&packet), &mut self.tree) {
                (Some(message), Some(tree)) => {
                    tree.hear(input, &message, now_ns);
                    cx.free(packet);
                }
                _ => cx.drop(BAD, packet),
            }
        }
        self.show();
        Next::Done
    }

    fn fire(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        let Some(tree) = &mut self.tree else { return };
        let now_ns = cx.now_ns();
        tree.pass(now_ns);
        for port in 0..cx.outputs() {
            let Some(message) = tree.message(port, now_ns) else { continue };
            match cx.packet(&stp::frame(self.address, &message)) {
                Some(mut packet) => {
                    packet.set_header(Header::Link, 0);
                    cx.emit(port, packet);
                }
                None => cx.count_drops(NO_BUFFERS, 1),
            }
        }
        cx.set_timer_after(timer, tree.hello_ns());
        self.show();
    }
}
