//! Flags of meta commands, and the key in front of them.

use std::borrow::Cow;

use super::base64;
use super::store::{MAX_KEY, expiry};
use crate::text::{signed, unsigned, words};

/// The line has not the form of its command.
pub const FORMAT: &[u8] = b"CLIENT_ERROR bad command line format\r\n";
const TOKEN: &[u8] = b"CLIENT_ERROR bad token in command line format\r\n";
const DELTA: &[u8] = b"CLIENT_ERROR invalid numeric delta value\r\n";
const INITIAL: &[u8] = b"CLIENT_ERROR invalid numeric initial value\r\n";
/// The longest opaque token, which has 32 characters with its `O`.
const MAX_OPAQUE: usize = 31;

/// A key with its flags.
#[derive(Debug)]
pub struct Flags<'a> {
    /// The key, decoded where it came in base64.
    pub key: Cow<'a, [u8]>,
    /// The flags as they came, for those that are answered.
    words: &'a [u8],
    /// `b`: the key came in base64.
    pub is_binary: bool,
    /// `q`: what goes well is not answered.
    pub is_quiet: bool,
    /// `v`: the value is wanted.
    pub wants_value: bool,
    /// `u`: the item does not count as used.
    pub leaves_order: bool,
    /// `I`: what would not be done makes the item stale.
    pub invalidates: bool,
    /// `x`: the value goes, and the item stays.
    pub empties: bool,
    /// `C`: the number that the item must have.
    pub compare: Option<u64>,
    /// `E`: the number that it gets.
    pub new_cas: Option<u64>,
    /// `T`: when it expires, in seconds of Unix time.
    pub expires_s: Option<i64>,
    /// `N`: an item is made where there is none, which expires then.
    pub vivify_s: Option<i64>,
    /// When such an item expires by the later of `N` and `T`.
    pub made_s: Option<i64>,
    /// `R`: who asks is to renew an item that has less than so many seconds.
    pub renews_s: Option<i64>,
    /// `F`: the client's number.
    pub client: u32,
    /// `D`: by how much is counted.
    pub delta: u64,
    /// `J`: where counting begins.
    pub initial: u64,
    /// `M`: the mode, a letter such as `I` for an increment.
    pub mode: Option<u8>,
}

/// The flags of a command, and how it refuses others.
#[derive(Debug)]
pub struct Known {
    /// A bit for each character that is one of them.
    flags: u128,
    /// What is told of all that is wrong with them, where that is one text.
    one_text: Option<&'static [u8]>,
}

const ANY_WRONG: Option<&[u8]> = Some(b"CLIENT_ERROR invalid or duplicate flag\r\n");

/// The flags of memcached 1.6.18, of whichever command, for those of others are read and change
/// nothing; and more, of later versions.
const fn with(more: &[u8]) -> u128 {
    bits(b"bcfhklqstuvCDFIJLMNOPRT") | bits(more)
}

const fn bits(flags: &[u8]) -> u128 {
    let (mut bits, mut at) = (0, 0);
    while at < flags.len() {
        bits |= 1 << flags[at];
        at += 1;
    }
    bits
}

/// The flags of `mg`, `ms`, `md`, `ma` and `me`, which takes all.
pub const GET: Known = Known { flags: with(b"E"), one_text: None };
pub const SET: Known = Known { flags: with(b"E"), one_text: None };
pub const DELETE: Known = Known { flags: with(b"Ex"), one_text: ANY_WRONG };
pub const COUNT: Known = Known { flags: with(b"E"), one_text: ANY_WRONG };
pub const DEBUG: Known = Known { flags: u128::MAX, one_text: ANY_WRONG };

