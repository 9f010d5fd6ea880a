//! Which frames the host wants.
//!
//! virtio 1.3, section 5.1.6.5.1 to 5.1.6.5.3. Until the driver first says what
//! it wants, it gets everything: a driver without the commands has no other way.

use std::collections::BTreeSet;

use wire::ethernet::EtherType;
use wire::vlan;

/// Most addresses kept of each of the two tables; beyond, all of the kind pass,
/// as section 5.1.6.5.2.2 allows.
const MOST_ADDRESSES: usize = 64;

const ADDRESS: u64 = (1 << 48) - 1;

/// Why a frame is not wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unwanted {
    Mac,
    Vlan,
}

/// What the control queue's receive modes set (5.1.6.5.1).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Modes {
    pub promiscuous: bool,
    pub all_multicast: bool,
    pub all_unicast: bool,
    pub no_multicast: bool,
    pub no_unicast: bool,
    pub no_broadcast: bool,
}

/// What the driver said it wants: modes, addresses and VLANs.
#[derive(Debug)]
pub(super) struct Filter {
    pub modes: Modes,
    own: u64,
    /// Unicast, multicast; `None`: all of them.
    tables: [Option<BTreeSet<u64>>; 2],
    vlans: Option<Box<[u64; 64]>>,
}

impl Filter {
    /// Everything is wanted.
    pub fn new(mac: [u8; 6]) -> Filter {
        let modes = Modes { promiscuous: true, ..Modes::default() };
        let tables = [const { Some(BTreeSet::new()) }; 2];
        Filter { modes, own: number(&mac), tables, vlans: None }
    }

    /// With CTRL_VLAN, only VLANs that were added pass.
    pub fn filter_vlans(&mut self, on: bool) {
        self.vlans = on.then(|| Box::new([0; 64]));
    }

    pub fn set_own(&mut self, mac: &[u8; 6]) {
        self.own = number(mac);
    }

    /// Takes over a table: 0 for unicast, 1 for multicast.
    pub fn set_table(&mut self, which: usize, addresses: &[[u8; 6]]) {
        let fits = addresses.len() <= MOST_ADDRESSES;
        self.tables[which] = fits.then(|| addresses.iter().map(number).collect());
    }

    pub fn set_vlan(&mut self, id: u16, on: bool) {
        if let Some(vlans) = &mut self.vlans {
            let (word, bit) = (usize::from(id & vlan::ID) / 64, 1 << (id % 64));
            vlans[word] = vlans[word] & !bit | if on { bit } else { 0 };
        }
    }

    /// Whether a frame is wanted.
    #[inline(always)]
    pub fn check(&self, frame: &[u8]) -> Result<(), Unwanted> {
        if self.modes.promiscuous {
            return Ok(());
        }
        let Some(head) = frame.first_chunk::<{ size_of::<u64>() }>() else { return Err(Unwanted::Mac) };
        let destination = u64::from_le_bytes(*head) & ADDRESS;
        if destination != self.own && !self.wants(destination) {
            return Err(Unwanted::Mac);
        }
        if self.vlans.is_some() { self.check_vlan(frame) } else { Ok(()) }
    }

    fn wants(&self, destination: u64) -> bool {
        let modes = &self.modes;
        if destination == ADDRESS {
            return !modes.no_broadcast;
        }
        let multicast = destination & 1 != 0;
        let (all, none) = if multicast {
            (modes.all_multicast, modes.no_multicast)
        } else {
            (modes.all_unicast, modes.no_unicast)
        };
        let listed =
            |table: &Option<BTreeSet<u64>>| table.as_ref().is_none_or(|table| table.contains(&destination));
        !none && (all || listed(&self.tables[usize::from(multicast)]))
    }

    fn check_vlan(&self, frame: &[u8]) -> Result<(), Unwanted> {
        let tag = vlan::Tagged::of(frame).filter(|start| start.tag_type() == EtherType::VLAN);
        let (Some(vlans), Some(tag)) = (&self.vlans, tag) else { return Ok(()) };
        let id = tag.control() & vlan::ID;
        let passes = vlans[usize::from(id) / 64] >> (id % 64) & 1 != 0;
        if passes { Ok(()) } else { Err(Unwanted::Vlan) }
    }
}

fn number(mac: &[u8; 6]) -> u64 {
    let [a, b, c, d, e, f] = *mac;
    u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
}
