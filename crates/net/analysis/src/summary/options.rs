//! Options of IP (RFC 791) and TCP (RFC 9293, 7323, 2018) as text: `rr{1.0.0.1}`,
//! `mss1400;sackok`. An option that cannot be makes the whole text `?`.

use std::fmt::Write;
use std::net::Ipv4Addr;

use wire::ipv4_option::offset::{FLAGS, ROUTE, TIMESTAMPS};
use wire::ipv4_option::{self as option, WORD_LEN, timestamp};
use wire::option_list;
use wire::tcp_option::{self, Options, TcpOption, kind};

use graph::ip_header::u32_at;

/// End of the list, and fillers between options.
pub(crate) const PADDING: u32 = 1;
/// Maximum segment size.
pub(crate) const MSS: u32 = 2;
/// Window scale (RFC 7323).
pub(crate) const WSCALE: u32 = 4;
/// Selective acknowledgements, and whether they are permitted.
pub(crate) const SACK: u32 = 8;
/// Timestamps (RFC 7323).
pub(crate) const TIME: u32 = 16;
/// All kinds of options that have no bit of their own here.
pub(crate) const OTHERS: u32 = 32;
/// All kinds of options.
pub(crate) const ALL: u32 = u32::MAX;
/// All that say something.
pub(crate) const ALL_BUT_PADDING: u32 = ALL & !PADDING;
/// All but timestamps.
pub(crate) const NOT_TIME: u32 = ALL_BUT_PADDING & !TIME;

const RR: u8 = option::RECORD_ROUTE;
const TS: u8 = option::TIMESTAMP;
const LSRR: u8 = option::LOOSE_SOURCE_ROUTE;
const SSRR: u8 = option::STRICT_SOURCE_ROUTE;

/// The options of a header, each with all its bytes; `None` for one that cannot be,
/// and nothing after it.
fn each(bytes: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let place = option_list::next(bytes, at)?.ok();
        at = place.as_ref().map_or(bytes.len(), |place| place.end);
        Some(place.map(|place| &bytes[place]))
    })
}

/// Appends options, one after the other, with `one` for each.
fn show(bytes: &[u8], out: &mut String, one: impl Fn(&[u8], &mut String) -> Option<()>) {
    let start = out.len();
    for option in each(bytes) {
        let before = out.len();
        if before > start {
            out.push(';');
        }
        let shown = out.len();
        if option.and_then(|option| one(option, out)).is_none() {
            out.truncate(start);
            return out.push('?');
        }
        if out.len() == shown {
            out.truncate(before); // it is not asked for
        }
    }
    if out.len() == start {
        out.push('.');
    }
}

/// An option of no known meaning: its kind, then its bytes.
fn show_other(option: &[u8], out: &mut String) {
    let _ = write!(out, "{}", option[0]);
    for (n, byte) in option[2..].iter().enumerate() {
        let _ = write!(out, "{}{byte}", if n == 0 { '=' } else { ':' });
    }
}

/// Appends TCP options of some kinds.
pub(crate) fn show_tcp(bytes: &[u8], mask: u32, out: &mut String) {
    show(bytes, out, |option, out| {
        let parsed = Options::new(option).next()?.ok()?;
        if mask & kind_of(option[0]) == 0 {
            return Some(());
        }
        let _ = match parsed {
            TcpOption::MaxSegment(size) => write!(out, "mss{size}"),
            TcpOption::WindowScale(shift) => write!(out, "wscale{shift}"),
            TcpOption::SackPermitted => write!(out, "sackok"),
            TcpOption::Timestamps { value, echo } => write!(out, "ts{value}:{echo}"),
            TcpOption::Sack(blocks) => {
                for (n, (first, behind)) in tcp_option::sack_blocks(blocks).enumerate() {
                    let separator = if n == 0 { "" } else { ";" };
                    let _ = write!(out, "{separator}sack{first}-{behind}");
                }
                Ok(())
            }
            TcpOption::Unknown { .. } => {
                show_other(option, out);
                Ok(())
            }
        };
        Some(())
    });
}

