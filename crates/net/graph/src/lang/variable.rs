//! Variables in configuration strings: `$x`, `${x}`, `${x-default}`, `${x[1]}`.
//!
//! A variable nobody defines stays as it is written. In single quotes and in
//! comments nothing is replaced; in double quotes a value is quoted as it goes in.
//! `$(...)` is left to whoever knows more forms (`Script` does): see [`Variables`].
//!
//! A value may mention variables again, ten deep at most, which is also what ends a
//! definition in terms of itself.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use super::args;

/// How a reference is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `$name`, also `$?`, `$#` and `$$`.
    Bare,
    /// In braces, `${...}`.
    Braces,
    /// In parentheses, `$(...)`.
    Parentheses,
}

/// What knows the values.
pub trait Variables {
    /// What a reference stands for, none if nobody knows: `name` is all that is in
    /// the braces. `depth` is to be passed on, one higher, to [`expand`].
    fn value(&self, name: &str, form: Form, depth: usize) -> Option<String>;

    /// Accounts for `bytes` of work; false when there has been too much already, and
    /// nothing more is to be replaced.
    fn spend(&self, bytes: usize) -> bool {
        let _ = bytes;
        true
    }
}

/// How deep values may mention variables.
const DEPTH: usize = 10;

/// Replaces the variables of a configuration string. With `quoted`, a value outside
/// quotes goes in as a double-quoted string, so that it stays one word.
pub fn expand<'t>(text: &'t str, variables: &dyn Variables, quoted: bool, depth: usize) -> Cow<'t, str> {
    if depth > DEPTH || !text.contains('$') || !variables.spend(text.len()) {
        return Cow::Borrowed(text);
    }
    let bytes = text.as_bytes();
    let mut out = String::new();
    let (mut kept, mut at) = (0, 0);
    let mut quote = None;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\\' if quote == Some(b'"') => at += 1,
            b'\'' | b'"' if quote.is_none() => quote = Some(byte),
            _ if quote == Some(byte) => quote = None,
            b'/' if quote.is_none() && args::is_comment(bytes, at) => {
                at = args::skip_blank(text, at);
                continue;
            }
            b'$' if quote != Some(b'\'') => match reference(bytes, at) {
                Reference::None => {}
                Reference::Unclosed => break,
                Reference::Some { form, start, end, next, nested } => {
                    out.push_str(&text[kept..at]);
                    let name = match nested {
                        true => expand(&text[start..end], variables, false, depth + 1),
                        false => Cow::Borrowed(&text[start..end]),
                    };
                    match variables.value(&name, form, depth) {
                        Some(value) => push_value(&mut out, &value, quote, quoted),
                        None => {
                            out.push_str(&text[at..start]);
                            out.push_str(&name);
                            out.push_str(&text[end..next]);
                        }
                    }
                    (kept, at) = (next, next);
                    continue;
                }
            },
            _ => {}
        }
        at += 1;
    }
    if kept == 0 {
        return Cow::Borrowed(text);
    }
    variables.spend(out.len());
    out.push_str(&text[kept..]);
    Cow::Owned(out)
}

fn push_value(out: &mut String, value: &str, quote: Option<u8>, quoted: bool) {
    if quote.is_none() && !quoted {
        return out.push_str(value);
    }
    let text = args::quote(value.as_bytes());
    match quote {
        Some(_) => out.push_str(&text[1..text.len() - 1]),
        None => out.push_str(&text),
    }
}

enum Reference {
    None,
    /// Opened and never closed: Click stops looking.
    Unclosed,
    Some {
        form: Form,
        /// The name is from `start` to `end`, the whole from the dollar to `next`.
        start: usize,
        end: usize,
        next: usize,
        /// Whether there are variables in the name.
        nested: bool,
    },
}

/// The reference whose dollar sign is at `at`.
fn reference(bytes: &[u8], at: usize) -> Reference {
    let start = at + 1;
    match bytes.get(start) {
        Some(b'{') => {
            let Some(len) = bytes[start + 1..].iter().position(|&b| b == b'}') else {
                return Reference::Unclosed;
            };
            let (start, end) = (start + 1, start + 1 + len);
            let nested = bytes[start..end].contains(&b'$');
            Reference::Some { form: Form::Braces, start, end, next: end + 1, nested }
        }
        Some(b'(') => parentheses(bytes, start + 1),
        Some(b) if is_variable_byte(*b) => {
            let end = start + bytes[start..].iter().take_while(|&&b| is_variable_byte(b)).count();
            Reference::Some { form: Form::Bare, start, end, next: end, nested: false }
        }
        Some(b'?' | b'#' | b'$') => {
            Reference::Some { form: Form::Bare, start, end: start + 1, next: start + 1, nested: false }
        }
        _ => Reference::None,
    }
}

