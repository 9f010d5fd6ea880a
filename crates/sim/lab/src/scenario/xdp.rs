//! Our AF_XDP port where the kernel's driver can do without a copy: Linux's ixgbe on two
//! 82599 models on one cable. Ours is on one NIC, Linux itself on the other.

use super::{Bench, Served};
use crate::Result;
use crate::vm::{Outcome, Vm};

const SCRIPT: &str = include_str!("xdp.sh");

/// Ping over it, and a stream of numbered packets.
pub fn zero_copy(bench: &Bench, name: &str) -> Result<Outcome> {
    let directory = bench.directory(name)?;
    let sockets = [directory.join("a.sock"), directory.join("b.sock")];
    let paths = sockets.each_ref().map(|path| path.display().to_string());
    let words = ["82599", "--socket", &paths[0], "--socket", &paths[1], "--wire", "pair"];
    let _served = Served::start(bench.ixora(), &words, &directory.join("model.log"))?;
    let vm = Vm::new(&bench.guest, bench.log(name), SCRIPT).served(&sockets[0]).served(&sockets[1]);
    vm.host_program("ixora", bench.ixora())?.run()
}
