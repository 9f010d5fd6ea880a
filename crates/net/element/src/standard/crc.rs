//! `SetCRC32`, `CheckCRC32`: a CRC-32 at the end of a packet, as Click computes it.

use graph::element::kernel::Kernel;
use graph::{Action, Class, Cx, Each, PerPacket, chain};
use memory::Packet;
use port::Reason;

use crate::kernels::each;

/// The class of what appends the checksum.
pub static SET: Class = Class {
    name: "SetCRC32",
    brief: "appends a CRC-32 to packets",
    doc: "Appends a CRC-32 of a packet's bytes, 4 bytes, least significant first: over the polynomial of IEEE \
          802.3, but from the highest bit on and not inverted (CRC-32/MPEG-2), as Click does. Packets for \
          which there are no buffers are dropped.",
    drops: &[Reason::TooLong],
    example: "SetCRC32",
    see: &["CheckCRC32"],
    kernel: Kernel::Inside(each!(SetCrc)),
    make: |_, conf| conf.complete().map(|()| Each::boxed(SetCrc)),
    ..Class::BASE
};

/// The class of what checks the checksum and removes it.
pub static CHECK: Class = Class {
    name: "CheckCRC32",
    brief: "checks and removes a CRC-32 at the end of packets",
    doc: "Packets that end with the CRC-32 of the bytes before go on without it; the others go to output 1, or \
          are dropped.",
    ports: "1/1-2",
    processing: "a/ah",
    drops: &[Reason::BadCrc],
    example: "CheckCRC32",
    see: &["SetCRC32"],
    kernel: Kernel::Inside(each!(CheckCrc)),
    make: |_, conf| conf.complete().map(|()| Each::boxed(CheckCrc)),
    ..Class::BASE
};

/// A CRC-32 over the polynomial of IEEE 802.3 (3.2.9), as Click has it: the first bit of
/// a byte is its highest, and the remainder stays as it is. Bit by bit over nibbles.
fn crc<'a>(bytes: impl Iterator<Item = &'a u8>) -> u32 {
    const fn entry(nibble: u32) -> u32 {
        let (mut value, mut bit) = (nibble << 28, 0);
        while bit < 4 {
            value = value << 1 ^ if value >> 31 == 1 { 0x04C1_1DB7 } else { 0 };
            bit += 1;
        }
        value
    }
    const TABLE: [u32; 16] = {
        let mut table = [0; 16];
        let mut i = 0;
        while i < 16 {
            table[i] = entry(i as u32);
            i += 1;
        }
        table
    };
    let step = |crc: u32, nibble: u8| crc << 4 ^ TABLE[(crc >> 28 ^ u32::from(nibble)) as usize];
    bytes.fold(u32::MAX, |crc, byte| step(step(crc, byte >> 4), byte & 15))
}

/// That of the first so many bytes of a packet.
fn crc_of(packet: &Packet, length: usize) -> u32 {
    crc(packet.segments().flat_map(|segment| segment.iter()).take(length))
}

/// A `SetCRC32` element; [`SET`] says what it does.
#[derive(Debug, Clone)]
pub struct SetCrc;

impl PerPacket for SetCrc {
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let length = packet.total_len();
        let sum = crc_of(packet, length).to_le_bytes();
        if !cx.grow_back(packet, sum.len()) {
            return Action::drop(0);
        }
        chain::write_at(packet, length, &sum);
        Action::ON
    }

    fn replicate(&self) -> Option<SetCrc> {
        Some(SetCrc)
    }
}

/// A `CheckCRC32` element; [`CHECK`] says what it does.
#[derive(Debug, Clone)]
pub struct CheckCrc;

impl PerPacket for CheckCrc {
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let length = packet.total_len().checked_sub(size_of::<u32>());
        let sum = length.and_then(|length| chain::read_at(packet, length));
        match length.filter(|length| sum == Some(crc_of(packet, *length).to_le_bytes())) {
            Some(length) => {
                packet.truncate(length);
                Action::ON
            }
            None => Action::out_or_drop(1, 0),
        }
    }

    fn replicate(&self) -> Option<CheckCrc> {
        Some(CheckCrc)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_crc_is_clicks() {
        // CRC-32/MPEG-2 of the catalogues.
        assert_eq!(super::crc(b"123456789".iter()), 0x0376_E6E7);
    }
}