/// `$(...)` with balanced parentheses, quotes apart; `start` is after the first.
fn parentheses(bytes: &[u8], start: usize) -> Reference {
    let (mut level, mut quote, mut nested) = (1usize, None, false);
    let mut at = start;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'(' if quote.is_none() => level += 1,
            b')' if quote.is_none() => level -= 1,
            b'"' | b'\'' if quote.is_none() => quote = Some(byte),
            b'"' | b'\'' if quote == Some(byte) => quote = None,
            b'\\' if quote != Some(b'\'') => at += 1,
            b'$' if quote != Some(b'\'') => nested = true,
            _ => {}
        }
        at += 1;
        if level == 0 {
            return Reference::Some { form: Form::Parentheses, start, end: at - 1, next: at, nested };
        }
    }
    Reference::Unclosed
}

fn is_variable_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Whether a text is a variable's name without the dollar sign.
pub(crate) fn is_variable_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(is_variable_byte)
}

/// The variables one scope sees: its own, then those of the scopes around it.
#[derive(Debug)]
pub(crate) struct Environment {
    /// How many scopes are around it.
    depth: usize,
    own: BTreeMap<Arc<str>, Arc<str>>,
    parent: Option<Rc<Environment>>,
    /// Bytes of work left, one count for all.
    budget: Rc<Cell<usize>>,
}

impl Environment {
    /// The file's scope.
    pub fn root(budget: usize) -> Environment {
        Environment { depth: 0, own: BTreeMap::new(), parent: None, budget: Rc::new(Cell::new(budget)) }
    }

    /// A scope whose class is written `depth` scopes deep, for an element in the
    /// scope `here`: what it sees is what is around the class.
    pub fn inside(here: &Rc<Environment>, depth: usize) -> Environment {
        let mut parent = here;
        while let (true, Some(next)) = (parent.depth >= depth, parent.parent.as_ref()) {
            parent = next;
        }
        let budget = here.budget.clone();
        Environment { depth: parent.depth + 1, own: BTreeMap::new(), parent: Some(parent.clone()), budget }
    }

    /// Defines a variable, whatever it was before.
    pub fn define(&mut self, name: Arc<str>, value: Arc<str>) {
        self.own.insert(name, value);
    }

    /// Replaces the variables of a configuration string.
    pub fn expand(&self, text: &str) -> String {
        expand(text, self, false, 0).into_owned()
    }

    /// Whether there was more work than allowed.
    pub fn exhausted(&self) -> bool {
        self.budget.get() == 0
    }

    fn lookup(&self, name: &str) -> Option<&Arc<str>> {
        let mut scope = Some(self);
        while let Some(here) = scope {
            if let Some(value) = here.own.get(name) {
                return Some(value);
            }
            scope = here.parent.as_deref();
        }
        None
    }
}

impl Variables for Environment {
    fn value(&self, name: &str, form: Form, depth: usize) -> Option<String> {
        let braces = match form {
            Form::Braces => Braces::parse(name),
            _ => Braces { name, index: None, default: None },
        };
        if let Some(value) = self.lookup(braces.name) {
            let value = expand(value, self, false, depth + 1);
            return Some(match braces.index {
                Some(index) => args::words(&value).get(index).map_or("", |w| w).to_owned(),
                None => value.into_owned(),
            });
        }
        braces.default.map(|text| expand(text, self, false, depth + 1).into_owned())
    }

    fn spend(&self, bytes: usize) -> bool {
        self.budget.set(self.budget.get().saturating_sub(bytes));
        self.budget.get() > 0
    }
}

/// The inside of `${name[index]-default}`.
struct Braces<'t> {
    name: &'t str,
    index: Option<usize>,
    default: Option<&'t str>,
}

impl<'t> Braces<'t> {
    fn parse(text: &'t str) -> Braces<'t> {
        let space = |c: char| matches!(c, ' ' | '\t'..='\r');
        let text = text.trim_start_matches(space);
        let len = text.bytes().take_while(|&b| is_variable_byte(b)).count();
        let (name, rest) = text.split_at(len);
        let mut rest = rest.trim_start_matches(space);
        let mut index = None;
        if let Some((inside, after)) = rest.strip_prefix('[').and_then(|r| r.split_once(']'))
            && let Ok(number) = inside.trim_start_matches(space).parse()
        {
            index = Some(number);
            rest = after.trim_start_matches(space);
        }
        Braces { name, index, default: rest.strip_prefix('-') }
    }
}
