//! Classes of elements: what each is called, takes, does and counts, in one table
//! from which configuration errors, documentation and completion are made.

use std::path::PathBuf;

use port::Reason;
use rustc_hash::FxHashMap;

use crate::element::account::Account;
use crate::element::chain::Chain;
use crate::element::conf::{Conf, ConfFault};
use crate::element::interfaces::PortName;
use crate::element::kernel::Kernel;
use crate::element::{Element, handler};
use crate::plan::setup::{Services, Setup};

pub use crate::element::handler::{
    Handler, HandlerTable, Handlers, NONE as NO_HANDLERS, Row, Setting, action, ask, both, call, datum,
    named, number_in, read, setting, write,
};

/// Why a packet is dropped that waited in an element when another router took its router's place:
/// the new one has no such element, or elements of the class hand on no packets
/// ([`Cx::end_waiting`](crate::Cx::end_waiting)).
pub const NOT_TAKEN_OVER: Reason = Reason::NotTakenOver;

/// Tells by the name of an element's class and its arguments the port that it opens.
pub type FindPort = fn(&str, &mut Conf<'_>, &Services) -> Option<PortName>;

/// A class of elements.
#[derive(Clone, Copy)]
pub struct Class {
    /// Its name in configurations.
    pub name: &'static str,
    /// What it does, in a line: `strips bytes from the front of packets`.
    pub brief: &'static str,
    /// More, in Markdown.
    pub doc: &'static str,
    /// Input and output ports in Click's code: `1/1`, `1/1-2`, `-/=`, `1/-`.
    pub ports: &'static str,
    /// Push (`h`), pull (`l`) or agnostic (`a`) for each input and output, in Click's
    /// code: `a/a`, `h/lh`. The last letter stands for all further ports.
    pub processing: &'static str,
    /// Which inputs lead to which outputs, in Click's code: `x/x`, `x/y`, `#/#`.
    pub flow: &'static str,
    /// When it is configured and initialized, lower first; [`Class::INFORMATION`]
    /// come before all others.
    pub phase: i32,
    /// What it takes.
    pub arguments: &'static [Argument],
    /// What can be read and written while it runs.
    pub handlers: &'static dyn HandlerTable,
    /// Why it drops packets; an element counts for each reason.
    pub drops: &'static [Reason],
    /// Whether all its packets are counted, and how many wait in it.
    pub account: Account,
    /// A line or a few of a configuration in which the element is used.
    pub example: &'static str,
    /// Names of classes that do something similar, or go with it.
    pub see: &'static [&'static str],
    /// What it needs to know of a packet's headers, and what it finds out.
    pub headers: Headers,
    /// What it costs beyond a look at each packet: `copies each packet`; empty if
    /// nothing.
    pub costs: &'static str,
    /// Whether it takes a new configuration while it runs: `config` can be written
    /// ([`Element::reconfigure`]).
    pub live: bool,
    /// Whether handlers that are written often change what `config` tells, so that Click does not list
    /// it as one that changes rarely.
    pub config_changes: bool,
    /// What its elements may ask of the system beside opening something when they are
    /// initialized; each says for itself which of it ([`Setup::will_need`]). A process that
    /// runs no such element gives it up.
    pub system: &'static [SystemUse],
    /// The port that an element is on, by its configuration: its address is known by the
    /// port's name and by the element's.
    pub port: Option<FindPort>,
    /// How its elements are part of programs that `ixora compile` writes.
    pub kernel: Kernel,
    /// Makes an element from its configuration.
    pub make: Make,
}

/// Makes an element.
pub type Make = fn(&mut Setup<'_>, &mut Conf<'_>) -> Result<Box<dyn Element>, ConfFault>;

/// What an element needs to know of a packet's headers before it comes, and what
/// is known afterwards: found wrong before a packet flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Headers {
    /// The network header must have been found (`MarkIPHeader`, `CheckIPHeader`).
    pub needs_network: bool,
    /// The transport header must have been found.
    pub needs_transport: bool,
    /// It finds the network header, and the transport header behind it, for the
    /// packets that leave at output 0.
    pub finds_network: bool,
    /// What was known is no longer: the packet is another one.
    pub forgets: bool,
    /// A keyword that has it find the network header when it is given and true
    /// (`FORCE_IP`); empty for none.
    pub finds_if: &'static str,
}

