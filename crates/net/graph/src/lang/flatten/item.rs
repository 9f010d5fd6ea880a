//! Chains: elements mentioned, declared or made on the spot, and their connections.

use std::borrow::Cow;
use std::sync::Arc;

use smallvec::SmallVec;

use super::body::{Element, INPUT, OUTPUT, SIDES};
use super::class::ClassId;
use super::elaborate::{add_tunnels, body, check_pseudo, class_named, compound, explain_class, statement};
use super::reader::Reader;
use super::wire::{self, End};
use crate::lang::lexer::Config;
use crate::lang::place::SourceLocation;
use crate::lang::problem::Problem;
use crate::lang::tree::*;

/// An item while its step is worked out.
struct Pending<'a> {
    /// The element's or class's name, as it is written; that of a group is made.
    name: Cow<'a, str>,
    /// The class the name means, or that is written in its place.
    class: Option<ClassId>,
    /// The class after `::`.
    declared: Option<ClassId>,
    /// Whether there is only a name.
    bare: bool,
    /// Whether it is `input` or `output` by position.
    implicit: bool,
    /// Whether a configuration string was given.
    configured: bool,
    config: String,
    config_place: Option<SourceLocation>,
    place: SourceLocation,
    ports: [Option<Box<Ports>>; 2],
    /// The element, where there is one of the name, or a group was made.
    element: Option<u32>,
}

/// Adds a chain's elements and connections to the scope that is open.
pub fn chain(reader: &mut Reader<'_>, chain: Chain<'_>) {
    let mut before: Option<SmallVec<[End; 1]>> = None;
    let mut last = None;
    suggest_input(reader, &chain);
    for Step { arrow, items, goes_on, place, next } in chain.steps {
        let ends = step(reader, items, before.is_none(), goes_on);
        match (before, arrow) {
            (Some(from), Some(arrow)) => connect(reader, &from, &ends, arrow, [&place, &next]),
            _ => check_useless(reader, &ends, INPUT, [&place, &next]),
        }
        last = Some((place, next, goes_on));
        before = Some(ends);
    }
    if let (Some(ends), Some((place, next, false))) = (&before, last) {
        check_useless(reader, ends, OUTPUT, [&place, &next]);
    }
    let body = body(reader);
    let output = body.find(SIDES[OUTPUT]);
    body.at_output = matches!(before.as_deref(), Some([end]) if Some(end.element) == output);
}

/// A chain that begins with an arrow right after one that does not end at `output`
/// looks like one chain in two lines.
fn suggest_input(reader: &mut Reader<'_>, chain: &Chain<'_>) {
    let Some(Step { items, place, .. }) = chain.steps.first() else { return };
    let Some(Item { what: What::Implicit, outputs: None, .. }) = items.first() else { return };
    if body(reader).at_output {
        return;
    }
    let arrow = chain.steps.get(1).and_then(|s| s.arrow);
    let arrow = if arrow == Some(Arrow::Many) { "=>" } else { "->" };
    let message = format!("suggest 'input {arrow}' or '[0] {arrow}' to start connection");
    reader.problem(Problem::warning(place, message));
}

fn connect(reader: &mut Reader<'_>, from: &[End], to: &[End], arrow: Arrow, places: [&SourceLocation; 2]) {
    let [place, next] = places;
    let room = reader.room_for_links();
    let body = body(reader);
    let before = body.links.len();
    let problems = wire::connect_all(body, from, to, arrow, place, room);
    let added = body.links.len() - before;
    problems.into_iter().for_each(|p| reader.problem(p.compat_at(next)));
    reader.count_links(added, place);
}

/// Complains of ports beside which there is no arrow. `places` are the step's and
/// the next one's.
fn check_useless(reader: &mut Reader<'_>, ends: &[End], side: usize, places: [&SourceLocation; 2]) {
    if ends.iter().any(|e| e.ports[side].is_some()) {
        let message = match side {
            INPUT => "input ports ignored at start of chain",
            _ => "output ports ignored at end of chain",
        };
        let problem = Problem::error(places[0], message).compat_at(places[1]);
        reader.problem(problem.expected(match side {
            INPUT => "an arrow before the ports",
            _ => "an arrow after the ports",
        }));
    }
}

