//! The link: up when the driver lets it and the other end is there; changes are events of
//! the admin queue (datasheet 332464, chapters 3 and 7).

use regs::i40e::Family;
use regs::i40e::admin::{Descriptor, link, opcode};

use super::{Module, family};

/// The longest frame, CRC included.
pub(super) const MAX_FRAME: u16 = 9728;

/// The port's link.
#[derive(Debug)]
pub(super) struct Link {
    /// What the port is: the one medium and the one speed that there are.
    port: family::Port,
    /// The driver wants it.
    enabled: bool,
    /// Of which types it may be, and of which speeds.
    types: u32,
    speeds: u8,
    /// The other end is there.
    light: bool,
    /// What is in the cage.
    module: Module,
    /// An event is wanted, one until the driver asks for the link again; and which are not.
    events: bool,
    mask: u16,
    /// An event waits to be posted.
    pub event: bool,
    /// The longest frame that the MAC lets in, CRC included.
    pub max_frame: u16,
}

impl Link {
    pub fn new(family: Family) -> Link {
        Link::of(family::port(family))
    }

    fn of(port: family::Port) -> Link {
        Link {
            port,
            enabled: true,
            types: 1 << port.medium,
            speeds: port.speed,
            light: true,
            module: Module::default(),
            events: false,
            mask: 0,
            event: false,
            max_frame: MAX_FRAME,
        }
    }

    /// As a reset of the function leaves it: the other end is where it was.
    pub fn reset(&mut self) {
        *self = Link { light: self.light, module: self.module, ..Link::of(self.port) };
    }

    pub fn is_up(&self) -> bool {
        let possible = self.types & 1 << self.port.medium != 0 && self.speeds & self.port.speed != 0;
        self.enabled && possible && self.light && self.module == Module::Qualified
    }

    fn change(&mut self, change: impl FnOnce(&mut Link)) {
        let before = self.is_up();
        change(self);
        if self.is_up() != before && self.events && self.mask & link::EVENT_UP_DOWN == 0 {
            self.event = true;
        }
    }

    /// Whether the other end is there.
    pub fn set_light(&mut self, light: bool) {
        if light != self.light {
            self.change(|link| link.light = light);
        }
    }

    pub fn set_module(&mut self, module: Module) {
        self.change(|link| link.module = module);
    }

    pub fn set_enabled(&mut self, enabled: bool) {
        self.change(|link| link.enabled = enabled);
    }

    /// Takes over what the PHY shall do, laid out as its abilities are.
    pub fn set_phy(&mut self, command: &Descriptor) {
        self.change(|link| {
            link.types = command.param32(0);
            link.speeds = command.params[link::ABILITIES_SPEED];
            link.enabled = command.params[link::ABILITIES_FLAGS] & link::ENABLED != 0;
        });
    }

    pub fn set_events(&mut self, on: bool) {
        self.events = on;
    }

    pub fn set_event_mask(&mut self, mask: u16) {
        self.mask = mask;
    }

    /// Puts the link's state into an answer or an event.
    pub fn describe(&self, descriptor: &mut Descriptor) {
        let up = self.is_up();
        let (media, qualified) = match self.module {
            Module::Qualified => (link::MEDIA, link::QUALIFIED),
            Module::Unqualified => (link::MEDIA, 0),
            Module::None => (0, 0),
        };
        let info = media | if up { link::UP } else { 0 };
        let negotiation = qualified | if up { link::AN_COMPLETED } else { 0 };
        descriptor.set_param(link::PHY_TYPE, &[self.port.medium]);
        descriptor.set_param(link::SPEED, &[if up { self.port.speed } else { 0 }]);
        descriptor.set_param(link::INFO, &[info, negotiation]);
        descriptor.set_param(link::MAX_FRAME, &self.max_frame.to_le_bytes());
    }

    /// The event that the link has changed. There is no other until the driver asks for the link.
    pub fn take_event(&mut self) -> Descriptor {
        (self.event, self.events) = (false, false);
        let mut event = Descriptor::new(opcode::GET_LINK_STATUS);
        event.set_param(0, &[1]); // events are on
        self.describe(&mut event);
        event
    }

    /// What the PHY can do, or what it was told to.
    pub fn abilities(&self, command: &Descriptor) -> Vec<u8> {
        let (medium, speed) = (1 << self.port.medium, self.port.speed);
        let (types, speeds) = match command.param32(0) & link::REPORT_INITIAL {
            0 => (self.types & medium, self.speeds & speed),
            _ => (medium, speed),
        };
        let mut abilities = vec![0; link::ABILITIES_LEN];
        abilities[..4].copy_from_slice(&types.to_le_bytes());
        abilities[link::ABILITIES_SPEED] = speeds;
        abilities[link::ABILITIES_FLAGS] = if self.enabled { link::ENABLED } else { 0 };
        abilities
    }
}
