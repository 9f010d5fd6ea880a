//! `Strip`: bytes off the front.

use graph::class::mandatory;
use graph::element::kernel::{Code, Kernel, of_type};
use graph::{Action, Class, Cx, Each, Element, PerPacket};
use memory::Packet;

use crate::kernels::each;

pub static CLASS: Class = Class {
    name: "Strip",
    brief: "strips bytes from the front of packets",
    doc: "Deletes the first LENGTH bytes of each packet. Of packets that are shorter nothing is left: they \
          go on empty.",
    arguments: &[mandatory("LENGTH", "bytes to strip")],
    example: "Strip(14)",
    see: &["Unstrip", "StripToNetworkHeader", "EtherEncap"],
    kernel: Kernel::Inside(each!(Strip).coded(code)),
    make: |_, conf| {
        let length = conf.mandatory("LENGTH")?;
        conf.complete()?;
        Ok(Each::boxed(Strip { length }))
    },
    ..Class::BASE
};

/// A `Strip` element; [`CLASS`] says what it does.
#[derive(Debug, Clone)]
pub struct Strip {
    length: usize,
}

impl Strip {
    /// One that strips so many bytes.
    pub const fn with(length: usize) -> Strip {
        Strip { length }
    }

    /// Strips a packet that may have no more than that.
    #[cold]
    pub fn strip(&self, cx: &mut Cx<'_>, packet: &mut Packet) {
        cx.strip(packet, self.length);
    }

    /// How many bytes it strips.
    pub fn length(&self) -> usize {
        self.length
    }
}

impl PerPacket for Strip {
    const HAS_FAST_PATH: bool = true;

    #[inline]
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        cx.strip(packet, self.length);
        Action::ON
    }

    #[inline(always)]
    fn fast_path(&mut self, packet: &mut Packet) -> bool {
        packet.next().is_none() && packet.pull_front(self.length).is_ok()
    }

    fn replicate(&self) -> Option<Strip> {
        Some(self.clone())
    }
}

/// Its code in programs: with its configuration in it, where that is known.
fn code(element: &dyn Element) -> Code {
    of_type(element, |Each(kernel): &Each<Strip>| {
        let strip = format!("kernels::Strip::with({})", kernel.length());
        Some(Code::Action(format!(
            "if !{strip}.fast_path(packet) {{ {strip}.strip(&mut cx.at(element), packet); }} Action::ON"
        )))
    })
}
