//! Packets for elements: nearly right ones of every protocol that elements look into, and
//! any bytes at all.

use element::trial::Raw;

const ETHERNET: usize = 14;
/// Bytes of a packet's notes.
const NOTES: usize = 48;

/// The packets that an input stands for. Each is three bytes, which say of what kind it is,
/// which headers are said to be found, and how much follows: its own bytes, or changes of a
/// packet that was right.
pub fn of(mut input: &[u8]) -> Vec<Raw> {
    let mut all = vec![];
    while let [kind, flags, count, rest @ ..] = input {
        let changes = usize::from(*count % 8);
        let len = if *kind == 0 { usize::from(*count) } else { 2 * changes };
        let (own, rest) = rest.split_at(len.min(rest.len()));
        all.push(if *kind == 0 { any(own, *flags) } else { changed(*kind, *flags, own) });
        input = rest;
    }
    all
}

fn any(bytes: &[u8], flags: u8) -> Raw {
    let at = if flags & 4 == 0 { 0 } else { ETHERNET as u8 };
    let network = (flags & 1 != 0).then_some(at);
    let transport = (flags & 2 != 0).then_some(at + (flags >> 4) * 4);
    let notes = if flags & 8 == 0 { vec![] } else { bytes.iter().rev().take(NOTES).copied().collect() };
    Raw { bytes: bytes.to_vec(), network, transport, notes, ..Raw::default() }
}

/// One of the packets that are right, with and without an Ethernet header, cut off
/// somewhere and with bytes changed: each change is a place and a byte.
fn changed(kind: u8, flags: u8, changes: &[u8]) -> Raw {
    let kind = usize::from(kind - 1);
    let (ether_type, packet) = sound(kind % KINDS);
    let at = if (kind / KINDS).is_multiple_of(2) { 0 } else { ETHERNET };
    let mut bytes =
        if at == 0 { vec![] } else { [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2], &ether_type[..]].concat() };
    bytes.extend(packet);
    let header = if ether_type == IP6 { 40 } else { 4 * usize::from(bytes[at] & 15) };
    // In eighths of it; most are whole.
    let cut = usize::from(flags >> 2) % 32;
    if cut < 8 {
        bytes.truncate(bytes.len() * cut / 8);
    }
    for change in changes.as_chunks::<2>().0 {
        let place = usize::from(change[0]) % bytes.len().max(1);
        bytes.iter_mut().skip(place).take(1).for_each(|byte| *byte = change[1]);
    }
    let network = (flags & 1 != 0).then_some(at as u8);
    let transport = (flags & 2 != 0).then_some((at + header) as u8);
    Raw { bytes, network, transport, notes: vec![10, 0, 0, 2], ..Raw::default() }
}

const IP4: [u8; 2] = [8, 0];
const IP6: [u8; 2] = [0x86, 0xDD];
const ARP: [u8; 2] = [8, 6];
const KINDS: usize = 10;

const UDP: [u8; 12] = [4, 0, 0, 53, 0, 12, 0, 0, 1, 2, 3, 4];
const TCP: [u8; 24] = [4, 0, 0, 21, 0, 0, 0, 1, 0, 0, 0, 2, 0x60, 0x12, 1, 0, 0, 0, 0, 0, 2, 4, 5, 0xB4];
const PING: [u8; 12] = [8, 0, 0, 0, 0, 1, 0, 1, 9, 9, 9, 9];

/// A packet that is right but for checksums, and what its Ethernet header says it is.
fn sound(kind: usize) -> ([u8; 2], Vec<u8>) {
    match kind {
        0 => (IP4, ip4(17, &UDP)),
        1 => (IP4, ip4(6, &TCP)),
        2 => (IP4, ip4(6, &[&TCP[..12], &[0x50, 0x18], &TCP[14..20], b"PORT 10,0,0,1,4,1\r\n"].concat())),
        3 => (IP4, ip4(1, &PING)),
        4 => (IP4, ip4(1, &[&[3, 4, 0, 0, 0, 0, 5, 0][..], &ip4(17, &UDP)].concat())),
        5 => {
            // With options: a route that is recorded, and times.
            let mut packet = ip4(1, &PING);
            packet[0] = 0x48;
            packet.splice(20..20, [7, 7, 4, 0, 0, 0, 0, 68, 4, 5, 0, 0]);
            packet[3] += 12;
            (IP4, packet)
        }
        6 => {
            let mut packet = ip4(17, &UDP);
            packet[6] = 0x20; // more fragments
            (IP4, packet)
        }
        7 => (IP6, ip6(58, &[&[135, 0, 0, 0, 0, 0, 0, 0][..], &[9; 16], &[1, 1, 2, 0, 0, 0, 0, 1]].concat())),
        8 => (IP6, ip6(17, &UDP)),
        _ => {
            let asks =
                [0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 2, 10, 0, 0, 2, 0, 0, 0, 0, 0, 0, 18, 26, 4, 9];
            (ARP, asks.to_vec())
        }
    }
}

fn ip4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let total = (20 + payload.len()) as u8;
    let header = [0x45, 0, 0, total, 0, 1, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    [&header[..], payload].concat()
}

fn ip6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, payload.len() as u8, next, 255];
    packet.extend((1..=32).map(|n| if n % 16 == 1 { 0xFE } else { n }));
    [&packet[..], payload].concat()
}
