//! Passes the target triple on, which cargo tells build scripts only.

fn main() {
    let target = std::env::var("TARGET").expect("cargo sets TARGET for build scripts");
    println!("cargo::rustc-env=XTASK_TARGET={target}");
    println!("cargo::rerun-if-changed=build.rs");
}
