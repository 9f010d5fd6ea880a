//! Connections through the edges of compound elements and groups, joined.
//!
//! A connection into such an element's input goes on wherever its `input` does, one
//! into its `output` wherever the element's own output does. What a port inside an
//! edge leads to is worked out once, however many connections come in, and without
//! recursion: a chain of edges may be as long as the configuration.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::body::{Element, Link, Port, SIDES};
use super::class::{Class, ClassId};
use super::expand::{Expanded, Tunnel};
use super::reader::Reader;
use crate::lang::flat::{Connection, Declared, Flat};
use crate::lang::problem::Problem;

/// The flat graph of an expanded scope.
pub fn splice(reader: &mut Reader<'_>, mut expanded: Expanded) -> Flat {
    let Some(mut links) = without_edges(reader, &mut expanded) else { return Flat::default() };
    links.sort_by_key(|l| (l.to, l.from));
    links.dedup_by_key(|l| (l.to, l.from));
    let mut indices = Vec::with_capacity(expanded.body.elements.len());
    let mut count = 0;
    let declared = |element: Element| {
        let Class::Plain(class) = reader.classes.class(element.class) else {
            indices.push(usize::MAX);
            return None;
        };
        indices.push(count);
        count += 1;
        Some(Declared {
            name: element.name,
            class: class.clone(),
            config: element.config,
            place: element.place,
            config_place: element.config_place,
            within: element.within,
        })
    };
    // Each takes the memory that it was in before.
    let elements = expanded.body.elements.into_iter().filter_map(declared).collect();
    let port = |(element, port): Port| (indices[element as usize], port as usize);
    let connections =
        links.into_iter().map(|l| Connection { from: port(l.from), to: port(l.to), place: l.place });
    Flat { elements, connections: connections.collect(), compounds: expanded.compounds, ..Flat::default() }
}

/// Connections between elements only. None if there are too many.
fn without_edges(reader: &mut Reader<'_>, expanded: &mut Expanded) -> Option<Vec<Link>> {
    if expanded.body.elements.iter().all(|element| element.class != ClassId::TUNNEL) {
        return Some(std::mem::take(&mut expanded.body.links));
    }
    let edges = Edges::new(expanded);
    check(reader, expanded, &edges);
    joined(reader, expanded, &edges)
}

/// One side of an edge.
#[derive(Clone, Copy)]
enum Edge {
    None,
    /// The outside: its inputs lead to `input`, its outputs come from `output`.
    Outside(Tunnel),
    /// The `input` inside.
    Input(Tunnel),
    /// The `output` inside.
    Output(Tunnel),
}

/// All edges, and the connections that begin or end at them.
struct Edges {
    edges: Vec<Edge>,
    /// Connections by the edge's port they come from: indices, sorted by it.
    from: Vec<(Port, u32)>,
    /// The edges' ports that connections go to, sorted.
    to: Vec<Port>,
}

impl Edges {
    fn new(expanded: &Expanded) -> Edges {
        let mut edges = vec![Edge::None; expanded.body.elements.len()];
        for &tunnel in &expanded.tunnels {
            edges[tunnel.outside as usize] = Edge::Outside(tunnel);
            edges[tunnel.input as usize] = Edge::Input(tunnel);
            edges[tunnel.output as usize] = Edge::Output(tunnel);
        }
        let is_edge = |port: Port| expanded.body.elements[port.0 as usize].class == ClassId::TUNNEL;
        let (mut from, mut to) = (vec![], vec![]);
        for (i, link) in expanded.body.links.iter().enumerate() {
            if is_edge(link.from) {
                from.push((link.from, i as u32));
            }
            if is_edge(link.to) {
                to.push(link.to);
            }
        }
        from.sort_unstable();
        to.sort_unstable();
        Edges { edges, from, to }
    }

    /// Where a connection into an edge's port comes out.
    fn onwards(&self, (element, port): Port) -> Option<Port> {
        match self.edges[element as usize] {
            Edge::Outside(tunnel) => Some((tunnel.input, port)),
            Edge::Output(tunnel) => Some((tunnel.outside, port)),
            _ => None,
        }
    }

    /// Where a connection out of an edge's port went in.
    fn backwards(&self, (element, port): Port) -> Option<Port> {
        match self.edges[element as usize] {
            Edge::Outside(tunnel) => Some((tunnel.output, port)),
            Edge::Input(tunnel) => Some((tunnel.outside, port)),
            _ => None,
        }
    }

    /// The connections out of an edge's port.
    fn leaving(&self, port: Port) -> &[(Port, u32)] {
        let start = self.from.partition_point(|&(p, _)| p < port);
        let end = self.from.partition_point(|&(p, _)| p <= port);
        &self.from[start..end]
    }
}

/// Complains of ports that are used on one side of an edge only, once each.
fn check(reader: &mut Reader<'_>, expanded: &Expanded, edges: &Edges) {
    let mut seen = FxHashMap::default();
    for link in &expanded.body.links {
        for (port, output) in [(link.from, true), (link.to, false)] {
            let element = &expanded.body.elements[port.0 as usize];
            if element.class != ClassId::TUNNEL || seen.insert((port, output), ()).is_some() {
                continue;
            }
            let other = if output { edges.backwards(port) } else { edges.onwards(port) };
            let connected = match other {
                Some(other) if output => edges.to.binary_search(&other).is_ok(),
                Some(other) => !edges.leaving(other).is_empty(),
                None => {
                    let message = format!("'{}' used as {}", element.name, SIDES[usize::from(output)]);
                    reader.problem(Problem::error(&link.place, message));
                    continue;
                }
            };
            if !connected {
                let problem = half_connected(expanded, edges.edges[port.0 as usize], port, output);
                reader.problem(problem.note(Some(&link.place), "connected here"));
            }
        }
    }
}

