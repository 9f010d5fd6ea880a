//! What a virtual function of the stubbed 82576 has besides rings: a mailbox, whose other end a test
//! plays, and interrupts (datasheet revision 2.87, section 8.26).
#![allow(dead_code, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use regs::igbvf::message::kind;
use regs::igbvf::*;
use regs::ixgbevf::VFMAILBOX;
use regs::ixgbevf::message::{CLEAR_TO_SEND, KIND_MASK, SUCCESS, WORDS};

use super::stub_82576::Rings;

pub const RINGS: Rings = Rings {
    rx: [RDBAL::at(0), RDBAH::at(0), RDLEN::at(0), RDT::at(0), RXDCTL::at(0)],
    tx: [TDBAL::at(0), TDBAH::at(0), TDLEN::at(0), TDT::at(0), TXDCTL::at(0)],
};

/// Bits that are told once.
const TOLD: u32 = VFMAILBOX::PFSTS | VFMAILBOX::PFACK | VFMAILBOX::RSTD;

pub type Words = [u32; WORDS];

/// What the physical function answers to a message; nothing if it stays silent.
type Answers = Box<dyn FnMut(&Words) -> Option<Vec<u32>> + Send>;

pub struct Mailbox {
    control: u32,
    words: Words,
    answers: Answers,
    events: BTreeMap<u16, OwnedFd>,
}

/// An answer by the rules, with an address of the function's own.
pub fn honest(words: &Words) -> Option<Vec<u32>> {
    let kind = words[0] & KIND_MASK;
    Some(match kind {
        kind::RESET => vec![kind | SUCCESS, 0x0403_0202, 0x0605],
        _ => vec![kind | SUCCESS | CLEAR_TO_SEND],
    })
}

impl Mailbox {
    pub fn new(answers: impl FnMut(&Words) -> Option<Vec<u32>> + Send + 'static) -> Mailbox {
        Mailbox { control: 0, words: [0; WORDS], answers: Box::new(answers), events: BTreeMap::new() }
    }

    /// There is no driver of the physical function, or there is one again, which says so.
    pub fn set_host(&mut self, is_there: bool) {
        self.control = if is_there { VFMAILBOX::RSTD } else { VFMAILBOX::RSTI };
    }

    /// The physical function tells that this one was reset.
    pub fn tell_reset(&mut self) {
        self.tell(&[kind::PF_CONTROL_MSG]);
    }

    /// The physical function tells words; or it has the buffer, and tells it again when it lets go.
    pub fn tell(&mut self, words: &[u32]) {
        self.words[..words.len()].copy_from_slice(words);
        self.control |= VFMAILBOX::PFSTS;
    }

    /// The physical function takes the buffer, or lets go of it.
    pub fn hold(&mut self, on: bool) {
        self.control = self.control & !VFMAILBOX::PFU | if on { VFMAILBOX::PFU } else { 0 };
    }

    pub fn read(&mut self, at: u32) -> Option<u32> {
        match at {
            V2PMAILBOX::AT => {
                let value = self.control;
                self.control &= !TOLD;
                Some(value)
            }
            VTSTATUS::AT => Some(regs::igb::STATUS::LU | 2 << 6),
            _ => (0..WORDS).find(|&n| at == VMBMEM::at(n)).map(|n| self.words[n]),
        }
    }

    /// Whether a write was for this.
    pub fn write(&mut self, registers: &mut [u32], at: u32, value: u32) -> bool {
        let mask = &mut registers[VTEIMS::AT as usize / 4];
        match at {
            V2PMAILBOX::AT => self.control(value),
            VTEIMS::AT => *mask |= value,
            VTEIMC::AT => *mask &= !value,
            _ => match (0..WORDS).find(|&n| at == VMBMEM::at(n)) {
                // Whoever does not have the buffer writes nothing.
                Some(n) if self.control & VFMAILBOX::VFU != 0 => self.words[n] = value,
                Some(_) => {}
                None => return false,
            },
        }
        true
    }

    fn control(&mut self, value: u32) {
        let takes = value & VFMAILBOX::VFU != 0 && self.control & VFMAILBOX::PFU == 0;
        self.control = self.control & !VFMAILBOX::VFU | if takes { VFMAILBOX::VFU } else { 0 };
        if value & VFMAILBOX::REQ == 0 {
            return;
        }
        if let Some(answer) = (self.answers)(&self.words) {
            self.words[..answer.len()].copy_from_slice(&answer);
            self.control |= VFMAILBOX::PFSTS | VFMAILBOX::PFACK;
        }
    }

    pub fn wire(&mut self, vector: u16, event: Option<OwnedFd>) {
        self.events.remove(&vector);
        self.events.extend(event.map(|event| (vector, event)));
    }

    /// A frame was received: its vector fires if it may, and masks itself then.
    pub fn interrupt(&mut self, registers: &mut [u32]) {
        let entry = registers[VTIVAR::AT as usize / 4];
        let vector = entry & 3;
        let mask = &mut registers[VTEIMS::AT as usize / 4];
        if entry & regs::ixgbevf::VTIVAR::VALID != 0 && *mask & 1 << vector != 0 {
            *mask &= !(1 << vector);
            if let Some(event) = self.events.get(&(vector as u16)) {
                bus::eventfd::signal(event).unwrap();
            }
        }
    }
}
