//! Capture files: reads pcap and pcapng, writes pcapng, as Wireshark does.
//!
//! Formats: draft-ietf-opsawg-pcap-05 (both resolutions and byte orders) and
//! draft-ietf-opsawg-pcapng-03 (sections, interfaces, enhanced, simple and
//! obsolete packet blocks; others are skipped). [`classic::Writer`] writes pcap,
//! for programs that read nothing else. Files are hostile: lengths are
//! bounded before anything is allocated, and an error names the offset.
//! Our own because the errors of crate `pcap-file` name no offset and its 2.0
//! does not scale timestamps by the interface's resolution. No name resolution, decryption secrets or statistics blocks.

mod block;
mod blocks;
pub mod classic;
mod writer;

use std::io::{self, Read};

pub use blocks::{Blocks, put};
pub use writer::{Direction, PacketOptions, Writer};

use block::Sections;

/// Longest packet that is read (libpcap's MAXIMUM_SNAPLEN).
pub const MAX_PACKET: usize = 262_144;

const ETHERNET: u32 = 1;
const MICROSECONDS: u32 = 0xA1B2_C3D4;
const NANOSECONDS: u32 = 0xA1B2_3C4D;
/// Patched versions of Linux's libpcap: eight bytes more before each packet.
const PATCHED: u32 = 0xA1B2_CD34;
const PATCHED_MORE: u64 = 8;

/// What is wrong with a capture file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file could not be read or written.
    #[error("at byte {offset}: {source}")]
    Io {
        /// Bytes from the file's start.
        offset: u64,
        /// What the system said.
        source: io::Error,
    },
    /// The first bytes are no capture's.
    #[error("neither pcap nor pcapng: it begins with {0:#010x}")]
    Unknown(u32),
    /// The file ends in the middle.
    #[error("at byte {offset}: the file was cut in the middle of {what}")]
    Cut {
        /// Where the part begins that is not whole.
        offset: u64,
        /// What it is.
        what: &'static str,
    },
    /// A part that cannot be.
    #[error("at byte {offset}: {what} ({value})")]
    Malformed {
        /// Where the part begins.
        offset: u64,
        /// What is wrong.
        what: &'static str,
        /// The value that is wrong.
        value: u64,
    },
}

/// One packet of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Nanoseconds since 1970.
    pub time_ns: u64,
    /// The interface it was captured on, counted over the whole file.
    pub interface: u32,
    /// Its length on the wire; more than `data` has when it was cut.
    pub original_len: u32,
    /// What it begins with, as tcpdump.org numbers link types; 1 is Ethernet.
    pub link: u32,
    /// Its bytes, from the link layer's header on.
    pub data: &'a [u8],
}

/// Where a packet's fields lie in the reader's buffer.
#[derive(Clone, Copy, Debug)]
struct Found {
    time_ns: u64,
    interface: u32,
    original_len: u32,
    link: u32,
    start: usize,
    len: usize,
}

/// Reads a file and keeps the offset.
#[derive(Debug)]
struct Input<R> {
    reader: R,
    offset: u64,
}

impl<R: Read> Input<R> {
    /// Fills `bytes` or says what was cut; `false` at the end of the file.
    fn fill(&mut self, bytes: &mut [u8], what: &'static str) -> Result<bool, Error> {
        let offset = self.offset;
        let mut len = 0;
        while len < bytes.len() {
            match self.reader.read(&mut bytes[len..]) {
                Ok(0) if len == 0 => return Ok(false),
                Ok(0) => return Err(Error::Cut { offset, what }),
                Ok(more) => len += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(Error::Io { offset: offset + len as u64, source }),
            }
        }
        self.offset += len as u64;
        Ok(true)
    }

    /// As `fill`, where the end of the file would be in the middle.
    fn need(&mut self, bytes: &mut [u8], offset: u64, what: &'static str) -> Result<(), Error> {
        match self.fill(bytes, what) {
            Ok(true) => Ok(()),
            Ok(false) if bytes.is_empty() => Ok(()),
            Ok(false) | Err(Error::Cut { .. }) => Err(Error::Cut { offset, what }),
            Err(error) => Err(error),
        }
    }

    fn skip(&mut self, mut len: u64, offset: u64, what: &'static str) -> Result<(), Error> {
        let mut waste = [0; 4096];
        while len > 0 {
            let part = len.min(waste.len() as u64) as usize;
            self.need(&mut waste[..part], offset, what)?;
            len -= part as u64;
        }
        Ok(())
    }
}

/// The byte order of a file or section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

impl Order {
    fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let word = [bytes[at], bytes[at + 1]];
        if self == Order::Little { u16::from_le_bytes(word) } else { u16::from_be_bytes(word) }
    }

    fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let word = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        if self == Order::Little { u32::from_le_bytes(word) } else { u32::from_be_bytes(word) }
    }
}

#[derive(Debug)]
enum Format {
    Pcap(Classic),
    Pcapng(Sections),
}

/// What the header of a pcap file says.
#[derive(Clone, Copy, Debug)]
struct Classic {
    order: Order,
    unit_ns: u64,
    link: u32,
    /// Bytes between a packet's header and the packet that nobody needs.
    more: u64,
}

/// Which link types are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Links {
    Ethernet,
    Any,
}

