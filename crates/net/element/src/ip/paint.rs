//! `Paint`, `PaintSwitch`, `PaintTee`, `CheckPaint`: a colour that packets carry.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use graph::class::{Argument, Handlers, both, mandatory, positional};
use graph::element::kernel::{Code, Inside, Kernel, of_type};
use graph::fused::Single;
use graph::value::unsigned;
use graph::{Action, Class, Conf, ConfFault, Cx, Each, Element, Next, PerPacket, Refused};
use memory::{Batch, Packet};

use crate::kernels::{each, single};
use graph::annotation::{self, AnnotationOffset, PacketAnnotations};
use port::Reason;

const COLOR: Argument = mandatory("COLOR", "the colour, 0 to 255");
const ANNO: Argument = positional("ANNO", "which annotation, of one byte, is the colour; PAINT");
/// The class of what paints.
pub static PAINT: Class = Class {
    name: "Paint",
    brief: "sets the colour that packets carry",
    doc: "Sets each packet's paint annotation to COLOR. What comes later can tell by it where a packet \
          came from.",
    arguments: &[COLOR, ANNO],
    handlers: &Handlers::<Paint>(&[both(
        "color",
        "the colour",
        |paint| paint.0.read(),
        |paint, _, value| paint.0.write(value),
    )]),
    live: true,
    example: "Paint(1)",
    see: &["PaintTee", "PaintSwitch", "CheckPaint"],
    kernel: Kernel::Inside(each!(Paint)),
    make: |_, conf| Ok(Each::boxed(Paint(Color::parse(conf)?))),
    ..Class::BASE
};

/// The class of what sends copies of one colour elsewhere.
pub static PAINT_TEE: Class = Class {
    name: "PaintTee",
    brief: "sends copies of packets of one colour to a second output",
    doc: "Passes all packets on; copies of those whose paint annotation is COLOR go to output 1. In a \
          router it finds packets that leave where they came in: ICMPError tells their sender of the \
          shorter way.",
    ports: "1/2",
    processing: "a/ah",
    arguments: &[COLOR, ANNO],
    handlers: &Handlers::<PaintTee>(&[both(
        "color",
        "the colour",
        |paint| paint.0.read(),
        |paint, _, value| paint.0.write(value),
    )]),
    drops: &[Reason::NoBuffers],
    example: "pt :: PaintTee(1) -> IPGWOptions(10.0.0.1);\npt[1] -> ICMPError(10.0.0.1, redirect, host);",
    see: &["Paint", "PaintSwitch", "CheckPaint", "ICMPError"],
    costs: "copies each packet of its colour",
    kernel: Kernel::Inside(single!(PaintTee).emitting(|output, _| output == 0)),
    make: |_, conf| Ok(Box::new(PaintTee(Color::parse(conf)?))),
    ..Class::BASE
};

/// The class of what lets one colour pass.
pub static CHECK: Class = Class {
    name: "CheckPaint",
    brief: "lets packets of one colour pass",
    doc: "Packets whose paint annotation is not COLOR go to output 1, or are dropped.",
    ports: "1/1-2",
    processing: "a/ah",
    arguments: &[COLOR, ANNO],
    handlers: &Handlers::<CheckPaint>(&[both(
        "color",
        "the colour",
        |paint| paint.0.read(),
        |paint, _, value| paint.0.write(value),
    )]),
    drops: &[Reason::AnotherColour],
    example: "CheckPaint(1)",
    see: &["Paint", "PaintTee", "PaintSwitch"],
    kernel: Kernel::Inside(each!(CheckPaint)),
    make: |_, conf| Ok(Each::boxed(CheckPaint(Color::parse(conf)?))),
    ..Class::BASE
};

/// The class of what sorts by colour.
pub static SWITCH: Class = Class {
    name: "PaintSwitch",
    brief: "sends packets to the output their colour says",
    doc: "A packet whose paint annotation is N goes to output N, or is dropped if there is none; one of \
          colour 255 goes to all outputs.",
    ports: "1/-",
    processing: "h/h",
    arguments: &[ANNO],
    drops: &[Reason::NoSuchOutput, Reason::NoBuffers],
    example: "ps :: PaintSwitch; ps[0] -> Queue -> ToDevice(a); ps[1] -> Queue -> ToDevice(b);",
    see: &["Paint", "PaintTee", "Switch"],
    kernel: Kernel::Inside(Inside::aside::<PaintSwitch>(code)),
    make: |_, conf| {
        let at = conf.positional("ANNO")?.unwrap_or(AnnotationOffset(annotation::PAINT));
        conf.complete()?;
        Ok(Box::new(PaintSwitch(at)))
    },
    ..Class::BASE
};

/// A colour and where packets carry it. All threads' copies have the same.
#[derive(Debug, Clone)]
struct Color {
    color: Arc<AtomicU8>,
    at: AnnotationOffset<1>,
}

