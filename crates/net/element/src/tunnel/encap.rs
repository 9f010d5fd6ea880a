//! `OverlayEncap`: packets of a virtual network into tunnels.

use graph::class::mandatory;
use graph::element::kernel::Kernel;
use graph::{Class, Cx, Element, Next};
use memory::{Batch, Packet};
use overlay::{Encapsulator, Sent};

use super::fib::{DROPS, NO_COPY, NO_OUTPUT, PUNTED, SharedFib, index};
use crate::kernels;

pub static CLASS: Class = Class {
    name: "OverlayEncap",
    brief: "puts packets of a virtual network into tunnels",
    doc: "Takes packets of NETWORK: frames, or packets without an Ethernet header, as the network is. Each \
          is looked up once, by its identifier, and leaves with all of its outer headers at the output whose \
          number is that of the underlay's port. Of a packet that no entry has a copy goes to each tunnel of \
          the flood list, or it is given back or dropped, as the network says. Behind the outputs of ports \
          there may be one for packets that are given back, and one more for those that are dropped, which \
          are as they came; without these they are counted.",
    ports: "1/1-",
    processing: "h/h",
    arguments: &[mandatory("FIB", "an OverlayFIB"), mandatory("NETWORK", "the network's number")],
    drops: &DROPS,
    example: "fib :: OverlayFIB(FILE overlay.toml);\n\
              FromDevice(inner) -> OverlayEncap(fib, 100) -> Queue -> ToDevice(up);",
    see: &["OverlayFIB", "OverlayDecap"],
    kernel: Kernel::Excluded(kernels::BATCH),
    make: |_, conf| {
        let fib = conf.mandatory("FIB")?;
        let network = conf.mandatory("NETWORK")?;
        conf.complete()?;
        let sent = Box::new([Sent::Punt; Batch::MAX]);
        Ok(Box::new(OverlayEncap { fib, network, sender: None, ports: 0, sent }))
    },
    ..Class::BASE
};

/// An `OverlayEncap` element; [`CLASS`] says what it does.
pub struct OverlayEncap {
    fib: String,
    network: u32,
    sender: Option<Encapsulator>,
    /// Ports of the underlay, which have the first outputs.
    ports: usize,
    sent: Box<[Sent; Batch::MAX]>,
}

impl OverlayEncap {
    /// A packet that goes into no tunnel: to an output that takes such, if there is one.
    fn give_back(&self, cx: &mut Cx<'_>, behind: usize, reason: usize, packet: Packet) {
        let output = self.ports + behind;
        match output < cx.outputs() {
            true => cx.emit(output, packet),
            false => cx.drop(reason, packet),
        }
    }

    /// Lets a packet in its tunnel leave.
    fn leave(&self, cx: &mut Cx<'_>, port: u16, packet: Packet) {
        let output = usize::from(port);
        match output < self.ports {
            true => cx.emit(output, packet),
            false => cx.drop(NO_OUTPUT, packet), // a port that a new table has
        }
    }

    /// Copies to all of the flood list; the packet itself is the last of them.
    #[cold]
    fn flood(&mut self, cx: &mut Cx<'_>, packet: Packet) {
        let Some(mut sender) = self.sender.take() else { return cx.drop(NO_COPY, packet) };
        let places = sender.flood_len(self.network);
        let mut left = Some(packet);
        for place in 0..places {
            let copy = match place + 1 == places {
                true => left.take(),
                false => left.as_ref().and_then(|packet| cx.copy(packet)),
            };
            let Some(mut copy) = copy else {
                cx.count_drops(NO_COPY, 1);
                continue;
            };
            match sender.flood(self.network, place, &mut copy) {
                Sent::Port(port) => self.leave(cx, port, copy),
                Sent::Drop(reason) => self.give_back(cx, 1, index(reason), copy),
                Sent::Punt | Sent::Flood => cx.drop(NO_COPY, copy), // which a place never gives
            }
        }
        if let Some(packet) = left {
            self.give_back(cx, 1, NO_COPY, packet); // an empty list
        }
        self.sender = Some(sender);
    }
}

impl Element for OverlayEncap {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let shared = cx.shared::<SharedFib>(&self.fib);
        let shared = shared.ok_or_else(|| format!("FIB: '{}' is no OverlayFIB", self.fib))?;
        let mut state = shared.lock();
        if !state.held.desired().networks.contains_key(&self.network) {
            return Err(format!("'{}' has no network {}", self.fib, self.network));
        }
        self.ports = state.held.desired().ports.len();
        let most = self.ports + 2;
        if cx.outputs() < self.ports || cx.outputs() > most {
            let ports = self.ports;
            return Err(format!(
                "'{}' has {ports} ports of the underlay: {ports} to {most} outputs are needed",
                self.fib
            ));
        }
        self.sender = Some(state.held.table.encapsulator());
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) -> Next {
        let Some(sender) = &mut self.sender else { return Next::Done };
        sender.encapsulate(self.network, batch, &mut self.sent[..]);
        let first = self.sent[0];
        if let Sent::Port(port) = first
            && usize::from(port) < self.ports
            && self.sent[..batch.len()].iter().all(|sent| *sent == first)
        {
            return Next::Push(port.into());
        }
        for (place, packet) in batch.drain().enumerate() {
            match self.sent[place] {
                Sent::Port(port) => self.leave(cx, port, packet),
                Sent::Punt => self.give_back(cx, 0, PUNTED, packet),
                Sent::Drop(reason) => self.give_back(cx, 1, index(reason), packet),
                Sent::Flood => self.flood(cx, packet),
            }
        }
        Next::Done
    }

    fn replicate(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(OverlayEncap {
            fib: self.fib.clone(),
            network: self.network,
            sender: self.sender.clone(),
            ports: self.ports,
            sent: self.sent.clone(),
        }))
    }
}
