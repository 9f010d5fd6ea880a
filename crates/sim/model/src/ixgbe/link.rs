//! The link: device control and status, autonegotiation, the SFP+ cage's
//! pins and received pause frames.
//!
//! 82599 datasheet rev. 3.4, sections 3.7, 4.6.4, 8.2.3.1 and 8.2.3.22. The
//! line either has light or not ([`Link::set_link`]); training takes a fixed
//! time; the partner speaks every speed the driver may choose. No bit errors,
//! no clause 37 or 73 pages. Settings that change nothing here are kept where all such
//! are, in `registers`.

pub mod line;

pub use line::{Config, Media, Speed};
use regs::ixgbe::{
    ANLP1, ANLP2, ANLPNP1, ANLPNP2, AUTOC, AUTOC2, CORECTL, CTRL, ESDP, Id, KRPCSS, LINKS, LINKS2, MFLCN,
    MMNGC, PCS1GLSTA, STATUS, TFCS,
};

const ESDP_DATA: u32 = 0xFF;
/// The cage is full (an input on SFP+ boards).
const SDP2: u32 = ESDP::SDP2_DATA;
/// The transmit laser is off (an output on SFP+ boards).
const SDP3: u32 = ESDP::SDP3_DATA;
/// Direction bits lie eight above the data bits; set is output.
const DIRECTION_SHIFT: u32 = 8;
const _: () = assert!(ESDP::SDP0_IODIR == ESDP::SDP0_DATA << DIRECTION_SHIFT);

const AUTOC2_LINK_DISABLE: u32 = 0x7000_0000;
const PCS1G_LINK_OK: u32 = PCS1GLSTA::LINK_OK | PCS1GLSTA::SYNC_OK;

/// ANLP1 bits 19:16: the arbitration state machine has left state 0 ...
const AN_WORKING: u32 = 1 << 16;
/// ... or has reached its good state.
const AN_GOOD: u32 = 0xC << 16;

const TFCS_XOFF: u32 = 1 << 0;
/// A pause quantum is 512 bit times.
const QUANTUM_BITS: u64 = 512;

/// Which reset a write of CTRL asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reset {
    /// CTRL.LRST: the device and its link.
    Link,
    /// CTRL.RST: the device, the link stays.
    Software,
}

/// What a write set off outside this component.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Effects {
    /// The rest of the device must be reset.
    pub reset: Option<Reset>,
    /// The link's status has changed: EICR.LSC.
    pub lsc: bool,
}

/// The link and its registers.
#[derive(Debug, Clone)]
pub struct Link {
    config: Config,
    /// Light (or a signal) arrives from the partner.
    signal: bool,
    module: bool,
    ctrl: u32,
    esdp: u32,
    autoc: u32,
    autoc2: u32,
    mflcn: u32,
    corectl: u32,
    /// Training, done at this time.
    up_at_ns: Option<u64>,
    speed: Option<Speed>,
    /// The link was down since LINKS was last read.
    was_down: bool,
    paused_until_ns: u64,
    pauses: u64,
}

impl Link {
    /// A port with a module in its cage and a partner that is on; training
    /// starts at `now_ns`.
    pub fn new(config: Config, now_ns: u64) -> Link {
        let mut link = Link {
            config,
            signal: true,
            module: true,
            ctrl: 0,
            esdp: 0,
            autoc: 0,
            autoc2: 0,
            mflcn: 0,
            corectl: 0,
            up_at_ns: None,
            speed: None,
            was_down: true,
            paused_until_ns: 0,
            pauses: 0,
        };
        link.load_defaults();
        link.train(now_ns);
        link
    }

    /// Registers as the EEPROM leaves them.
    fn load_defaults(&mut self) {
        self.ctrl = 0;
        self.esdp = SDP3 << DIRECTION_SHIFT;
        self.autoc = self.config.autoc & !AUTOC::RESTART_AN;
        self.autoc2 = u32::from(self.config.autoc2_upper) << 16;
        self.mflcn = 0;
        self.corectl = 0;
        self.paused_until_ns = 0;
    }

    /// A device reset: registers go back, and after [`Reset::Link`] the link
    /// goes down and trains. Returns whether the link's status changed.
    pub fn reset(&mut self, reset: Reset, now_ns: u64) -> bool {
        let was_up = self.is_up();
        self.load_defaults();
        if reset == Reset::Link {
            self.drop_link();
            self.train(now_ns);
        } else if was_up || self.up_at_ns.is_none() {
            self.train(now_ns);
            if was_up && self.reachable() == self.speed {
                // The same link with the same settings needs no training.
                self.up_at_ns = None;
            }
        }
        self.finish_training(now_ns) | (was_up != self.is_up())
    }

