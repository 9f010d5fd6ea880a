//! Click's language, as its manual click(5) and its practice have it.
//!
//! [`read`] takes sources to a [`Flat`] graph of elements and connections, or to all
//! [`Problems`] at once, each with file, line, column, what was expected and the name
//! that was probably meant. The way: [`lexer`], [`parser`] (to a [`tree`]), and
//! [`flatten`], where names, classes, variables and compound elements are resolved.
//! [`args`] takes configuration strings apart, [`variable`] replaces variables in
//! them, [`archive`] finds the configuration in an archive of Click's tools.
//!
//! Where this differs from Click's own program, which has been compared with it on
//! thousands of random configurations:
//!
//! * A configuration string that begins with a variable whose value is empty has it
//!   replaced; Click leaves the whole string as it is.
//! * `elementclass X { ... || ... }` adds what is written; Click adds an overload
//!   without parameters, ports or elements as well.
//! * A comma that no element follows is a warning or an error; Click drops what comes
//!   next in silence.
//! * A name that nobody declared is complained of once and then taken for an element.
//! * Braces and parentheses may be 128 deep in each other; in Click 50.
//!
//! Nothing here knows an element: which classes there are is asked of the caller.
//! Configurations may be hostile; see [`Limits`] for what bounds them.
//!
//! ```
//! use graph::lang::{self, Options, Source};
//! let text = "elementclass Two { $n | input -> Queue($n) -> output }
//!             InfiniteSource -> Two(5) -> Discard;";
//! let flat = lang::read(vec![Source::new("", text)], &Options::default())?;
//! assert_eq!(&*flat.elements[2].name, "Two@2/Queue@1");
//! assert_eq!(flat.elements[2].config, "5");
//! # Ok::<(), lang::Problems>(())
//! ```

pub mod archive;
pub mod args;
pub mod flat;
pub mod flatten;
pub mod lexer;
pub mod parser;
pub mod place;
pub mod problem;
mod suggestion;
pub mod tree;
pub mod variable;

pub use flat::{Compound, Connection, Declared, Flat, Requirement};
pub use place::{Source, SourceLocation, Sources};
pub use problem::{Context, Note, Problem, Problems, Severity};
pub use suggestion::suggestion;

/// Finds a library for `require(library NAME)`: the name and the folder of the file
/// that asks. The source's name is what makes two of them the same.
pub type Library<'a> = &'a dyn Fn(&str, &str) -> Option<Source>;

/// What the language must be told.
pub struct Options<'a> {
    /// Variables from the command line; they override the file's own.
    pub defines: Vec<(String, String)>,
    /// Where libraries are found; without it none is.
    pub library: Option<Library<'a>>,
    /// Whether there is an element class of this name.
    pub known_class: &'a dyn Fn(&str) -> bool,
    /// All element classes there are, asked only after a mistake.
    pub class_names: &'a dyn Fn() -> Vec<String>,
    /// What a configuration may grow to.
    pub limits: Limits,
}

/// Any capitalised name of letters and digits is a class; no libraries.
impl Default for Options<'_> {
    fn default() -> Self {
        Options {
            defines: vec![],
            library: None,
            known_class: &|name| {
                name.starts_with(|c: char| c.is_ascii_uppercase())
                    && name.bytes().all(|b| b.is_ascii_alphanumeric())
            },
            class_names: &Vec::new,
            limits: Limits::default(),
        }
    }
}

/// What a configuration may grow to. A few lines can ask for more elements than any
/// machine has room for, each compound element containing the last one twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Elements, in all scopes and after expansion together.
    pub elements: usize,
    /// Connections of the flattened configuration.
    pub connections: usize,
    /// Bytes of names and configuration strings that expansion makes, and of work to
    /// replace variables.
    pub text: usize,
    /// Bytes of one source.
    pub source: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { elements: 4 << 20, connections: 16 << 20, text: 512 << 20, source: 1 << 30 }
    }
}

/// Reads a configuration: sources one after the other, as if they were one file.
/// Warnings come with success, in [`Flat::warnings`].
///
/// # Errors
///
/// All problems that were found, at least one of them an error.
pub fn read(sources: Vec<Source>, options: &Options<'_>) -> Result<Flat, Problems> {
    flatten::read(sources, options)
}

/// As [`read`], and what could be read although something is wrong: the elements and
/// connections that are there, so that what is wrong with them can be told as well.
pub fn read_anyway(sources: Vec<Source>, options: &Options<'_>) -> (Flat, Problems) {
    let (flat, problems, _) = flatten::read_anyway(sources, options);
    (flat, problems)
}
