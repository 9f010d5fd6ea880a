//! Elements that say something to Click that need not be said here: accepted, so that
//! configurations that have them run.

use graph::class::rest;
use graph::{Class, Element};

/// Hints for tools and frameworks.
pub static CLASS: Class = Class {
    name: "ClickyInfo",
    brief: "accepted, and of no effect",
    doc: "Tells Click's tools and the frameworks it can be built with something (how a graph is drawn, which \
          classes are compiled specially, how much memory DPDK gets) that has no meaning here.",
    ports: "0/0",
    arguments: &[rest("ANYTHING", "accepted")],
    example: "ClickyInfo(STYLE #file[size=5] { color: red })",
    see: &["AlignmentInfo"],
    make: |setup, conf| {
        let given = conf.rest();
        if setup.class == "DPDKInfo" && !given.is_empty() {
            let why = "packet buffers follow what the configuration holds (--buffers)";
            setup.note(format!("{} not needed: {why}", given.join(", ")));
        }
        Ok(Box::new(Accepted))
    },
    ..Class::BASE
};

/// A `ClickyInfo` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct Accepted;

impl Element for Accepted {}
