//! The syntax tree: what is written, before any name means anything.
//!
//! One [`Statement`] at a time comes out of the parser. Names are slices of the
//! source. What Click infers from the position alone (`input` at a chain's start,
//! `output` at its end) is already decided here.

use smallvec::SmallVec;

use super::lexer::Config;
use super::place::SourceLocation;

/// A statement of a configuration or of a compound element.
#[derive(Clone, Debug)]
pub enum Statement<'a> {
    /// Elements and the connections between them; one step declares or mentions.
    Chain(Chain<'a>),
    /// `elementclass Name ...`
    Class(ClassStatement<'a>),
    /// A requirement, `require(...)`.
    Require(Config<'a>),
    /// Definitions of variables, `define(...)`.
    Define(Config<'a>),
}

/// `a, b -> c => d`.
#[derive(Clone, Debug)]
pub struct Chain<'a> {
    /// What the arrows join; at least one.
    pub steps: Vec<Step<'a>>,
}

/// One side of an arrow.
#[derive(Clone, Debug)]
pub struct Step<'a> {
    /// The arrow before it: none for the first.
    pub arrow: Option<Arrow>,
    /// The elements, at least one, and mostly one alone.
    pub items: SmallVec<[Item<'a>; 1]>,
    /// Whether an arrow follows.
    pub goes_on: bool,
    /// Where it begins, the arrow included.
    pub place: SourceLocation,
    /// Where what follows begins.
    pub next: SourceLocation,
}

/// The two arrows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrow {
    /// The arrow `->` connects one port to one port.
    Single,
    /// The arrow `=>` connects each port of a group.
    Many,
}

/// An element: mentioned, declared, or made on the spot. What most have not is behind a pointer:
/// a chain of a million elements is a million of these.
#[derive(Clone, Debug)]
pub struct Item<'a> {
    /// The ports before it, `[1] x`; none for none.
    pub inputs: Option<Box<Ports>>,
    /// The element that is declared or used.
    pub what: What<'a>,
    /// Its class, where `:: Class` follows.
    pub class: Option<ClassUse<'a>>,
    /// The configuration string in parentheses, if there is one.
    pub config: Option<Box<Config<'a>>>,
    /// The ports after it, `x [1]`.
    pub outputs: Option<Box<Ports>>,
    /// Where its name begins.
    pub place: SourceLocation,
}

/// What stands where an element can stand.
#[derive(Clone, Debug)]
pub enum What<'a> {
    /// A name, of an element or a class.
    Name(&'a str),
    /// Nothing: `input` at the start of a chain, `output` at its end.
    Implicit,
    /// `{ ... }`, an anonymous compound element.
    Compound(Box<CompoundClass<'a>>),
    /// `( ... )`
    Group(Box<Group<'a>>),
}

/// What follows `::`.
#[derive(Clone, Debug)]
pub enum ClassUse<'a> {
    /// A class's name.
    Name(&'a str, SourceLocation),
    /// A class on the spot.
    Compound(Box<CompoundClass<'a>>),
    /// Nothing; already complained of.
    Missing,
}

/// A group's statements.
#[derive(Clone, Debug)]
pub struct Group<'a> {
    /// What is in it.
    pub body: Vec<Statement<'a>>,
    /// Where it is closed.
    pub end: SourceLocation,
}

/// `[0, 2-4, ]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ports {
    /// The port numbers, ranges from first to last.
    pub ranges: Vec<(u32, u32)>,
    /// Whether it may go on: `[]` and `[0, ]`.
    pub open: bool,
}

impl Ports {
    /// How many ports are named.
    pub fn count(&self) -> usize {
        self.ranges.iter().map(|&(first, last)| (last - first) as usize + 1).sum()
    }
}

/// `elementclass Name { ... }` or `elementclass Name Other`.
#[derive(Clone, Debug)]
pub struct ClassStatement<'a> {
    /// The new name.
    pub name: &'a str,
    /// What it means.
    pub class: ClassUse<'a>,
    /// Where the name is.
    pub place: SourceLocation,
}

/// `{ ... || ... || ... }`.
#[derive(Clone, Debug)]
pub struct CompoundClass<'a> {
    /// The overloads, in order.
    pub overloads: Vec<Overload<'a>>,
    /// Where `...` stands, if it does.
    pub extends: Option<SourceLocation>,
}

/// One of the bodies of an overloaded compound class.
#[derive(Clone, Debug)]
pub struct Overload<'a> {
    /// `$a, KEY $b, __REST__ $c |`.
    pub formals: Vec<Formal<'a>>,
    /// What is in it.
    pub body: Vec<Statement<'a>>,
    /// Where it begins, after the brace or bars.
    pub place: SourceLocation,
}

/// A parameter of a compound class.
#[derive(Clone, Debug)]
pub struct Formal<'a> {
    /// Its keyword, empty for a positional one.
    pub keyword: &'a str,
    /// The variable, without the dollar sign.
    pub variable: &'a str,
    /// Where it is.
    pub place: SourceLocation,
}