    /// A link that is up and that nothing takes down: of queues whose frames go by a switch.
    pub(super) fn hold_up(&mut self) {
        (self.speed, self.up_at_ns) = (Some(Speed::TenGigabit), None);
    }

    /// Whether frames can pass.
    #[inline]
    pub fn is_up(&self) -> bool {
        self.speed.is_some()
    }

    /// The speed of the link, `None` while it is down.
    pub fn speed(&self) -> Option<Speed> {
        self.speed
    }

    /// The partner comes or goes. Returns whether EICR.LSC must be raised now
    /// (coming up takes its time: [`Link::poll`] tells).
    pub fn set_link(&mut self, up: bool, now_ns: u64) -> bool {
        self.signal = up;
        self.changed(now_ns)
    }

    /// A module is put in or taken out. Returns whether EICR.LSC must be
    /// raised; the cage's own cause (SDP2) is the caller's to raise.
    pub fn set_module(&mut self, present: bool, now_ns: u64) -> bool {
        self.module = present;
        self.changed(now_ns)
    }

    /// Whether the driver leaves the transmit laser on.
    pub fn laser_on(&self) -> bool {
        let off = self.config.media == Media::Fiber
            && self.esdp & SDP3 != 0
            && self.esdp & SDP3 << DIRECTION_SHIFT != 0;
        !off
    }

    /// Whether bus mastering is blocked by CTRL.
    pub fn master_disabled(&self) -> bool {
        self.ctrl & CTRL::PCIE_MASTER_DISABLE != 0
    }

    /// Time has passed. Returns whether EICR.LSC must be raised.
    pub fn poll(&mut self, now_ns: u64) -> bool {
        self.up_at_ns.is_some() && self.finish_training(now_ns)
    }

    /// When [`Link::poll`] will next change something.
    pub fn next_deadline(&self) -> Option<u64> {
        self.up_at_ns
    }

    /// A pause frame of `quanta` came from the partner; 0 resumes. Returns
    /// whether it counts (it was asked for in MFLCN).
    pub fn pause_frame(&mut self, quanta: u16, now_ns: u64) -> bool {
        let Some(speed) = self.speed.filter(|_| self.mflcn & MFLCN::RFCE != 0) else {
            return false;
        };
        let bits = u64::from(quanta) * QUANTUM_BITS;
        let ns = bits * 1_000_000_000 / speed.bits_per_second();
        self.paused_until_ns = now_ns.saturating_add(ns);
        self.pauses += 1;
        true
    }

    /// Whether transmission is paused by the partner.
    #[inline]
    pub fn tx_paused(&self, now_ns: u64) -> bool {
        now_ns < self.paused_until_ns
    }

    /// Pause frames taken since the model was made.
    pub fn pauses(&self) -> u64 {
        self.pauses
    }

    fn train(&mut self, now_ns: u64) {
        self.up_at_ns = self.reachable().map(|_| now_ns.saturating_add(self.config.up_after_ns));
    }

    fn drop_link(&mut self) {
        if self.speed.take().is_some() {
            self.was_down = true;
        }
    }

    /// Something outside the registers, or a pin, has changed.
    fn changed(&mut self, now_ns: u64) -> bool {
        let was_up = self.is_up();
        if self.reachable().is_none() {
            self.up_at_ns = None;
            self.drop_link();
        } else if !was_up && self.up_at_ns.is_none() {
            self.train(now_ns);
        }
        self.finish_training(now_ns) | (was_up != self.is_up())
    }

    /// Ends a training whose time has come.
    fn finish_training(&mut self, now_ns: u64) -> bool {
        if self.up_at_ns.is_none_or(|at| now_ns < at) {
            return false;
        }
        self.up_at_ns = None;
        let was_up = self.is_up();
        self.speed = self.reachable();
        was_up != self.is_up()
    }

    /// The speed the settings and the line allow, `None` for no link.
    fn reachable(&self) -> Option<Speed> {
        if self.autoc & AUTOC::FLU != 0 {
            return Some(self.configured_speed().unwrap_or(Speed::TenGigabit));
        }
        let dark = self.config.media == Media::Fiber && !(self.module && self.laser_on());
        if !self.signal || dark || self.autoc2 & AUTOC2_LINK_DISABLE != 0 {
            return None;
        }
        self.configured_speed()
    }

