//! Counters by name, as all models keep them.

/// Declares a struct of counters that knows its fields' names.
macro_rules! counters {
    ($(#[doc = $of:literal])* $struct:ident { $($(#[doc = $what:literal])* $name:ident,)* }) => {
        $(#[doc = $of])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct $struct {
            $($(#[doc = $what])* pub $name: u64,)*
        }

        impl $struct {
            /// All of them, with their names.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),*].into_iter()
            }
        }
    };
}
pub(crate) use counters;

/// Declares `Drops`: packets lost, by names that begin with the direction.
macro_rules! drops {
    ($($fields:tt)*) => {
        $crate::counters::counters! {
            /// Packets lost, by why.
            Drops { $($fields)* }
        }

        impl Drops {
            /// All that was lost on the way to the host.
            pub fn rx(&self) -> u64 {
                self.iter().filter(|(name, _)| name.starts_with("rx_")).map(|(_, count)| count).sum()
            }

            /// All that was lost on the way to the wire.
            pub fn tx(&self) -> u64 {
                self.iter().filter(|(name, _)| name.starts_with("tx_")).map(|(_, count)| count).sum()
            }
        }
    };
}
pub(crate) use drops;
