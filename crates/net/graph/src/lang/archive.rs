//! Archives in the common format of `ar`, in which Click's tools write a configuration
//! together with what belongs to it: click-combine with a map of the routers it was made of,
//! click-fastclassifier and others with source code.
//!
//! The format is that of ar(5): eight bytes of magic, then members, each behind a header
//! of 60 bytes in ASCII and filled up to an even length. Long names are written as the systems
//! of the 4.4BSD line do (`#1/LENGTH`, in front of the data) or as GNU's tools do (`/OFFSET` into
//! a member `//`).

use std::fmt;
use std::ops::Range;

/// What an archive begins with.
const MAGIC: &[u8] = b"!<arch>\n";
/// The bytes of a member's header.
const HEADER: usize = 60;
/// Where the header has the name, the size of the data, and what ends it.
const NAME: Range<usize> = 0..16;
const SIZE: Range<usize> = 48..58;
const END: Range<usize> = 58..60;
/// The name of the member that is the configuration, as Click's tools give it.
const CONFIGURATION: &str = "config";
/// The most members an archive may have.
const MEMBERS: usize = 4096;
/// The longest name of a member, in bytes.
const NAME_BYTES: usize = 255;

/// An archive with a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Archive<'a> {
    /// The data of the first member that is named `config`.
    pub configuration: &'a [u8],
    /// The names of all other members, in their order.
    pub others: Vec<String>,
}

/// Why an archive cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// No member is named `config`.
    NoConfiguration,
    /// A header or its data is not all there.
    Truncated,
    /// A header does not end as headers do.
    NoHeader,
    /// A size is no decimal number.
    BadSize,
    /// A long name is not where its header says, or longer than 255 bytes.
    BadName,
    /// There are more than 4096 members.
    TooManyMembers,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Broken::NoConfiguration => "archive has no 'config' section",
            Broken::Truncated => "truncated archive",
            Broken::NoHeader => "bad archive: missing header magic number",
            Broken::BadSize => "bad archive: a size is no number",
            Broken::BadName => "bad long name in archive",
            Broken::TooManyMembers => "archive has more than 4096 sections",
        })
    }
}

/// Finds the configuration in an archive; `None` for a text that is none.
///
/// # Errors
/// What is wrong with the archive.
pub fn unpack(text: &[u8]) -> Result<Option<Archive<'_>>, Broken> {
    let Some(mut rest) = text.strip_prefix(MAGIC) else { return Ok(None) };
    let (mut configuration, mut others, mut long_names): (_, _, &[u8]) = (None, vec![], &[]);
    for _ in 0..MEMBERS {
        if rest.is_empty() {
            let configuration = configuration.ok_or(Broken::NoConfiguration)?;
            return Ok(Some(Archive { configuration, others }));
        }
        let Member { name, data, behind } = Member::read(rest, long_names)?;
        rest = behind;
        match name {
            Name::LongNames => long_names = data,
            Name::Of(name) if name == CONFIGURATION.as_bytes() && configuration.is_none() => {
                configuration = Some(data);
            }
            Name::Of(name) => others.push(String::from_utf8_lossy(name).into_owned()),
        }
    }
    Err(Broken::TooManyMembers)
}

/// What a member is.
enum Name<'a> {
    /// The names that are too long for headers.
    LongNames,
    /// One of this name.
    Of(&'a [u8]),
}

/// A member of an archive.
struct Member<'a> {
    name: Name<'a>,
    data: &'a [u8],
    /// The archive from the next member on.
    behind: &'a [u8],
}

impl<'a> Member<'a> {
    fn read(archive: &'a [u8], long_names: &'a [u8]) -> Result<Member<'a>, Broken> {
        let (header, rest) = archive.split_at_checked(HEADER).ok_or(Broken::Truncated)?;
        if header[END] != *b"`\n" {
            return Err(Broken::NoHeader);
        }
        let size = number(&header[SIZE]).ok_or(Broken::BadSize)?;
        let (data, behind) = rest.split_at_checked(size).ok_or(Broken::Truncated)?;
        // The last member of some tools' archives is not filled up.
        let behind = if size % 2 == 1 { behind.get(1..).unwrap_or_default() } else { behind };
        let short = &header[NAME];
        let (name, data) = match short {
            [b'/', b'/', b' ', ..] => (Name::LongNames, data),
            [b'/', digits @ ..] if digits[0].is_ascii_digit() => {
                let at = number(digits).ok_or(Broken::BadName)?;
                (Name::Of(up_to_end(long_names.get(at..).ok_or(Broken::BadName)?)), data)
            }
            [b'#', b'1', b'/', digits @ ..] => {
                let len = number(digits).ok_or(Broken::BadName)?;
                let (name, data) = data.split_at_checked(len).ok_or(Broken::BadName)?;
                // Some fill the name up with zeros.
                (Name::Of(name.split(|byte| *byte == 0).next().unwrap_or_default()), data)
            }
            _ => (Name::Of(up_to_end(short)), data),
        };
        match name {
            Name::Of(name) if name.len() > NAME_BYTES => Err(Broken::BadName),
            name => Ok(Member { name, data, behind }),
        }
    }
}

/// A name as far as the slash or white space behind it; one that is too long stays so.
fn up_to_end(name: &[u8]) -> &[u8] {
    let most = &name[..name.len().min(NAME_BYTES + 1)];
    let end = most.iter().position(|byte| *byte == b'/' || byte.is_ascii_whitespace());
    &most[..end.unwrap_or(most.len())]
}

/// A decimal number, with spaces behind it.
fn number(field: &[u8]) -> Option<usize> {
    std::str::from_utf8(field).ok()?.trim_end_matches(' ').parse().ok()
}