fn kind_of(tcp: u8) -> u32 {
    match tcp {
        kind::MAX_SEGMENT => MSS,
        kind::WINDOW_SCALE => WSCALE,
        kind::SACK_PERMITTED | kind::SACK => SACK,
        kind::TIMESTAMPS => TIME,
        _ => OTHERS,
    }
}

/// TCP options of some kinds, as they are.
pub(crate) fn only(bytes: &[u8], mask: u32) -> Vec<u8> {
    let sound = each(bytes).map_while(|option| option);
    sound.filter(|option| mask & kind_of(option[0]) != 0).flatten().copied().collect()
}

/// Appends IP options.
pub(super) fn show_ip(bytes: &[u8], out: &mut String) {
    show(bytes, out, |option, out| match option[0] {
        RR | LSRR | SSRR => show_route(option, out),
        TS => show_times(option, out),
        _ => {
            show_other(option, out);
            Some(())
        }
    });
}

/// A route: addresses, and a mark where the next one is to be put or taken.
fn show_route(option: &[u8], out: &mut String) -> Option<()> {
    let pointer = option::pointer(option).filter(|pointer| *pointer >= ROUTE)?;
    out.push_str(match option[0] {
        RR => "rr{",
        LSRR => "lsrr{",
        _ => "ssrr{",
    });
    let (mut at, mut separator) = (ROUTE, "");
    while at + WORD_LEN <= option.len() {
        if at == pointer {
            if option[0] == RR {
                break;
            }
            separator = "^";
        }
        let _ = write!(out, "{separator}{}", Ipv4Addr::from(u32_at(option, at)));
        (at, separator) = (at + WORD_LEN, ",");
    }
    if at == option.len() && at == pointer && option[0] != RR {
        out.push('^');
    }
    out.push('}');
    if at + WORD_LEN <= option.len() && at == pointer && option[0] == RR {
        let _ = write!(out, "+{}", (option.len() - at) / WORD_LEN);
    }
    Some(())
}

/// Timestamps, with or without the addresses of who gave them.
fn show_times(option: &[u8], out: &mut String) -> Option<()> {
    let pointer = option::pointer(option).filter(|pointer| *pointer >= TIMESTAMPS)?;
    let flags = *option.get(FLAGS)?;
    let kind = timestamp::format(flags);
    let size = timestamp::entry_len(kind);
    let _ = match kind {
        timestamp::TIMES => write!(out, "ts{{"),
        timestamp::ADDRESSES => write!(out, "ts.ip{{"),
        timestamp::NAMED => write!(out, "ts.preip{{"),
        _ => write!(out, "ts.{kind}{{"),
    };
    let (mut at, mut separator) = (TIMESTAMPS, "");
    while at + size <= option.len() {
        if at == pointer {
            if kind != timestamp::NAMED {
                break;
            }
            separator = "^";
        }
        out.push_str(separator);
        let address = Ipv4Addr::from(u32_at(option, at));
        let value = u32_at(option, at + size - WORD_LEN);
        if kind != timestamp::TIMES {
            let _ = write!(out, "{address}");
        }
        // Behind the pointer there are only addresses, to be asked.
        if !(kind == timestamp::NAMED && at >= pointer) {
            let mark = if value & timestamp::NOT_STANDARD != 0 { "!" } else { "" };
            let _ = write!(
                out,
                "{}{mark}{}",
                if kind != timestamp::TIMES { "=" } else { "" },
                value & !timestamp::NOT_STANDARD
            );
        }
        (at, separator) = (at + size, ",");
    }
    if at == option.len() && at == pointer {
        out.push('^');
    }
    out.push('}');
    if at + size <= option.len() && at == pointer {
        let _ = write!(out, "+{}", (option.len() - at) / size);
    }
    if timestamp::overflow(flags) != 0 {
        let _ = write!(out, "++{}", timestamp::overflow(flags));
    }
    Some(())
}
