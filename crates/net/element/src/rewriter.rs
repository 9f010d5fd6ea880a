//! Address translation: flows and their mappings.
//!
//! `flows` keeps them and bounds them, `table` finds them, `order` says which expires first,
//! `hosts` counts those of each host, `spec` and `pattern` say
//! what becomes of new ones, `kind` what tells the rewriters apart, `apply` changes packets.

mod apply;
mod classes;
mod flow;
mod flow_id;
mod flows;
mod ftp;
mod hosts;
mod icmp;
mod kind;
mod mapper;
mod order;
mod pattern;
#[cfg(test)]
mod plain;
#[expect(clippy::module_inception, reason = "the element among its parts")]
mod rewriter;
mod ring;
mod sequence;
mod spec;
mod table;
mod taken;

use graph::Class;

/// The classes of this folder.
pub(crate) const CLASSES: &[&Class] = &[
    &classes::ADDRESS,
    &classes::IP,
    &classes::PAIR,
    &classes::PING,
    &classes::TCP,
    &classes::UDP,
    &ftp::CLASS,
    &icmp::CLASS,
    &mapper::HASH,
    &mapper::PATTERNS,
    &mapper::ROUND_ROBIN,
];

/// Other names of them.
pub(crate) const ALIASES: &[(&str, &str)] = &[];
