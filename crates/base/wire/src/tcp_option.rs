//! TCP options: maximum segment size (RFC 9293), window scale and timestamps (RFC
//! 7323), selective acknowledgement (RFC 2018). Others are passed on undecoded.

use crate::field::{set_array, set_slice, u16_at, u32_at};
use crate::{Error, Result};

/// Kinds of options (IANA, TCP parameters).
pub mod kind {
    pub use crate::option_list::{END, NO_OPERATION};

    /// The largest segment the sender takes.
    pub const MAX_SEGMENT: u8 = 2;
    /// By how many bits windows are shifted.
    pub const WINDOW_SCALE: u8 = 3;
    /// The sender understands selective acknowledgements.
    pub const SACK_PERMITTED: u8 = 4;
    /// Blocks that have arrived.
    pub const SACK: u8 = 5;
    /// The sender's clock, and the other side's.
    pub const TIMESTAMPS: u8 = 8;
    /// The cookie of fast open (RFC 7413, section 2).
    pub const FAST_OPEN: u8 = 34;
    /// An experiment, whose number stands first (RFC 6994).
    pub const EXPERIMENT: u8 = 254;
}

/// The number of the experiment that became fast open (RFC 7413, section 10).
const FAST_OPEN_EXPERIMENT: [u8; 2] = [0xF9, 0x89];
/// Bytes that a cookie has at most (RFC 7413, section 2).
pub const MAX_COOKIE_LEN: usize = 16;

use kind::{
    END, EXPERIMENT, FAST_OPEN, MAX_SEGMENT, NO_OPERATION, SACK, SACK_PERMITTED, TIMESTAMPS, WINDOW_SCALE,
};

/// An option as it was decoded, or as it is to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TcpOption<'a> {
    /// The largest segment the sender takes, in bytes.
    MaxSegment(u16),
    /// By how many bits later windows are shifted, as it stands.
    WindowScale(u8),
    /// The sender understands selective acknowledgements.
    SackPermitted,
    /// Blocks that have arrived: pairs of 32-bit sequence numbers, see [`sack_blocks`].
    Sack(&'a [u8]),
    /// The sender's clock and the clock it answers to.
    Timestamps {
        /// The sender's clock.
        value: u32,
        /// The other side's clock, as last seen.
        echo: u32,
    },
    /// Any other, undecoded.
    Unknown {
        /// The kind of the option.
        kind: u8,
        /// All behind kind and length.
        data: &'a [u8],
    },
}

/// The blocks of a SACK option: the first byte of each, and the first behind it.
pub fn sack_blocks(data: &[u8]) -> impl Iterator<Item = (u32, u32)> {
    data.chunks_exact(8).map(|block| (u32_at(block, 0), u32_at(block, 4)))
}

/// The edges of a SACK option's blocks, in place, when `option` is one that can be: four bytes
/// each, the first byte of a block and the first behind it.
pub fn sack_edges_mut(option: &mut [u8]) -> impl Iterator<Item = &mut [u8; 4]> {
    let blocks: &mut [u8] = match option {
        [SACK, _, blocks @ ..] if blocks.len().is_multiple_of(8) => blocks,
        _ => &mut [],
    };
    blocks.as_chunks_mut::<4>().0.iter_mut()
}

/// Writes as many blocks as fit into `data`, for [`TcpOption::Sack`]; the bytes they take.
pub fn set_sack_blocks(data: &mut [u8], blocks: impl Iterator<Item = (u32, u32)>) -> usize {
    let mut len = 0;
    for (block, (start, end)) in data.chunks_exact_mut(8).zip(blocks) {
        set_array(block, 0, start.to_be_bytes());
        set_array(block, 4, end.to_be_bytes());
        len += block.len();
    }
    len
}

/// A cookie of fast open: that of a server's, or none in a request for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FastOpen<'a> {
    /// The cookie: 4 to 16 bytes, or none.
    pub cookie: &'a [u8],
    /// Whether it stands, or stood, in an option for experiments.
    pub is_experiment: bool,
}

