//! Sequences of classes whose elements become programs when a router is loaded.

use crate::element::Class;
use crate::run::fused::Program;
use crate::run::fused::chain::Links;

/// A sequence of classes whose elements become a program, when a configuration has at least
/// two of them one behind the other in this order.
pub struct Chain {
    /// The classes, each of which may be left out. The first of those that are there is none
    /// that stays outside ([`Guard`](crate::run::fused::chain::Guard)).
    pub classes: &'static [&'static Class],
    /// Makes the program: see [`program`](crate::run::fused::chain::program).
    pub make: fn(&mut Links) -> Option<Box<dyn Program>>,
}

impl std::fmt::Debug for Chain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Chain").field(&self.classes).finish()
    }
}
