//! `IPFieldInfo`: stands for the names of header fields, which are always known.

use graph::{Class, Element};

pub static CLASS: Class = Class {
    name: "IPFieldInfo",
    brief: "stands for the names of IP's header fields",
    doc: "Those names are always known; this class is there for configurations that name it.",
    ports: "0/0",
    phase: Class::INFORMATION,
    example: "IPFieldInfo()",
    see: &["IPNameInfo", "AggregateIP"],
    make: |_, conf| conf.complete().map(|()| Box::new(FieldInfo) as Box<dyn Element>),
    ..Class::BASE
};

struct FieldInfo;

impl Element for FieldInfo {}