    /// What AUTOC.LMS asks for, if the medium carries it. A fibre partner
    /// does not take part in backplane autonegotiation.
    fn configured_speed(&self) -> Option<Speed> {
        let backplane = || match self.config.media {
            Media::Fiber => None,
            Media::Backplane if self.autoc & (AUTOC::KX4_SUPPORT | AUTOC::KR_SUPPORT) != 0 => {
                Some(Speed::TenGigabit)
            }
            Media::Backplane if self.autoc & AUTOC::KX_SUPPORT != 0 => Some(Speed::Gigabit),
            Media::Backplane => None,
        };
        match self.autoc >> AUTOC::LMS_SHIFT & 7 {
            0 | 2 => Some(Speed::Gigabit),
            1 | 3 => Some(Speed::TenGigabit),
            5 => Some(Speed::Fast),
            _ => backplane(),
        }
    }

    /// Whether AUTOC.LMS selects clause 73 autonegotiation.
    fn negotiates(&self) -> bool {
        matches!(self.autoc >> AUTOC::LMS_SHIFT & 7, 4 | 6 | 7)
    }

    /// Reads a register of this component; `None` when it does not own it.
    pub fn read(&mut self, id: Id, now_ns: u64) -> Option<u32> {
        Some(match id {
            CTRL::ID => self.ctrl,
            STATUS::ID => self.read_status(),
            ESDP::ID => self.read_esdp(),
            AUTOC::ID => self.autoc,
            AUTOC2::ID => self.autoc2,
            LINKS::ID => self.read_links(),
            LINKS2::ID => 0,
            // On a backplane any restart sets the arbitration going, whatever LMS
            // says: Linux's pipeline reset toggles LMS[2] and counts on it.
            ANLP1::ID if !self.negotiates() && self.config.media == Media::Fiber => 0,
            ANLP1::ID if self.is_up() => AN_GOOD,
            ANLP1::ID => AN_WORKING,
            ANLP2::ID | ANLPNP1::ID | ANLPNP2::ID | KRPCSS::ID => 0,
            PCS1GLSTA::ID if self.speed == Some(Speed::Gigabit) => PCS1G_LINK_OK,
            PCS1GLSTA::ID => 0,
            // Management firmware vetoes nothing.
            MMNGC::ID => 0,
            MFLCN::ID => self.mflcn,
            TFCS::ID => u32::from(!self.tx_paused(now_ns)) * TFCS_XOFF,
            // Analog registers read back what was written (low byte).
            CORECTL::ID => self.corectl,
            _ => return None,
        })
    }

    /// Writes a register; `None` when the component does not own it.
    pub fn write(&mut self, id: Id, value: u32, now_ns: u64) -> Option<Effects> {
        let mut effects = Effects::default();
        match id {
            CTRL::ID => effects.reset = self.write_ctrl(value),
            ESDP::ID => {
                self.esdp = value;
                effects.lsc = self.changed(now_ns);
            }
            AUTOC::ID => effects.lsc = self.write_autoc(value, now_ns),
            AUTOC2::ID => {
                self.autoc2 = value;
                effects.lsc = self.changed(now_ns);
            }
            MFLCN::ID => self.mflcn = value,
            CORECTL::ID => self.corectl = value,
            // Read only: nothing changes.
            STATUS::ID | LINKS::ID | LINKS2::ID | ANLP1::ID | ANLP2::ID | ANLPNP1::ID | ANLPNP2::ID => {}
            KRPCSS::ID | PCS1GLSTA::ID | MMNGC::ID | TFCS::ID => {}
            _ => return None,
        }
        Some(effects)
    }

    /// The reset bits clear themselves: a read never shows them.
    fn write_ctrl(&mut self, value: u32) -> Option<Reset> {
        self.ctrl = value & !(CTRL::RST | CTRL::LRST);
        if value & CTRL::LRST != 0 {
            Some(Reset::Link)
        } else if value & CTRL::RST != 0 {
            Some(Reset::Software)
        } else {
            None
        }
    }

    /// Settings take effect with the restart bit, which clears itself;
    /// FLU does at once.
    fn write_autoc(&mut self, value: u32, now_ns: u64) -> bool {
        let forced = (self.autoc ^ value) & AUTOC::FLU != 0;
        self.autoc = value & !AUTOC::RESTART_AN;
        let was_up = self.is_up();
        if value & AUTOC::RESTART_AN != 0 {
            self.drop_link();
            self.train(now_ns);
        }
        let changed = forced && self.changed(now_ns);
        changed | self.finish_training(now_ns) | (was_up != self.is_up())
    }

