//! Captures are read as they were written, and no bytes make the reader panic.

use interface::pcap::{Direction, Error, PacketOptions, Reader, Writer};
use proptest::prelude::*;

fn read(bytes: &[u8]) -> Result<Vec<(u64, u32, Vec<u8>)>, Error> {
    let mut reader = Reader::new(bytes)?;
    let mut packets = Vec::new();
    while let Some(record) = reader.next()? {
        packets.push((record.time_ns, record.interface, record.data.to_vec()));
    }
    Ok(packets)
}

fn written(packets: &[(u64, u32, Vec<u8>)]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &["a", "b"]).unwrap();
    for (n, (time_ns, interface, data)) in packets.iter().enumerate() {
        let comment = (n % 2 == 0).then_some("dropped: ring full");
        let notes = PacketOptions { direction: Direction::Inbound, dropped_before: n as u64, comment };
        writer.write(*interface, *time_ns, data, notes).unwrap();
    }
    writer.into_inner()
}

/// The header of a big-endian pcap file with nanoseconds.
const CLASSIC: [u8; 24] =
    [0xA1, 0xB2, 0x3C, 0x4D, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0, 0, 0, 1];

proptest! {
    #[test]
    fn what_is_written_is_read(
        packets in prop::collection::vec((any::<u64>(), 0_u32..2, prop::collection::vec(any::<u8>(), 0..200)), 0..20)
    ) {
        prop_assert_eq!(read(&written(&packets)).unwrap(), packets);
    }

    #[test]
    fn no_file_makes_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), kind in 0..4) {
        let mut file = match kind {
            0 => Vec::new(),
            1 => written(&[]),
            2 => CLASSIC.to_vec(),
            _ => vec![0x0A, 0x0D, 0x0D, 0x0A],
        };
        file.extend(bytes);
        let _ = read(&file);
    }

    #[test]
    fn no_flipped_byte_makes_the_reader_panic(at in 0_usize..400, value: u8) {
        let mut file = written(&[(1, 0, vec![7; 61]), (2, 1, vec![8; 99])]);
        let len = file.len();
        file[at % len] = value;
        let _ = read(&file);
    }
}
