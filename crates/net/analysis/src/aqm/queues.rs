//! The queues whose length, or whose packets' time in them, a queue management looks at.

use graph::class::Class;
use graph::lang::args;
use graph::value::Raw;
use graph::well_known::{CAPACITY, HandlerName, LENGTH};
use graph::{Cx, Named};

/// Queues by their names.
#[derive(Debug)]
pub struct Queues(Vec<String>);

impl Queues {
    /// Those of the argument QUEUES, or none yet.
    pub fn named(text: Option<Raw>) -> Queues {
        Queues(text.iter().flat_map(|raw| args::words(&raw.0)).map(String::from).collect())
    }

    /// Has them be the nearest ones behind the element, or before it, where none were named.
    ///
    /// # Errors
    /// When there is none, or what was named is no queue.
    pub fn find(&mut self, named: &Named<'_>, behind: bool) -> Result<(), String> {
        self.0 = self.found(named, behind)?;
        Ok(())
    }

    /// Their names: those that were named, or the nearest.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub fn found(&self, named: &Named<'_>, behind: bool) -> Result<Vec<String>, String> {
        let reads =
            |class: &Class, name: HandlerName| class.handlers().any(|h| h.name == name.as_str() && h.read);
        let queues = match self.0.is_empty() {
            true => named.nearest(0, behind, |class| reads(class, LENGTH) && reads(class, CAPACITY)),
            false => self.0.clone(),
        };
        if queues.is_empty() {
            return Err("no nearby Queues".into());
        }
        for queue in &queues {
            if named.find(queue).is_none() {
                return Err(format!("no element named '{queue}'"));
            }
            if named.handler_of_element(queue, LENGTH).is_err() {
                return Err(format!("'{queue}' is not a Storage element"));
            }
        }
        Ok(queues)
    }

    /// Packets in them.
    pub fn length(&self, cx: &mut Cx<'_>) -> u64 {
        let mut whole = 0;
        for queue in &self.0 {
            let here = cx.read_here(queue, LENGTH);
            let length = here.or_else(|| cx.read_of(queue, LENGTH, "").ok());
            whole += length.and_then(|text| text.trim().parse::<u64>().ok()).unwrap_or(0);
        }
        whole
    }

    /// Their names, a line each.
    pub fn lines(&self) -> String {
        self.0.iter().map(|queue| format!("{queue}\n")).collect()
    }
}
