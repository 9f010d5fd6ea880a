//! Numbers and words in the text of protocols.

/// The words of a line.
pub fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    line.split(|byte| *byte == b' ').filter(|word| !word.is_empty())
}

/// A number of digits only.
pub fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |sum, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 { None } else { sum.checked_mul(10)?.checked_add(digit.into()) }
    })
}

/// A number of digits, in front of which a plus may stand, as C's `strtoull` takes it.
pub fn unsigned(text: &[u8]) -> Option<u64> {
    number(text).or_else(|| number(text.strip_prefix(b"+")?))
}

/// A number that may be below zero, or have a plus in front of it.
pub fn signed(text: &[u8]) -> Option<i64> {
    match text.strip_prefix(b"-") {
        Some(digits) => i64::try_from(number(digits)?).ok().map(|value| -value),
        None => i64::try_from(unsigned(text)?).ok(),
    }
}

/// Appends a number in decimal.
pub fn push_number(text: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    text.extend_from_slice(&digits[at..]);
}

/// The number that a value is: decimal, as 64 bits, up to a blank. As memcached has it, blanks may
/// stand in front of it and anything behind the first one.
pub fn value_number(value: &[u8]) -> Option<u64> {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let value = value.trim_ascii_start();
    let end = value.iter().position(is_blank).unwrap_or(value.len());
    unsigned(&value[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_digits_and_fit_into_64_bits() {
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        for wrong in [&b""[..], b"18446744073709551616", b"-1", b"+1", b"1a", b" 1"] {
            assert_eq!(number(wrong), None, "{wrong:?}");
        }
        assert_eq!(
            (signed(b"-5"), signed(b"7"), signed(b"--1"), signed(b"-")),
            (Some(-5), Some(7), None, None)
        );
        assert_eq!(
            (signed(b"+7"), signed(b"-+7"), signed(b"++7"), signed(b"+")),
            (Some(7), None, None, None)
        );
        assert_eq!((unsigned(b"+7"), unsigned(b"7"), unsigned(b"+-7")), (Some(7), Some(7), None));
        assert_eq!(
            (value_number(b"12  "), value_number(b"  "), value_number(b" 1 2"), value_number(b"1x 2")),
            (Some(12), None, Some(1), None)
        );
        let mut text = vec![];
        [0, 9, 10, u64::MAX].into_iter().for_each(|value| push_number(&mut text, value));
        assert_eq!(text, b"091018446744073709551615");
    }
}
