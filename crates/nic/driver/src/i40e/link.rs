//! The link (datasheet chapter 3): the firmware brings it up and tells changes as events, which
//! are looked at whenever somebody asks for the link. It tells one change only, and no other
//! until it was asked for the link again.

use port::{Link, LinkDownReason};
use regs::i40e::admin::{Descriptor, link, opcode};

use super::device::Chip;
use super::info::INFO;
use crate::Result;

/// What an answer says of the link.
fn link_of(descriptor: &Descriptor) -> Link {
    let (info, negotiation) = (descriptor.params[link::INFO], descriptor.params[link::AN_INFO]);
    if info & link::UP == 0 {
        let down_reason = match (info & link::MEDIA, negotiation & link::QUALIFIED) {
            (0, _) => Some(LinkDownReason::NoMedium),
            (_, 0) => Some(LinkDownReason::UnqualifiedModule),
            _ => None,
        };
        return Link { down_reason, ..Link::DOWN };
    }
    let speed = descriptor.params[link::SPEED];
    let known = link::SPEEDS.iter().find(|(bit, _)| *bit == speed);
    known.map_or(Link::DOWN, |(_, mbps)| Link::up(*mbps))
}

/// Asks for the link, and for an event when it changes.
fn status() -> Descriptor {
    let mut status = Descriptor::new(opcode::GET_LINK_STATUS);
    status.set_param(0, &link::EVENTS_ON.to_le_bytes());
    status
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
        let now = self.with_admin(|admin| {
            admin.command(mac)?;
            admin.command(mask)?;
            admin.command(restart)?;
            admin.command(status())
        })?;
        let link = link_of(&now);
        self.state().link = link;
        self.follow_link(link);
        Ok(())
    }

    /// The link as it was asked for last, which is done anew after an event: what that says is
    /// old by then, and without the command there is no other.
    pub(super) fn link_by_events(&self) -> Link {
        let asked = self.with_admin(|admin| {
            self.take_events(admin);
            // Asked until there is an answer.
            let changed = self.state().link_changed;
            if changed { admin.command(status()).map(Some) } else { Ok(None) }
        });
        if let Ok(Some(answer)) = &asked {
            let link = link_of(answer);
            let mut state = self.state();
            (state.link, state.link_changed) = (link, false);
            drop(state);
            self.follow_link(link);
        }
        if asked.is_err() || self.pci.health().is_err() { Link::DOWN } else { self.state().link }
    }
}
