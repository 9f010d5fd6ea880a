//! Mistakes in a driver of the XL710's virtual functions. Sections are chapters of Intel's document 332464;
//! those that begin with AVF, of document 331954.

mod mailbox;
mod queues;

use super::{Bug, Linter, edit};
use Linter::Reports;

pub(super) const BUGS: &[&[Bug]] = &[mailbox::BUGS, queues::BUGS];
