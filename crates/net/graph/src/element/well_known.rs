//! Handlers by which elements use one another, whatever their classes are: who calls one and
//! each class that has it take its name from one constant, so that a misspelt one does not
//! compile. Handlers that a configuration names are called by that name
//! ([`Cx::read`](crate::Cx::read), [`Cx::write`](crate::Cx::write)).

use std::fmt;

/// The name of a handler that elements call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandlerName(&'static str);

impl HandlerName {
    /// The name, for a row of a class's handlers and for each call.
    pub const fn new(name: &'static str) -> HandlerName {
        HandlerName(name)
    }

    /// As configurations write it.
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for HandlerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Whether a task waits for a turn: of every element with tasks.
pub const SCHEDULED: HandlerName = HandlerName::new("scheduled");
/// How many packets wait in a queue.
pub const LENGTH: HandlerName = HandlerName::new("length");
/// How many packets a queue holds.
pub const CAPACITY: HandlerName = HandlerName::new("capacity");
/// Where a routing table leads; `-1` where it has no route. The parameter is an address.
pub const LOOKUP: HandlerName = HandlerName::new("lookup");
/// The file that packets come from or go to.
pub const FILENAME: HandlerName = HandlerName::new("filename");
/// Where in a file the last packet began.
pub const PACKET_FILEPOS: HandlerName = HandlerName::new("packet_filepos");
/// What a file's packets begin with.
pub const ENCAP: HandlerName = HandlerName::new("encap");
