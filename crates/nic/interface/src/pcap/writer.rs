//! Writing pcapng: one section, little endian, nanoseconds.

use std::io::{self, Write};

use super::Blocks;
use super::block::{ENHANCED_PACKET, INTERFACE, OPTION_TSRESOL, ORDER_MAGIC, SECTION, STATISTICS};

const OPTION_END: u16 = 0;
const OPTION_COMMENT: u16 = 1;
const SECTION_APPLICATION: u16 = 4;
const INTERFACE_NAME: u16 = 2;
const INTERFACE_DESCRIPTION: u16 = 3;
const PACKET_FLAGS: u16 = 2;
const PACKET_DROPS: u16 = 4;
const STATISTICS_RECEIVED: u16 = 4;
const STATISTICS_DROPPED: u16 = 5;

/// Longest text of an option.
const MAX_TEXT: usize = 1024;

/// Which way a packet went, seen from the interface (epb_flags, bits 0 and 1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// Nobody says which way.
    #[default]
    Unknown,
    /// The interface received the packet.
    Inbound,
    /// The interface sent the packet.
    Outbound,
}

/// What to note down with a packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct PacketOptions<'a> {
    /// Which way it went.
    pub direction: Direction,
    /// Packets lost between the one before and this one.
    pub dropped_before: u64,
    /// A comment, such as why the packet was dropped; 1024 bytes at most are kept.
    pub comment: Option<&'a str>,
}

/// Writes a capture file. Buffer the output; nothing is flushed before
/// [`Writer::flush`].
#[derive(Debug)]
pub struct Writer<W> {
    output: W,
    interfaces: u32,
    /// The block being built; kept for its memory.
    block: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Writes the section header and describes the interfaces, numbered from 0.
    pub fn new(output: W, interfaces: &[&str]) -> io::Result<Writer<W>> {
        let mut writer = Writer { output, interfaces: 0, block: Vec::with_capacity(2048) };
        writer.begin(SECTION);
        writer.u32(ORDER_MAGIC);
        writer.u32(1); // version 1.0
        writer.block.extend([0xFF; 8]); // length of the section: not known
        writer.option(SECTION_APPLICATION, b"ixora");
        writer.option(OPTION_END, &[]);
        writer.end()?;
        for name in interfaces {
            writer.add_interface(name, "")?;
        }
        Ok(writer)
    }

    /// Describes one more Ethernet interface; its number. The description may be empty.
    pub fn add_interface(&mut self, name: &str, description: &str) -> io::Result<u32> {
        self.begin(INTERFACE);
        self.u32(1); // Ethernet
        self.u32(0); // no snap length
        self.option(INTERFACE_NAME, cut(name).as_bytes());
        if !description.is_empty() {
            self.option(INTERFACE_DESCRIPTION, cut(description).as_bytes());
        }
        self.option(OPTION_TSRESOL, &[9]);
        self.option(OPTION_END, &[]);
        self.end()?;
        self.interfaces += 1;
        Ok(self.interfaces - 1)
    }

    /// Writes a packet that passed interface `interface` at `time_ns` since 1970.
    ///
    /// # Errors
    /// `InvalidInput` for an interface that was not described or a packet of
    /// more than [`super::MAX_PACKET`] bytes; else what the output says.
    pub fn write(
        &mut self,
        interface: u32,
        time_ns: u64,
        packet: &[u8],
        notes: PacketOptions<'_>,
    ) -> io::Result<()> {
        if interface >= self.interfaces || packet.len() > super::MAX_PACKET {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.begin(ENHANCED_PACKET);
        self.u32(interface);
        self.u32((time_ns >> 32) as u32);
        self.u32(time_ns as u32);
        self.u32(packet.len() as u32);
        self.u32(packet.len() as u32);
        self.padded(packet);
        let options = self.block.len();
        match notes.direction {
            Direction::Unknown => {}
            Direction::Inbound => self.option(PACKET_FLAGS, &1_u32.to_le_bytes()),
            Direction::Outbound => self.option(PACKET_FLAGS, &2_u32.to_le_bytes()),
        }
        if notes.dropped_before > 0 {
            self.option(PACKET_DROPS, &notes.dropped_before.to_le_bytes());
        }
        if let Some(comment) = notes.comment {
            self.option(OPTION_COMMENT, cut(comment).as_bytes());
        }
        if self.block.len() > options {
            self.option(OPTION_END, &[]);
        }
        self.end()
    }

    /// Writes what an interface received and lost until `time_ns` since 1970; `losses` are
    /// the losses by name.
    pub fn write_statistics(
        &mut self,
        interface: u32,
        time_ns: u64,
        received: u64,
        losses: &[(&str, u64)],
    ) -> io::Result<()> {
        self.begin(STATISTICS);
        self.u32(interface);
        self.u32((time_ns >> 32) as u32);
        self.u32(time_ns as u32);
        self.option(STATISTICS_RECEIVED, &received.to_le_bytes());
        let lost: u64 = losses.iter().map(|(_, count)| count).sum();
        self.option(STATISTICS_DROPPED, &lost.to_le_bytes());
        if lost > 0 {
            let names: Vec<String> = losses.iter().map(|(name, count)| format!("{name} {count}")).collect();
            self.option(OPTION_COMMENT, cut(&names.join(", ")).as_bytes());
        }
        self.option(OPTION_END, &[]);
        self.end()
    }

    /// Flushes the output.
    pub fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }

    /// What blocks are written to.
    pub fn output(&self) -> &W {
        &self.output
    }

    /// The output, not flushed.
    pub fn into_inner(self) -> W {
        self.output
    }

    fn begin(&mut self, kind: u32) {
        self.block.clear();
        self.u32(kind);
        self.u32(0); // the length, filled in at the end
    }

    fn end(&mut self) -> io::Result<()> {
        let total = self.block.len() as u32 + 4;
        self.block[4..8].copy_from_slice(&total.to_le_bytes());
        self.u32(total);
        self.output.write_all(&self.block)
    }

    fn u32(&mut self, value: u32) {
        self.block.extend(value.to_le_bytes());
    }

    fn padded(&mut self, bytes: &[u8]) {
        self.block.extend(bytes);
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        self.block.extend(code.to_le_bytes());
        self.block.extend((value.len() as u16).to_le_bytes());
        self.padded(value);
    }
}

impl AsMut<Blocks> for Writer<Blocks> {
    fn as_mut(&mut self) -> &mut Blocks {
        &mut self.output
    }
}

/// The longest whole characters that fit an option.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_TEXT)]
}
