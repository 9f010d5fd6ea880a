//! `cargo xtask peers`: our drivers beside DPDK's, in one run each. Root, for the
//! physical addresses of DPDK's memory.

use lab::packages::{DPDK, Packages, Suite};

use crate::step::{Failure, cargo, run};

/// Fetches DPDK and measures; `arguments` go to `ixora bench peers`.
pub fn measure(arguments: &[String]) -> Result<(), Failure> {
    let packages = Packages::open().map_err(|error| error.to_string())?;
    println!("==> DPDK, in {}", packages.cache().display());
    let dpdk = packages.tree(DPDK, Suite::BOOKWORM).map_err(|e| e.to_string())?;
    for bench in ["peers", "virtio"] {
        let mut measure = cargo(&["run", "--release", "--locked", "-p", "ixora", "--", "bench", bench]);
        measure.arg("--dpdk").arg(dpdk.root()).args(arguments);
        run(&format!("bench {bench}"), &mut measure)?;
    }
    Ok(())
}
