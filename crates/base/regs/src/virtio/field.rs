//! One field of a structure that a driver reads and writes in a BAR, and the macro that makes
//! constants and table from one statement. Such fields are as wide as the specification says,
//! and are accessed in that width (virtio 1.3, section 4.1.3.1); the registers of the other
//! chips, all of 32 bits, are rows of [`Register`](crate::Register).

use crate::Access;

/// A field, or an array of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Its name in the specification.
    pub name: &'static str,
    /// Where it is in the structure, in bytes.
    pub offset: u32,
    /// How wide an access to it is, in bytes.
    pub width: u32,
    /// How many accesses reach all of it: two for an address of 64 bits, six for a MAC address.
    pub count: u32,
    /// What the driver may do.
    pub access: Access,
}

impl Field {
    /// Where its part `n` is, in bytes.
    pub const fn at(&self, n: u32) -> u32 {
        self.offset + n * self.width
    }
}

/// The field of a table, and which part of it, that holds the byte at an offset.
pub(super) fn lookup(table: &'static [Field], offset: u32) -> Option<(&'static Field, u32)> {
    let field = table.iter().find(|field| (field.offset..field.at(field.count)).contains(&offset))?;
    Some((field, (offset - field.offset) / field.width))
}

/// Makes a constant for each field, which is its offset, a table of all, and `lookup` in it.
///
/// `NAME "name" @ offset, width, ACCESS, "what";` is one field, of `width` bytes;
/// `NAME[count] …` one of several parts.
macro_rules! fields {
    ($($name:ident $([$count:literal])? $spec:literal @ $offset:literal, $width:literal, $access:ident, $what:literal;)*) => {
        $(
            #[doc = concat!($what, " (width ", $width, $(", ", $count, " of them",)? ", ", stringify!($access), ").")]
            pub const $name: u32 = $offset;
        )*

        /// Every field, in the order of their offsets.
        pub static FIELDS: &[$crate::virtio::Field] = &[$($crate::virtio::Field {
            name: $spec,
            offset: $offset,
            width: $width,
            count: $crate::virtio::field::fields!(@count $($count)?),
            access: $crate::Access::$access,
        }),*];

        /// The field that holds the byte at an offset, and which part of it that is.
        pub fn lookup(offset: u32) -> Option<(&'static $crate::virtio::Field, u32)> {
            $crate::virtio::field::lookup(FIELDS, offset)
        }
    };
    (@count) => { 1 };
    (@count $count:literal) => { $count };
}
pub(crate) use fields;