/// A port of which only one side is used: `output` says from which.
fn half_connected(expanded: &Expanded, edge: Edge, (element, port): Port, output: bool) -> Problem {
    let (outside, what) = match (edge, output) {
        (Edge::Input(tunnel), _) => (tunnel.outside, format!("input {port} unused")),
        (Edge::Output(tunnel), _) => (tunnel.outside, format!("output {port} unused")),
        (_, false) => (element, format!("has no input {port}")),
        (_, true) => (element, format!("has no output {port}")),
    };
    let whole = &expanded.body.elements[outside as usize];
    Problem::error(&whole.place, format!("'{}' {what}", whole.name))
}

/// Connections between elements, those through edges joined. None if there are too many.
fn joined(reader: &mut Reader<'_>, expanded: &Expanded, edges: &Edges) -> Option<Vec<Link>> {
    let body = &expanded.body;
    let is_edge = |port: Port| body.elements[port.0 as usize].class == ClassId::TUNNEL;
    let room = reader.options.limits.connections.saturating_mul(2);
    let mut reach = Reach { edges, links: &body.links, is_edge: &is_edge, found: FxHashMap::default(), room };
    let mut joined: Vec<Link> = vec![];
    for link in &body.links {
        if is_edge(link.from) {
            continue;
        }
        if !is_edge(link.to) {
            joined.push(link.clone());
            continue;
        }
        let Some(start) = edges.onwards(link.to) else { continue };
        let ends = reach.ends(start);
        let fits = ends.is_some_and(|ends| {
            joined.extend(ends.iter().map(|&to| Link { to, ..link.clone() }));
            joined.len() <= reader.options.limits.connections
        });
        if !reader.within(fits, &link.place, "connections", reader.options.limits.connections) {
            return None;
        }
    }
    Some(joined)
}

/// What a port inside an edge leads to: elements' inputs.
struct Reach<'e> {
    edges: &'e Edges,
    links: &'e [Link],
    is_edge: &'e dyn Fn(Port) -> bool,
    found: FxHashMap<Port, Rc<[Port]>>,
    /// How many ends may still be remembered.
    room: usize,
}

/// A port on the way, in Tarjan's search for strongly connected components: edges
/// connected in a circle all lead to the same.
struct Visit {
    port: Port,
    /// The next of its connections to follow.
    next: usize,
    order: u32,
    low: u32,
    ends: Vec<Port>,
}

impl Reach<'_> {
    /// The inputs that connections into `start` reach; none if they are too many.
    fn ends(&mut self, start: Port) -> Option<Rc<[Port]>> {
        if let Some(ends) = self.found.get(&start) {
            return Some(ends.clone());
        }
        // The way here; ports that are done but in a circle with one on the way; the
        // order of both.
        let mut way: Vec<Visit> = vec![];
        let mut circle: Vec<Port> = vec![];
        let mut order: FxHashMap<Port, u32> = FxHashMap::default();
        self.enter(start, &mut way, &mut circle, &mut order);
        while let Some(visit) = way.last_mut() {
            let leaving = self.edges.leaving(visit.port);
            let Some(&(_, link)) = leaving.get(visit.next) else {
                self.leave(&mut way, &mut circle, &mut order)?;
                continue;
            };
            visit.next += 1;
            let to = self.links[link as usize].to;
            if !(self.is_edge)(to) {
                visit.ends.push(to);
                continue;
            }
            let Some(port) = self.edges.onwards(to) else { continue };
            if let Some(ends) = self.found.get(&port) {
                visit.ends.extend_from_slice(ends);
            } else if let Some(&seen) = order.get(&port) {
                visit.low = visit.low.min(seen);
            } else {
                self.enter(port, &mut way, &mut circle, &mut order);
            }
        }
        self.found.get(&start).cloned()
    }

    fn enter(
        &self,
        port: Port,
        way: &mut Vec<Visit>,
        circle: &mut Vec<Port>,
        order: &mut FxHashMap<Port, u32>,
    ) {
        let number = order.len() as u32;
        order.insert(port, number);
        circle.push(port);
        way.push(Visit { port, next: 0, order: number, low: number, ends: vec![] });
    }

    /// Done with the last port of the way: what it leads to is known, if it closes a
    /// circle, else it is the one's before it.
    fn leave(
        &mut self,
        way: &mut Vec<Visit>,
        circle: &mut Vec<Port>,
        order: &mut FxHashMap<Port, u32>,
    ) -> Option<()> {
        let mut visit = way.pop()?;
        visit.ends.sort_unstable();
        visit.ends.dedup();
        self.room = self.room.checked_sub(visit.ends.len())?;
        if visit.low == visit.order {
            let ends: Rc<[Port]> = visit.ends.into();
            while let Some(port) = circle.pop() {
                order.insert(port, u32::MAX);
                self.found.insert(port, ends.clone());
                if port == visit.port {
                    break;
                }
            }
            if let Some(before) = way.last_mut() {
                before.ends.extend_from_slice(&ends);
            }
        } else if let Some(before) = way.last_mut() {
            before.low = before.low.min(visit.low);
            before.ends.append(&mut visit.ends);
        }
        Some(())
    }
}
