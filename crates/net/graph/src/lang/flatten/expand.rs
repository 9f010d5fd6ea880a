//! Compound elements replaced by what is in them.
//!
//! From the outside in: an element's arguments have the variables around it replaced,
//! choose an overload together with its port counts, and become the variables inside.
//! What is inside is added after everything else, with the element's name before its
//! own; the element itself stays, as the place where connections go in and out.

use std::rc::Rc;
use std::sync::Arc;

use super::body::{Body, Element, Formal, INPUT, OUTPUT};
use super::class::{Class, ClassId, Overloads};
use super::elaborate::{add_tunnels, redeclaration};
use super::formals::{self, REST};
use super::reader::Reader;
use crate::lang::args;
use crate::lang::flat::Compound;
use crate::lang::problem::Problem;
use crate::lang::variable::Environment;

/// How deep compound elements may be in each other.
const DEPTH: usize = 256;

/// The file's scope with everything expanded.
pub struct Expanded {
    pub body: Body,
    /// The compound elements, in order.
    pub compounds: Vec<Compound>,
    /// Of each element that is the outside or inside of something, what it leads to.
    pub tunnels: Vec<Tunnel>,
}

/// The outside of a compound element or group and the `input` and `output` in it.
#[derive(Clone, Copy, Debug)]
pub struct Tunnel {
    pub outside: u32,
    pub input: u32,
    pub output: u32,
}

/// Expands the file's scope.
pub fn expand(reader: &mut Reader<'_>, body: Body) -> Expanded {
    let mut scope = Environment::root(reader.options.limits.text);
    for (name, value) in &body.defines {
        scope.define(name.clone(), value.clone());
    }
    for (name, value) in &reader.options.defines {
        scope.define(name.as_str().into(), value.as_str().into());
    }
    let scope = Rc::new(scope);
    let count = body.elements.len();
    let mut expander = Expander { reader, body, compounds: vec![], tunnels: vec![], text: 0 };
    for index in 0..count {
        expander.group(index);
        expander.element(index, &scope, 0);
    }
    Expanded { body: expander.body, compounds: expander.compounds, tunnels: expander.tunnels }
}

struct Expander<'r, 'o> {
    reader: &'r mut Reader<'o>,
    body: Body,
    compounds: Vec<Compound>,
    tunnels: Vec<Tunnel>,
    /// Bytes of names and configuration strings made so far.
    text: usize,
}

impl Expander<'_, '_> {
    /// Joins a group's outside to its inside: the group is three elements in a row.
    fn group(&mut self, index: usize) {
        let name =
            |i: usize| self.body.elements.get(i).filter(|e| e.class == ClassId::TUNNEL).map(|e| &*e.name);
        let (Some(own), Some(input)) = (name(index), name(index + 1)) else { return };
        if input.strip_prefix(own) == Some("/input") && name(index + 2).is_some() {
            let outside = index as u32;
            self.tunnels.push(Tunnel { outside, input: outside + 1, output: outside + 2 });
        }
    }

    /// Expands an element that is in the scope `scope`, `depth` compound elements deep.
    fn element(&mut self, index: usize, scope: &Rc<Environment>, depth: usize) {
        let class = self.reader.classes.class(self.body.elements[index].class);
        self.body.assign_name(index, !matches!(class, Class::Plain(_)));
        let element = &mut self.body.elements[index];
        if element.class == ClassId::TUNNEL || self.reader.full {
            return;
        }
        if element.config.contains('$') {
            element.config = scope.expand(&element.config);
            self.text += element.config.len();
        }
        let most = self.reader.options.limits.text;
        let fits = !scope.exhausted() && self.text < most;
        self.reader.within(fits, &element.place, "bytes of configuration strings", most);
        let Class::Compound(overloads) = self.reader.classes.class(element.class) else { return };
        let (overloads, place) = (overloads.clone(), element.place.clone());
        match self.resolve(index, &overloads) {
            Resolved::Class(class) => self.body.elements[index].class = class,
            Resolved::Body(_, _) if depth >= DEPTH => {
                let problem = Problem::error(&place, "compound elements too deep in each other");
                self.reader.problem(problem.expected(format!("at most {DEPTH}")));
                self.body.elements[index].class = ClassId::ERROR;
            }
            Resolved::Body(inner, values) => {
                let mut own = Environment::inside(scope, inner.depth);
                for ((variable, _), value) in inner.formals.iter().zip(values) {
                    own.define(variable.clone(), value);
                }
                for (variable, value) in &inner.defines {
                    let value = own.expand(value);
                    own.define(variable.clone(), value.into());
                }
                self.inside(index, &inner, &overloads.name, &Rc::new(own), depth + 1);
            }
        }
    }

    /// Adds what is in a compound element, and expands that.
    fn inside(
        &mut self,
        index: usize,
        inner: &Body,
        class: &Arc<str>,
        scope: &Rc<Environment>,
        depth: usize,
    ) {
        let outer = &mut self.body.elements[index];
        outer.class = ClassId::TUNNEL;
        let (name, place) = (outer.name.clone(), outer.place.clone());
        self.compounds.push(Compound {
            name: name.to_string(),
            class: class.clone(),
            place: place.clone(),
            within: outer.within,
        });
        let within = self.compounds.len() - 1;
        let own = self.tunnel(&name, index);
        let mut map: Vec<Option<u32>> = vec![Some(own.input), Some(own.output)];
        while let Some(element) = inner.elements.get(map.len()) {
            let full: Arc<str> = format!("{name}/{}", element.name).into();
            self.text += full.len() + element.config.len();
            if let Some(there) = self.body.find(&full) {
                let before = self.body.elements[there as usize].place.clone();
                self.reader.problem(redeclaration(&full, &place, &before));
                map.push(None);
            } else if element.class == ClassId::TUNNEL {
                let group = self.tunnel(&full, index);
                map.extend([group.outside, group.input, group.output].map(Some));
            } else if self.reader.room_for_element(&place) {
                map.push(Some(self.add(full, element, within, scope)));
            } else {
                return;
            }
        }
        self.connect(inner, &map);
        for index in map.into_iter().skip(2).flatten() {
            self.element(index as usize, scope, depth);
        }
    }