/// The elements of one side of an arrow. First all that is written in braces and
/// parentheses, then the elements in order: so they are numbered.
fn step(
    reader: &mut Reader<'_>,
    mut items: SmallVec<[Item<'_>; 1]>,
    first: bool,
    goes_on: bool,
) -> SmallVec<[End; 1]> {
    if items.len() == 1
        && let Some(item) = items.pop()
    {
        // Most of what there is.
        let pending = prepare(reader, item, first);
        return finish(reader, pending, true).into_iter().collect();
    }
    let mut pending: SmallVec<[Pending<'_>; 1]> =
        items.into_iter().map(|item| prepare(reader, item, first)).collect();
    spread(&mut pending, first && !goes_on);
    pending.into_iter().filter_map(|p| finish(reader, p, false)).collect()
}

fn prepare<'a>(reader: &mut Reader<'_>, item: Item<'a>, first: bool) -> Pending<'a> {
    let mut pending = Pending {
        name: "".into(),
        class: None,
        declared: None,
        bare: matches!(item.what, What::Name(_)) && item.class.is_none() && item.config.is_none(),
        implicit: false,
        configured: item.config.is_some(),
        config: String::new(),
        config_place: None,
        place: item.place,
        ports: [item.inputs, item.outputs],
        element: None,
    };
    match item.what {
        What::Name(name) => {
            pending.name = Cow::Borrowed(name);
            // Mostly it is an element's: what a configuration has a million of.
            pending.element = body(reader).find(name);
            pending.class = match pending.element {
                Some(_) => reader.classes.lookup_element(name),
                None => reader.classes.lookup(name),
            };
        }
        What::Implicit => {
            pending.name = SIDES[usize::from(!first)].into();
            pending.implicit = true;
        }
        What::Compound(class) => pending.class = Some(compound(reader, *class, "")),
        What::Group(inner) => group(reader, *inner, &mut pending),
    }
    pending.declared = item.class.map(|class| match class {
        ClassUse::Name(name, place) => class_named(reader, name, &place),
        ClassUse::Compound(class) => compound(reader, *class, ""),
        ClassUse::Missing => ClassId::ERROR,
    });
    if let Some(config) = item.config {
        let Config { text, place, .. } = *config;
        (pending.config, pending.config_place) = (text.into_owned(), Some(place));
    }
    pending
}

/// `a, b, c :: Class(config)` declares all three.
fn spread(items: &mut [Pending<'_>], alone: bool) {
    let plain = |p: &Pending<'_>| !p.implicit && p.ports == [None, None];
    let Some((last, others)) = items.split_last_mut() else { return };
    if !alone || others.is_empty() || !plain(last) || !others.iter().all(|p| p.bare && plain(p)) {
        return;
    }
    for other in others {
        other.declared = last.declared;
        other.config.clone_from(&last.config);
        other.config_place.clone_from(&last.config_place);
    }
}

/// `( ... )`: statements of this scope, with an `input` and `output` of their own.
fn group(reader: &mut Reader<'_>, group: Group<'_>, pending: &mut Pending<'_>) {
    let mut here = reader.bodies.pop().expect("the scope a group is in is open");
    let name = here.anonymous_name("");
    let [whole, input, output] = add_tunnels(reader, &mut here, &name, &pending.place);
    let outer = [here.rename(INPUT, Some(input)), here.rename(OUTPUT, Some(output))];
    let first = here.links.len();
    here.at_output = true;
    reader.bodies.push(here);
    for inner in group.body {
        statement(reader, inner);
    }
    let mut here = reader.bodies.pop().expect("pushed above, and statements leave the stack as it was");
    for (side, inner) in [(INPUT, input), (OUTPUT, output)] {
        let count = check_pseudo(reader, &here, inner, side, "<anonymous group>", first, &group.end);
        here.rename(side, outer[side]);
        if count > 0 && pending.ports[side].is_none() {
            pending.ports[side] = Some(Box::new(Ports { ranges: vec![(0, count - 1)], open: false }));
        }
    }
    reader.bodies.push(here);
    (pending.name, pending.element) = (Cow::Owned(name.to_string()), Some(whole));
}

/// The element of an item: found, or added to the scope, perhaps by an item before it of the same
/// step, which it is not where it `is_alone`.
fn finish(reader: &mut Reader<'_>, mut item: Pending<'_>, is_alone: bool) -> Option<End> {
    let ports = std::mem::take(&mut item.ports);
    let was_looked_up = is_alone && !item.implicit;
    let found = match item.class {
        Some(_) => None,
        None if was_looked_up => item.element,
        None => item.element.or_else(|| body(reader).find(&item.name)),
    };
    let element = match found {
        Some(index) => mention(reader, item, index),
        None => declare(reader, item)?,
    };
    Some(End { element, ports })
}

/// An element that is there already.
fn mention(reader: &mut Reader<'_>, item: Pending<'_>, index: u32) -> u32 {
    if item.declared.is_none() && !item.configured {
        return index;
    }
    let there = &body(reader).elements[index as usize];
    let (missing, class, place) = (there.missing, there.class, there.place.clone());
    if missing {
        if item.declared.is_some() {
            declared_late(reader, &item);
        }
    } else if item.declared.is_some() {
        let mut problem = Problem::error(&item.place, format!("redeclaration of element '{}'", item.name));
        if class != ClassId::TUNNEL {
            problem =
                problem.classic(Some(&place), format!("element '{}' previously declared here", item.name));
        }
        reader.problem(problem);
    } else {
        let config = item.config_place.as_ref().unwrap_or(&item.place);
        let problem = Problem::error(config, "configuration string ignored on element reference");
        reader.problem(problem.note(Some(&place), format!("element '{}' declared here", item.name)));
    }
    index
}

/// Tells the complaint of an undeclared element that it is declared after all.
fn declared_late(reader: &mut Reader<'_>, item: &Pending<'_>) {
    let message = format!("undeclared element '{}'", item.name);
    if let Some(problem) = reader.problems().iter_mut().find(|p| p.message == message) {
        problem.suggestion = Some("declare it before it is used".into());
        let note = crate::lang::problem::Note {
            place: Some(item.place.clone()),
            message: "declared here, which is too late".into(),
            classic: false,
        };
        problem.notes.push(note);
    }
}

fn declare(reader: &mut Reader<'_>, item: Pending<'_>) -> Option<u32> {
    if !reader.room_for_element(&item.place) {
        return None;
    }
    let own = |item: &Pending<'_>| -> Arc<str> { (*item.name).into() };
    let mut missing = false;
    let (name, class) = match (item.class, item.declared) {
        (Some(class), declared) => {
            if declared.is_some() {
                let message = format!("class '{}' used as element name", item.name);
                reader.problem(Problem::error(&item.place, message).expected("a name that is no class's"));
            }
            // Of which class it was meant to be is not known, so nothing is said of its ports.
            let class = if declared.is_some() { ClassId::ERROR } else { class };
            (body(reader).anonymous_name(&item.name), class)
        }
        (None, Some(class)) => (own(&item), class),
        (None, None) => {
            undeclared(reader, &item);
            // What has a configuration string was meant as a class.
            missing = !item.configured;
            let name = match item.configured {
                true => {
                    reader.classes.give_up(&item.name);
                    body(reader).anonymous_name(&item.name)
                }
                false => own(&item),
            };
            (name, ClassId::ERROR)
        }
    };
    let digits = |component: &[u8]| component.iter().all(u8::is_ascii_digit);
    if item.class.is_none() && item.name.as_bytes().split(|&byte| byte == b'/').any(digits) {
        let problem =
            Problem::error(&item.place, format!("element name '{}' has all-digit component", item.name));
        reader.problem(problem.expected("a letter, '_' or '@' between slashes"));
    }
    let mut element = Element::new(name, class, item.place);
    (element.config, element.config_place, element.missing) = (item.config, item.config_place, missing);
    Some(body(reader).add(element))
}

fn undeclared(reader: &mut Reader<'_>, item: &Pending<'_>) {
    let name = &*item.name;
    let problem = Problem::error(&item.place, format!("undeclared element '{name}'"));
    let problem = problem.expected("an element declared above, or a class");
    let problem = if item.implicit || SIDES.contains(&name) {
        problem.suggest(Some(format!("'{name}' is only known inside '{{ ... }}' and '( ... )'")))
    } else {
        suggest_element(reader, problem, item)
    };
    reader.problem(problem);
}

/// The nearest element's name, for what looks like one, else the nearest class's.
fn suggest_element(reader: &mut Reader<'_>, problem: Problem, item: &Pending<'_>) -> Problem {
    let name = &*item.name;
    if reader.searches > 0 && !item.configured {
        let body = body(reader);
        let names = body.elements.iter().filter(|e| !e.missing).map(|e| &*e.name);
        let found =
            crate::lang::suggestion(name, names.take(10_000)).map(|found| format!("did you mean '{found}'?"));
        if found.is_some() {
            return problem.suggest(found);
        }
    }
    explain_class(reader, problem, name)
}
