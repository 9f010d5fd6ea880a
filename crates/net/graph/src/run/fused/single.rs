//! What elements of programs do with one packet.

use memory::Packet;

use crate::element::{Action, Each, Element, PerPacket};
use crate::run::cx::Cx;

/// An element that can be asked about one packet.
pub trait Single: Element {
    /// What [`Element::push`] would do with a batch of this packet; what it would
    /// emit beside it is emitted.
    fn single(&mut self, cx: &mut Cx<'_>, input: usize, packet: &mut Packet) -> Action;

    /// Whether it has a fast path, as [`PerPacket::HAS_FAST_PATH`] says.
    const HAS_FAST_PATH: bool = false;

    /// Deals with the packet if that is easy, as [`PerPacket::fast_path`] does; whether it did.
    #[allow(unused_variables)]
    #[inline(always)]
    fn fast_path(&mut self, packet: &mut Packet) -> bool {
        false
    }
}

/// What an element of a program does with a packet: by its fast path if it has one, with all else
/// it does apart from the program's own code.
#[inline(always)]
pub fn ask<T: Single>(
    element: &mut T,
    cx: &mut Cx<'_>,
    number: usize,
    input: usize,
    packet: &mut Packet,
) -> Action {
    if !T::HAS_FAST_PATH {
        element.single(&mut cx.at(number), input, packet)
    } else if element.fast_path(packet) {
        Action::ON
    } else {
        slow_path(element, cx, number, input, packet)
    }
}

/// What an element does with a packet that its fast path is not for.
#[cold]
#[inline(never)]
fn slow_path<T: Single>(
    element: &mut T,
    cx: &mut Cx<'_>,
    number: usize,
    input: usize,
    packet: &mut Packet,
) -> Action {
    element.single(&mut cx.at(number), input, packet)
}

impl<K: PerPacket> Single for Each<K> {
    const HAS_FAST_PATH: bool = K::HAS_FAST_PATH;

    #[inline(always)]
    fn single(&mut self, cx: &mut Cx<'_>, input: usize, packet: &mut Packet) -> Action {
        self.0.packet(cx, input, packet)
    }

    #[inline(always)]
    fn fast_path(&mut self, packet: &mut Packet) -> bool {
        self.0.fast_path(packet)
    }
}
