//! What the 82599's virtual functions have of their own: modes, how many queues there are and how flows
//! are spread over them.

use port::{Link, Options, Rss};
use regs::ixgbe::{DCA_RXCTRL, RXDCTL};
use regs::ixgbevf::VFDCA_RXCTRL;
use regs::ixgbevf::message::{self, INFO_SHIFT, kind, version, xcast};

use super::info::{INFO, REGISTERS};
use super::{Chip, NAME, VfFault};
use crate::Result;
use crate::intel::vf::{self, Words};
use crate::intel::{ChipInfo, layout};
use crate::ixgbe::link_of;

/// The 82599's virtual functions.
pub struct Function;

/// What the driver knows of one.
#[derive(Default)]
pub struct Own {
    /// The version of the mailbox's messages.
    pub(super) version: u32,
    /// Which bits of a multicast address the port looks at (MCSTCTRL.MO).
    multicast_filter: u32,
    /// Frames have a tag of the port's outside, which is not for the application.
    pub(super) transparent: bool,
    /// How the port spreads flows, with several queues.
    pub(super) spread: Option<Spread>,
}

/// The hash's key and table, which are the port's.
pub(super) struct Spread {
    pub key: [u8; 40],
    pub table: Box<[u8; 128]>,
}

impl vf::Function for Function {
    type Rx = layout::Rx82599;
    type Own = Own;
    const DRIVER: &'static str = NAME;
    const HOST: &'static str = "ixgbe";
    const INFO: &'static ChipInfo = &INFO;
    const REGISTERS: &'static vf::Registers = &REGISTERS;
    const OVERHEAD: u32 = 4; // CRC
    const MESSAGE: fn(u32) -> &'static str = message::name;

    /// By VFLINKS (8.3.5.1).
    fn link(value: u32) -> Link {
        link_of(value)
    }

    fn begin(chip: &Chip, answer: &Words) -> Result<()> {
        chip.state().own = Own { multicast_filter: answer[3], version: version::V1_0, ..Own::default() };
        super::agreement::agree_on_version(chip)
    }

    fn take_queues(chip: &Chip, options: &Options) -> Result<()> {
        super::agreement::take_queues(chip, options)
    }

    fn prepare_rx(chip: &Chip, n: usize) {
        let bar = &chip.bar;
        bar.clear32(VFDCA_RXCTRL::at(n), DCA_RXCTRL::MUST_CLEAR);
    }

    fn prepare_tx(_: &Chip, _: usize) {}

    fn rxdctl(chip: &Chip, before: u32) -> u32 {
        let state = chip.state();
        let strips = state.options.vlan_strip || state.own.transparent;
        before | RXDCTL::ENABLE | if strips { RXDCTL::VME } else { 0 }
    }

    /// A mode that the physical function does not give is an error; the 82599 has none for all unicast
    /// frames of a pool.
    fn set_modes(chip: &Chip, unicast: bool, multicast: bool) -> Result<()> {
        let mode = match (unicast, multicast) {
            (true, _) => xcast::PROMISCUOUS,
            (_, true) => xcast::ALL_MULTICAST,
            // Not NONE, in which older hosts of Linux's take broadcast frames away as well.
            _ => xcast::MULTICAST,
        };
        let since = if unicast { version::V1_3 } else { version::V1_2 };
        let refused = |fix| Err(chip.not_offered("receiving frames without a filter", fix));
        if chip.state().own.version < since {
            // What it does without being asked is the least.
            return match mode {
                xcast::MULTICAST => Ok(()),
                _ => refused("leave the modes as they are, or use a later driver of the physical function"),
            };
        }
        // The mode that was given; one without trust has less, and is not refused.
        match chip.ask(&[kind::UPDATE_XCAST_MODE, mode])?[1] < mode {
            true => refused("trust it (ixora pf --vf N,trust; ip link set … vf N trust on)"),
            false => Ok(()),
        }
    }

    fn rss(chip: &Chip, asked: &Rss) -> Rss {
        match &chip.state().own.spread {
            Some(Spread { key, table }) => Rss { key: *key, table: Some(table.clone()), ..asked.clone() },
            None => asked.clone(),
        }
    }

    /// Number 1 begins a new list.
    fn address_message(n: usize) -> u32 {
        kind::SET_MACVLAN | (n as u32 + 1) << INFO_SHIFT
    }

    fn no_addresses(_: &Chip) -> [u32; 3] {
        [kind::SET_MACVLAN, 0, 0]
    }

    fn can_filter_multicast(chip: &Chip) -> Result<()> {
        if chip.state().own.multicast_filter == 0 {
            return Ok(());
        }
        let fix = "receive all multicast frames instead";
        Err(chip.not_offered("filtering multicast frames by bits 47:36 of their address", fix))
    }
}

/// An error for a message whose answer makes no sense.
pub(super) fn nonsense(chip: &Chip, kind: u32, why: &'static str) -> crate::Error {
    VfFault::Nonsense { device: chip.name.clone(), message: message::name(kind), why }.into()
}