impl Color {
    fn parse(conf: &mut Conf<'_>) -> Result<Color, ConfFault> {
        let color: u8 = conf.mandatory("COLOR")?;
        let at = conf.positional("ANNO")?.unwrap_or(AnnotationOffset(annotation::PAINT));
        conf.complete()?;
        Ok(Color { color: Arc::new(AtomicU8::new(color)), at })
    }

    #[inline(always)]
    fn color(&self) -> u8 {
        self.color.load(Ordering::Relaxed) // a lone value: whoever sees it late was early
    }

    #[inline(always)]
    fn is_of(&self, packet: &Packet) -> bool {
        packet.u8_at(self.at.0) == self.color()
    }

    fn read(&self) -> String {
        self.color().to_string()
    }

    fn write(&self, value: &str) -> Result<(), Refused> {
        let color = unsigned(value).and_then(|color| u8::try_from(color).ok());
        self.color.store(color.ok_or("expected uint8_t")?, Ordering::Relaxed);
        Ok(())
    }
}

/// A `Paint` element; [`PAINT`] says what it does.
#[derive(Debug, Clone)]
pub struct Paint(Color);

impl PerPacket for Paint {
    const HAS_FAST_PATH: bool = true;

    #[inline]
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        self.fast_path(packet);
        Action::ON
    }

    #[inline(always)]
    fn fast_path(&mut self, packet: &mut Packet) -> bool {
        packet.set_u8_at(self.0.at.0, self.0.color());
        true
    }

    fn replicate(&self) -> Option<Paint> {
        Some(self.clone())
    }
}

/// A `CheckPaint` element; [`CHECK`] says what it does.
#[derive(Debug, Clone)]
pub struct CheckPaint(Color);

impl PerPacket for CheckPaint {
    const HAS_FAST_PATH: bool = true;

    #[inline]
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        if self.0.is_of(packet) { Action::ON } else { Action::out_or_drop(1, 0) }
    }

    #[inline(always)]
    fn fast_path(&mut self, packet: &mut Packet) -> bool {
        self.0.is_of(packet)
    }

    fn replicate(&self) -> Option<CheckPaint> {
        Some(self.clone())
    }
}

/// A `PaintTee` element; [`PAINT_TEE`] says what it does.
#[derive(Debug, Clone)]
pub struct PaintTee(Color);

impl PaintTee {
    #[cold]
    fn copy(cx: &mut Cx<'_>, packet: &Packet) {
        match cx.copy(packet) {
            Some(copy) => cx.emit(1, copy),
            None => cx.count_drops(0, 1),
        }
    }
}

impl Single for PaintTee {
    const HAS_FAST_PATH: bool = true;

    #[inline(always)]
    fn single(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        if self.0.is_of(packet) {
            PaintTee::copy(cx, packet);
        }
        Action::ON
    }

    #[inline(always)]
    fn fast_path(&mut self, packet: &mut Packet) -> bool {
        !self.0.is_of(packet)
    }
}

impl Element for PaintTee {
    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) -> Next {
        batch.iter().filter(|packet| self.0.is_of(packet)).for_each(|packet| PaintTee::copy(cx, packet));
        Next::Push(0)
    }

    fn replicate(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

/// The colour of packets that go everywhere.
const EVERYWHERE: u8 = 0xFF;

/// A `PaintSwitch` element; [`SWITCH`] says what it does.
#[derive(Debug, Clone)]
pub struct PaintSwitch(AnnotationOffset<1>);

impl PaintSwitch {
    /// The annotation it looks at.
    pub(crate) fn anno(&self) -> usize {
        self.0.0
    }

    /// Where a packet goes; `None` if everywhere.
    #[inline(always)]
    pub(crate) fn action(packet: &Packet, anno: usize) -> Option<Action> {
        let color = packet.u8_at(anno);
        (color != EVERYWHERE).then(|| Action::out(color.into()))
    }

    fn everywhere(cx: &mut Cx<'_>, packet: Packet) {
        for output in 1..cx.outputs() {
            match cx.copy(&packet) {
                Some(copy) => cx.emit(output, copy),
                None => cx.count_drops(1, 1),
            }
        }
        cx.emit(0, packet);
    }
}

impl Element for PaintSwitch {
    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) -> Next {
        let Some(first) = batch.first().map(|packet| packet.u8_at(self.0.0)) else { return Next::Done };
        if first != EVERYWHERE && batch.iter().all(|packet| packet.u8_at(self.0.0) == first) {
            return Next::Push(first.into()); // dropped where there is no such output
        }
        for packet in batch.drain() {
            match packet.u8_at(self.0.0) {
                EVERYWHERE => PaintSwitch::everywhere(cx, packet),
                color => cx.emit(color.into(), packet),
            }
        }
        Next::Done
    }

    fn replicate(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

/// Its code in programs: with its configuration in it, where that is known.
fn code(element: &dyn Element) -> Code {
    of_type(element, |kernel: &PaintSwitch| {
        Some(Code::Aside(format!("kernels::colored(packet, {})", kernel.anno())))
    })
}
