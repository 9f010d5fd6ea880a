//! Looking at other elements: how full the queues behind one are, say.

use crate::element::Refused;
use crate::element::well_known::HandlerName;
use crate::run::cx::Cx;

impl Cx<'_> {
    /// Reads a handler of the copy that this lane has of an element: quick enough for
    /// every batch, since no other thread is asked. `None` where it has none, or the
    /// element is at work.
    pub fn read_here(&mut self, element: &str, handler: HandlerName) -> Option<String> {
        let index = self.find(element)?;
        self.lane.read_here(index, handler.as_str(), "").ok()
    }

    /// Reads a handler of another element.
    ///
    /// # Errors
    /// When there is none, or it refuses.
    pub fn read_of(
        &mut self,
        element: &str,
        handler: HandlerName,
        parameter: &str,
    ) -> Result<String, Refused> {
        self.read(&format!("{element}.{handler}"), parameter)
    }

    /// Writes a handler of another element.
    ///
    /// # Errors
    /// When there is none, or it refuses.
    pub fn write_of(&mut self, element: &str, handler: HandlerName, value: &str) -> Result<(), Refused> {
        self.write(&format!("{element}.{handler}"), value)
    }
}
