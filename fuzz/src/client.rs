//! A client of vfio-user 0.1 that says what its input says: messages with every
//! field in reach, or bytes that are no message at all.

use arbitrary::Arbitrary;

/// A message, or bytes that are none.
#[derive(Arbitrary, Debug)]
pub enum Message {
    Raw(Vec<u8>),
    Any { command: u16, flags: u32, body: Vec<u8> },
    Map { access: u8, offset: u8, iova: u8, len: u8, skew: u64 },
    Unmap { how: u8, iova: u8, len: u8, skew: u64 },
    RegionInfo { argsz: u8, index: u8 },
    IrqInfo { index: u8 },
    SetIrqs { flags: u8, index: u8, start: u32, count: u32 },
    Read { region: u8, offset: u32, count: u32 },
    Write { region: u8, offset: u32, data: Vec<u8> },
    Register { offset: u32, value: u32 },
    WriteMulti(Vec<(u8, u32, u64)>),
    Reset,
}

/// A page number; the highest are at the end of the address space.
fn page(n: u8) -> u64 {
    (n as i8 as u64) << 12
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn longs(longs: &[u64]) -> Vec<u8> {
    longs.iter().flat_map(|long| long.to_le_bytes()).collect()
}

impl Message {
    /// Its bytes, after those of the messages before it.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        let (command, flags, body) = match self {
            Message::Raw(raw) => return bytes.extend(raw),
            Message::Any { command, flags, body } => (*command, *flags, body.clone()),
            &Message::Map { access, offset, iova, len, skew } => {
                let range = longs(&[page(offset), page(iova) ^ odd(skew), page(len)]);
                (2, 0, [words(&[32, access.into()]), range].concat())
            }
            &Message::Unmap { how, iova, len, skew } => {
                (3, 0, [words(&[24, how.into()]), longs(&[page(iova) ^ odd(skew), page(len)])].concat())
            }
            &Message::RegionInfo { argsz, index } => {
                (5, 0, words(&[argsz.into(), 0, index.into(), 0, 0, 0, 0, 0]))
            }
            &Message::IrqInfo { index } => (7, 0, words(&[16, 0, index.into(), 0])),
            &Message::SetIrqs { flags, index, start, count } => {
                (8, 0, words(&[20, flags.into(), index.into(), start, count]))
            }
            &Message::Read { region, offset, count } => (9, 0, access(region, offset, count)),
            Message::Write { region, offset, data } => {
                (10, 0, [access(*region, *offset, data.len() as u32), data.clone()].concat())
            }
            &Message::Register { offset, value } => {
                (10, 0, [access(0, offset & 0x1_FFFC, 4), words(&[value])].concat())
            }
            Message::WriteMulti(writes) => {
                let write = |&(region, offset, data): &(u8, u32, u64)| {
                    [access(region, offset, 1 + (data % 9) as u32), longs(&[data])].concat()
                };
                let body: Vec<u8> = writes.iter().flat_map(write).collect();
                (15, 0, [longs(&[writes.len() as u64]), body].concat())
            }
            Message::Reset => (13, 0, Vec::new()),
        };
        bytes.extend(0x1234_u16.to_le_bytes());
        bytes.extend(command.to_le_bytes());
        bytes.extend(words(&[16 + body.len() as u32, flags, 0]));
        bytes.extend(body);
    }
}

/// Mostly nothing, or addresses would never be page aligned.
fn odd(skew: u64) -> u64 {
    if skew % 8 == 7 { skew } else { 0 }
}

fn access(region: u8, offset: u32, count: u32) -> Vec<u8> {
    [longs(&[offset.into()]), words(&[region.into(), count])].concat()
}