impl<'a> FastOpen<'a> {
    /// The cookie of an undecoded option; `None` where it is another option, or the cookie has
    /// another length than cookies have.
    pub fn of(option: &TcpOption<'a>) -> Option<FastOpen<'a>> {
        let (cookie, is_experiment) = match *option {
            TcpOption::Unknown { kind: FAST_OPEN, data } => (data, false),
            TcpOption::Unknown { kind: EXPERIMENT, data } => {
                (data.strip_prefix(&FAST_OPEN_EXPERIMENT)?, true)
            }
            _ => return None,
        };
        let is_one = cookie.is_empty() || (4..=MAX_COOKIE_LEN).contains(&cookie.len());
        // RFC 7413, section 2: the length is even.
        (is_one && cookie.len().is_multiple_of(2)).then_some(FastOpen { cookie, is_experiment })
    }

    /// Bytes of the option.
    #[allow(clippy::len_without_is_empty, reason = "no option is empty")]
    pub fn len(&self) -> usize {
        let number = if self.is_experiment { FAST_OPEN_EXPERIMENT.len() } else { 0 };
        2 + number + self.cookie.len()
    }

    /// Writes the option at the start of `bytes`. Panics when they are shorter than
    /// [`Self::len`].
    pub fn emit(&self, bytes: &mut [u8]) {
        let len = self.len();
        bytes[1] = len as u8;
        bytes[0] = if self.is_experiment { EXPERIMENT } else { FAST_OPEN };
        if self.is_experiment {
            set_array(bytes, 2, FAST_OPEN_EXPERIMENT);
        }
        set_slice(&mut bytes[..len], len - self.cookie.len(), self.cookie);
    }
}

impl TcpOption<'_> {
    /// Bytes of the option, kind and length included; at most 255 of [`Self::Unknown`]
    /// make sense, and at most 40 fit into a header.
    #[allow(clippy::len_without_is_empty, reason = "no option is empty")]
    pub fn len(&self) -> usize {
        match self {
            TcpOption::MaxSegment(_) => 4,
            TcpOption::WindowScale(_) => 3,
            TcpOption::SackPermitted => 2,
            TcpOption::Timestamps { .. } => 10,
            TcpOption::Sack(data) | TcpOption::Unknown { data, .. } => 2 + data.len(),
        }
    }

    /// Writes the option at the start of `bytes`, and returns what is left of them.
    /// Panics when they are shorter than [`Self::len`].
    pub fn emit<'b>(&self, bytes: &'b mut [u8]) -> &'b mut [u8] {
        let (option, rest) = bytes.split_at_mut(self.len());
        option[1] = option.len() as u8;
        option[0] = match *self {
            TcpOption::MaxSegment(segment) => {
                set_array(option, 2, segment.to_be_bytes());
                MAX_SEGMENT
            }
            TcpOption::WindowScale(shift) => {
                option[2] = shift;
                WINDOW_SCALE
            }
            TcpOption::SackPermitted => SACK_PERMITTED,
            TcpOption::Sack(data) => {
                set_slice(option, 2, data);
                SACK
            }
            TcpOption::Timestamps { value, echo } => {
                set_array(option, 2, value.to_be_bytes());
                set_array(option, 6, echo.to_be_bytes());
                TIMESTAMPS
            }
            TcpOption::Unknown { kind, data } => {
                set_slice(option, 2, data);
                kind
            }
        };
        rest
    }
}

/// Bytes of options that are timestamps and nothing else.
pub const TIMESTAMPS_ALONE_LEN: usize = 12;

/// What such options begin with: padding in front, so that the clocks stand on the boundaries of
/// words (RFC 7323, appendix A).
pub(crate) const TIMESTAMPS_ALONE: [u8; 4] = [NO_OPERATION, NO_OPERATION, TIMESTAMPS, 10];

/// The sender's clock and the clock it answers to, of options that are timestamps alone in the
/// form that RFC 7323, appendix A, recommends: those of nearly every segment but a SYN. `None`
/// for all others, timestamps in another form among them.
#[inline]
pub fn timestamps_alone(options: &[u8]) -> Option<(u32, u32)> {
    let options: &[u8; TIMESTAMPS_ALONE_LEN] = options.try_into().ok()?;
    options.starts_with(&TIMESTAMPS_ALONE).then(|| (u32_at(options, 4), u32_at(options, 8)))
}

/// The options that [`timestamps_alone`] reads.
#[inline]
pub fn emit_timestamps_alone(value: u32, echo: u32) -> [u8; TIMESTAMPS_ALONE_LEN] {
    let mut options = [0; TIMESTAMPS_ALONE_LEN];
    set_array(&mut options, 0, TIMESTAMPS_ALONE);
    set_array(&mut options, 4, value.to_be_bytes());
    set_array(&mut options, 8, echo.to_be_bytes());
    options
}

