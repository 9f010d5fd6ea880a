//! The link (datasheet chapter 3): the firmware brings it up and tells changes as events, which
//! are looked at whenever somebody asks for the link.

use port::Link;
use regs::i40e::admin::{Descriptor, link, opcode};

use super::device::Chip;
use super::info::INFO;
use crate::Result;

/// What an answer or an event says of the link.
fn link_of(descriptor: &Descriptor) -> Link {
    if descriptor.params[link::INFO] & link::UP == 0 {
        return Link::DOWN;
    }
    let speed = descriptor.params[link::SPEED];
    let known = link::SPEEDS.iter().find(|(bit, _)| *bit == speed);
    known.map_or(Link::DOWN, |(_, mbps)| Link::up(*mbps))
}

impl Chip {
    /// Lets frames up to the longest in, with a CRC added to those sent; the speed is negotiated.
    pub(super) fn bring_link_up(&self) -> Result<()> {
        let mut mac = Descriptor::new(opcode::SET_MAC_CONFIG);
        // CRC and two tags, which the options' limit does not count.
        mac.set_param(0, &(INFO.longest as u16 + 12).to_le_bytes());
        mac.set_param(2, &[link::CRC_ENABLE]);
        let mut mask = Descriptor::new(opcode::SET_PHY_INT_MASK);
        mask.set_param(link::EVENT_MASK, &(!link::EVENT_UP_DOWN).to_le_bytes());
        let mut restart = Descriptor::new(opcode::RESTART_AN);
        restart.set_param(0, &[link::RESTART | link::RESTART_ENABLE]);
        let mut status = Descriptor::new(opcode::GET_LINK_STATUS);
        status.set_param(0, &link::EVENTS_ON.to_le_bytes());
        let now = self.with_admin(|admin| {
            admin.command(mac)?;
            admin.command(mask)?;
            admin.command(restart)?;
            admin.command(status)
        })?;
        self.state().link = link_of(&now);
        Ok(())
    }

    /// The link by the last event.
    pub(super) fn link_by_events(&self) -> Link {
        let mut last = None;
        let looked = self.with_admin(|admin| {
            admin.events(|event| {
                if event.opcode == opcode::GET_LINK_STATUS {
                    last = Some(link_of(event));
                }
            });
            Ok(())
        });
        let mut state = self.state();
        if let Some(link) = last {
            state.link = link;
        }
        if looked.is_err() || self.pci.health().is_err() { Link::DOWN } else { state.link }
    }
}