/// What an element asks of the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SystemUse {
    /// Privileges, when it is initialized: of the network's administrator, say.
    Privileges,
    /// Later it lets clients in, and sends to them.
    Clients,
    /// Later it sends datagrams to addresses, or to files.
    Datagrams,
    /// Later it makes a socket that listens.
    Listening,
    /// Later it reads files that its configuration names.
    ReadsFiles,
    /// Later it makes, writes and removes files that its configuration names.
    WritesFiles,
    /// Later it opens files whose names are known only then.
    AnyFiles,
    /// Programs are started when it is initialized.
    ProgramsAtStart,
    /// A program is started when it is initialized, unless it goes on with that of its predecessor
    /// ([`Setup::continues`](crate::Setup::continues)).
    ProgramTakenOver,
    /// Later it starts programs.
    Programs,
    /// Later it sends signals to processes.
    Signals,
}

impl SystemUse {
    /// In words: `writes files`.
    pub fn about(self) -> &'static str {
        match self {
            SystemUse::Privileges => "needs privileges when it is initialized",
            SystemUse::Clients => "lets clients in",
            SystemUse::Datagrams => "sends datagrams",
            SystemUse::Listening => "opens a socket while it runs",
            SystemUse::ReadsFiles => "reads files while it runs",
            SystemUse::WritesFiles => "writes files while it runs",
            SystemUse::AnyFiles => "opens files while it runs whose names are known only then",
            SystemUse::ProgramsAtStart => "starts a program when it is initialized",
            SystemUse::ProgramTakenOver => "starts a program when it is initialized, or goes on with one",
            SystemUse::Programs => "starts programs while it runs",
            SystemUse::Signals => "sends signals to processes",
        }
    }
}

/// What one element asks of the system.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SystemNeed {
    /// What it will do that a confined process may not.
    pub what: SystemUse,
    /// The file that is read, or written; or the folder in which files are made.
    pub path: Option<PathBuf>,
}

impl std::fmt::Display for SystemNeed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.what.about())?;
        self.path.as_ref().map_or(Ok(()), |path| write!(f, " ({})", path.display()))
    }
}

/// How an argument is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Given {
    /// By its place, or by keyword; it must be there.
    Mandatory,
    /// By its place, or by keyword.
    Positional,
    /// By keyword alone: `NAME value`.
    Keyword,
    /// All that is left, any number: rules, routes.
    Rest,
}

/// An argument of a class.
#[derive(Debug, Clone, Copy)]
pub struct Argument {
    /// The keyword, by which errors and the documentation name the argument as well.
    pub name: &'static str,
    /// How it is given.
    pub given: Given,
    /// What it is, with its default: `packets in a burst; 1`.
    pub about: &'static str,
}

/// An argument that must be there.
pub const fn mandatory(name: &'static str, about: &'static str) -> Argument {
    Argument { name, given: Given::Mandatory, about }
}

/// An argument that may stand in its place.
pub const fn positional(name: &'static str, about: &'static str) -> Argument {
    Argument { name, given: Given::Positional, about }
}

/// An argument by keyword.
pub const fn keyword(name: &'static str, about: &'static str) -> Argument {
    Argument { name, given: Given::Keyword, about }
}

/// Any number of further arguments.
pub const fn rest(name: &'static str, about: &'static str) -> Argument {
    Argument { name, given: Given::Rest, about }
}

impl Class {
    /// Phase of elements that others ask while they are configured.
    pub const INFORMATION: i32 = 0;
    /// Phase of most elements.
    pub const USUAL: i32 = 100;
    /// Phase of elements that look at all others.
    pub const LATE: i32 = 200;

    /// What most classes have in common: one input, one output, agnostic.
    pub const BASE: Class = Class {
        name: "",
        brief: "",
        doc: "",
        ports: "1/1",
        processing: "a/a",
        flow: "x/x",
        phase: Class::USUAL,
        arguments: &[],
        handlers: handler::NONE,
        drops: &[Reason::Dropped],
        account: Account::Counted,
        example: "",
        see: &[],
        costs: "",
        headers: Headers {
            needs_network: false,
            needs_transport: false,
            finds_network: false,
            forgets: false,
            finds_if: "",
        },
        live: false,
        config_changes: false,
        system: &[],
        port: None,
        kernel: Kernel::Unwritten,
        make: |_, _| Err(ConfFault::new("cannot be made")),
    };
}

