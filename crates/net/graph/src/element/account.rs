//! How the packets of a class's elements are accounted for, so that of a router received + made =
//! sent + dropped + held + ended can be asked: what is counted of each element is in
//! [`Counters`](crate::run::counters::Counters), what waits in it its class tells.

use crate::element::Element;
use crate::element::handler::typed;

/// Whether all packets are counted that elements of a class make, end, drop or keep.
#[derive(Clone, Copy)]
pub enum Account {
    /// Each packet that comes in goes on, is dropped or is ended, and each other that goes out is
    /// made, all by [`Cx`](crate::Cx), which counts it. What waits when the router ends is freed, and
    /// counted as held ([`Cx::end_waiting`](crate::Cx::end_waiting)).
    Counted,
    /// Likewise, but packets wait in them even when the router has ended: how many.
    Keeps(&'static dyn Waiting),
    /// Not all is counted: a drop may be of no packet, say, or a packet become a part of another.
    Unknown,
}

/// Packets that wait in elements of a class, whatever the type of its elements.
pub trait Waiting: Sync {
    /// Whether an element is of the type that the function is of.
    fn fits(&self, element: &mut dyn Element) -> bool;

    /// How many packets wait in an element and in its copies for other threads, which share them;
    /// 0 of an element of another type.
    fn count(&self, element: &mut dyn Element) -> u64;
}

/// How many packets wait in elements of type `T`.
pub struct WaitingIn<T: 'static>(pub fn(&T) -> usize);

impl<T: 'static> Waiting for WaitingIn<T> {
    fn fits(&self, element: &mut dyn Element) -> bool {
        typed::<T>(element).is_some()
    }

    fn count(&self, element: &mut dyn Element) -> u64 {
        typed::<T>(element).map_or(0, |element| (self.0)(element) as u64)
    }
}

impl Account {
    /// Whether all is counted.
    pub const fn is_complete(&self) -> bool {
        !matches!(self, Account::Unknown)
    }

    /// Whether an element is of the type that the account is of.
    pub fn fits(&self, element: &mut dyn Element) -> bool {
        match self {
            Account::Keeps(waiting) => waiting.fits(element),
            Account::Counted | Account::Unknown => true,
        }
    }
}
