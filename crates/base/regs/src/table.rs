//! One entry of a register table, and the macro that makes constants and table
//! from one statement.

/// What software may do with a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read only: writing has no effect.
    RO,
    /// Read and write.
    RW,
    /// Reading clears it; a counter.
    RC,
    /// Writing a one clears that bit.
    W1C,
    /// Write only: what is read means nothing.
    WO,
}

/// A register, or an array of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Register {
    /// Its name in the datasheet.
    pub name: &'static str,
    /// Offset of the first, in bytes.
    pub offset: u32,
    /// Bytes from one to the next; zero for a single register.
    pub stride: u32,
    /// How many; with a second range, how many in the first.
    pub count: usize,
    /// Where the array goes on, and how many are there.
    pub second: Option<(u32, usize)>,
    /// What software may do.
    pub access: Access,
    /// Bits that software must write as zero.
    pub reserved: u32,
    /// The datasheet's section.
    pub section: &'static str,
    /// What it is, in a few words.
    pub what: &'static str,
}

impl Register {
    /// How many registers the array has.
    pub const fn len(&self) -> usize {
        match self.second {
            Some((_, more)) => self.count + more,
            None => self.count,
        }
    }

    /// Whether there are none; there always are.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The offset of register `n` of the array.
    pub const fn at(&self, n: usize) -> u32 {
        match self.second {
            Some((second, _)) if n >= self.count => second + (n - self.count) as u32 * self.stride,
            _ => self.offset + n as u32 * self.stride,
        }
    }
}

/// Makes a type with constants for each register, and a table of all.
///
/// `NAME @ offset, ACCESS, "section", "what" { FIELD = bits; }` is one register;
/// `NAME[count; stride] @ offset` an array; `NAME[n; stride] @ offset | [m] @
/// offset` an array in two ranges. `reserved mask` may follow the access.
/// `#![ids_from = n]` before the first row numbers the rows from `n` on: each gets
/// an `ID` of the type `Id` of the module above, and `NEXT_ID` follows the last.
macro_rules! registers {
    ($(#![ids_from = $first:expr])? $($name:ident $([$count:literal; $stride:literal])? @ $offset:literal $(| [$more:literal] @ $second:literal)?,
       $access:ident $(reserved $reserved:expr)?, $section:literal, $what:literal { $($field:ident = $bits:expr;)* })*) => {
        $(
            #[doc = concat!($what, " (", $section, ").")]
            #[derive(Debug, Clone, Copy)]
            #[allow(non_camel_case_types)] // names are the datasheet's
            pub struct $name;

            #[allow(missing_docs)]
            impl $name {
                pub const REGISTER: $crate::Register = $crate::Register {
                    name: stringify!($name),
                    offset: $offset,
                    stride: 0 $(+ $stride)?,
                    count: registers!(@count $($count)?),
                    second: registers!(@second $($second, $more)?),
                    access: $crate::Access::$access,
                    reserved: 0 $(| $reserved)?,
                    section: $section,
                    what: $what,
                };
                $(pub const $field: u32 = $bits;)*
            }

            registers!(@place $name $offset $($count)?);
        )*

        registers!(@ids [$($first)?] $($name)*);

        pub(super) const TABLE: &[$crate::Register] = &[$($name::REGISTER),*];
    };
    (@ids [] $($name:ident)*) => {};
    (@ids [$first:expr] $($name:ident)*) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)] // names are the datasheet's
        enum Row {
            $($name),*
        }

        $(
            impl $name {
                /// Which register it is: what a `match` is made on.
                pub const ID: super::Id = super::Id($first + Row::$name as u16);
            }
        )*

        /// The number of the next group's first row.
        pub(super) const NEXT_ID: u16 = $first + TABLE.len() as u16;
    };
    (@count) => { 1 };
    (@count $count:literal) => { $count };
    (@second) => { None };
    (@second $second:literal, $more:literal) => { Some(($second, $more)) };
    (@place $name:ident $offset:literal) => {
        impl $name {
            /// Offset in bytes.
            pub const AT: u32 = $offset;
        }
    };
    (@place $name:ident $offset:literal $count:literal) => {
        impl $name {
            /// How many there are.
            pub const COUNT: usize = Self::REGISTER.len();

            /// Offset of register `n` in bytes.
            #[inline]
            pub const fn at(n: usize) -> u32 {
                Self::REGISTER.at(n)
            }
        }
    };
}
pub(crate) use registers;
