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
/// With `#![ids]` before the first row each register gets an `ID` of the type `Id` that
/// [`register_map`] makes in the module above.
macro_rules! registers {
    ($(#![$ids:ident])? $($name:ident $([$count:literal; $stride:literal])? @ $offset:literal $(| [$more:literal] @ $second:literal)?,
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

            // Whoever sets a field keeps the reserved bits zero.
            const _: () = {
                $(assert!(
                    $crate::table::is_free(&$name::REGISTER, stringify!($field), $name::$field),
                    concat!(stringify!($name), "::", stringify!($field), " is reserved")
                );)*
            };
        )*

        registers!(@ids [$($ids)?] $($name)*);

        pub(super) const TABLE: &[$crate::Register] = &[$($name::REGISTER),*];
    };
    (@ids [] $($name:ident)*) => {};
    (@ids [ids] $($name:ident)*) => {
        $(
            impl $name {
                /// Which register it is: what a `match` is made on.
                pub const ID: super::Id = super::Id::of(&$name::REGISTER);
            }
        )*
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

/// Makes the map of a chip's register window from the tables of its modules: `TABLE` of
/// all registers, `Id` for a row of it, and `lookup` by offset.
///
/// An `Id` is the row's place in the table, found by the register itself: nothing is
/// numbered by hand, and a row can be added anywhere.
macro_rules! register_map {
    ($bar:ident: $($group:ident),*) => {
        const LEN: usize = 0 $(+ $group::TABLE.len())*;

        static ALL: [$crate::Register; LEN] = $crate::table::joined(&[$($group::TABLE),*]);

        /// All registers of the map, group by group in the order of its statement.
        pub static TABLE: &[$crate::Register] = &ALL;

        /// Which register: a row of the [`TABLE`]. `CTRL::ID` is one to match on; what the
        /// table says of it is reached by `*`.
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        pub struct Id(u16);

        impl Id {
            /// How many there are.
            pub const COUNT: usize = LEN;

            /// The row of a register, which must be in the table.
            const fn of(register: &$crate::Register) -> Id {
                Id($crate::table::row_of(&[$($group::TABLE),*], register))
            }

            /// Its number, below [`Id::COUNT`].
            pub const fn index(self) -> usize {
                self.0 as usize
            }

            /// Its row of the [`TABLE`].
            pub const fn register(self) -> &'static $crate::Register {
                &ALL[self.0 as usize]
            }
        }

        impl std::ops::Deref for Id {
            type Target = $crate::Register;

            fn deref(&self) -> &$crate::Register {
                self.register()
            }
        }

        impl std::fmt::Debug for Id {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name)
            }
        }

        /// The register at a byte offset, and its index in the array. Where two share a
        /// place the first of the table is meant.
        pub fn lookup(offset: u32) -> Option<(Id, usize)> {
            static BY_OFFSET: std::sync::LazyLock<$crate::table::Offsets> =
                std::sync::LazyLock::new(|| $crate::table::by_offset(TABLE, $bar));
            let (number, n) = *BY_OFFSET.get(offset as usize / 4)?;
            Some((Id(number.checked_sub(1)?), n.into()))
        }
    };
}
pub(crate) use register_map;

/// The rows of some tables, one table after the other. `N` is their number.
pub(crate) const fn joined<const N: usize>(tables: &[&[Register]]) -> [Register; N] {
    let mut all = [tables[0][0]; N];
    let (mut table, mut row, mut n) = (0, 0, 0);
    while n < N {
        if row == tables[table].len() {
            (table, row) = (table + 1, 0);
        } else {
            all[n] = tables[table][row];
            (row, n) = (row + 1, n + 1);
        }
    }
    all
}

/// The row of a register in the tables joined: the one with its offset and name.
///
/// # Panics
/// When it has none, which the compiler reports.
pub(crate) const fn row_of(tables: &[&[Register]], register: &Register) -> u16 {
    let (mut table, mut row, mut n) = (0, 0, 0);
    while table < tables.len() {
        if row == tables[table].len() {
            (table, row) = (table + 1, 0);
            continue;
        }
        let other = &tables[table][row];
        if other.offset == register.offset && same(other.name.as_bytes(), register.name.as_bytes()) {
            return n;
        }
        (row, n) = (row + 1, n + 1);
    }
    panic!("the register is in no table of the map")
}

/// Whether a field has no reserved bits; one that tells how far another is shifted has no bits.
pub(crate) const fn is_free(register: &Register, field: &str, bits: u32) -> bool {
    let is_shift = matches!(field.as_bytes(), [.., b'_', b'S', b'H', b'I', b'F', b'T']);
    is_shift || bits & register.reserved == 0
}

const fn same(one: &[u8], other: &[u8]) -> bool {
    let mut n = 0;
    while n < one.len() && n < other.len() && one[n] == other[n] {
        n += 1;
    }
    n == one.len() && n == other.len()
}

/// For each word of a register window the number of its register plus one, and its index
/// in the array; zeros where there is none.
pub(crate) type Offsets = Box<[(u16, u16)]>;

/// The [`Offsets`] of a window of `bytes`.
pub(crate) fn by_offset(table: &[Register], bytes: u32) -> Offsets {
    let mut map = vec![(0, 0); bytes as usize / 4].into_boxed_slice();
    for (row, register) in table.iter().enumerate() {
        for n in 0..register.len() {
            let word = &mut map[register.at(n) as usize / 4];
            if word.0 == 0 {
                *word = (row as u16 + 1, n as u16);
            }
        }
    }
    map
}
