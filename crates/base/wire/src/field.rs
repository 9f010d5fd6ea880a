//! Big-endian fields at byte offsets. All panic past the end: the views above
//! check lengths once, in `check`.

#[inline]
pub(crate) fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&bytes[at..at + N]);
    field
}

#[inline]
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(array_at(bytes, at))
}

#[inline]
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(array_at(bytes, at))
}

#[inline]
pub(crate) fn set_array(bytes: &mut [u8], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
}

#[inline]
pub(crate) fn set_u16(bytes: &mut [u8], at: usize, value: u16) {
    set_array(bytes, at, &value.to_be_bytes());
}

#[inline]
pub(crate) fn set_u32(bytes: &mut [u8], at: usize, value: u32) {
    set_array(bytes, at, &value.to_be_bytes());
}
