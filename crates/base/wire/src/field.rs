//! Big-endian fields at byte offsets. All panic past the end: the views above
//! check lengths once, in `check`.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::MacAddress;
use crate::ethernet::EtherType;
use crate::ip::Protocol;
use crate::tcp::Flags;

#[inline(always)]
pub(crate) fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    *bytes[at..].first_chunk().expect("the field is within the header")
}

#[inline(always)]
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(array_at(bytes, at))
}

#[inline(always)]
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(array_at(bytes, at))
}

#[inline(always)]
pub(crate) fn set_array<const N: usize>(bytes: &mut [u8], at: usize, field: [u8; N]) {
    *bytes[at..].first_chunk_mut().expect("the field is within the header") = field;
}

pub(crate) fn set_slice(bytes: &mut [u8], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
}

#[inline(always)]
pub(crate) fn set_u16(bytes: &mut [u8], at: usize, value: u16) {
    set_array(bytes, at, value.to_be_bytes());
}

/// What a field of a header holds, and how it stands there: big-endian.
pub(crate) trait Field: Sized {
    /// Bytes of the field.
    const LEN: usize;

    fn read(bytes: &[u8], at: usize) -> Self;
    fn write(self, bytes: &mut [u8], at: usize);
}

impl<const N: usize> Field for [u8; N] {
    const LEN: usize = N;

    #[inline(always)]
    fn read(bytes: &[u8], at: usize) -> [u8; N] {
        array_at(bytes, at)
    }

    #[inline(always)]
    fn write(self, bytes: &mut [u8], at: usize) {
        set_array(bytes, at, self);
    }
}

/// A field that stands as an array of bytes.
macro_rules! fields {
    ($($field:ty: $len:literal, |$bytes:ident| $read:expr, |$value:ident| $write:expr;)*) => {$(
        impl Field for $field {
            const LEN: usize = $len;

            #[inline(always)]
            fn read(bytes: &[u8], at: usize) -> $field {
                let $bytes: [u8; $len] = array_at(bytes, at);
                $read
            }

            #[inline(always)]
            fn write(self, bytes: &mut [u8], at: usize) {
                let $value = self;
                let array: [u8; $len] = $write;
                set_array(bytes, at, array);
            }
        }
    )*};
}

fields! {
    u8: 1, |bytes| bytes[0], |value| [value];
    u16: 2, |bytes| u16::from_be_bytes(bytes), |value| value.to_be_bytes();
    u32: 4, |bytes| u32::from_be_bytes(bytes), |value| value.to_be_bytes();
    Ipv4Addr: 4, |bytes| bytes.into(), |value| value.octets();
    Ipv6Addr: 16, |bytes| bytes.into(), |value| value.octets();
    MacAddress: 6, |bytes| MacAddress(bytes), |value| value.0;
    EtherType: 2, |bytes| EtherType(u16::from_be_bytes(bytes)), |value| value.0.to_be_bytes();
    Protocol: 1, |bytes| Protocol(bytes[0]), |value| [value.0];
    Flags: 1, |bytes| Flags(bytes[0]), |value| [value.0];
}
