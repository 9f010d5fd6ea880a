//! Where an entry stands in the overlay's table: at an identifier, or at a prefix.

use overlay::{Error, Match, Network, Overlay, Owner, Prefix, Result, Target};

use crate::state::Key;

/// The place of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryKey {
    /// A network and the bits by which its packets are known.
    Identifier(u32, u128),
    /// A network and a prefix of its packets' destinations.
    Prefix(u32, Prefix),
}

impl EntryKey {
    /// The place of an entry; `None` for other places.
    pub(super) fn of(key: &Key) -> Option<EntryKey> {
        match key {
            Key::Prefix(vni, prefix) => Some(EntryKey::Prefix(*vni, *prefix)),
            key => key.entry().map(|(vni, bits)| EntryKey::Identifier(vni, bits)),
        }
    }

    pub(super) fn network(self) -> u32 {
        match self {
            EntryKey::Identifier(vni, _) | EntryKey::Prefix(vni, _) => vni,
        }
    }

    /// Why a network that finds its entries otherwise has none here.
    pub(super) fn refused(self, network: Network) -> Error {
        match (self, network.matching) {
            (EntryKey::Identifier(vni, key), Match::Exact) => {
                Error::Key { network: vni, key, bits: network.extractor.bits() }
            }
            _ => Error::Matching(self.network()),
        }
    }

    /// Whose the entry is that is there, and where it leads.
    pub(super) fn there(self, overlay: &Overlay) -> Option<(Owner, &Target)> {
        match self {
            EntryKey::Identifier(vni, bits) => {
                overlay.entry(vni, bits).map(|entry| (entry.owner, entry.target))
            }
            EntryKey::Prefix(vni, prefix) => {
                overlay.prefix_entry(vni, prefix).map(|entry| (entry.owner, entry.target))
            }
        }
    }

    /// The group to which it leads.
    pub(super) fn group(self, overlay: &Overlay) -> Option<u64> {
        match self.there(overlay)?.1 {
            Target::Group(number) => Some(*number),
            Target::Tunnel(_) => None,
        }
    }

    /// Lets it lead somewhere by an owner's word. Another owner, who no longer takes precedence, gives
    /// the entry up.
    pub(super) fn insert(self, overlay: &mut Overlay, owner: Owner, target: Target) -> Result<()> {
        let gives_up = self.there(overlay).is_some_and(|(other, _)| other != owner);
        match self {
            EntryKey::Identifier(vni, bits) => {
                if gives_up {
                    overlay.hand_over(vni, bits, owner)?;
                }
                overlay.insert_as(owner, vni, bits, target)
            }
            EntryKey::Prefix(vni, prefix) => {
                if gives_up {
                    overlay.hand_over_prefix(vni, prefix, owner)?;
                }
                overlay.insert_prefix(owner, vni, prefix, target)
            }
        }
    }

    /// Removes it, whoever's it is; what was learned from packets stays.
    pub(super) fn remove(self, overlay: &mut Overlay) -> Result<()> {
        let Some((owner, _)) = self.there(overlay).filter(|(owner, _)| *owner != Owner::Learned) else {
            return Ok(());
        };
        match self {
            EntryKey::Identifier(vni, bits) => overlay.remove_as(owner, vni, bits).map(drop),
            EntryKey::Prefix(vni, prefix) => overlay.remove_prefix(owner, vni, prefix).map(drop),
        }
    }
}
