//! Statements to the elements and connections of their scope.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use super::body::{Body, Element, INPUT, OUTPUT, SIDES};
use super::class::{Class, ClassId, Overloads};
use super::formals::REST;
use super::item;
use super::reader::Reader;
use crate::lang::args;
use crate::lang::flat::Requirement;
use crate::lang::lexer::Config;
use crate::lang::place::SourceLocation;
use crate::lang::problem::Problem;
use crate::lang::tree::*;
use crate::lang::variable::is_variable_name;

/// How many libraries may require each other in a row.
const LIBRARY_DEPTH: usize = 16;

/// Adds what a statement says to the scope that is open.
pub fn statement(reader: &mut Reader<'_>, statement: Statement<'_>) {
    match statement {
        Statement::Chain(chain) => item::chain(reader, chain),
        Statement::Class(class) => class_statement(reader, class),
        Statement::Require(config) => require(reader, &config),
        Statement::Define(config) => define(reader, &config),
    }
}

/// The scope that is open.
pub fn body<'r>(reader: &'r mut Reader<'_>) -> &'r mut Body {
    reader.bodies.last_mut().expect("the file's scope is open while statements are read")
}

fn class_statement(reader: &mut Reader<'_>, class: ClassStatement<'_>) {
    let meaning = match class.class {
        ClassUse::Name(name, place) => class_named(reader, name, &place),
        ClassUse::Compound(compound) => self::compound(reader, *compound, class.name),
        ClassUse::Missing => ClassId::ERROR,
    };
    if !class.name.is_empty() {
        reader.classes.name(class.name, meaning);
    }
}

/// The class of a name; one that stands for an error, from here on silently, if it is
/// not known.
pub fn class_named(reader: &mut Reader<'_>, name: &str, place: &SourceLocation) -> ClassId {
    if let Some(id) = reader.classes.lookup(name) {
        return id;
    }
    let problem = Problem::error(place, format!("unknown element class '{name}'"));
    let problem = explain_class(reader, problem, name);
    reader.problem(problem);
    reader.classes.give_up(name);
    ClassId::ERROR
}

/// Adds to a problem about a name that is no class what it should have been.
pub fn explain_class(reader: &mut Reader<'_>, problem: Problem, name: &str) -> Problem {
    if reader.defining.iter().any(|d| d == name) {
        return problem.suggest(Some(format!(
            "'{name}' is being defined here, and a compound class cannot contain itself"
        )));
    }
    if reader.searches == 0 {
        return problem;
    }
    reader.searches -= 1;
    let names = reader.classes.names();
    let found = crate::lang::suggestion(name, names.iter().map(String::as_str));
    problem.suggest(found.map(|found| format!("did you mean '{found}'?")))
}

/// A compound class; its name is empty for an anonymous one.
pub fn compound(reader: &mut Reader<'_>, class: CompoundClass<'_>, name: &str) -> ClassId {
    let shared: Arc<str> = name.into();
    let extends = class.extends.as_ref().map(|place| extended(reader, name, place));
    reader.defining.push(name.to_owned());
    let bodies: Vec<Rc<Body>> =
        class.overloads.into_iter().map(|o| Rc::new(overload(reader, o, name))).collect();
    reader.defining.pop();
    if bodies.is_empty() {
        return ClassId::ERROR;
    }
    reader.classes.add(Class::Compound(Rc::new(Overloads { name: shared, bodies, extends })))
}

/// What `...` extends: the class of that name before this one.
fn extended(reader: &mut Reader<'_>, name: &str, place: &SourceLocation) -> ClassId {
    reader.classes.lookup(name).unwrap_or_else(|| {
        let problem = Problem::error(place, format!("cannot extend unknown element class '{name}'"));
        let problem = match name.is_empty() {
            true => problem.suggest(Some("only 'elementclass NAME { ... || ... }' extends a class".into())),
            false => explain_class(reader, problem, name),
        };
        reader.problem(problem);
        ClassId::ERROR
    })
}

