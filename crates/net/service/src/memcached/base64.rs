//! Base64 with padding (RFC 4648, section 4), of keys that are binary.

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Appends bytes as text.
pub fn encode(bytes: &[u8], to: &mut Vec<u8>) {
    for three in bytes.chunks(3) {
        let mut bits = 0;
        (0..3).for_each(|n| bits = bits << 8 | u32::from(three.get(n).copied().unwrap_or(0)));
        for n in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * n) & 0x3F) as usize];
            to.push(if n <= three.len() { digit } else { b'=' });
        }
    }
}

/// The bytes of a text; `None` for what is no such text.
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (fours, rest) = text.as_chunks::<4>();
    let padding = text.iter().rev().take_while(|digit| **digit == b'=').count();
    if !rest.is_empty() || padding > 2 {
        return None;
    }
    let digits = &text[..text.len() - padding];
    let value = |digit: &u8| DIGITS.iter().position(|it| it == digit).map(|value| value as u32);
    let mut values = digits.iter().map(value).chain(std::iter::repeat_n(Some(0), padding));
    for _ in fours {
        let mut bits = 0;
        for _ in 0..4 {
            bits = bits << 6 | values.next()??;
        }
        bytes.extend_from_slice(&bits.to_be_bytes()[1..]);
    }
    bytes.truncate(bytes.len() - padding);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_those_of_the_rfc() {
        let pairs = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
        ];
        for (bytes, text) in pairs {
            let mut encoded = vec![];
            encode(bytes.as_bytes(), &mut encoded);
            assert_eq!((encoded, decode(text.as_bytes())), (text.as_bytes().to_vec(), Some(bytes.into())));
        }
        for wrong in ["Z", "Zg=", "Zg", "====", "Z===", "Zm9v!", "Zg==Zg==", "=Zg="] {
            assert_eq!(decode(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