    /// Adds one element of a compound element.
    fn add(&mut self, name: Arc<str>, from: &Element, within: usize, scope: &Environment) -> u32 {
        let mut element = Element::new(name, from.class, from.place.clone());
        element.config = scope.expand(&from.config);
        element.config_place.clone_from(&from.config_place);
        element.within = Some(within);
        self.body.add(element)
    }

    /// Adds an `input` and `output` under a name, and the outside if it is not there.
    fn tunnel(&mut self, name: &str, index: usize) -> Tunnel {
        let place = self.body.elements[index].place.clone();
        let [outside, input, output] = add_tunnels(self.reader, &mut self.body, name, &place);
        let tunnel = Tunnel { outside, input, output };
        self.tunnels.push(tunnel);
        tunnel
    }

    /// Adds the connections of a compound element.
    fn connect(&mut self, inner: &Body, map: &[Option<u32>]) {
        if !self.reader.count_links(inner.links.len(), &inner.place) {
            return;
        }
        for link in &inner.links {
            let ends = (map[link.from.0 as usize], map[link.to.0 as usize]);
            if let (Some(from), Some(to)) = ends {
                self.body.connect((from, link.from.1), (to, link.to.1), &link.place);
            }
        }
    }

    /// The first overload that fits the element's arguments and ports. If none does,
    /// the last one whose parameters fit: what is wrong with the ports is then told
    /// port by port.
    fn resolve(&mut self, index: usize, overloads: &Rc<Overloads>) -> Resolved {
        let element = &self.body.elements[index];
        let ports = element.ports;
        let arguments = args::split(&element.config);
        let mut closest = None;
        let mut candidates: Vec<Rc<Body>> = vec![];
        let mut at = overloads.clone();
        loop {
            for body in &at.bodies {
                candidates.push(body.clone());
                if let Some(values) = formals::assign(&arguments, &body.formals) {
                    if body.ports == ports {
                        return Resolved::Body(body.clone(), values);
                    }
                    closest = Some((body.clone(), values));
                }
            }
            match at.extends.map(|id| (id, self.reader.classes.class(id))) {
                None => break,
                Some((_, Class::Compound(next))) => at = next.clone(),
                Some((id, _)) => return Resolved::Class(id),
            }
        }
        if candidates.len() != 1 || closest.is_none() {
            let problem = self.no_match(index, &overloads.name, &arguments, &candidates);
            self.reader.problem(problem);
        }
        closest.map_or(Resolved::Class(ClassId::ERROR), |(body, values)| Resolved::Body(body, values))
    }

    fn no_match(&self, index: usize, class: &str, arguments: &[String], candidates: &[Rc<Body>]) -> Problem {
        let element = &self.body.elements[index];
        let count = arguments.len();
        let arguments = match count {
            0 => String::new(),
            1 => "1 argument, ".into(),
            _ => format!("{count} arguments, "),
        };
        let class = if class.is_empty() { "<anonymous>" } else { class };
        let message = format!("no match for '{class}[{arguments}{}]'", port_counts(element.ports));
        let mut problem = Problem::error(&element.place, message).compat_at(&self.reader.end);
        for (i, body) in candidates.iter().enumerate() {
            if i == 0 {
                problem = problem.classic(Some(&body.place), "candidates are:");
            }
            let signature = format!("  {class}{}[{}]", parameters(&body.formals), port_counts(body.ports));
            problem = problem.classic(Some(&body.place), signature);
        }
        self.trace(problem, element.within)
    }

    /// Notes through which expansions an element came about, innermost first.
    fn trace(&self, mut problem: Problem, mut within: Option<usize>) -> Problem {
        for _ in 0..8 {
            let Some(compound) = within.and_then(|i| self.compounds.get(i)) else { break };
            problem = problem.note(Some(&compound.place), format!("in the expansion of '{}'", compound.name));
            within = compound.within;
        }
        problem
    }
}

enum Resolved {
    /// Not a compound class.
    Class(ClassId),
    /// An overload, with the values of its parameters.
    Body(Rc<Body>, Vec<Arc<str>>),
}

fn port_counts(ports: [u32; 2]) -> String {
    let s = |count: u32| if count == 1 { "" } else { "s" };
    let [inputs, outputs] = [ports[INPUT], ports[OUTPUT]];
    format!("{inputs} input{}, {outputs} output{}", s(inputs), s(outputs))
}

fn parameters(formals: &[Formal]) -> String {
    if formals.is_empty() {
        return String::new();
    }
    let names = formals.iter().map(|(_, keyword)| match &**keyword {
        "" => "<arg>",
        REST => "...",
        keyword => keyword,
    });
    format!("({})", names.collect::<Vec<_>>().join(", "))
}
