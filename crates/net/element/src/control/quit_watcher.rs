//! `QuitWatcher`: ends a router whose tasks have nothing left to do.

use graph::class::rest;
use graph::well_known::SCHEDULED;
use graph::{Class, Cx, Element, Named, Refused, TimerId};

/// How often it looks.
const INTERVAL_NS: i64 = 10_000_000;

pub static CLASS: Class = Class {
    name: "QuitWatcher",
    brief: "stops the router when an element's task waits for nothing more",
    doc: "Looks every 10 ms whether the tasks of all ELEMENTs are scheduled, and stops the router as soon as \
          one is not.",
    ports: "0/0",
    arguments: &[rest("ELEMENT", "an element with a task")],
    phase: Class::LATE,
    example: "QuitWatcher(src)",
    see: &["DriverManager", "Script"],
    make: |_, conf| Ok(Box::new(QuitWatcher { elements: conf.rest() })),
    ..Class::BASE
};

/// A `QuitWatcher` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct QuitWatcher {
    elements: Vec<String>,
}

impl Element for QuitWatcher {
    fn check_names(&self, named: &Named<'_>) -> Result<(), String> {
        let refused = |name: &String| match named.handler_of_element(name, SCHEDULED) {
            Ok(handler) if handler.read => None,
            Ok(_) => Some(Refused::NotReadable(format!("{name}.{SCHEDULED}")).to_string()),
            Err(Refused::NoHandler(handler)) => Some(Refused::NotReadable(handler).to_string()),
            Err(refused) => Some(refused.to_string()),
        };
        let wrong: Vec<String> = self.elements.iter().filter_map(refused).collect();
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
    }

    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        // Which elements have tasks is known for certain when they are initialized.
        self.check_names(&cx.named())?;
        let timer = cx.new_timer();
        cx.set_timer_after(timer, INTERVAL_NS);
        Ok(())
    }

    fn fire(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        for element in &self.elements {
            let scheduled = cx.read_of(element, SCHEDULED, "").unwrap_or_default();
            if scheduled.is_empty() || scheduled.starts_with('f') {
                return cx.stop();
            }
        }
        cx.set_timer_after(timer, INTERVAL_NS);
    }
}
