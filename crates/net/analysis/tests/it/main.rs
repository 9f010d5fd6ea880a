//! What elements of traffic analysis do, in one program: it is linked once.
//! `cargo test -p ixora-analysis NAME` runs the tests whose paths contain a name.

mod aggregate;
mod dump;
mod marks;
mod print;
mod summary;
mod text_files;
mod time;

use std::ops::{Deref, DerefMut};

use graph::Registry;

/// The classes of elements in these tests.
fn registry() -> Registry {
    element::registry().with(analysis::registry())
}

/// A router of all classes.
struct Rig(element::fixture::Rig);

impl Rig {
    fn new(config: &str) -> Result<Rig, String> {
        element::fixture::Rig::new(config, &registry(), 1).map(Rig)
    }
}

impl Deref for Rig {
    type Target = element::fixture::Rig;

    fn deref(&self) -> &element::fixture::Rig {
        &self.0
    }
}

impl DerefMut for Rig {
    fn deref_mut(&mut self) -> &mut element::fixture::Rig {
        &mut self.0
    }
}
