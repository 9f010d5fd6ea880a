//! MAC control frames: the pause of IEEE 802.3x (802.3-2018, clause 31 and annex 31B), with
//! which a station asks the other end of its link to send nothing for some time.

use crate::MacAddress;
use crate::ethernet::{self, EtherType};
use crate::field::set_u16;

/// Bytes of a frame with its padding: as many as Click makes.
pub const FRAME_LEN: usize = 64;
/// The opcode of a pause.
const PAUSE: u16 = 1;
/// The group to which pauses are sent. The standard's is 01-80-C2-00-00-01; bridges do not
/// forward what is sent to it.
pub const PAUSE_GROUP: MacAddress = MacAddress([0x01, 0x80, 0xC2, 0x00, 0x00, 0x01]);

/// Where the fields of a control frame are, in bytes.
mod offset {
    /// What is asked for.
    pub(super) const OPCODE: usize = crate::ethernet::HEADER_LEN;
    /// Of a pause: for how long.
    pub(super) const PARAMETER: usize = OPCODE + 2;
}

/// A pause frame. `quanta` are times of 512 bits each; none ends a pause.
pub fn pause(src: MacAddress, dst: MacAddress, quanta: u16) -> [u8; FRAME_LEN] {
    let mut frame = [0; FRAME_LEN];
    let header = ethernet::Header::between(dst, src, EtherType::MAC_CONTROL).into_inner();
    frame[..header.len()].copy_from_slice(&header);
    set_u16(&mut frame, offset::OPCODE, PAUSE);
    set_u16(&mut frame, offset::PARAMETER, quanta);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_frame() {
        let frame = pause(MacAddress([1, 2, 3, 4, 5, 6]), PAUSE_GROUP, 0x1234);
        let start = [0x01, 0x80, 0xC2, 0, 0, 1, 1, 2, 3, 4, 5, 6, 0x88, 0x08, 0, 1, 0x12, 0x34];
        assert_eq!(frame[..18], start);
        assert!(frame[18..].iter().all(|byte| *byte == 0));
    }
}