    fn read_status(&self) -> u32 {
        let mut value = u32::from(self.config.port & 3) << 2;
        if self.is_up() {
            value |= STATUS::LINK_UP;
        }
        // No request is ever left under way between two accesses.
        if !self.master_disabled() {
            value |= STATUS::PCIE_MASTER_ENABLE;
        }
        value
    }

    /// Outputs read as driven, inputs as the board drives them.
    fn read_esdp(&self) -> u32 {
        let outputs = self.esdp >> DIRECTION_SHIFT & ESDP_DATA;
        let full = self.config.media == Media::Fiber && self.module;
        let inputs = if full { SDP2 } else { 0 };
        self.esdp & (!ESDP_DATA | outputs) | inputs & !outputs
    }

    /// LINKS, but for what it tells of the time since it was read.
    pub(super) fn links(&self) -> u32 {
        let Some(speed) = self.speed else { return 0 };
        let negotiated = if self.negotiates() { LINKS::KX_AN_COMPLETE } else { 0 };
        let speed = match speed {
            Speed::Fast => LINKS::LINK_SPEED_100M,
            Speed::Gigabit => LINKS::LINK_SPEED_1G,
            Speed::TenGigabit => LINKS::LINK_SPEED_10G,
        };
        LINKS::LINK_UP | speed | negotiated
    }