/// The options of a header, one by one; the first broken one ends them.
#[derive(Debug, Clone)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl<'a> Options<'a> {
    /// The options in `bytes`, which are those of a header and nothing else.
    pub fn new(bytes: &'a [u8]) -> Options<'a> {
        Options { rest: bytes }
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<TcpOption<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = std::mem::take(&mut self.rest);
        let padding = rest.iter().take_while(|&&kind| kind == NO_OPERATION).count();
        let rest = &rest[padding..];
        let (kind, len) = match *rest {
            [] | [END, ..] => return None,
            [_] => return Some(Err(Error::Truncated)),
            [kind, len, ..] => (kind, usize::from(len)),
        };
        if len < 2 {
            return Some(Err(Error::Malformed));
        }
        let Some((option, rest)) = rest.split_at_checked(len) else {
            return Some(Err(Error::Truncated));
        };
        self.rest = rest;
        let data = &option[2..];
        Some(match (kind, len) {
            (MAX_SEGMENT, 4) => Ok(TcpOption::MaxSegment(u16_at(data, 0))),
            (WINDOW_SCALE, 3) => Ok(TcpOption::WindowScale(data[0])),
            (SACK_PERMITTED, 2) => Ok(TcpOption::SackPermitted),
            (TIMESTAMPS, 10) => Ok(TcpOption::Timestamps { value: u32_at(data, 0), echo: u32_at(data, 4) }),
            (SACK, _) if data.len().is_multiple_of(8) => Ok(TcpOption::Sack(data)),
            (MAX_SEGMENT | WINDOW_SCALE | SACK_PERMITTED | TIMESTAMPS | SACK, _) => Err(Error::Malformed),
            _ => Ok(TcpOption::Unknown { kind, data }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_read_as_their_bytes() {
        let bytes = [2, 4, 5, 0xB4, 1, 3, 3, 7, 4, 2, 5, 10, 0, 0, 0, 1, 0, 0, 0, 9, 0, 2];
        let options: Result<Vec<_>> = Options::new(&bytes).collect();
        let expected = vec![
            TcpOption::MaxSegment(1460),
            TcpOption::WindowScale(7),
            TcpOption::SackPermitted,
            TcpOption::Sack(&bytes[12..20]),
        ];
        assert_eq!(options, Ok(expected));
        assert_eq!(sack_blocks(&bytes[12..20]).collect::<Vec<_>>(), [(1, 9)]);
        let mut data = [0xFF; 12];
        assert_eq!(set_sack_blocks(&mut data, [(1, 9), (11, 12)].into_iter()), 8, "as many as fit");
        assert_eq!(data, [0, 0, 0, 1, 0, 0, 0, 9, 0xFF, 0xFF, 0xFF, 0xFF]);
    }

    #[test]
    fn edges_are_those_of_a_sack_option_alone() {
        let mut option = [5, 10, 0, 0, 0, 1, 0, 0, 0, 9];
        sack_edges_mut(&mut option).for_each(|edge| edge[3] += 0x10);
        assert_eq!(option, [5, 10, 0, 0, 0, 0x11, 0, 0, 0, 0x19]);
        assert_eq!(sack_edges_mut(&mut option[..6]).count(), 0, "half a block");
        option[0] = kind::TIMESTAMPS;
        assert_eq!(sack_edges_mut(&mut option).count(), 0);
        assert_eq!(sack_edges_mut(&mut []).count(), 0);
    }

    #[test]
    fn timestamps_alone_are_those_of_the_walk() {
        let written = emit_timestamps_alone(0x0102_0304, 0xFFFE_FDFC);
        let walked: Vec<_> = Options::new(&written).flatten().collect();
        assert_eq!(walked, [TcpOption::Timestamps { value: 0x0102_0304, echo: 0xFFFE_FDFC }]);
        assert_eq!(timestamps_alone(&written), Some((0x0102_0304, 0xFFFE_FDFC)));
        for at in 0..4 {
            let mut other = written;
            other[at] ^= 1;
            assert_eq!(timestamps_alone(&other), None, "byte {at} is another");
        }
        assert_eq!(timestamps_alone(&written[..11]), None);
        assert_eq!(timestamps_alone(&[&written[..], &[1; 4]].concat()), None, "more may stand behind");
    }

    #[test]
    fn cookies_of_fast_open_stand_in_two_kinds_of_options() {
        let bytes = [34, 6, 1, 2, 3, 4, 254, 4, 0xF9, 0x89, 254, 4, 1, 2, 34, 5, 1, 2, 3, 34, 3, 1];
        let options: Vec<_> = Options::new(&bytes).flatten().collect();
        let found: Vec<_> = options.iter().map(FastOpen::of).collect();
        let cookie = FastOpen { cookie: &[1, 2, 3, 4], is_experiment: false };
        let request = FastOpen { cookie: &[], is_experiment: true };
        assert_eq!(found, [Some(cookie), Some(request), None, None, None]);
        for option in [cookie, request] {
            let mut written = [0; 12];
            option.emit(&mut written);
            let read = Options::new(&written[..option.len()]).next().and_then(Result::ok);
            assert_eq!(read.as_ref().and_then(FastOpen::of), Some(option));
        }
    }

    #[test]
    fn broken_options_end_the_walk() {
        for (bytes, error) in [
            (&[9, 0, 1, 1][..], Error::Malformed), // a length of zero would never end
            (&[9, 1], Error::Malformed),
            (&[9, 5, 0], Error::Truncated),
            (&[1, 9], Error::Truncated),
        ] {
            let items: Vec<_> = Options::new(bytes).collect();
            assert_eq!(items, [Err(error)], "{bytes:?}");
        }
        let items: Vec<_> = Options::new(&[2, 3, 5, 4, 2]).collect();
        assert_eq!(items, [Err(Error::Malformed), Ok(TcpOption::SackPermitted)]);
    }
}
