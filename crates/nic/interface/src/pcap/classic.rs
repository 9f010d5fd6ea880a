//! Writing pcap (draft-ietf-opsawg-pcap-05): one link type, microseconds or
//! nanoseconds, in the machine's byte order.

use std::io::{self, Write};

use super::{Blocks, MICROSECONDS, NANOSECONDS};

/// Writes a capture file, each packet by one call. Buffer the output.
#[derive(Debug)]
pub struct Writer<W> {
    output: W,
    nano: bool,
    snap: u32,
    /// The packet being written with its header; kept for its memory.
    record: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Writes the file header: packets begin with `link`, as tcpdump.org numbers link
    /// types, and at most `snap` bytes of each are kept.
    pub fn new(mut output: W, link: u32, snap: u32, nano: bool) -> io::Result<Writer<W>> {
        let magic = if nano { NANOSECONDS } else { MICROSECONDS };
        let mut header = [0; 24];
        header[..4].copy_from_slice(&magic.to_ne_bytes());
        header[4..6].copy_from_slice(&2u16.to_ne_bytes());
        header[6..8].copy_from_slice(&4u16.to_ne_bytes());
        header[16..20].copy_from_slice(&snap.to_ne_bytes());
        header[20..].copy_from_slice(&link.to_ne_bytes());
        output.write_all(&header)?;
        Ok(Writer { output, nano, snap, record: Vec::with_capacity(2048) })
    }

    /// Writes a packet of `len` bytes in its parts, which had `original_len` bytes on the
    /// wire. A time before 1970 or after 2106 is written as what is left of it.
    pub fn write<'a>(
        &mut self,
        time_ns: i64,
        (len, original_len): (usize, u32),
        parts: impl Iterator<Item = &'a [u8]>,
    ) -> io::Result<()> {
        let mut left = len.min(self.snap as usize);
        let rest = time_ns.rem_euclid(1_000_000_000) as u32;
        let words = [
            time_ns.div_euclid(1_000_000_000) as u32,
            if self.nano { rest } else { rest / 1000 },
            left as u32,
            original_len,
        ];
        self.record.clear();
        words.iter().for_each(|word| self.record.extend(word.to_ne_bytes()));
        for part in parts {
            let kept = &part[..part.len().min(left)];
            self.record.extend(kept);
            left -= kept.len();
        }
        self.output.write_all(&self.record)
    }

    /// Flushes the output.
    pub fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }

    /// The output, not flushed.
    pub fn into_inner(self) -> W {
        self.output
    }
}

impl AsMut<Blocks> for Writer<Blocks> {
    fn as_mut(&mut self) -> &mut Blocks {
        &mut self.output
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::pcap::Reader;

    #[test]
    fn what_is_written_is_read_again() {
        for (nano, time) in [(true, 1_500_000_001), (false, 1_500_000_000)] {
            let mut writer = Writer::new(vec![], 101, 6, nano).unwrap();
            writer.write(1_500_000_001, (8, 99), [&b"abcd"[..], b"efgh"].into_iter()).unwrap();
            let file = writer.into_inner();
            assert!(Reader::new(&file[..]).is_err(), "not Ethernet");
            let mut reader = Reader::with_any_link(&file[..]).unwrap();
            assert_eq!(reader.link(), Some(101));
            let record = reader.next().unwrap().unwrap();
            assert_eq!((record.time_ns, record.link, record.original_len), (time, 101, 99));
            assert_eq!(record.data, b"abcdef");
            assert!(reader.next().unwrap().is_none());
        }
    }
}
