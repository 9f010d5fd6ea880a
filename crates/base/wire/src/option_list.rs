//! Lists of options as IPv4 (RFC 791, section 3.1) and TCP (RFC 9293, section 3.1) have them
//! behind their fixed headers: a kind, and for all but two kinds a length, which counts
//! both, and data. What kinds mean is in [`crate::ipv4_option`] and [`crate::tcp_option`].

use std::ops::Range;

/// There are no more.
pub const END: u8 = 0;
/// One byte that means nothing.
pub const NO_OPERATION: u8 = 1;
/// Where in an option its length is.
pub const LENGTH: usize = 1;
/// Bytes of kind and length, in front of an option's data.
pub const HEAD_LEN: usize = 2;

/// Where in `list` the first option is that begins at `from` or, behind padding, later.
/// `None` at the end of the list.
///
/// # Errors
/// Where the option begins, when it has no length, or one that cannot be.
#[inline]
pub fn next(list: &[u8], from: usize) -> Option<Result<Range<usize>, usize>> {
    let padding = list.get(from..)?.iter().take_while(|kind| **kind == NO_OPERATION).count();
    let start = from + padding;
    if *list.get(start)? == END {
        return None;
    }
    let len = list.get(start + LENGTH).copied().map_or(0, usize::from);
    let end = start + len;
    Some(if len >= HEAD_LEN && end <= list.len() { Ok(start..end) } else { Err(start) })
}

/// The options of a list, each with all its bytes, up to the first that cannot be.
pub fn options(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let place = next(list, at)?.ok()?;
        at = place.end;
        list.get(place)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_passes_padding_and_ends_at_the_end_of_the_list() {
        let list = [1, 1, 7, 3, 4, 1, 68, 2, 0, 7, 2];
        assert_eq!(next(&list, 0), Some(Ok(2..5)));
        assert_eq!(next(&list, 5), Some(Ok(6..8)));
        assert_eq!(next(&list, 8), None, "what is behind the end is no option");
        assert_eq!(next(&list, list.len()), None);
        assert_eq!(next(&list, list.len() + 1), None);
        assert_eq!(options(&list).collect::<Vec<_>>(), [&[7, 3, 4][..], &[68, 2]]);
        assert_eq!(next(&[1, 1], 0), None, "only padding");
    }

    #[test]
    fn an_option_that_cannot_be_is_told_with_its_place() {
        for (list, place) in [
            (&[7][..], 0), // no length
            (&[1, 7], 1),
            (&[1, 7, 0], 1), // a length of zero would never end
            (&[1, 7, 1], 1),
            (&[1, 7, 3], 1), // beyond the list
            (&[7, 255, 0], 0),
        ] {
            assert_eq!(next(list, 0), Some(Err(place)), "{list:?}");
            assert_eq!(options(list).count(), 0, "{list:?}");
        }
        assert_eq!(options(&[7, 2, 68, 5]).collect::<Vec<_>>(), [&[7, 2]], "those before it are told");
    }
}
