//! Fixed buffers: queues that are joined with other ports' ([`FixedRing`]).
//!
//! They have legacy receive descriptors (datasheet 7.1.5), whose write-back leaves the buffer's
//! address where it was: what was received is sent by the same descriptor.

use std::any::Any;

use bus::Register;
use port::{Error, Options, Port, Result};
use regs::ixgbe::{DCA_TXCTRL, SRRCTL, TDH};

use super::{Ixgbe, device::Chip};
use crate::intel::fixed::{FixedChip, FixedRing, ring};

/// The receive descriptors of a port that was opened with these options.
pub(super) fn descriptor_type(options: &Options) -> u32 {
    if options.fixed_buffers { SRRCTL::DESCTYPE_LEGACY } else { SRRCTL::DESCTYPE_ADV_ONE_BUFFER }
}

impl FixedChip for Chip {
    /// A head that is written with relaxed ordering may go back (8.2.3.11.2).
    fn order_heads(&self, queue: usize) {
        self.bar.clear32(DCA_TXCTRL::at(queue), DCA_TXCTRL::TX_WB_RO_EN);
    }

    fn tx_head(&self, queue: usize) -> Register {
        self.bar.register(TDH::at(queue))
    }
}

/// Joins the receive queue of one port with the transmit queues of others, all of this driver
/// and opened with [`Options::fixed_buffers`]; the port receives from now on.
///
/// # Errors
/// When a port is another driver's, was opened otherwise or has given its queue already, is in
/// another address space, or a queue does not start.
pub fn join<const N: usize>(from: &mut dyn Port, to: [&mut dyn Port; N]) -> Result<FixedRing<N>> {
    let mut outputs = Vec::with_capacity(N);
    for port in to {
        outputs.push(of_this_driver(port)?);
    }
    ring::join(of_this_driver(from)?, outputs)
}

fn of_this_driver(port: &mut dyn Port) -> Result<&mut Ixgbe> {
    let name = port.name().to_owned();
    let port: &mut dyn Any = port;
    port.downcast_mut().ok_or(Error::Unsupported { port: name, operation: "forwarding in fixed buffers" })
}