    fn read_links(&mut self) -> u32 {
        let up = self.is_up();
        let was_down = std::mem::replace(&mut self.was_down, !up);
        self.links() | if up && !was_down { LINKS::MAC_LINK_STAT } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use regs::ixgbe::{BAR0_LEN, lookup};

    const MS: u64 = 1_000_000;
    const FIBER_10G: u32 = LINKS::LINK_UP | LINKS::LINK_SPEED_10G;

    fn up() -> Link {
        let mut link = Link::new(Config::default(), 0);
        assert!(link.poll(2 * MS));
        link
    }

    #[test]
    fn the_link_comes_up_after_its_time_and_says_so_once() {
        let mut link = Link::new(Config::default(), 0);
        assert_eq!(link.read(LINKS::ID, 0), Some(0));
        assert_eq!(link.next_deadline(), Some(2 * MS));
        assert!(!link.poll(2 * MS - 1));
        assert!(link.poll(2 * MS));
        assert!(!link.poll(3 * MS));
        assert_eq!(link.read(LINKS::ID, 0), Some(FIBER_10G));
        assert_eq!(link.read(LINKS::ID, 0), Some(FIBER_10G | LINKS::MAC_LINK_STAT));
        assert_eq!(link.read(STATUS::ID, 0), Some(STATUS::LINK_UP | STATUS::PCIE_MASTER_ENABLE));
    }

    #[test]
    fn a_flap_raises_twice_and_leaves_its_mark() {
        let mut link = up();
        link.read(LINKS::ID, 0);
        assert!(link.set_link(false, 10 * MS));
        assert!(!link.set_link(false, 10 * MS));
        assert!(!link.is_up());
        assert!(!link.set_link(true, 11 * MS));
        assert!(link.poll(13 * MS));
        assert_eq!(link.read(LINKS::ID, 0), Some(FIBER_10G));
    }

    #[test]
    fn the_drivers_pipeline_reset_sees_autonegotiation_move() {
        // Linux and DPDK toggle LMS[2] with a restart, wait for ANLP1 to leave
        // state 0, and restore.
        let mut link = up();
        let autoc = link.read(AUTOC::ID, 0).expect("owned") | AUTOC::RESTART_AN;
        assert!(link.write(AUTOC::ID, autoc ^ 4 << AUTOC::LMS_SHIFT, 5 * MS).expect("owned").lsc);
        assert_ne!(link.read(ANLP1::ID, 0).expect("owned") & 0xF_0000, 0);
        link.write(AUTOC::ID, autoc, 9 * MS);
        assert!(link.poll(11 * MS));
        assert_eq!(link.speed(), Some(Speed::TenGigabit));
        assert_eq!(link.read(AUTOC::ID, 0).expect("owned") & AUTOC::RESTART_AN, 0);
    }

    #[test]
    fn lms_chooses_the_speed_at_a_restart_only() {
        let mut link = up();
        let autoc = link.read(AUTOC::ID, 0).expect("owned") & !(7 << AUTOC::LMS_SHIFT);
        link.write(AUTOC::ID, autoc, 5 * MS);
        assert_eq!(link.speed(), Some(Speed::TenGigabit));
        link.write(AUTOC::ID, autoc | AUTOC::RESTART_AN, 5 * MS);
        assert!(link.poll(8 * MS));
        assert_eq!(link.speed(), Some(Speed::Gigabit));
        assert_eq!(link.read(PCS1GLSTA::ID, 0), Some(PCS1G_LINK_OK));
    }

    #[test]
    fn a_backplane_negotiates() {
        let mut link = Link::new(
            Config {
                media: Media::Backplane,
                autoc: 4 << AUTOC::LMS_SHIFT | AUTOC::KX4_SUPPORT | AUTOC::KX_SUPPORT,
                autoc2_upper: 0,
                ..Config::default()
            },
            0,
        );
        link.poll(2 * MS);
        assert_eq!(link.read(LINKS::ID, 0), Some(LINKS::KX_AN_COMPLETE | FIBER_10G));
        assert_eq!(link.read(ANLP1::ID, 0), Some(AN_GOOD));
        // The pipeline reset of Linux, from an LMS that negotiates to one that does not.
        let autoc = link.read(AUTOC::ID, 0).expect("owned") | AUTOC::RESTART_AN;
        link.write(AUTOC::ID, autoc ^ 4 << AUTOC::LMS_SHIFT, 5 * MS);
        link.poll(9 * MS);
        assert_ne!(link.read(ANLP1::ID, 9 * MS).expect("owned") & 0xF_0000, 0);
    }

    #[test]
    fn laser_module_and_link_disable_each_take_the_link_down() {
        let mut link = up();
        let esdp = link.read(ESDP::ID, 0).expect("owned");
        assert_ne!(esdp & SDP2, 0, "the cage is full");
        assert!(link.write(ESDP::ID, esdp | SDP3, 3 * MS).expect("owned").lsc);
        assert!(!link.laser_on());
        link.write(ESDP::ID, esdp & !SDP3, 3 * MS);
        assert!(link.poll(5 * MS));
        assert!(link.set_module(false, 6 * MS));
        assert_eq!(link.read(ESDP::ID, 0).expect("owned") & SDP2, 0);
        link.set_module(true, 6 * MS);
        assert!(link.poll(8 * MS));
        let autoc2 = link.read(AUTOC2::ID, 0).expect("owned");
        assert!(link.write(AUTOC2::ID, autoc2 | 1 << 30, 9 * MS).expect("owned").lsc);
        link.write(AUTOC2::ID, autoc2, 9 * MS);
        assert!(link.poll(11 * MS));
    }

    #[test]
    fn resets_clear_themselves_and_only_lrst_drops_the_link() {
        let mut link = up();
        let effects = link.write(CTRL::ID, CTRL::RST, 3 * MS).expect("owned");
        assert_eq!(effects.reset, Some(Reset::Software));
        assert_eq!(link.read(CTRL::ID, 0), Some(0));
        assert!(!link.reset(Reset::Software, 3 * MS));
        assert!(link.is_up());
        let effects = link.write(CTRL::ID, CTRL::RST | CTRL::LRST, 3 * MS).expect("owned");
        assert_eq!(effects.reset, Some(Reset::Link));
        assert!(link.reset(Reset::Link, 3 * MS));
        assert!(!link.is_up());
        assert!(link.poll(5 * MS));
    }

    #[test]
    fn master_disable_shows_in_status() {
        let mut link = up();
        link.write(CTRL::ID, CTRL::PCIE_MASTER_DISABLE, 0);
        assert_eq!(link.read(STATUS::ID, 0).expect("owned") & STATUS::PCIE_MASTER_ENABLE, 0);
    }

    #[test]
    fn pause_frames_count_only_when_asked_for() {
        let mut link = up();
        assert!(!link.pause_frame(100, 0));
        link.write(MFLCN::ID, MFLCN::RFCE, 0);
        assert!(link.pause_frame(100, 1_000));
        // 100 quanta of 512 bits at 10 Gbit/s.
        assert!(link.tx_paused(1_000 + 5_119));
        assert!(!link.tx_paused(1_000 + 5_120));
        assert_eq!(link.pauses(), 1);
    }

    #[test]
    fn what_can_be_written_can_be_read() {
        let mut link = up();
        let mut owned = 0;
        for (id, _) in (0..BAR0_LEN).step_by(4).filter_map(lookup) {
            let written = link.write(id, u32::MAX, 0).is_some();
            assert_eq!(written, link.read(id, 0).is_some(), "{id:?}");
            owned += usize::from(written);
        }
        assert_eq!(owned, 17);
    }
}
