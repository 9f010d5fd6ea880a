//! Packages from a real registry, which the lab fetches in any case;
//! `IXORA_OFFLINE` leaves these tests out.

use lab::packages::{Packages, Suite};

fn offline() -> bool {
    std::env::var_os("IXORA_OFFLINE").is_some()
}

#[test]
fn programs_of_another_debian_run_beside_the_system() {
    if offline() {
        return;
    }
    let packages = Packages::open().expect("a cache");
    let qemu = packages.tree(&["qemu-system-x86"], Suite::TRIXIE_BACKPORTS).expect("fetched");
    let output = qemu.command("usr/bin/qemu-system-x86_64").expect("there").arg("-version").output();
    let output = output.expect("started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_package_that_is_not_there_is_named_with_its_suite() {
    if offline() {
        return;
    }
    let home = tempfile::tempdir().expect("a directory");
    let packages = Packages::at(home.path().to_owned());
    let error = packages.tree(&["no-such-package-at-all"], Suite::BOOKWORM).expect_err("no such package");
    let said = error.to_string();
    assert!(said.contains("no-such-package-at-all") && said.contains("bookworm"), "{said}");
}