fn overload(reader: &mut Reader<'_>, overload: Overload<'_>, name: &str) -> Body {
    let mut inner = Body::new(overload.place.clone(), reader.bodies.len());
    for problem in add_formals(&mut inner, overload.formals) {
        reader.problem(problem);
    }
    reader.bodies.push(inner);
    reader.classes.open();
    for inner in overload.body {
        statement(reader, inner);
    }
    reader.classes.close();
    let mut body = reader.bodies.pop().expect("pushed above, and statements leave the stack as it was");
    let printable = if name.is_empty() { "<anonymous>" } else { name };
    body.ports =
        [0, 1].map(|side| check_pseudo(reader, &body, side as u32, side, printable, 0, &overload.place));
    for index in 0..body.elements.len() {
        body.assign_name(index, true);
    }
    body
}

fn add_formals(body: &mut Body, formals: Vec<Formal<'_>>) -> Vec<Problem> {
    let mut problems = vec![];
    let mut ordered = true;
    for Formal { keyword, variable, place } in formals {
        if body.formals.iter().any(|(v, _)| &**v == variable) {
            problems.push(Problem::error(&place, format!("parameter '${variable}' multiply defined")));
            continue;
        }
        if !keyword.is_empty() && body.formals.iter().any(|(_, k)| &**k == keyword) {
            let message = format!("repeated keyword parameter '{keyword}' in compound element");
            problems.push(Problem::error(&place, message));
        }
        let before = body.formals.last().map(|(_, k)| k.clone());
        if ordered && before.is_some_and(|k| &*k == REST || (keyword.is_empty() && !k.is_empty())) {
            let message = "compound element parameters out of order\n\
                           (The correct order is '[positional], [keywords], [__REST__]'.)";
            problems.push(Problem::error(&place, message));
            ordered = false;
        }
        body.formals.push((variable.into(), keyword.into()));
    }
    problems
}

/// Checks how `input` or `output` is used; how many ports it has.
pub fn check_pseudo(
    reader: &mut Reader<'_>,
    body: &Body,
    index: u32,
    side: usize,
    name: &str,
    first: usize,
    place: &SourceLocation,
) -> u32 {
    let (count, misused, missing) = body.check_pseudo(index, side, first);
    let (own, other) = (SIDES[side], SIDES[1 - side]);
    if misused {
        let message = format!("'{name}' pseudoelement '{own}' may only be used as {other}");
        reader.problem(Problem::error(place, message).suggest(Some(match side {
            INPUT => "packets come out of 'input': input -> ...".into(),
            _ => "packets go into 'output': ... -> output".to_string(),
        })));
    }
    for port in missing {
        let message = format!("'{name}' {own} {port} missing");
        let highest = count.saturating_sub(1);
        let help = format!("{own} {highest} is used, so {own}s 0 to {highest} must be");
        reader.problem(Problem::error(place, message).suggest(Some(help)));
    }
    count
}

/// Adds an element with the inside of a compound element or group: three elements,
/// itself and its `input` and `output`. What of these the names already meant must
/// be such elements too.
pub fn add_tunnels(reader: &mut Reader<'_>, body: &mut Body, name: &str, place: &SourceLocation) -> [u32; 3] {
    let names = [name.to_owned(), format!("{name}/{}", SIDES[INPUT]), format!("{name}/{}", SIDES[OUTPUT])];
    names.map(|name| match body.find(&name) {
        None => {
            reader.room_for_element(place);
            body.add(Element::new(name.into(), ClassId::TUNNEL, place.clone()))
        }
        Some(index) => {
            let there = &body.elements[index as usize];
            if there.class != ClassId::TUNNEL {
                reader.problem(redeclaration(&name, place, &there.place));
            }
            index
        }
    })
}

/// A name that expanding makes, and that is taken.
pub fn redeclaration(name: &str, place: &SourceLocation, before: &SourceLocation) -> Problem {
    Problem::error(place, format!("redeclaration of element '{name}'"))
        .classic(Some(before), format!("'{name}' previously declared here"))
}

