//! What all views over bytes have in common: how they are made and unmade.

/// Declares a view over bytes in place. The module has a function
/// `check_bytes(&[u8]) -> Result<()>` that says whether all accessors are safe.
macro_rules! view {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name<T: AsRef<[u8]>> {
            bytes: T,
        }

        impl<T: AsRef<[u8]>> $name<T> {
            /// A view that trusts the bytes: for those about to be emitted into.
            pub const fn new_unchecked(bytes: T) -> Self {
                Self { bytes }
            }

            /// A view none of whose accessors panics, or why there is none.
            pub fn new_checked(bytes: T) -> $crate::Result<Self> {
                check_bytes(bytes.as_ref())?;
                Ok(Self { bytes })
            }

            /// Whether the bytes are long enough and agree with themselves.
            pub fn check(&self) -> $crate::Result<()> {
                check_bytes(self.bytes.as_ref())
            }

            /// The bytes again.
            pub fn into_inner(self) -> T {
                self.bytes
            }
        }

        impl<T: AsRef<[u8]>> AsRef<[u8]> for $name<T> {
            fn as_ref(&self) -> &[u8] {
                self.bytes.as_ref()
            }
        }
    };
}

/// Declares a view over a header of a fixed length: an array of so many bytes, or a
/// reference to one. No accessor can fail or panic. The `impl` blocks of the module
/// read and write fields with `get` and `set`; a field outside of the array does
/// not compile.
macro_rules! header {
    ($(#[$doc:meta])* $name:ident[$len:expr]) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name<T> {
            bytes: T,
        }

        impl<T: std::borrow::Borrow<[u8; $len]>> $name<T> {
            /// The view over these bytes.
            #[inline(always)]
            pub const fn new(bytes: T) -> Self {
                Self { bytes }
            }

            /// The bytes again.
            #[inline(always)]
            pub fn into_inner(self) -> T {
                self.bytes
            }

            #[allow(dead_code, reason = "some headers are only written")]
            #[inline(always)]
            fn get<const AT: usize, F: $crate::field::Field>(&self) -> F {
                const { assert!(AT + F::LEN <= $len) }
                F::read(self.bytes.borrow(), AT)
            }
        }

        impl<T: std::borrow::BorrowMut<[u8; $len]>> $name<T> {
            #[allow(dead_code, reason = "some headers are only read")]
            #[inline(always)]
            fn set<const AT: usize, F: $crate::field::Field>(&mut self, value: F) {
                const { assert!(AT + F::LEN <= $len) }
                value.write(self.bytes.borrow_mut(), AT);
            }
        }

        impl $name<[u8; $len]> {
            /// A header of zeros.
            #[inline(always)]
            pub const fn zeroed() -> Self {
                Self { bytes: [0; $len] }
            }
        }

        impl<'a> $name<&'a [u8; $len]> {
            /// The header at the start of `bytes`; `None` when they end before it.
            #[inline(always)]
            pub fn of(bytes: &'a [u8]) -> Option<Self> {
                Some(Self { bytes: bytes.first_chunk()? })
            }
        }

        impl<'a> $name<&'a mut [u8; $len]> {
            /// The header at the start of `bytes`, to change it.
            #[inline(always)]
            pub fn of_mut(bytes: &'a mut [u8]) -> Option<Self> {
                Some(Self { bytes: bytes.first_chunk_mut()? })
            }
        }
    };
}

/// Lets views over headers that begin as TCP's and UDP's do tell the ports.
macro_rules! ports {
    ($($name:ident[$len:expr]),+) => {$(
        impl<T: std::borrow::Borrow<[u8; $len]>> $name<T> {
            /// From which port.
            #[inline(always)]
            pub fn src_port(&self) -> u16 {
                self.get::<{ offset::SRC_PORT }, _>()
            }

            /// To which port.
            #[inline(always)]
            pub fn dst_port(&self) -> u16 {
                self.get::<{ offset::DST_PORT }, _>()
            }
        }
    )+};
}

/// Lets a view over a slice have the accessors of its header's view. They panic when
/// the slice is shorter than the header.
macro_rules! forward {
    ($view:ident to $header:ident[$len:expr]:
     $($get:ident -> $gets:ty),*; $($set:ident($sets:ty)),* $(,)?) => {
        impl<T: AsRef<[u8]>> $view<T> {
            /// The fixed header. Panics when the bytes end before it.
            #[inline]
            pub fn header(&self) -> $header<&[u8; $len]> {
                $header::of(self.bytes.as_ref()).expect("the bytes hold a whole header")
            }

            $(
                #[doc = concat!("As [`", stringify!($header), "::", stringify!($get), "`].")]
                #[inline]
                pub fn $get(&self) -> $gets {
                    self.header().$get()
                }
            )*
        }

        impl<T: AsRef<[u8]> + AsMut<[u8]>> $view<T> {
            /// The fixed header, to change it. Panics when the bytes end before it.
            #[inline]
            pub fn header_mut(&mut self) -> $header<&mut [u8; $len]> {
                $header::of_mut(self.bytes.as_mut()).expect("the bytes hold a whole header")
            }

            $(
                #[doc = concat!("As [`", stringify!($header), "::", stringify!($set), "`].")]
                #[inline]
                pub fn $set(&mut self, value: $sets) {
                    self.header_mut().$set(value);
                }
            )*
        }
    };
}
