use super::*;

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

/// A pcap file of one packet, in either byte order.
fn classic(magic: u32, big: bool, part: u32, data: &[u8]) -> Vec<u8> {
    let words = [magic, if big { 0x0002_0004 } else { 0x0004_0002 }, 0, 0, 65_535, 1];
    let record = [1, part, data.len() as u32, data.len() as u32];
    let bytes = |word: &u32| if big { word.to_be_bytes() } else { word.to_le_bytes() };
    let mut file: Vec<u8> = words.iter().chain(&record).flat_map(bytes).collect();
    file.extend(data);
    file
}

/// A block of a big-endian pcapng file.
fn big(kind: u32, body: &[u8]) -> Vec<u8> {
    let total = (body.len() as u32 + 12).to_be_bytes();
    [&kind.to_be_bytes()[..], &total, body, &total].concat()
}

#[test]
fn pcap_is_read_in_both_orders_and_resolutions() {
    for (magic, unit) in [(MICROSECONDS, 1000), (NANOSECONDS, 1)] {
        for order in [false, true] {
            let packets = read(&classic(magic, order, 7, b"packet")).unwrap();
            assert_eq!(packets, [(1_000_000_000 + 7 * unit, 0, b"packet".to_vec())]);
        }
    }
}

#[test]
fn big_endian_pcapng_with_resolution_offset_and_unknown_blocks() {
    let mut file =
        big(SECTION_KIND, &[0x1A, 0x2B, 0x3C, 0x4D, 0, 1, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255]);
    file.extend(big(0x0BAD, &[1, 2, 3, 4]));
    // Resolution 2^-10, offset one second.
    let mut interface = vec![0, 1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 0x8A, 0, 0, 0];
    interface.extend([0, 14, 0, 8, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
    file.extend(big(1, &interface));
    file.extend(big(6, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 2, 0, 0, 0, 9, 0xAB, 0xCD, 0, 0]));
    file.extend(big(3, &[0, 0, 0, 1, 0xEF, 0, 0, 0]));
    let packets = read(&file).unwrap();
    assert_eq!(packets, [(1_500_000_000, 0, vec![0xAB, 0xCD]), (0, 0, vec![0xEF])]);
}

const SECTION_KIND: u32 = block::SECTION;

#[test]
fn a_second_section_counts_its_interfaces_on() {
    let one = written(&[(1, 1, vec![1])]);
    let packets = read(&[one.clone(), one].concat()).unwrap();
    assert_eq!(packets, [(1, 1, vec![1]), (1, 3, vec![1])]);
}

#[test]
fn every_cut_is_named_with_its_offset() {
    let files = [written(&[(1, 0, vec![7; 61])]), classic(NANOSECONDS, false, 0, &[7; 61])];
    for file in files {
        let mut ends = 0;
        for len in 0..file.len() {
            match read(&file[..len]) {
                Err(Error::Cut { offset, .. }) => assert!(offset <= len as u64),
                Err(other) => panic!("cut at {len}: {other}"),
                // Between two parts a file may end.
                Ok(packets) => {
                    assert!(packets.is_empty());
                    ends += 1;
                }
            }
        }
        assert!(ends <= 3, "{ends} places to end without a packet");
    }
}

#[test]
fn huge_lengths_are_refused_without_allocating() {
    let mut file = classic(MICROSECONDS, false, 0, &[]);
    file[32..36].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(matches!(read(&file), Err(Error::Malformed { offset: 24, .. })));

    let mut file = written(&[]);
    let offset = file.len() as u64;
    file.extend([6, 0, 0, 0, 0xFC, 0xFF, 0xFF, 0xFF]);
    assert!(matches!(read(&file), Err(Error::Malformed { offset: at, .. }) if at == offset));
}

#[test]
fn what_is_no_capture_is_refused() {
    assert!(matches!(read(b"GET / HTTP/1.1"), Err(Error::Unknown(_))));
    assert!(matches!(read(b""), Err(Error::Cut { offset: 0, .. })));
    let mut file = classic(MICROSECONDS, false, 0, &[]);
    file[20] = 101; // raw IP
    assert!(matches!(read(&file), Err(Error::Malformed { offset: 20, value: 101, .. })));
}

#[test]
fn a_packet_of_no_interface_is_refused_on_both_sides() {
    let mut writer = Writer::new(Vec::new(), &["only"]).unwrap();
    assert!(writer.write(1, 0, &[], PacketOptions::default()).is_err());
    assert!(writer.write(0, 0, &vec![0; MAX_PACKET + 1], PacketOptions::default()).is_err());
    let mut file = written(&[(0, 0, vec![1])]);
    let at = file.len() - 100;
    let packet = (at..file.len()).find(|&at| file[at..].starts_with(&[6, 0, 0, 0])).unwrap();
    file[packet + 8] = 9;
    assert!(matches!(read(&file), Err(Error::Malformed { value: 9, .. })));
}

/// Whatever a byte of a file is, or two: packets within their bounds or an error, and no more of them
/// than the file has bytes for.
#[test]
fn any_change_of_a_file_is_read_or_refused() {
    let options = [[9, 1, 0, 0, 6, 0, 0, 0], [14, 8, 0, 0, 0, 0, 0, 0]].concat();
    let interface = [&[1, 0, 0, 0, 0, 1, 0, 0][..], &options, &[0, 0, 0, 0]].concat();
    let simple = [4, 0, 0, 0, 1, 2, 3, 4];
    let blocks = |kind: u32, body: &[u8]| {
        let total = (body.len() as u32 + 12).to_le_bytes();
        [&kind.to_le_bytes()[..], &total, body, &total].concat()
    };
    let mut many = written(&[(1, 0, vec![7; 5]), (2, 1, vec![8; 3])]);
    many.extend([blocks(block::INTERFACE, &interface), blocks(3, &simple), blocks(77, &[0; 8])].concat());
    many.extend(blocks(2, &[&[0; 12][..], &[4, 0, 0, 0, 4, 0, 0, 0, 1, 2, 3, 4]].concat()));
    let files = [many, classic(MICROSECONDS, false, 1, &[7; 9]), classic(PATCHED, true, 1, &[7; 17])];
    for file in &files {
        assert!(Reader::with_any_link(&file[..]).is_ok());
        for at in 0..file.len() {
            for value in [0, 1, 4, 8, 0x14, 0x7F, 0x80, 0xFF, file[at] ^ 1, file[at] ^ 0x80] {
                let mut changed = file.clone();
                changed[at] = value;
                look_through(&changed);
                let other = (at * 7 + usize::from(value)) % file.len();
                changed[other] = !changed[other];
                look_through(&changed);
            }
        }
    }
}

fn look_through(file: &[u8]) {
    let Ok(mut reader) = Reader::with_any_link(file) else { return };
    let mut packets = 0;
    while let Ok(Some(record)) = reader.next() {
        assert!(record.data.len() <= file.len());
        packets += 1;
        assert!(packets * 12 <= file.len(), "{packets} packets in {} bytes", file.len());
    }
    assert!(reader.offset() <= file.len() as u64);
}
