//! Sources to a flat graph: what the passes share, and their order.

use super::body::Body;
use super::class::Classes;
use super::elaborate;
use super::expand;
use super::splice;
use crate::lang::Options;
use crate::lang::flat::{Flat, Requirement};
use crate::lang::lexer::Text;
use crate::lang::parser::Parser;
use crate::lang::place::{Source, SourceLocation, Sources};
use crate::lang::problem::{Problem, Problems, Severity};

/// What the passes share.
pub struct Reader<'o> {
    pub options: &'o Options<'o>,
    pub classes: Classes<'o>,
    /// The scopes that are open, the file's first.
    pub bodies: Vec<Body>,
    /// The names of the classes being defined, outermost first.
    pub defining: Vec<String>,
    pub requirements: Vec<Requirement>,
    /// The libraries that are in, by their source's name.
    pub libraries: Vec<String>,
    /// How many libraries are being read, one requiring the next.
    pub library_depth: usize,
    pub sources: Sources,
    /// Where the last source ends.
    pub end: SourceLocation,
    /// Elements and connections so far, in all scopes.
    pub elements: usize,
    pub links: usize,
    /// Whether a limit was exceeded, after which nothing more is added.
    pub full: bool,
    problems: Vec<Problem>,
    /// Problems beyond [`Problems::MOST`], and whether one of those was an error.
    dropped: usize,
    failed: bool,
    /// How many more names may be looked for among those that exist.
    pub searches: usize,
}

/// Reads a configuration: see [`crate::lang::read`].
pub fn read(sources: Vec<Source>, options: &Options<'_>) -> Result<Flat, Problems> {
    let (mut flat, problems, failed) = read_anyway(sources, options);
    if failed {
        return Err(problems);
    }
    flat.warnings = problems.list;
    Ok(flat)
}

/// Reads what can be read: that, what is wrong with it, and whether any of it is an
/// error.
pub fn read_anyway(sources: Vec<Source>, options: &Options<'_>) -> (Flat, Problems, bool) {
    let mut reader = Reader::new(options);
    for source in sources {
        if let Some(text) = reader.text(source) {
            if reader.bodies.is_empty() {
                reader.bodies.push(Body::new(text.start(), 0));
            }
            reader.end = reader.statements(&text);
        }
    }
    let body = reader.bodies.pop().unwrap_or_else(|| Body::new(reader.end.clone(), 0));
    let expanded = expand::expand(&mut reader, body);
    let flat = splice::splice(&mut reader, expanded);
    reader.finish(flat)
}

impl<'o> Reader<'o> {
    fn new(options: &'o Options<'o>) -> Reader<'o> {
        Reader {
            options,
            classes: Classes::new(options),
            bodies: vec![],
            defining: vec![],
            requirements: vec![],
            libraries: vec![],
            library_depth: 0,
            sources: Sources::default(),
            end: SourceLocation::nowhere("config"),
            elements: 0,
            links: 0,
            full: false,
            problems: vec![],
            dropped: 0,
            failed: false,
            searches: 50,
        }
    }

    /// Makes a source ready, unless it is too long.
    pub fn text(&mut self, source: Source) -> Option<Text> {
        if source.text.len() <= self.options.limits.source {
            return Some(Text::new(source, &mut self.sources));
        }
        let most = self.options.limits.source;
        let problem = Problem::error(&SourceLocation::nowhere(&source.name), "configuration too long");
        self.problem(problem.expected(format!("at most {most} bytes")));
        None
    }

    /// Reads a text's statements into the scope that is open; where it ends.
    pub fn statements(&mut self, text: &Text) -> SourceLocation {
        let mut parser = Parser::new(text);
        loop {
            let statement = parser.statement();
            let before = self.problems.len();
            for problem in parser.take_problems() {
                self.problem(problem);
            }
            let Some(statement) = statement else { return parser.place().clone() };
            elaborate::statement(self, statement);
            // Of one statement, syntax and meaning by place, as Click finds them.
            let added = &mut self.problems[before..];
            if added.len() > 1 && added.iter().all(|p| p.place.source == added[0].place.source) {
                added.sort_by_key(|p| p.place.offset);
            }
        }
    }

    /// Keeps a problem, unless there are more than anybody reads.
    pub fn problem(&mut self, problem: Problem) {
        self.failed |= problem.severity == Severity::Error;
        match self.problems.len() < Problems::MOST {
            true => self.problems.push(problem),
            false => self.dropped += 1,
        }
    }

    /// The problems so far, to add notes to.
    pub fn problems(&mut self) -> &mut [Problem] {
        &mut self.problems
    }

    /// Whether one more element fits; a problem, once, when it does not.
    pub fn room_for_element(&mut self, place: &SourceLocation) -> bool {
        self.elements += 1;
        self.within(
            self.elements <= self.options.limits.elements,
            place,
            "elements",
            self.options.limits.elements,
        )
    }

    /// Accounts for connections that were made.
    pub fn count_links(&mut self, added: usize, place: &SourceLocation) -> bool {
        self.links += added;
        let most = self.options.limits.connections;
        self.within(self.links < most, place, "connections", most)
    }

    /// How many connections may still be made.
    pub fn room_for_links(&self) -> usize {
        self.options.limits.connections.saturating_sub(self.links)
    }

    /// Complains when a limit is exceeded, of the first one.
    pub fn within(&mut self, fits: bool, place: &SourceLocation, what: &str, most: usize) -> bool {
        if !fits && !self.full {
            self.full = true;
            let problem = Problem::error(place, format!("too many {what}"));
            self.problem(problem.expected(format!("at most {most}, compound elements expanded")));
        }
        fits && !self.full
    }

    fn finish(mut self, mut flat: Flat) -> (Flat, Problems, bool) {
        if self.dropped > 0
            && let Some(last) = self.problems.last()
        {
            let text = format!("{} more problems are not shown", self.dropped);
            self.problems.push(Problem::new(Severity::Note, &last.place.clone(), text));
        }
        flat.requirements = self.requirements;
        flat.sources = self.sources.clone();
        (flat, Problems { list: self.problems, sources: self.sources }, self.failed)
    }
}