impl Class {
    /// How it is written: `Queue([CAPACITY])`.
    pub fn usage(&self) -> String {
        let one = |argument: &Argument| match argument.given {
            Given::Mandatory => argument.name.to_string(),
            Given::Positional => format!("[{}]", argument.name),
            Given::Keyword => format!("[{} ...]", argument.name),
            Given::Rest => format!("{}, ...", argument.name),
        };
        let arguments: Vec<String> = self.arguments.iter().map(one).collect();
        format!("{}({})", self.name, arguments.join(", "))
    }

    /// The handlers that all elements of the class have, in order.
    pub fn handlers(&self) -> impl Iterator<Item = Handler> + 'static + use<> {
        let handlers = self.handlers;
        (0..handlers.len()).filter_map(|row| handlers.common(row))
    }

    /// Whether an element is of the type that the handlers, the account and the kernel are of.
    pub fn fits(&self, element: &mut dyn Element) -> bool {
        self.handlers.fits(element) && self.account.fits(element) && self.kernel.fits(element)
    }

    /// The handlers of an element that others of the class may not have: names and rows.
    pub fn further_handlers(&self, element: &mut dyn Element) -> Vec<(String, usize)> {
        let mut further = vec![];
        for row in (0..self.handlers.len()).filter(|&row| self.handlers.common(row).is_none()) {
            further.extend(self.handlers.own_names(row, element).into_iter().map(|name| (name, row)));
        }
        further
    }

    /// The row of a handler that all elements of the class have.
    pub fn handler_row(&self, name: &str) -> Option<usize> {
        (0..self.handlers.len()).find(|&row| self.handlers.common(row).is_some_and(|h| h.name == name))
    }
}

impl std::fmt::Debug for Class {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Class").field("name", &self.name).finish_non_exhaustive()
    }
}

/// All classes a configuration can use, by name.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    classes: FxHashMap<&'static str, &'static Class>,
    chains: Vec<&'static Chain>,
}

impl Registry {
    /// The classes of a list, and other names for some of them.
    pub fn new(classes: &[&'static Class], aliases: &[(&'static str, &'static str)]) -> Registry {
        let mut registry: Registry = classes.iter().copied().collect();
        for (alias, name) in aliases {
            if let Some(class) = registry.find(name) {
                registry.add_alias(alias, class);
            }
        }
        registry
    }

    /// These classes and others; of two with the same name the other one.
    pub fn with(mut self, others: Registry) -> Registry {
        self.classes.extend(others.classes);
        self.chains.extend(others.chains);
        self
    }

    /// These classes, and sequences of them that become programs.
    pub fn with_chains(mut self, chains: &[&'static Chain]) -> Registry {
        self.chains.extend(chains);
        self
    }

    /// Sequences of classes that become programs.
    pub fn chains(&self) -> &[&'static Chain] {
        &self.chains
    }

    /// Adds a class; a later one of the same name takes its place.
    pub fn add(&mut self, class: &'static Class) {
        self.classes.insert(class.name, class);
    }

    /// A class by another name: `alias` in a configuration means `class`.
    pub fn add_alias(&mut self, alias: &'static str, class: &'static Class) {
        self.classes.insert(alias, class);
    }

    /// The class of a name.
    pub fn find(&self, name: &str) -> Option<&'static Class> {
        self.classes.get(name).copied()
    }

    /// All names, in order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.iter().map(|(name, _)| name)
    }

    /// All classes, in order of their names in configurations.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &'static Class)> {
        let mut all: Vec<_> = self.classes.iter().map(|(name, class)| (*name, *class)).collect();
        all.sort_unstable_by_key(|(name, _)| *name);
        all.into_iter()
    }
}

impl FromIterator<&'static Class> for Registry {
    fn from_iter<I: IntoIterator<Item = &'static Class>>(classes: I) -> Registry {
        let mut registry = Registry::default();
        classes.into_iter().for_each(|class| registry.add(class));
        registry
    }
}
