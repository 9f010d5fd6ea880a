//! The program and its library, in one test program: it is linked once. `cargo test -p
//! ixora NAME` runs the tests whose paths contain a name, such as `hotswap::`.
//!
//! Programs of their own are `confine`, which traces processes, `hosts`, which makes
//! network namespaces, and `programs`, which has cargo build.

#[path = "../common/mod.rs"]
mod common;

mod bench;
mod click;
mod compile;
mod compile_hostile;
mod counted;
mod demo;
mod docs;
mod docs_commands;
mod ends;
mod full_disk;
mod hotswap;
mod inspect;
mod logging;
mod numbered;
mod overlay;
mod overlay_offload;
mod pf;
mod ports;
mod router;
mod serve;
mod soak;
mod starts;
mod top;
mod vm;
mod wires;
