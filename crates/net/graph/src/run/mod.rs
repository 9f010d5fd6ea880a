//! A running router: a lane for each thread, and what the lanes share.

pub mod buffers;
pub mod counters;
pub mod cx;
pub mod fused;
pub mod handlers;
pub mod lane;
mod late;
mod locked;
mod mailbox;
mod main_loop;
pub mod options;
mod output_batches;
mod reconfigure;
pub mod router;
pub mod shared;
pub mod signal;
mod simulation;
mod swap;
pub mod task;
pub mod timer;
pub mod totals;
pub mod watch;
