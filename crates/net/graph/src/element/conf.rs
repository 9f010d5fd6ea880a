//! An element's configuration, read as Click reads it: positional arguments and
//! keywords, each once, in any order that makes sense.
//!
//! ```text
//! InfiniteSource("data", LIMIT 5, STOP true)
//!                ^positional  ^keywords
//! ```
//! An argument that begins with a word and a space may be a keyword's. The last
//! of several wins. A mandatory positional argument that is missing takes an
//! argument that looks like a keyword's. An empty argument keeps the place of one that may
//! be left out.

use crate::element::class::{Argument, Class, Given};
use crate::element::value::{Scope, Value};
use crate::lang::args;

/// What is wrong with a configuration: the message, without the element's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ConfFault {
    /// What is wrong.
    pub message: String,
    /// What Click says to it, where it says less.
    pub compat: Option<String>,
    /// What was probably meant.
    pub suggestion: Option<String>,
    /// Which argument is wrong, counted from 0, when it is one.
    pub argument: Option<usize>,
}

impl ConfFault {
    /// A fault with a message.
    pub fn new(message: impl Into<String>) -> ConfFault {
        ConfFault { message: message.into(), compat: None, suggestion: None, argument: None }
    }

    /// Says which argument is wrong.
    pub fn at(mut self, argument: usize) -> ConfFault {
        self.argument = Some(argument);
        self
    }
}

impl From<String> for ConfFault {
    fn from(message: String) -> ConfFault {
        ConfFault::new(message)
    }
}

impl From<&str> for ConfFault {
    fn from(message: &str) -> ConfFault {
        ConfFault::new(message)
    }
}

/// The result of reading an argument.
pub type Result<T> = std::result::Result<T, ConfFault>;

/// Where an argument stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Not read yet; how long the word is that may be a keyword.
    Open(usize),
    /// Read as a keyword's value, or as positional.
    Taken,
    /// The value of a keyword of this length is wrong: nobody reads it, or anything in its place.
    LeftOut(usize),
}

impl State {
    /// Whether it is still to be read.
    fn is_left(&self) -> bool {
        matches!(self, State::Open(_))
    }
}

/// The arguments of one element.
pub struct Conf<'a> {
    class: &'static Class,
    arguments: Vec<String>,
    states: Vec<State>,
    scope: Scope<'a>,
}

