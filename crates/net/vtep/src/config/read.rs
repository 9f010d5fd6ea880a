//! Reading TOML with the place of everything: a table whose keys are all known, and values
//! that are what they must be. What is wrong names its line, its column and what to write.

use std::fmt::Display;
use std::str::FromStr;

use toml_span::value::{Array, Table as TomlTable, ValueInner};
use toml_span::{Span, Value};

/// What is wrong with a configuration file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {cause}")]
pub struct Error {
    /// The line, from 1.
    pub line: usize,
    /// The character in it, from 1.
    pub column: usize,
    /// What is wrong.
    pub cause: String,
    /// What to write instead.
    pub fix: String,
}

/// What is wrong, at a byte of the file.
#[derive(Debug)]
pub(super) struct Problem {
    at: usize,
    cause: String,
    fix: String,
}

/// What reading gives.
pub(super) type Read<T> = Result<T, Problem>;

impl Problem {
    pub(super) fn new(span: Span, cause: impl Into<String>, fix: impl Into<String>) -> Problem {
        Problem { at: span.start, cause: cause.into(), fix: fix.into() }
    }

    /// The problem, said to be one of something's.
    pub(super) fn within(self, what: String) -> Problem {
        Problem { cause: format!("{what}: {}", self.cause), ..self }
    }

    /// The problem with its line and column in the text.
    pub(super) fn place(self, text: &str) -> Error {
        let (line, column) = place(text, self.at);
        Error { line, column, cause: self.cause, fix: self.fix }
    }
}

/// The line and column of a byte.
pub(super) fn place(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (line, before[start..].chars().count() + 1)
}

/// What a file that is no TOML has wrong.
pub(super) fn not_toml(error: &toml_span::Error) -> Problem {
    Problem::new(error.span, format!("this is no TOML: {error}"), "see https://toml.io for what TOML is")
}

/// A table whose keys are all known.
pub(super) struct Table<'a, 'de> {
    what: &'static str,
    values: &'a TomlTable<'de>,
    pub(super) span: Span,
}

impl<'a, 'de> Table<'a, 'de> {
    /// A value as a table that has these keys and no others.
    pub(super) fn new(value: &'a Value<'de>, what: &'static str, known: &[&[&str]]) -> Read<Table<'a, 'de>> {
        let Some(values) = value.as_table() else {
            return Err(Problem::new(value.span, format!("{what} must be a table"), "write { key = value }"));
        };
        let is_known = |name: &str| known.iter().any(|names| names.contains(&name));
        match values.keys().find(|key| !is_known(&key.name)) {
            None => Ok(Table { what, values, span: value.span }),
            Some(key) => {
                let names: Vec<&str> = known.iter().flat_map(|names| names.iter().copied()).collect();
                let cause = format!("{what} has no `{}`", key.name);
                Err(Problem::new(key.span, cause, format!("it may have {}", names.join(", "))))
            }
        }
    }

    /// The value of a key, if it is there.
    pub(super) fn get<T>(&self, key: &str, read: impl FnOnce(&Value<'de>) -> Read<T>) -> Read<Option<T>> {
        self.values.get(key).map(read).transpose()
    }

    /// The value of a key that must be there.
    pub(super) fn need<T>(
        &self,
        key: &str,
        example: &str,
        read: impl FnOnce(&Value<'de>) -> Read<T>,
    ) -> Read<T> {
        let missing = || {
            Problem::new(self.span, format!("{} needs `{key}`", self.what), format!("add {key} = {example}"))
        };
        self.get(key, read)?.ok_or_else(missing)
    }

    /// The items of a list; none when it is not there.
    pub(super) fn list(&self, key: &str) -> Read<&'a [Value<'de>]> {
        match self.values.get(key) {
            None => Ok(&[]),
            Some(value) => list(value).map(Array::as_slice),
        }
    }

    /// Whether a key is there.
    pub(super) fn has(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    /// The place of a key's value, or that of the table.
    pub(super) fn span_of(&self, key: &str) -> Span {
        self.values.get(key).map_or(self.span, |value| value.span)
    }
}

fn list<'a, 'de>(value: &'a Value<'de>) -> Read<&'a Array<'de>> {
    value.as_array().ok_or_else(|| wanted(value, "a list, as in [\"a\", \"b\"]"))
}

fn wanted(value: &Value<'_>, what: &str) -> Problem {
    let found = match value.as_ref() {
        ValueInner::String(_) => "a text",
        ValueInner::Integer(_) => "a number",
        ValueInner::Float(_) => "a fraction",
        ValueInner::Boolean(_) => "true or false",
        ValueInner::Array(_) => "a list",
        ValueInner::Table(_) => "a table",
    };
    Problem::new(value.span, format!("this is {found}"), format!("write {what}"))
}

/// A text in quotes; what else it is, is an error.
pub(super) fn text(value: &Value<'_>) -> Read<String> {
    value.as_str().map(str::to_owned).ok_or_else(|| wanted(value, "a text in quotes"))
}

/// True or false.
pub(super) fn flag(value: &Value<'_>) -> Read<bool> {
    value.as_bool().ok_or_else(|| wanted(value, "true or false"))
}

/// A number in a range.
pub(super) fn number<T>(value: &Value<'_>, least: i64, most: i64) -> Read<T>
where
    T: TryFrom<i64>,
{
    let range = || wanted(value, &format!("a number from {least} to {most}"));
    let number = value.as_integer().ok_or_else(range)?;
    let fits = Some(number).filter(|number| (least..=most).contains(number));
    let out = || {
        let cause = format!("{number} is not possible here");
        Problem::new(value.span, cause, format!("write a number from {least} to {most}"))
    };
    fits.and_then(|number| T::try_from(number).ok()).ok_or_else(out)
}

/// A text that says something else: an address, a name.
pub(super) fn parsed<T>(value: &Value<'_>, what: &str, example: &str) -> Read<T>
where
    T: FromStr<Err: Display>,
{
    let text = text(value)?;
    text.parse().map_err(|error| {
        Problem::new(
            value.span,
            format!("{text:?} is no {what}: {error}"),
            format!("write it as \"{example}\""),
        )
    })
}

/// One of some words.
pub(super) fn word<T: Copy>(value: &Value<'_>, words: &[(&str, T)]) -> Read<T> {
    let text = text(value)?;
    let found = words.iter().find(|(word, _)| *word == text);
    found.map(|(_, meaning)| *meaning).ok_or_else(|| {
        let names: Vec<String> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        Problem::new(value.span, format!("{text:?} is not known here"), format!("write {}", names.join(", ")))
    })
}
