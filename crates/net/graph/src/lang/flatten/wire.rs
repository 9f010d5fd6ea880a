//! Arrows to connections: port lists, one-to-many, many-to-one and many-to-many.

use super::body::{Body, INPUT, OUTPUT};
use crate::lang::parser::Parser;
use crate::lang::place::SourceLocation;
use crate::lang::problem::Problem;
use crate::lang::tree::{Arrow, Ports};

/// An element on one side of an arrow, with the ports written beside it.
pub struct End {
    pub element: u32,
    /// Inputs and outputs.
    pub ports: [Option<Box<Ports>>; 2],
}

impl End {
    fn count(&self, side: usize) -> usize {
        self.ports[side].as_ref().map_or(0, |ports| ports.count())
    }
}

/// How many ports a side has at least, and how many of its elements could have more.
fn measure(ends: &[End], side: usize) -> (usize, usize) {
    let least = ends.iter().map(|e| e.count(side).max(1)).sum();
    let open = ends.iter().filter(|e| e.ports[side].as_ref().is_some_and(|p| p.open)).count();
    (least, open)
}

/// Connects the outputs of `from` to the inputs of `to`, at most `room` connections.
pub fn connect_all(
    body: &mut Body,
    from: &[End],
    to: &[End],
    arrow: Arrow,
    place: &SourceLocation,
    room: usize,
) -> Vec<Problem> {
    let mut problems = vec![];
    if let ([End { element: source, ports: [_, None] }], [End { element: target, ports: [None, _] }]) =
        (from, to)
        && room > 0
    {
        // Most of what there is.
        body.connect((*source, 0), (*target, 0), place);
        return problems;
    }
    let sides = [to, from];
    let measured = [measure(to, INPUT), measure(from, OUTPUT)];
    let least = measured.map(|m| m.0);
    let mut open = measured.map(|m| m.1 > 0);
    if measured[0].1 + measured[1].1 > 1 {
        let message = "at most one expandable port allowed per connection";
        problems.push(Problem::error(place, message).expected("port numbers on one side of the arrow"));
        open[usize::from(least[0] < least[1])] = false;
    }
    if arrow == Arrow::Many {
        // One element without ports stands for as many as the other side has.
        for side in [INPUT, OUTPUT] {
            if least[side] == 1 && least[1 - side] > 1 && sides[side][0].ports[side].is_none() {
                open[side] = true;
            }
        }
    }
    let mut step = [0, 1].map(|k| least[k] > 1 || open[k]);
    let extra = [0, 1].map(|k| if open[k] { least[1 - k].saturating_sub(least[k]) } else { 0 });
    if step == [true, true] {
        problems.extend(mismatch(least, open, arrow, place));
    } else if step == [false, false] {
        step[INPUT] = true;
    }
    let mut walks = [0, 1].map(|k| Walk::new(sides[k], k, extra[k], least[k] == 1));
    for _ in 0..room {
        let (Some(to), Some(from)) = (walks[INPUT].port(), walks[OUTPUT].port()) else { break };
        if to.1.max(from.1) > Parser::PORT {
            problems.push(Problem::error(place, format!("port number {} too large", to.1.max(from.1))));
            break;
        }
        body.connect(from, to, place);
        for side in [INPUT, OUTPUT] {
            if step[side] {
                walks[side].advance();
            }
        }
    }
    problems
}

/// What is wrong with several outputs and several inputs.
fn mismatch(least: [usize; 2], open: [bool; 2], arrow: Arrow, place: &SourceLocation) -> Vec<Problem> {
    let [inputs, outputs] = least;
    let mut problems = vec![];
    if arrow != Arrow::Many {
        let message = "syntax error: many-to-many connections require '=>'";
        problems.push(Problem::error(place, message).expected("'=>' in place of '->'"));
    }
    let message = match open {
        [false, false] if inputs != outputs => {
            format!("connection mismatch: {outputs} outputs connected to {inputs} inputs")
        }
        [false, true] if inputs < outputs => {
            format!("connection mismatch: {outputs} or more outputs connected to {inputs} inputs")
        }
        [true, false] if outputs < inputs => {
            format!("connection mismatch: {outputs} outputs connected to {inputs} or more inputs")
        }
        _ => return problems,
    };
    problems.push(Problem::error(place, message).expected("as many inputs as outputs"));
    problems
}

/// The ports of one side, one after the other.
struct Walk<'a> {
    ends: &'a [End],
    side: usize,
    /// Ports that may still be made up where a list is open.
    extra: usize,
    /// Whether the side is a single port or nothing, so that no port means any.
    single: bool,
    /// The current range of the current element, and how far in it.
    range: usize,
    in_range: u32,
    /// How many ports beyond the list.
    beyond: u32,
}

impl<'a> Walk<'a> {
    fn new(ends: &'a [End], side: usize, extra: usize, single: bool) -> Walk<'a> {
        Walk { ends, side, extra, single, range: 0, in_range: 0, beyond: 0 }
    }

    /// The port it is at; none at the end.
    fn port(&self) -> Option<(u32, u32)> {
        let end = self.ends.first()?;
        let port = match &end.ports[self.side] {
            None => self.beyond,
            Some(ports) => match ports.ranges.get(self.range) {
                Some(&(first, _)) => first + self.in_range,
                None => ports.ranges.last().map_or(0, |r| r.1).saturating_add(self.beyond),
            },
        };
        Some((end.element, port))
    }

    fn advance(&mut self) {
        let Some(end) = self.ends.first() else { return };
        let may_extend = match &end.ports[self.side] {
            None => self.single,
            Some(ports) => {
                self.in_range += 1;
                if ports.ranges.get(self.range).is_some_and(|&(first, last)| self.in_range > last - first) {
                    (self.range, self.in_range) = (self.range + 1, 0);
                }
                if self.range < ports.ranges.len() {
                    return;
                }
                ports.open
            }
        };
        if may_extend && self.extra > 0 {
            self.extra -= 1;
            self.beyond += 1;
            return;
        }
        self.ends = &self.ends[1..];
        (self.range, self.in_range, self.beyond) = (0, 0, 0);
    }
}
