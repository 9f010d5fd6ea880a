//! Handlers that are written when an element has returned that was at work: those that
//! others wrote meanwhile, and those that it calls itself ([`Cx::call`](crate::Cx::call)).

use crate::run::lane::Lane;

/// A handler to write when an element has returned that is at work.
pub(crate) struct Late {
    /// Whose handler it is; `None` for one that the element at work calls.
    pub(crate) of: Option<usize>,
    /// The element that calls it.
    pub(crate) from: usize,
    pub(crate) handler: String,
    pub(crate) value: String,
}

impl Lane {
    /// Writes a handler whose time has come; what it refuses or complains of is printed.
    pub(crate) fn write_late(&mut self, Late { of, from, handler, value }: Late) {
        let (asker, written) = match of {
            Some(element) => {
                let full = format!("{}.{handler}", self.shared.name(element));
                (full, self.write_here(element, &handler, &value))
            }
            None => {
                let written = self.write(Some(from), &handler, &value);
                (format!("{}: {handler}", self.shared.name(from)), written)
            }
        };
        let told = if of.is_none() { std::mem::take(&mut self.told) } else { vec![] };
        let refused = written.err().map(|refused| refused.to_string()).filter(|text| !text.is_empty());
        for text in told.iter().map(ToString::to_string).chain(refused) {
            self.shared.say(&format!("{asker}: {text}\n"));
        }
    }
}
