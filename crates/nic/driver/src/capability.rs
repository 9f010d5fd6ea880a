//! The chain of PCI capabilities (PCI 3.0, section 6.7), walked with a limit.

use bus::Pci;

const STATUS: u16 = 0x06;
const STATUS_CAPABILITIES: u16 = 1 << 4;
const FIRST: u16 = 0x34;

/// The offset of the first capability for which `wanted(id, offset)` holds. A
/// chain that loops ends after as many as there can be.
pub(crate) fn find(pci: &Pci, mut wanted: impl FnMut(u8, u16) -> bool) -> Option<u16> {
    let mut status = [0; 2];
    pci.read_config(STATUS, &mut status).ok()?;
    if u16::from_le_bytes(status) & STATUS_CAPABILITIES == 0 {
        return None;
    }
    let mut at = [0; 1];
    pci.read_config(FIRST, &mut at).ok()?;
    let mut at = at[0] & !3;
    // 192 bytes hold at most 48 capabilities of four bytes.
    for _ in 0..48 {
        if at < 0x40 {
            return None;
        }
        let mut head = [0; 2];
        pci.read_config(at.into(), &mut head).ok()?;
        if wanted(head[0], at.into()) {
            return Some(at.into());
        }
        at = head[1] & !3;
    }
    None
}
