//! What is wrong with a configuration, and how it is shown.
//!
//! [`Problem::render`] is for people: place, source line, a caret, what was expected
//! and the nearest name. [`Problem::compat`] is Click's own text (`config:3: ...`),
//! which scripts and test suites compare. Messages are worded as Click's wherever
//! Click has one; what it does not say goes beside the message, not into it.

use std::fmt::{self, Write};

use super::place::{SourceLocation, Sources};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The configuration cannot be used.
    Error,
    /// It can, but it is not what it seems.
    Warning,
    /// Said beside another problem, or for information.
    Note,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        })
    }
}

/// Something to say beside a problem, with a place of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// What it is about; none for the problem's own place.
    pub place: Option<SourceLocation>,
    /// What is wrong, in words.
    pub message: String,
    /// Whether Click says it too, so that it belongs in [`Problem::compat`].
    pub classic: bool,
}

/// An element that something went wrong with, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// Its name and class, `name :: Class`.
    pub element: String,
    /// What was being done: `configuring`, `initializing`.
    pub doing: &'static str,
}

/// One problem of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// How bad it is.
    pub severity: Severity,
    /// Where it is.
    pub place: SourceLocation,
    /// Where Click says it is, if that is elsewhere: it mostly means how far it has read.
    pub compat_place: Option<SourceLocation>,
    /// The element it is about, where Click prints a line of its own for that.
    pub context: Option<Context>,
    /// What it is, in Click's words where it has some.
    pub message: String,
    /// What Click says to it, where it says less.
    pub compat_message: Option<String>,
    /// What would have been right, if that can be said.
    pub expected: Option<String>,
    /// The name that was probably meant, or what to do.
    pub suggestion: Option<String>,
    /// More places, and the expansions that led here.
    pub notes: Vec<Note>,
}

impl Problem {
    /// A problem of a severity.
    pub fn new(severity: Severity, place: &SourceLocation, message: impl Into<String>) -> Problem {
        let (place, message) = (place.clone(), message.into());
        Problem {
            severity,
            place,
            compat_place: None,
            context: None,
            message,
            compat_message: None,
            expected: None,
            suggestion: None,
            notes: vec![],
        }
    }

    /// An error, with which the configuration cannot run.
    pub fn error(place: &SourceLocation, message: impl Into<String>) -> Problem {
        Problem::new(Severity::Error, place, message)
    }

    /// An error of the ports that a configuration names: it is of no element alone.
    pub fn of_ports(message: impl Into<String>) -> Box<Problem> {
        Box::new(Problem::error(&SourceLocation::nowhere("ports"), message))
    }

    /// A warning, with which the configuration runs all the same.
    pub fn warning(place: &SourceLocation, message: impl Into<String>) -> Problem {
        Problem::new(Severity::Warning, place, message)
    }

    /// Says what would have been right.
    pub fn expected(mut self, text: impl Into<String>) -> Problem {
        self.expected = Some(text.into());
        self
    }

    /// Says what was probably meant, if anything was found.
    pub fn suggest(mut self, text: Option<String>) -> Problem {
        self.suggestion = text.or(self.suggestion);
        self
    }

    /// Says where Click says it is.
    pub fn compat_at(mut self, place: &SourceLocation) -> Problem {
        self.compat_place = Some(place.clone());
        self
    }

    /// Says which element it is about, `name :: Class`, and what was being done.
    pub fn context(mut self, element: String, doing: &'static str) -> Problem {
        self.context = Some(Context { element, doing });
        self
    }

    /// Adds a note of ours.
    pub fn note(mut self, place: Option<&SourceLocation>, message: impl Into<String>) -> Problem {
        self.notes.push(Note { place: place.cloned(), message: message.into(), classic: false });
        self
    }

    /// Adds a note that Click makes too.
    pub fn classic(mut self, place: Option<&SourceLocation>, message: impl Into<String>) -> Problem {
        self.notes.push(Note { place: place.cloned(), message: message.into(), classic: true });
        self
    }

    /// Click's own text, ended by a newline: what happened under its place, and what an
    /// element has to say about it indented.
    pub fn compat(&self) -> String {
        let mut out = String::new();
        let warning = if self.severity == Severity::Warning { "warning: " } else { "" };
        let place = self.compat_place.as_ref().unwrap_or(&self.place);
        let message = self.compat_message.as_ref().unwrap_or(&self.message);
        match &self.context {
            None => push_compat(&mut out, place, &format!("{warning}{message}")),
            Some(context) => {
                push_compat(&mut out, place, &format!("While {} '{}':", context.doing, context.element));
                let first = [warning].into_iter().chain(std::iter::repeat(""));
                message.lines().zip(first).for_each(|(line, before)| out += &format!("  {before}{line}\n"));
            }
        }
        for note in self.notes.iter().filter(|n| n.classic) {
            push_compat(&mut out, note.place.as_ref().unwrap_or(&self.place), &note.message);
        }
        out
    }

