//! Arguments that name other elements.

use graph::{Class, Setup};

/// What an argument must name.
pub(crate) struct Wanted {
    /// The argument's name.
    pub(crate) key: &'static str,
    /// The class that errors name.
    pub(crate) class: &'static str,
}

impl Wanted {
    /// How many inputs the element has that an argument names, if it is of a class that fits.
    pub(crate) fn check(
        &self,
        setup: &Setup<'_>,
        name: &str,
        fits: impl Fn(&Class) -> bool,
    ) -> Result<usize, String> {
        match setup.find(name) {
            None => Err(format!("{}: does not name an element", self.key)),
            Some(element) if !fits(element.kind) => Err(self.mismatch()),
            Some(element) => Ok(element.pull_inputs.len()),
        }
    }

    /// It names an element of another class.
    pub(crate) fn mismatch(&self) -> String {
        format!("{}: element type mismatch, expected {}", self.key, self.class)
    }
}
