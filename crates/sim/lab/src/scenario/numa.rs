//! A router's buffers on a machine with two NUMA nodes: each thread's are on the node of
//! the core that it is bound to.

use super::Bench;
use crate::Result;
use crate::vm::{Outcome, Vm};

const SCRIPT: &str = include_str!("numa.sh");

/// Boots with a node for each processor.
pub fn run(bench: &Bench, name: &str) -> Result<Outcome> {
    bench.directory(name)?;
    let mut vm = Vm::new(&bench.guest, bench.log(name), SCRIPT);
    vm.nodes = true;
    vm.host_program("ixora", bench.ixora())?.run()
}