    /// The message, with the element it is about.
    pub fn text(&self) -> String {
        match &self.context {
            Some(context) => format!("{}: {}", context.element, self.message),
            None => self.message.clone(),
        }
    }

    /// The text for people, ended by a newline.
    pub fn render(&self, sources: &Sources) -> String {
        let mut out = String::new();
        let text = self.text();
        let mut lines = text.lines();
        let _ = writeln!(out, "{}: {}: {}", self.place, self.severity, lines.next().unwrap_or(""));
        for line in lines {
            let _ = writeln!(out, "  {line}");
        }
        push_excerpt(&mut out, &self.place, sources);
        if let Some(expected) = &self.expected {
            let _ = writeln!(out, "  = expected: {expected}");
        }
        if let Some(suggestion) = &self.suggestion {
            let _ = writeln!(out, "  = help: {suggestion}");
        }
        let mut shown = &self.place;
        for note in &self.notes {
            let Some(place) = &note.place else {
                let _ = writeln!(out, "  = note: {}", note.message);
                continue;
            };
            let _ = writeln!(out, "{place}: note: {}", note.message);
            if place != shown {
                push_excerpt(&mut out, place, sources);
                shown = place;
            }
        }
        out
    }
}

fn push_compat(out: &mut String, place: &SourceLocation, text: &str) {
    let landmark = place.landmark();
    let colon = if landmark.is_empty() { "" } else { ": " };
    for line in text.lines() {
        let _ = writeln!(out, "{landmark}{colon}{line}");
    }
}

/// The most characters of a source line shown on each side of the caret.
const EXCERPT: usize = 60;

/// The line a place is in with a caret under the place. Tabs become spaces and
/// control characters dots: a configuration must not drive the terminal.
fn push_excerpt(out: &mut String, place: &SourceLocation, sources: &Sources) {
    let Some((line, at)) = sources.line(place) else { return };
    let shown = |c: char| match c {
        '\t' => ' ',
        c if c.is_control() => '.',
        c => c,
    };
    let before: Vec<char> = line[..at].chars().rev().take(EXCERPT + 1).collect();
    let cut = before.len() > EXCERPT;
    let before: String = before.into_iter().take(EXCERPT).rev().map(shown).collect();
    let mut after: String = line[at..].chars().take(EXCERPT + 1).map(shown).collect();
    if after.chars().count() > EXCERPT {
        after = after.chars().take(EXCERPT).collect::<String>() + "...";
    }
    let lead = if cut { "..." } else { "" };
    let number = place.line.to_string();
    let gutter = " ".repeat(number.len());
    let indent = " ".repeat(lead.len() + before.chars().count());
    let _ = writeln!(out, "{gutter} |\n{number} | {lead}{before}{after}\n{gutter} | {indent}^");
}

/// Problems with the texts they are in.
#[derive(Clone, Debug, Default)]
pub struct Problems {
    /// In the order in which Click would find them.
    pub list: Vec<Problem>,
    /// The texts, for showing lines of them.
    pub sources: Sources,
}

impl Problems {
    /// The most that are kept; a last one says that there were more.
    pub const MOST: usize = 1_000;

    /// How many are errors.
    pub fn errors(&self) -> usize {
        self.list.iter().filter(|p| p.severity == Severity::Error).count()
    }

    /// All for people, an empty line after each.
    pub fn render(&self) -> String {
        self.list.iter().map(|p| p.render(&self.sources) + "\n").collect()
    }

    /// All in Click's own text; notes are not Click's.
    pub fn compat(&self) -> String {
        let mut out = String::new();
        let mut before: Option<&Context> = None;
        for problem in self.list.iter().filter(|p| p.severity != Severity::Note) {
            let text = problem.compat();
            // What one element has to say has one heading.
            let again = problem.context.is_some() && problem.context.as_ref() == before;
            out += if again { text.split_once('\n').map_or("", |(_, rest)| rest) } else { &text };
            before = problem.context.as_ref();
        }
        out
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render())
    }
}

impl std::error::Error for Problems {}