impl<'a> Conf<'a> {
    /// Takes a configuration string apart. `scope` knows the names of addresses.
    pub fn new(class: &'static Class, config: &str, scope: Scope<'a>) -> Conf<'a> {
        let arguments = args::split(config);
        let states =
            arguments.iter().map(|a| State::Open(args::keyword(a).map_or(0, |(k, _)| k.len()))).collect();
        Conf { class, arguments, states, scope }
    }

    /// The arguments as they were written, read or not.
    pub fn arguments(&self) -> &[String] {
        &self.arguments
    }

    /// Leaves a keyword out, as if it were not there; what is positional does not move up.
    pub(crate) fn leave_out(&mut self, argument: usize) {
        let len = args::keyword(&self.arguments[argument]).map_or(0, |(keyword, _)| keyword.len());
        self.states[argument] = State::LeftOut(len);
    }

    /// Whether an argument has the form of a keyword's.
    pub(crate) fn is_keyword(&self, argument: usize) -> bool {
        self.arguments.get(argument).is_some_and(|argument| args::keyword(argument).is_some())
    }

    /// Where names of addresses are looked up.
    pub fn scope(&self) -> &Scope<'a> {
        &self.scope
    }

    /// Finds the argument for `key`, and its number; Click's rules, in one place.
    fn find(&mut self, key: &str, positional: bool, mandatory: bool) -> Option<(String, usize)> {
        debug_assert!(
            self.class.arguments.iter().any(|a| a.name == key),
            "{}: {key} is not among the class's arguments",
            self.class.name
        );
        self.search(key, positional, mandatory)
    }

    fn search(&mut self, key: &str, positional: bool, mandatory: bool) -> Option<(String, usize)> {
        let is_left_out = |(state, argument): (&State, &String)| {
            *state == State::LeftOut(key.len()) && argument.starts_with(key)
        };
        if self.states.iter().zip(&self.arguments).any(is_left_out) {
            return None;
        }
        let mut got = None;
        let next = self.states.iter().position(State::is_left).filter(|_| positional);
        for (i, argument) in self.arguments.iter().enumerate() {
            if self.states[i] == State::Open(key.len()) && argument.starts_with(key) {
                got = Some(i); // the last one wins, and the others are gone
                self.states[i] = State::Taken;
            }
        }
        let open = next.filter(|next| match self.states[*next] {
            State::Open(word) => word == 0 || (mandatory && got.is_none()),
            State::Taken | State::LeftOut(_) => false,
        });
        if let Some(next) = open {
            self.states[next] = State::Taken; // given twice: the last one wins here too
            if got.is_none_or(|got| got < next) {
                return Some((self.arguments[next].clone(), next));
            }
        }
        let got = got?;
        args::keyword(&self.arguments[got]).map(|(_, value)| (value.to_string(), got))
    }

    fn read<T: Value>(&mut self, key: &str, positional: bool, mandatory: bool) -> Result<Option<T>> {
        match self.find(key, positional, mandatory) {
            // As in Click: an empty place is left as it would be without the argument.
            Some((text, _)) if text.is_empty() && !mandatory => Ok(None),
            Some((text, argument)) => match T::parse(&text, &self.scope) {
                Ok(value) => Ok(Some(value)),
                // Click takes it, and the element works with whatever is in its memory.
                Err(_) if text.is_empty() => Err(self.wrong(key, argument, "required argument is empty")),
                Err(error) => Err(self.wrong(key, argument, &error)),
            },
            None if mandatory => Err(self.missing(key)),
            None => Ok(None),
        }
    }

    /// A mandatory argument is not there.
    #[cold]
    fn missing(&self, key: &str) -> ConfFault {
        ConfFault::new(self.and_behind(key, format!("{key}: required argument missing")))
    }

    /// An argument is not what it is to be.
    #[cold]
    fn wrong(&self, key: &str, argument: usize, error: &str) -> ConfFault {
        let compat = error.starts_with("expected").then(|| match error.ends_with("integer") {
            true => format!("{key}: invalid number"),
            false => format!("{key}: parse error"),
        });
        // A keyword's argument can be left out, so that the others are looked at without it.
        let whole = |said| if self.is_keyword(argument) { said } else { self.and_behind(key, said) };
        ConfFault {
            compat: compat.map(whole),
            ..ConfFault::new(whole(format!("{key}: {error}"))).at(argument)
        }
    }

    /// What is said of the argument `key`, and what is said then.
    fn and_behind(&self, key: &str, said: String) -> String {
        [said].into_iter().chain(self.behind(key)).collect::<Vec<_>>().join("\n")
    }

    /// What Click says beside that the argument `key` is missing or wrong: that others are missing behind
    /// it, are not known, or are too many. None of these can be read any more.
    fn behind(&self, key: &str) -> Vec<String> {
        let mut rest = Conf { states: self.states.clone(), arguments: self.arguments.clone(), ..*self };
        let arguments = self.class.arguments;
        let later = arguments.iter().skip_while(|argument| argument.name != key).skip(1);
        // Keywords may stand before it in the class.
        let keywords = arguments.iter().filter(|argument| argument.given == Given::Keyword);
        let mut lines = vec![];
        for Argument { name, given, .. } in later.chain(keywords) {
            let found = match given {
                Given::Mandatory => rest.search(name, true, true).is_some(),
                Given::Positional => rest.search(name, true, false).is_some(),
                Given::Keyword => rest.search(name, false, false).is_some(),
                Given::Rest => !rest.rest().is_empty(),
            };
            if *given == Given::Mandatory && !found {
                lines.push(format!("{name}: required argument missing"));
            }
        }
        lines.extend(rest.complete().err().map(|fault| fault.message));
        lines
    }

    /// The next positional argument, or the one of keyword `key`; there must be one.
    ///
    /// # Errors
    /// When there is none, or it cannot be read as a `T`.
    pub fn mandatory<T: Value>(&mut self, key: &str) -> Result<T> {
        Ok(self.read(key, true, true)?.expect("an error otherwise"))
    }

    /// The next positional argument, or the one of keyword `key`, if there is one.
    ///
    /// # Errors
    /// When it cannot be read as a `T`.
    pub fn positional<T: Value>(&mut self, key: &str) -> Result<Option<T>> {
        self.read(key, true, false)
    }

    /// The argument of keyword `key`, if it is there.
    ///
    /// # Errors
    /// When it cannot be read as a `T`.
    pub fn keyword<T: Value>(&mut self, key: &str) -> Result<Option<T>> {
        self.read(key, false, false)
    }

    /// The argument of keyword `key`; there must be one.
    ///
    /// # Errors
    /// When there is none, or it cannot be read as a `T`.
    pub fn mandatory_keyword<T: Value>(&mut self, key: &str) -> Result<T> {
        Ok(self.read(key, false, true)?.expect("an error otherwise"))
    }

    /// Takes an argument of a keyword that means nothing here and is not among the
    /// class's; whether it was there.
    pub fn ignore(&mut self, key: &str) -> bool {
        self.search(key, false, false).is_some()
    }

    /// Every argument that was not read yet, as it was written: rules, patterns,
    /// routes.
    pub fn rest(&mut self) -> Vec<String> {
        let open = self.states.iter_mut().zip(&self.arguments).filter(|(state, _)| state.is_left());
        open.map(|(state, argument)| {
            *state = State::Taken;
            argument.clone()
        })
        .collect()
    }

    /// All has been read.
    ///
    /// # Errors
    /// When arguments are left: keywords that the class does not know, a line for each,
    /// or too many others.
    pub fn complete(&self) -> Result<()> {
        let left: Vec<usize> = (0..self.states.len()).filter(|i| self.states[*i].is_left()).collect();
        let Some(&first) = left.first() else { return Ok(()) };
        let word = |i: usize| args::keyword(&self.arguments[i]).map(|(keyword, _)| keyword);
        let unknown: Vec<&str> = left.iter().filter_map(|i| word(*i)).collect();
        let mut lines: Vec<String> = unknown.iter().map(|word| format!("{word}: unknown argument")).collect();
        if unknown.len() < left.len() {
            lines.push("too many arguments".to_owned());
        }
        let known = self.class.arguments.iter().map(|a| a.name);
        let near = unknown.first().and_then(|word| crate::lang::suggestion(word, known));
        let suggestion = near.map(|name| format!("did you mean '{name}'?"));
        Err(ConfFault { suggestion, ..ConfFault::new(lines.join("\n")).at(first) })
    }
}
