//! `PaintRR`, `ExactPaintSwitch`: one of several ways by a byte noted on packets,
//! whatever its value.

use graph::class::{keyword, positional, rest};
use graph::element::kernel::Kernel;
use graph::{Action, Class, Cx, Each, PerPacket};
use memory::Packet;

use crate::kernels::each;
use graph::annotation::{AnnotationOffset, PAINT, PacketAnnotations};
use port::Reason;

/// By the rest.
pub static ROUND_ROBIN: Class = Class {
    name: "PaintRR",
    brief: "sends packets to outputs by their colour, over and over",
    doc: "Packets of colour N go to output N, counted from the first one again behind the last.",
    ports: "1/1-",
    processing: "h/h",
    arguments: &[keyword("ANNO", "which annotation is the colour; PAINT")],
    example: "PaintRR",
    see: &["PaintSwitch", "ExactPaintSwitch", "RoundRobinSwitch"],
    make: |_, conf| {
        let at = conf.keyword("ANNO")?.unwrap_or(AnnotationOffset::<1>(PAINT));
        conf.complete()?;
        Ok(Each::boxed(PaintRr(at)))
    },
    ..Class::BASE
};

/// By a table.
pub static EXACT: Class = Class {
    name: "ExactPaintSwitch",
    brief: "sends packets to outputs by a table of their colours",
    doc: "Packets of the first MAP's colour go to output 0, those of the second's to output 1, and so on; \
          others to the output behind the last MAP's, or are dropped.",
    arguments: &[
        positional("ANNO", "which annotation is the colour; PAINT"),
        rest("MAP", "a colour, one for each output"),
    ],
    drops: &[Reason::NoColourOutput],
    example: "ExactPaintSwitch(PAINT, MAP 6, MAP 17)",
    see: &["PaintSwitch", "PaintRR"],
    kernel: Kernel::Inside(each!(ExactPaintSwitch)),
    make: |_, conf| {
        let (mut at, mut outputs, mut table) = (AnnotationOffset::<1>(PAINT), 0u16, [u16::MAX; 256]);
        let scope = *conf.scope();
        for text in conf.rest() {
            match text.trim().strip_prefix("MAP").map(str::trim) {
                Some(color) => {
                    let color: u8 =
                        graph::value::Value::parse(color, &scope).map_err(|e| format!("MAP: {e}"))?;
                    table[usize::from(color)] = outputs;
                    outputs += 1;
                }
                None => {
                    let text = text.trim();
                    let text = text.strip_prefix("ANNO").map_or(text, str::trim);
                    at = graph::value::Value::parse(text, &scope).map_err(|e| format!("ANNO: {e}"))?;
                }
            }
        }
        table.iter_mut().filter(|output| **output == u16::MAX).for_each(|output| *output = outputs);
        Ok(Each::boxed(ExactPaintSwitch { at, table: table.into() }))
    },
    ..ROUND_ROBIN
};

/// A `PaintRR` element; [`ROUND_ROBIN`] says what it does.
#[derive(Debug, Clone)]
pub struct PaintRr(AnnotationOffset<1>);

impl PerPacket for PaintRr {
    #[inline]
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        Action::out(usize::from(packet.u8_at(self.0.0)) % cx.outputs().max(1))
    }

    fn replicate(&self) -> Option<PaintRr> {
        Some(self.clone())
    }
}

/// An `ExactPaintSwitch` element; [`EXACT`] says what it does.
#[derive(Debug, Clone)]
pub struct ExactPaintSwitch {
    at: AnnotationOffset<1>,
    /// The output of each colour.
    table: std::sync::Arc<[u16]>,
}

impl PerPacket for ExactPaintSwitch {
    #[inline]
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let output = self.table.get(usize::from(packet.u8_at(self.at.0))).copied().unwrap_or(0);
        Action::out_or_drop(usize::from(output), 0)
    }

    fn replicate(&self) -> Option<ExactPaintSwitch> {
        Some(self.clone())
    }
}
