//! What virtual functions of the 82576 and of the I350 have of their own: modes, and how more addresses
//! are asked for; and what they have in different ways ([`Model`]).

use std::marker::PhantomData;

use port::{Link, Options};
use regs::igb::RXDCTL;
use regs::igbvf::DCA_TXCTRL;
use regs::igbvf::message::{self, MAC_FILTER_ADD, MAC_FILTER_CLR, PROMISC_MULTICAST, PROMISC_UNICAST, kind};

use super::info::{self, REGISTERS};
use super::{Chip, NAME};
use crate::Result;
use crate::igb::link_of;
use crate::intel::layout::RxLayout;
use crate::intel::ring_registers::address::address_words;
use crate::intel::vf::{self, Words};
use crate::intel::{ChipInfo, layout};

/// What virtual functions of one chip have otherwise than those of another.
pub trait Model: Send + Sync + 'static {
    /// The layout of receive descriptors.
    type Rx: RxLayout;
    /// What it is, and its limits.
    const INFO: &'static ChipInfo;
}

/// Those of the 82576.
#[derive(Debug)]
pub struct I82576;

impl Model for I82576 {
    type Rx = layout::Rx82576;
    const INFO: &'static ChipInfo = &info::I82576;
}

/// Those of the I350. That descriptors are written back at once (WTHRESH), which an erratum of the 82576
/// wants, does them no harm.
#[derive(Debug)]
pub struct I350;

impl Model for I350 {
    type Rx = layout::RxI350Vf;
    const INFO: &'static ChipInfo = &info::I350;
}

/// A virtual function of a chip.
pub struct Function<M>(PhantomData<M>);

impl<M: Model> vf::Function for Function<M> {
    type Rx = M::Rx;
    type Own = ();
    const DRIVER: &'static str = NAME;
    const HOST: &'static str = "igb";
    const INFO: &'static ChipInfo = M::INFO;
    const REGISTERS: &'static vf::Registers = &REGISTERS;
    const OVERHEAD: u32 = 8; // CRC and a tag
    const MESSAGE: fn(u32) -> &'static str = message::name;

    /// By VTSTATUS, which is as STATUS.
    fn link(value: u32) -> Link {
        link_of(value)
    }

    /// There are no versions.
    fn begin(_: &Chip<M>, _: &Words) -> Result<()> {
        Ok(())
    }

    /// It has more than are opened.
    fn take_queues(_: &Chip<M>, _: &Options) -> Result<()> {
        Ok(())
    }

    fn prepare_rx(_: &Chip<M>, _: usize) {}

    /// Heads and reports that are written back overtake nothing.
    fn prepare_tx(chip: &Chip<M>, n: usize) {
        chip.bar.clear32(DCA_TXCTRL::at(n), DCA_TXCTRL::WRITE_BACK_RELAXED);
    }

    /// Fetches eight ahead when eight are there, and writes each back at once, as the physical
    /// function's.
    fn rxdctl(_: &Chip<M>, _: u32) -> u32 {
        let thresholds = 8 << RXDCTL::PTHRESH_SHIFT | 8 << RXDCTL::HTHRESH_SHIFT | 1 << RXDCTL::WTHRESH_SHIFT;
        thresholds | RXDCTL::ENABLE
    }

    fn set_modes(chip: &Chip<M>, unicast: bool, multicast: bool) -> Result<()> {
        let modes = if unicast { PROMISC_UNICAST } else { 0 } | if multicast { PROMISC_MULTICAST } else { 0 };
        let (done, _) = chip.ask_whether(&[kind::SET_PROMISC | modes])?;
        // A host that does not know the message gives none either.
        match done || modes == 0 {
            true => Ok(()),
            false => {
                let fix = "leave the modes as they are, or use a physical function whose driver has them";
                Err(chip.not_offered("receiving frames without a filter", fix))
            }
        }
    }

    /// All are the same to the host.
    fn address_message(_: usize) -> u32 {
        kind::SET_MAC_ADDR | MAC_FILTER_ADD
    }

    /// Hosts look at the address here, too: the own one is right at any time.
    fn no_addresses(chip: &Chip<M>) -> [u32; 3] {
        let [low, high] = address_words(chip.state().mac);
        [kind::SET_MAC_ADDR | MAC_FILTER_CLR, low, high]
    }
}
