//! Decision programs as Rust code: nested tests with all numbers known, for programs
//! made of a configuration.

use graph::chain::Bytes;
use memory::Packet;
use memory::annotation::Header;

use super::primitive::{NETWORK, TRANSPORT};
use super::program::{Program, Step, Test, To, short, short_at};

/// The most tests that are written out; shared ends are written again for each way.
const MOST: usize = 64;

/// Whether four bytes of a packet hold a value.
#[inline(always)]
pub fn holds(packet: &Packet, offset: u16, mask: u32, value: u32) -> bool {
    let at = usize::from(offset);
    match packet.get(at..).and_then(|rest| rest.first_chunk::<4>()) {
        Some(word) => u32::from_be_bytes(*word) & mask == value,
        None => short(Bytes::of(packet), at, Test { offset, mask, value }),
    }
}

/// The bytes from a packet's network header on, and from its transport header on.
#[inline(always)]
pub fn headers(packet: &Packet) -> (&[u8], &[u8]) {
    let part = |header| packet.header(header).unwrap_or(&[]);
    (part(Header::Network), part(Header::Transport))
}

/// As [`holds`], in a part of a packet; whether it does where the packet ends before
/// is `short_yes`.
#[inline(always)]
pub fn holds_in(part: &[u8], offset: u16, mask: u32, value: u32, short_yes: bool) -> bool {
    let bytes = part.get(usize::from(offset)..).unwrap_or(&[]);
    match bytes.first_chunk::<4>() {
        Some(word) => u32::from_be_bytes(*word) & mask == value,
        None => {
            let test = Test { offset, mask, value };
            short_at(bytes, &Step { test, yes: To::Drop, no: To::Drop, short_yes })
        }
    }
}

/// The code of a program that looks at packets from their start: the action of `packet`.
pub(crate) fn code(program: &Program) -> Option<String> {
    let test = |step: &Step| {
        let Test { offset, mask, value } = step.test;
        Some(format!("kernels::holds(packet, {offset}, {mask:#x}, {value:#x})"))
    };
    Writer { program, test, left: MOST }.action(program.start())
}

/// The code of a program that looks at network and transport headers.
pub(crate) fn code_in_headers(program: &Program) -> Option<String> {
    let test = |step: &Step| {
        let Test { offset, mask, value } = step.test;
        let (part, offset) = match offset {
            TRANSPORT.. => ("transport", offset - TRANSPORT),
            NETWORK.. => ("network", offset - NETWORK),
            _ => return None,
        };
        Some(format!("kernels::holds_in({part}, {offset}, {mask:#x}, {value:#x}, {})", step.short_yes))
    };
    let action = Writer { program, test, left: MOST }.action(program.start())?;
    let [network, transport] = ["network", "transport"].map(|part| match action.contains(part) {
        true => part,
        false => "_",
    });
    Some(format!("{{ let ({network}, {transport}) = kernels::headers(packet); {action} }}"))
}

struct Writer<'a, T> {
    program: &'a Program,
    test: T,
    left: usize,
}

impl<T: Fn(&Step) -> Option<String>> Writer<'_, T> {
    fn action(&mut self, to: To) -> Option<String> {
        let step = match to {
            To::Out(output) => return Some(format!("Action::out({output})")),
            To::Drop => return Some("Action::drop(0)".into()),
            To::Step(number) => self.program.step(number)?,
        };
        self.left = self.left.checked_sub(1)?;
        let test = (self.test)(step)?;
        let (yes, no) = (self.action(step.yes)?, self.action(step.no)?);
        Some(format!("if {test} {{ {yes} }} else {{ {no} }}"))
    }
}
