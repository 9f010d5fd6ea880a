//! `OverlayDecap`: frames of the underlay out of tunnels.

use graph::class::{mandatory, rest};
use graph::element::kernel::Kernel;
use graph::{Class, ConfFault, Cx, Element, Next};
use memory::Batch;
use overlay::{Decapsulator, Received};

use super::fib::{DROPS, NO_OUTPUT, SharedFib, index};
use crate::kernels;

pub static CLASS: Class = Class {
    name: "OverlayDecap",
    brief: "takes packets of virtual networks out of tunnels",
    doc: "Takes frames of the underlay. Those of a tunnel that ends here lose their outer headers, are \
          checked on the way, and leave at the output of their network: the first network that is named has \
          output 1. All else leaves at output 0, as it came. Packets that must be dropped leave at an output \
          behind those of networks, if there is one, else they are counted.",
    ports: "1/1-",
    processing: "h/h",
    arguments: &[
        mandatory("FIB", "an OverlayFIB"),
        rest("NETWORK", "networks, in the order of their outputs"),
    ],
    drops: &DROPS,
    example: "fib :: OverlayFIB(FILE overlay.toml);\n\
              FromDevice(up) -> d :: OverlayDecap(fib, 100); d[1] -> Queue -> ToDevice(inner);\n\
              d[0] -> Discard;",
    see: &["OverlayFIB", "OverlayEncap"],
    kernel: Kernel::Excluded(kernels::BATCH),
    make: |_, conf| {
        let fib = conf.mandatory("FIB")?;
        let networks = conf.rest();
        let parsed = networks.iter().map(|text| text.trim().parse::<u32>());
        let networks: Vec<u32> =
            parsed.collect::<Result<_, _>>().map_err(|_| ConfFault::new("NETWORK: not a number"))?;
        conf.complete()?;
        let became = Box::new([Received::Other; Batch::MAX]);
        Ok(Box::new(OverlayDecap { fib, networks, receiver: None, became }))
    },
    ..Class::BASE
};

/// An `OverlayDecap` element; [`CLASS`] says what it does.
pub struct OverlayDecap {
    fib: String,
    /// Networks in the order of their outputs, from 1.
    networks: Vec<u32>,
    receiver: Option<Decapsulator>,
    became: Box<[Received; Batch::MAX]>,
}

impl Element for OverlayDecap {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let shared = cx.shared::<SharedFib>(&self.fib);
        let shared = shared.ok_or_else(|| format!("FIB: '{}' is no OverlayFIB", self.fib))?;
        let (least, most) = (self.networks.len() + 1, self.networks.len() + 2);
        if !(least..=most).contains(&cx.outputs()) {
            return Err(format!("{} networks need {least} outputs, or {most}", self.networks.len()));
        }
        self.receiver = Some(shared.lock().held.table.decapsulator());
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) -> Next {
        let Some(receiver) = &mut self.receiver else { return Next::Done };
        receiver.decapsulate(batch, &mut self.became[..]);
        let dropped = self.networks.len() + 1;
        for (place, packet) in batch.drain().enumerate() {
            match self.became[place] {
                Received::Other => cx.emit(0, packet),
                Received::Network(network) => {
                    match self.networks.iter().position(|known| *known == network) {
                        Some(at) => cx.emit(at + 1, packet),
                        None => cx.drop(NO_OUTPUT, packet),
                    }
                }
                Received::Drop(_) if dropped < cx.outputs() => cx.emit(dropped, packet),
                Received::Drop(reason) => cx.drop(index(reason), packet),
            }
        }
        Next::Done
    }

    fn replicate(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(OverlayDecap {
            fib: self.fib.clone(),
            networks: self.networks.clone(),
            receiver: self.receiver.clone(),
            became: self.became.clone(),
        }))
    }
}