/// `define($A v, $B w)`.
fn define(reader: &mut Reader<'_>, config: &Config<'_>) {
    let mut problems = vec![];
    for (at, argument) in args::split_at(&config.text) {
        if argument.is_empty() {
            continue;
        }
        let (variable, value) = args::shift_word(&argument);
        let place = inside(config, at);
        let Some(name) = variable.strip_prefix('$').filter(|name| is_variable_name(name)) else {
            let problem = Problem::error(&place, "bad 'define' declaration: not a variable");
            problems.push(problem.expected("define($NAME value, ...)"));
            continue;
        };
        let body = body(reader);
        if !body.define(name, value) {
            problems.push(Problem::error(&place, format!("parameter '${name}' multiply defined")));
        }
    }
    problems.into_iter().for_each(|p| reader.problem(p.compat_at(&config.end)));
}

/// The place of an offset in a configuration string; of its beginning, if there are
/// line directives in it.
fn inside(config: &Config<'_>, offset: usize) -> SourceLocation {
    match (&config.text, config.text.get(..offset)) {
        (Cow::Borrowed(_), Some(before)) => config.place.after(before),
        _ => config.place.clone(),
    }
}

/// `require(package x, library f.click, compact_config)`.
fn require(reader: &mut Reader<'_>, config: &Config<'_>) {
    for (at, argument) in args::split_at(&config.text) {
        let place = inside(config, at);
        let words = args::words(&argument);
        let word = |i: usize| words.get(i).and_then(|w| args::unquote_text(w)).filter(|w| !w.is_empty());
        let kind = word(0).filter(|k| args::is_word(k));
        match (words.len(), kind.as_deref(), word(1)) {
            (0, ..) => {}
            (1, Some("compact_config"), _) => add_requirement(reader, "compact_config", "", &place),
            (1, Some(name), _) if name != "package" && name != "library" => {
                add_requirement(reader, "package", name, &place);
            }
            (2, Some("package"), Some(name)) => add_requirement(reader, "package", &name, &place),
            (2, Some("library"), Some(name)) => library(reader, &name, &place, &config.end),
            _ => {
                let problem = Problem::error(&place, "syntax error at requirement").compat_at(&config.end);
                reader.problem(problem.expected("'package NAME', 'library FILE' or 'compact_config'"));
            }
        }
    }
}

fn add_requirement(reader: &mut Reader<'_>, kind: &str, value: &str, place: &SourceLocation) {
    let requirement = Requirement { kind: kind.into(), value: value.into(), place: place.clone() };
    reader.requirements.push(requirement);
}

/// Reads a library into the file's scope, once.
fn library(reader: &mut Reader<'_>, name: &str, place: &SourceLocation, end: &SourceLocation) {
    if reader.bodies.len() > 1 {
        reader.problem(Problem::error(place, "'require library' must be used at file scope").compat_at(end));
        return;
    }
    let folder =
        place.file.rsplit_once('/').map_or(".", |(folder, _)| if folder.is_empty() { "." } else { folder });
    let source = reader.options.library.and_then(|find| find(name, folder));
    let Some(source) = source else {
        let problem =
            Problem::error(place, format!("library '{name}' not found in CLICKPATH/conf")).compat_at(end);
        reader.problem(problem.note(None, format!("looked for beside '{}' too", place.file)));
        return;
    };
    if reader.libraries.contains(&source.name) {
        return;
    }
    reader.libraries.push(source.name.clone());
    if reader.library_depth >= LIBRARY_DEPTH {
        let problem = Problem::error(place, format!("library '{name}' is required through too many others"));
        reader.problem(problem.expected(format!("at most {LIBRARY_DEPTH}")));
        return;
    }
    let Some(text) = reader.text(source) else { return };
    reader.library_depth += 1;
    reader.statements(&text);
    reader.library_depth -= 1;
}
