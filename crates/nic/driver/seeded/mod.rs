//! Seeded bugs: mistakes that a student or a careless engineer makes in a driver
//! of the 82599, the XL710, the X722 or virtual functions of these, each with the linter's rule and the test that must report it.
//!
//! They are data beside the driver's source, which knows nothing of them. With
//! the feature `seeded-bugs`, which no release has, `build.rs` compiles a copy of
//! the source in which each edited place asks at run time whether its bug is
//! chosen, so that one binary has them all; `chosen.rs` reads the choice.
//! `cargo xtask mutants` runs them. Section numbers are those of the 82599 10 GbE
//! Controller Datasheet, revision 3.4, unless another is named.

mod fixed;
mod i40e;
mod iavf;
mod interrupt;
mod ixgbevf;
mod offload;
mod open;
mod queues;
mod receive;
mod receiver;
mod transmit;

/// A mistake in a driver, and what must report it.
pub struct Bug {
    /// By which it is chosen: lower case and dashes.
    pub name: &'static str,
    /// What the driver does wrong, in a sentence.
    pub about: &'static str,
    /// What the linter says of it.
    pub linter: Linter,
    /// The test that fails, as `file::function` of `crates/sim/testbed/tests/it`.
    pub test: &'static str,
    /// Whether `ixora demo` has to end with an error: it comes by the bug (it has one
    /// queue and no offloads), and its model can see it where queues' registers are
    /// mapped, so that nothing tells a read from none.
    pub demo: bool,
    /// How the source becomes wrong.
    pub edits: &'static [Edit],
}

/// What the linter can say of a bug.
pub enum Linter {
    /// It reports this rule, with this section of the datasheet.
    Reports(&'static str, &'static str),
    /// It sees nothing, for this reason.
    Blind(&'static str),
}

/// A place in the source, and what stands there instead.
pub struct Edit {
    /// The file, from `src` on.
    pub file: &'static str,
    /// An expression or whole statements; it must stand there once.
    pub from: &'static str,
    /// The same with the mistake.
    pub to: &'static str,
}

use Linter::{Blind, Reports};

const fn edit(file: &'static str, from: &'static str, to: &'static str) -> Edit {
    Edit { file, from, to }
}

/// The drivers of a chip, and their bugs.
pub struct Chip {
    /// The chip's name, by which its bugs are chosen.
    pub name: &'static str,
    /// What drives it through all that it can do, a file of `crates/sim/testbed/tests/it`.
    pub probe: &'static str,
    /// Its model, as `ixora demo` knows it, if it does.
    pub model: Option<&'static str>,
    /// In the order in which a driver's author meets the places.
    bugs: &'static [&'static [Bug]],
}

impl Chip {
    /// All bugs of the chip's drivers.
    pub fn bugs(&self) -> impl Iterator<Item = &'static Bug> {
        self.bugs.iter().copied().flatten()
    }
}

/// All chips whose drivers have seeded bugs.
pub const CHIPS: &[Chip] = &[
    Chip {
        name: "82599",
        probe: "ixgbe_probe",
        model: Some("82599"),
        bugs: &[
            open::BUGS,
            receiver::BUGS,
            queues::BUGS,
            interrupt::BUGS,
            receive::BUGS,
            transmit::BUGS,
            offload::BUGS,
            fixed::BUGS,
        ],
    },
    Chip { name: "XL710", probe: "i40e_probe", model: Some("xl710"), bugs: i40e::BUGS },
    Chip { name: "X722", probe: "i40e_x722_probe", model: None, bugs: i40e::X722 },
    Chip { name: "XL710's virtual functions", probe: "i40e_vf_probe", model: None, bugs: iavf::BUGS },
    Chip { name: "82599's virtual functions", probe: "ixgbe_vf_probe", model: None, bugs: &[ixgbevf::BUGS] },
];
