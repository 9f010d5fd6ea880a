//! Packages from a real registry; left out where there is none to reach.
//! Run with `cargo test -p ixora-lab -- --ignored`.

use lab::packages::{Packages, Suite};

#[test]
#[ignore = "downloads some hundred megabytes"]
fn programs_of_another_debian_run_beside_the_system() {
    let packages = Packages::open().expect("a cache");
    let qemu = packages.tree(&["qemu-system-x86"], Suite::TRIXIE_BACKPORTS).expect("fetched");
    let output = qemu.command("usr/bin/qemu-system-x86_64").expect("there").arg("-version").output();
    let output = output.expect("started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let dpdk = packages.tree(&["dpdk-dev", "librte-net-ixgbe23"], Suite::BOOKWORM).expect("fetched");
    let output = dpdk.command("usr/bin/dpdk-testpmd").expect("there").arg("--version").output();
    let said = output.expect("started");
    let said = [said.stdout, said.stderr].concat();
    assert!(String::from_utf8_lossy(&said).contains("EAL"), "{}", String::from_utf8_lossy(&said));
}

#[test]
#[ignore = "asks a package registry"]
fn a_package_that_is_not_there_is_named_with_its_suite() {
    let home = tempfile::tempdir().expect("a directory");
    let packages = Packages::at(home.path().to_owned());
    let error = packages.tree(&["no-such-package-at-all"], Suite::BOOKWORM).expect_err("no such package");
    let said = error.to_string();
    assert!(said.contains("no-such-package-at-all") && said.contains("bookworm"), "{said}");
}
