//! `Unstrip`, `Truncate`, `Pad`, `Resize`: packets made longer or shorter.

use graph::class::{Handlers, datum, keyword, mandatory, positional};
use graph::element::kernel::Kernel;
use graph::{Action, Class, Cx, Each, PerPacket};
use memory::Packet;

use crate::kernels::each;
use graph::annotation::{EXTRA_LENGTH, PacketAnnotations};
use port::Reason;

/// Bytes back in front.
pub static UNSTRIP: Class = Class {
    name: "Unstrip",
    brief: "puts bytes that were stripped back in front of packets",
    doc: "Makes each packet LENGTH bytes longer in front. After Strip these are the bytes that were stripped. \
          Where fewer were they are what the packet's buffer holds there, as in Click, also bytes of a packet \
          that had it before; and zeros in front of the buffer. Packets for which there are no buffers, or that would have more than a \
          mebibyte, are dropped.",
    arguments: &[mandatory("LENGTH", "bytes to put back")],
    drops: &[Reason::TooLong],
    example: "Unstrip(14)",
    see: &["Strip", "UnstripToNetworkHeader"],
    kernel: Kernel::Inside(each!(Unstrip)),
    make: |_, conf| {
        let length = conf.mandatory("LENGTH")?;
        conf.complete()?;
        Ok(Each::boxed(Unstrip(length)))
    },
    ..Class::BASE
};

/// Bytes off the end.
pub static TRUNCATE: Class = Class {
    name: "Truncate",
    brief: "cuts packets to a length",
    doc: "Deletes what stands behind the first LENGTH bytes of a packet. How much that was is added to its \
          extra length annotation, from which Pad restores it.",
    arguments: &[
        mandatory("LENGTH", "bytes that stay at most"),
        keyword("EXTRA_LENGTH", "count what was cut; true"),
    ],
    handlers: &Handlers::<Truncate>(&[datum(
        "nbytes",
        "bytes that stay at most",
        |truncate| truncate.length.to_string(),
        (0, "LENGTH"),
    )]),
    live: true,
    example: "Truncate(64)",
    see: &["Pad", "Resize", "Strip"],
    kernel: Kernel::Inside(each!(Truncate)),
    make: |_, conf| {
        let length = conf.mandatory("LENGTH")?;
        let count = conf.keyword("EXTRA_LENGTH")?.unwrap_or(true);
        conf.complete()?;
        Ok(Each::boxed(Truncate { length, count }))
    },
    ..Class::BASE
};

/// Bytes at the end.
pub static PAD: Class = Class {
    name: "Pad",
    brief: "extends packets to a length",
    doc: "Extends packets shorter than LENGTH with zeros to it; without LENGTH by their extra length \
          annotation. The annotation is zero afterwards. Packets for which there are no \
          buffers, or that would have more than a mebibyte, are dropped.",
    arguments: &[
        positional("LENGTH", "bytes there are at least"),
        keyword("ZERO", "accepted; new bytes are always zero, whatever a buffer held before"),
    ],
    drops: &[Reason::TooLong],
    live: true,
    example: "Pad(60)",
    see: &["Truncate", "Resize"],
    kernel: Kernel::Inside(each!(Pad)),
    make: |_, conf| {
        let length = conf.positional("LENGTH")?.unwrap_or(0);
        let _zero: Option<bool> = conf.keyword("ZERO")?;
        conf.complete()?;
        Ok(Each::boxed(Pad(length)))
    },
    ..Class::BASE
};

/// At both ends.
pub static RESIZE: Class = Class {
    name: "Resize",
    brief: "makes packets longer or shorter at either end",
    doc: "Adds HEAD bytes in front and TAIL bytes behind, or deletes them when negative. Bytes added in front \
          are as Unstrip's, bytes added behind are zero. Packets for which there are no \
          buffers, or that would have more than a mebibyte, are dropped.",
    arguments: &[positional("HEAD", "bytes more in front; 0"), positional("TAIL", "bytes more behind; 0")],
    drops: &[Reason::TooLong],
    handlers: &Handlers::<Resize>(&[
        datum("head", "bytes more in front", |resize| resize.head.to_string(), (0, "HEAD")),
        datum("tail", "bytes more behind", |resize| resize.tail.to_string(), (1, "TAIL")),
    ]),
    live: true,
    example: "Resize(-14, 4)",
    see: &["Strip", "Unstrip", "Pad", "Truncate"],
    make: |_, conf| {
        let head = signed(conf.positional::<String>("HEAD")?, "HEAD")?;
        let tail = signed(conf.positional::<String>("TAIL")?, "TAIL")?;
        conf.complete()?;
        Ok(Each::boxed(Resize { head, tail }))
    },
    ..Class::BASE
};

/// A number with a sign, also a plus.
fn signed(text: Option<String>, name: &str) -> Result<i32, String> {
    let parse = |text: String| text.trim().parse().map_err(|_| format!("{name}: expected integer"));
    text.map_or(Ok(0), parse)
}

/// An `Unstrip` element; [`UNSTRIP`] says what it does.
#[derive(Debug, Clone)]
pub struct Unstrip(usize);

impl PerPacket for Unstrip {
    #[inline]
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        if cx.grow_front(packet, self.0) { Action::ON } else { Action::drop(0) }
    }

    fn replicate(&self) -> Option<Unstrip> {
        Some(self.clone())
    }
}

/// A `Truncate` element; [`TRUNCATE`] says what it does.
#[derive(Debug, Clone)]
pub struct Truncate {
    length: usize,
    count: bool,
}

impl PerPacket for Truncate {
    #[inline]
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let excess = packet.total_len().saturating_sub(self.length);
        if excess > 0 {
            packet.truncate(self.length);
            if self.count {
                let extra = packet.u32_at(EXTRA_LENGTH);
                packet.set_u32_at(EXTRA_LENGTH, extra.saturating_add(excess as u32));
            }
        }
        Action::ON
    }

    fn replicate(&self) -> Option<Truncate> {
        Some(self.clone())
    }
}

/// A `Pad` element; [`PAD`] says what it does.
#[derive(Debug, Clone)]
pub struct Pad(usize);

impl PerPacket for Pad {
    #[inline]
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let missing = match self.0 {
            0 => packet.u32_at(EXTRA_LENGTH) as usize,
            length => length.saturating_sub(packet.total_len()),
        };
        if missing > 0 && !cx.grow_back(packet, missing) {
            return Action::drop(0);
        }
        packet.set_u32_at(EXTRA_LENGTH, 0);
        Action::ON
    }

    fn replicate(&self) -> Option<Pad> {
        Some(self.clone())
    }
}

/// A `Resize` element; [`RESIZE`] says what it does.
#[derive(Debug, Clone)]
pub struct Resize {
    head: i32,
    tail: i32,
}

impl PerPacket for Resize {
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let (head, tail) = (self.head.unsigned_abs() as usize, self.tail.unsigned_abs() as usize);
        if self.head < 0 {
            cx.strip(packet, head);
        } else if !cx.grow_front(packet, head) {
            return Action::drop(0);
        }
        if self.tail < 0 {
            let length = packet.total_len().saturating_sub(tail);
            packet.truncate(length);
        } else if tail > 0 && !cx.grow_back(packet, tail) {
            return Action::drop(0);
        }
        Action::ON
    }

    fn replicate(&self) -> Option<Resize> {
        Some(self.clone())
    }
}
