//! Elements of the card's switch: [`super::opcode::GET_SWITCH_CONFIG`] answers with a header,
//! which has their number, then an entry for each.

/// Bytes of the header and of an entry.
pub const LEN: usize = 16;
/// A port's MAC.
pub const MAC: u8 = 1;
/// A physical function.
pub const PF: u8 = 2;
/// The element is a virtual Ethernet bridge (VEB) inside the card.
pub const VEB: u8 = 17;
/// The element is a virtual station interface (VSI).
pub const VSI: u8 = 19;

/// The revision of the entries' layout that is known here.
const REVISION: u8 = 1;

/// An element of the switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwitchElement {
    /// What it is, such as [`VSI`].
    pub kind: u8,
    /// Its number in the switch (SEID).
    pub seid: u16,
    /// The SEID of the element above it.
    pub uplink: u16,
    /// The SEID of the element below it; zero where there is none.
    pub downlink: u16,
}

impl SwitchElement {
    /// Reads an entry.
    pub fn of(bytes: &[u8; LEN]) -> SwitchElement {
        let [kind, _, s0, s1, u0, u1, d0, d1, ..] = *bytes;
        let [seid, uplink, downlink] = [[s0, s1], [u0, u1], [d0, d1]].map(u16::from_le_bytes);
        SwitchElement { kind, seid, uplink, downlink }
    }

    /// The entry, without information of its own about the element.
    pub fn encode(self) -> [u8; LEN] {
        let [[s0, s1], [u0, u1], [d0, d1]] = [self.seid, self.uplink, self.downlink].map(u16::to_le_bytes);
        let mut bytes = [0; LEN];
        bytes[..8].copy_from_slice(&[self.kind, REVISION, s0, s1, u0, u1, d0, d1]);
        bytes
    }
}

/// The header of an answer that has all `count` elements: the numbers of those in it and of
/// those that there are.
pub fn header(count: u16) -> [u8; LEN] {
    let [low, high] = count.to_le_bytes();
    let mut bytes = [0; LEN];
    bytes[..4].copy_from_slice(&[low, high, low, high]);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_read_as_their_bytes() {
        let bytes = [19, 1, 0x06, 0x02, 0x04, 0x03, 0x10, 0x05, 0, 0, 0, 0, 0, 0, 0, 0];
        let element = SwitchElement { kind: VSI, seid: 0x206, uplink: 0x304, downlink: 0x510 };
        assert_eq!((SwitchElement::of(&bytes), element.encode()), (element, bytes));
        assert_eq!(header(0x102)[..6], [2, 1, 2, 1, 0, 0]);
    }
}
