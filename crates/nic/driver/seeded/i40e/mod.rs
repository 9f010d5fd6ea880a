//! Mistakes in a driver of the XL710, and of the X722. Sections are chapters of Intel's document 332464.

mod contexts;
mod descriptors;
mod offload;
mod open;
mod queues;
mod x722;

use super::{Bug, Linter, edit};
use Linter::{Blind, Reports};

pub(super) const BUGS: &[&[Bug]] =
    &[open::BUGS, contexts::BUGS, queues::BUGS, descriptors::BUGS, offload::BUGS];

pub(super) const X722: &[&[Bug]] = &[x722::BUGS];
