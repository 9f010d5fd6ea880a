//! What the tests of compiled routers send through them, and how they tell flows apart.

use memory::Packet;
use memory::annotation::Header;

/// The identification of all packets but those that routers make themselves.
const ID: [u8; 2] = [0x12, 0x34];

/// What all packets of a flow have in common that decides their way: what their network
/// header says but for its length and fragment, and the byte behind it, which kind of
/// error. Routers number the errors they send in order of all flows, which nobody promises:
/// the number is taken out.
pub fn way(packet: &mut Packet) -> Vec<u8> {
    forget_number(packet);
    let ip = packet.header(Header::Network).unwrap_or(&[]);
    let way = ip.iter().take(21).enumerate().filter(|(at, _)| !matches!(at, 2..=3 | 6..=7 | 10..=11));
    way.map(|(_, byte)| *byte).collect()
}

fn forget_number(packet: &mut Packet) {
    if let Some(ip) = packet.header_mut(Header::Network)
        && ip.len() >= 20
        && ip[9] == 1
        && ip[4..6] != ID
    {
        ip[4..6].fill(0);
        ip[10..12].fill(0);
    }
}

/// Numbers that are random enough.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((u128::from(z ^ (z >> 31)) * u128::from(bound)) >> 64) as u64
    }
}

/// Frames of all kinds: right, wrong, cut off, and none at all.
pub fn frames(seed: u64, count: usize) -> Vec<Vec<u8>> {
    let mut random = Random(seed);
    (0..count).map(|_| frame(&mut random)).collect()
}

fn frame(random: &mut Random) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    let kind = random.below(24);
    match kind {
        0 => frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, random.below(3) as u8]),
        1 => frame.extend([0x81, 0, 0, 5, 8, 0]),
        2 => frame.extend([0x86, 0xDD, 0x60, 0, 0, 0, 0, 8, 17, random.below(3) as u8]),
        3 => (0..random.below(40)).for_each(|n| frame.push((n * 37) as u8)),
        _ => {
            frame.extend([8, 0]);
            ip(random, kind, &mut frame);
        }
    }
    (0..random.below(80)).for_each(|n| frame.push((n * 11) as u8));
    if random.below(8) == 0 {
        frame.truncate(random.below(frame.len() as u64) as usize);
    }
    if random.below(16) == 0 {
        frame.iter_mut().take(6).for_each(|byte| *byte = 0xFF);
    }
    if frame.is_empty() {
        frame.push(0);
    }
    frame
}

/// An IP packet, more or less.
fn ip(random: &mut Random, kind: u64, frame: &mut Vec<u8>) {
    let options: &[u8] = match kind {
        4 => &[7, 7, 4, 0, 0, 0, 0, 0],  // a route to record
        5 => &[68, 8, 5, 0, 0, 0, 0, 0], // a time
        6 => &[7, 200, 4, 0],            // too long
        7 => &[1, 1, 68, 4, 1, 0, 0, 0], // a wrong place
        _ => &[],
    };
    let payload =
        if kind == 8 || kind == 9 { 800 + random.below(700) } else { 8 + random.below(60) } as usize;
    let header = 20 + options.len();
    let at = frame.len();
    frame.extend([0x40 | (header / 4) as u8, 0]);
    frame.extend(((header + payload) as u16).to_be_bytes());
    frame.extend([ID[0], ID[1], if kind == 9 { 0x40 } else { 0 }, 0]);
    let ttl = if random.below(4) == 0 { random.below(4) } else { 64 } as u8;
    let protocol = [17, 6, 1, 17, 50][random.below(5) as usize];
    frame.extend([ttl, protocol, 0, 0, 10, random.below(5) as u8, 9, random.below(250) as u8]);
    frame.extend([10, random.below(5) as u8, random.below(3) as u8 + 6, random.below(250) as u8]);
    frame.extend(options);
    if kind != 10 {
        let sum = wire::checksum::of(&frame[at..]);
        frame[at + 10..at + 12].copy_from_slice(&sum.to_be_bytes());
    }
    (0..payload).for_each(|n| frame.push((n as u64 * 7 + kind) as u8));
}