/// Reads what stands behind a command's name and, where it has one, its length.
///
/// # Errors
/// What the client is told.
pub fn parse<'a>(
    key: &'a [u8],
    flags: &'a [u8],
    known: &Known,
    now_s: i64,
) -> Result<Flags<'a>, &'static [u8]> {
    let mut all = Flags {
        key: Cow::Borrowed(key),
        words: flags,
        is_binary: false,
        is_quiet: false,
        wants_value: false,
        leaves_order: false,
        invalidates: false,
        empties: false,
        compare: None,
        new_cas: None,
        expires_s: None,
        vivify_s: None,
        made_s: None,
        renews_s: None,
        client: 0,
        delta: 1,
        initial: 0,
        mode: None,
    };
    let (mut seen, mut wrong, mut opaque) = (0_u128, None, Ok(()));
    for word in words(flags) {
        let (flag, token) = (word[0], &word[1..]);
        let bit = 1_u128.checked_shl(flag.into()).unwrap_or(0);
        if bit == 0 && known.flags == u128::MAX {
            continue; // no flag of any command
        }
        if seen & bit != 0 {
            return Err(known.one_text.unwrap_or(b"CLIENT_ERROR duplicate flag\r\n"));
        }
        if known.flags & bit == 0 {
            return Err(known.one_text.unwrap_or(b"CLIENT_ERROR invalid flag\r\n"));
        }
        seen |= bit;
        // As memcached does it: the last of what is wrong but `F` is told, and an opaque token that
        // is too long behind all else.
        match all.take(flag, token, now_s) {
            Ok(()) if flag != b'b' => {}
            Ok(()) => match base64::decode(key) {
                Some(bytes) => all.key = Cow::Owned(bytes),
                None => wrong = Some(known.one_text.unwrap_or(b"CLIENT_ERROR error decoding key\r\n")),
            },
            Err(text) if flag == b'O' => opaque = Err(text),
            Err(text) if flag == b'F' => wrong = wrong.or(Some(known.one_text.unwrap_or(text))),
            Err(text) => wrong = Some(known.one_text.unwrap_or(text)),
        }
    }
    wrong.map_or(Ok(()), Err)?;
    // A binary key is as long in bytes as another one in characters.
    if all.key.is_empty() || all.key.len() > MAX_KEY {
        return Err(FORMAT);
    }
    opaque?;
    Ok(all)
}

impl<'a> Flags<'a> {
    fn take(&mut self, flag: u8, token: &'a [u8], now_s: i64) -> Result<(), &'static [u8]> {
        let time = || signed(token).ok_or(TOKEN);
        match flag {
            b'b' => self.is_binary = true,
            b'q' => self.is_quiet = true,
            b'v' => self.wants_value = true,
            b'u' => self.leaves_order = true,
            b'I' => self.invalidates = true,
            b'x' => self.empties = true,
            b'C' => self.compare = Some(unsigned(token).ok_or(TOKEN)?),
            b'E' => self.new_cas = Some(unsigned(token).ok_or(TOKEN)?),
            b'D' => self.delta = unsigned(token).ok_or(DELTA)?,
            b'J' => self.initial = unsigned(token).ok_or(INITIAL)?,
            // As in the text commands, the last 32 bits count.
            b'F' => self.client = unsigned(token).ok_or(FORMAT)? as u32,
            b'T' => {
                self.expires_s = Some(expiry(time()?, now_s));
                self.made_s = self.made_s.and(self.expires_s);
            }
            b'N' => {
                self.vivify_s = Some(expiry(time()?, now_s));
                self.made_s = self.vivify_s;
            }
            b'R' => self.renews_s = Some(time()?),
            b'M' => match token {
                [mode] => self.mode = Some(*mode),
                _ => return Err(b"CLIENT_ERROR incorrect length for M token\r\n"),
            },
            b'O' if token.len() > MAX_OPAQUE => return Err(b"CLIENT_ERROR opaque token too long\r\n"),
            _ => {}
        }
        Ok(())
    }

    /// Whether a flag stands in front of another one.
    pub fn stands_in_front(&self, flag: u8, other: u8) -> bool {
        words(self.words).map(|word| word[0]).find(|found| [flag, other].contains(found)) == Some(flag)
    }

    /// Appends the flags that are answered, in their order: those that only copy what came
    /// themselves, others by `of`. A key is told in base64 where it was stored so.
    pub fn answer(&self, is_binary: bool, to: &mut Vec<u8>, mut of: impl FnMut(u8, &mut Vec<u8>)) {
        for word in words(self.words) {
            match word[0] {
                b'O' => {
                    to.push(b' ');
                    to.extend_from_slice(word);
                }
                b'k' => {
                    to.extend_from_slice(b" k");
                    push_key(&self.key, is_binary, to);
                    // Which tells that the key is one in base64.
                    to.extend_from_slice(if is_binary { b" b" } else { b"" });
                }
                flag => of(flag, to),
            }
        }
    }
}

/// Appends a key as clients see it.
pub fn push_key(key: &[u8], is_binary: bool, to: &mut Vec<u8>) {
    match is_binary {
        true => base64::encode(key, to),
        false => to.extend_from_slice(key),
    }
}
