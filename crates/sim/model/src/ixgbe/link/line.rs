//! What a port is wired to and how fast it runs: the facts of a link that no
//! register holds.
//!
//! 82599 datasheet rev. 3.4, section 3.7. The two kinds of board modelled are
//! an SFP+ cage and a backplane.

/// What the port is wired to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Media {
    /// An SFP+ cage: light, no autonegotiation at 10 Gbit/s.
    Fiber,
    /// A backplane: KX, KX4 and KR with autonegotiation.
    Backplane,
}

/// What distinguishes one link from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// What the port is wired to.
    pub media: Media,
    /// Port number, as STATUS.LAN_ID gives it.
    pub port: u8,
    /// AUTOC after reset (the EEPROM's).
    pub autoc: u32,
    /// Upper half of AUTOC2 after reset (the EEPROM's).
    pub autoc2_upper: u16,
    /// Time from a restart to the link being up.
    pub up_after_ns: u64,
}

/// AUTOC after reset of an adapter with an SFP+ cage, as its EEPROM has it.
pub const AUTOC_SFP: u32 = 0xC09C_6004;

impl Default for Config {
    /// An SFP+ port whose link is up 2 ms after a restart.
    fn default() -> Config {
        Config {
            media: Media::Fiber,
            port: 0,
            autoc: AUTOC_SFP,
            autoc2_upper: 0x000A,
            up_after_ns: 2_000_000,
        }
    }
}

/// Speed of a link that is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speed {
    /// Fast Ethernet, 100 Mbit/s.
    Fast,
    /// Gigabit Ethernet, 1 Gbit/s.
    Gigabit,
    /// Ten gigabit Ethernet, 10 Gbit/s.
    TenGigabit,
}

impl Speed {
    /// Bits a second.
    pub fn bits_per_second(self) -> u64 {
        match self {
            Speed::Fast => 100_000_000,
            Speed::Gigabit => 1_000_000_000,
            Speed::TenGigabit => 10_000_000_000,
        }
    }
}
