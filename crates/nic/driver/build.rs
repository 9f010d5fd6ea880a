//! Without the feature `seeded-bugs` nothing is done here. With it, a copy of the
//! driver's source is made in which every bug of `seeded/` can be chosen when the
//! program runs; `src/lib.rs` takes the edited modules from there.

#[cfg(feature = "seeded-bugs")]
#[path = "seeded/weave.rs"]
mod weave;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "seeded-bugs")]
    weave::run();
}
