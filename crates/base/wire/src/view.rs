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