/// Reads the packets of a capture file. Buffer the input.
#[derive(Debug)]
pub struct Reader<R> {
    input: Input<R>,
    format: Format,
    buffer: Vec<u8>,
}

impl<R: Read> Reader<R> {
    /// Looks at the first bytes. Only Ethernet is taken.
    pub fn new(reader: R) -> Result<Reader<R>, Error> {
        Reader::open(reader, Links::Ethernet)
    }

    /// As [`new`](Self::new), with any link type taken: see [`Record::link`].
    pub fn with_any_link(reader: R) -> Result<Reader<R>, Error> {
        Reader::open(reader, Links::Any)
    }

    /// What all packets begin with, where the file says so at its beginning: pcap does,
    /// pcapng says it for each interface.
    pub fn link(&self) -> Option<u32> {
        match &self.format {
            Format::Pcap(classic) => Some(classic.link),
            Format::Pcapng(_) => None,
        }
    }

    fn open(reader: R, links: Links) -> Result<Reader<R>, Error> {
        let mut input = Input { reader, offset: 0 };
        let mut magic = [0; 4];
        input.need(&mut magic, 0, "the file header")?;
        let magic = u32::from_le_bytes(magic);
        let format = match (magic, magic.swap_bytes()) {
            (block::SECTION, _) => Format::Pcapng(Sections::open(&mut input, links)?),
            (MICROSECONDS, _) => header(&mut input, Order::Little, 1000, 0, links)?,
            (NANOSECONDS, _) => header(&mut input, Order::Little, 1, 0, links)?,
            (PATCHED, _) => header(&mut input, Order::Little, 1000, PATCHED_MORE, links)?,
            (_, MICROSECONDS) => header(&mut input, Order::Big, 1000, 0, links)?,
            (_, NANOSECONDS) => header(&mut input, Order::Big, 1, 0, links)?,
            (_, PATCHED) => header(&mut input, Order::Big, 1000, PATCHED_MORE, links)?,
            (_, unknown) => return Err(Error::Unknown(unknown)),
        };
        Ok(Reader { input, format, buffer: Vec::new() })
    }

    /// The next packet; `None` at the end of the file.
    #[expect(clippy::should_implement_trait, reason = "the packet borrows the reader's buffer")]
    pub fn next(&mut self) -> Result<Option<Record<'_>>, Error> {
        let found = match &mut self.format {
            Format::Pcap(classic) => packet(&mut self.input, &mut self.buffer, *classic)?,
            Format::Pcapng(sections) => sections.next(&mut self.input, &mut self.buffer)?,
        };
        let Some(Found { time_ns, interface, original_len, link, start, len }) = found else {
            return Ok(None);
        };
        Ok(Some(Record { time_ns, interface, original_len, link, data: &self.buffer[start..start + len] }))
    }

    /// Goes on to a place in the file, where a packet must begin that nobody can check.
    /// A place that was passed already is not gone back to.
    pub fn skip_to(&mut self, offset: u64) -> Result<(), Error> {
        let here = self.input.offset;
        self.input.skip(offset.saturating_sub(here), here, "what is skipped")
    }

    /// How many bytes of the file have been read.
    pub fn offset(&self) -> u64 {
        self.input.offset
    }
}

/// pcap, section 4: the rest of the file header.
fn header<R: Read>(
    input: &mut Input<R>,
    order: Order,
    unit_ns: u64,
    more: u64,
    links: Links,
) -> Result<Format, Error> {
    let mut rest = [0; 20];
    input.need(&mut rest, 0, "the file header")?;
    let major = order.u16(&rest, 0);
    if major != 2 {
        return Err(Error::Malformed { offset: 4, what: "unknown pcap version", value: major.into() });
    }
    // The upper half says whether frames end with a CRC; none known writes it.
    let link = links.check(order.u32(&rest, 16) & 0xFFFF, 20)?;
    Ok(Format::Pcap(Classic { order, unit_ns, link, more }))
}

impl Links {
    /// A link type, if it is taken.
    fn check(self, link_type: u32, offset: u64) -> Result<u32, Error> {
        match link_type {
            other if other != ETHERNET && self == Links::Ethernet => {
                let what = "link type is not Ethernet";
                Err(Error::Malformed { offset, what, value: other.into() })
            }
            known => Ok(known),
        }
    }
}

/// pcap, section 5: a packet record.
fn packet<R: Read>(
    input: &mut Input<R>,
    buffer: &mut Vec<u8>,
    Classic { order, unit_ns, link, more }: Classic,
) -> Result<Option<Found>, Error> {
    let offset = input.offset;
    let mut head = [0; 16];
    if !input.fill(&mut head, "a packet's header")? {
        return Ok(None);
    }
    let [seconds, part, len, original_len] = [0, 4, 8, 12].map(|at| order.u32(&head, at));
    let len = bounded(len, offset)?;
    input.skip(more, offset, "a packet's header")?;
    buffer.resize(len, 0);
    input.need(buffer, offset, "a packet")?;
    let time_ns = u64::from(seconds) * 1_000_000_000 + u64::from(part) * unit_ns;
    Ok(Some(Found { time_ns, interface: 0, original_len, link, start: 0, len }))
}

fn bounded(len: u32, offset: u64) -> Result<usize, Error> {
    match len as usize {
        len if len <= MAX_PACKET => Ok(len),
        len => Err(Error::Malformed { offset, what: "packet longer than 262144 bytes", value: len as u64 }),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
