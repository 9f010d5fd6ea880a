//! A picture of a router that a browser shows: boxes in columns, from where packets
//! come in on the left to where they go out on the right.
//!
//! A layered drawing after Sugiyama: connections that lead back are turned round,
//! each element stands one column behind the last that leads to it, and columns are
//! sorted by the middle of their neighbours until few connections cross. Push
//! connections are solid, pull ones dashed; colours are threads.

use std::fmt::Write;

use crate::plan::Plan;
use crate::plan::explain::{ElementReport, ranges, reports};

/// Elements that are drawn at most: no browser shows more in one picture.
pub const MOST: usize = 4_000;

const ROW: f64 = 62.0;
const BOX: f64 = 42.0;
const GAP: f64 = 70.0;
const MARGIN: f64 = 24.0;
/// Width of a letter, about, in the font's size.
const LETTER: f64 = 7.3;
/// How often columns are sorted, to and fro.
const SWEEPS: usize = 8;

/// Fills of boxes, by the first thread; the last for elements of several threads.
const FILLS: [&str; 7] = ["#dbeafe", "#dcfce7", "#fef9c3", "#fae8ff", "#ffedd5", "#e0f2fe", "#f1f5f9"];

/// Where elements stand.
struct Layout {
    /// The elements of each column, from the top.
    columns: Vec<Vec<usize>>,
    /// Each element's column.
    column: Vec<usize>,
}

/// The picture; `None` when there are more elements than a picture can show.
pub fn draw(plan: &Plan) -> Option<String> {
    if plan.elements.len() > MOST {
        return None;
    }
    let reports = reports(plan, None);
    let mut edges: Vec<(usize, usize)> =
        plan.wires.iter().map(|w| (w.from.element, w.to.element)).filter(|(a, b)| a != b).collect();
    edges.sort_unstable();
    edges.dedup();
    let layout = Layout::new(plan.elements.len(), &edges);
    Some(Picture::new(plan, &reports, &layout).text())
}

impl Layout {
    fn new(count: usize, edges: &[(usize, usize)]) -> Layout {
        let forward = forward(count, edges);
        let column = columns(count, &forward);
        let mut layout = Layout { columns: vec![vec![]; column.iter().max().map_or(0, |c| c + 1)], column };
        for element in 0..count {
            layout.columns[layout.column[element]].push(element);
        }
        let (mut before, mut behind) = (vec![vec![]; count], vec![vec![]; count]);
        for &(from, to) in &forward {
            behind[from].push(to);
            before[to].push(from);
        }
        for sweep in 0..SWEEPS {
            layout.sort(if sweep % 2 == 0 { &before } else { &behind }, sweep % 2 == 0);
        }
        layout
    }

    /// Sorts each column by where its elements' neighbours stand, a fraction of the
    /// way down.
    fn sort(&mut self, neighbours: &[Vec<usize>], from_left: bool) {
        let mut height = vec![0.0; self.column.len()];
        let mut order: Vec<usize> = (0..self.columns.len()).collect();
        if !from_left {
            order.reverse();
        }
        for column in order {
            let list = &mut self.columns[column];
            let count = list.len() as f64;
            let mut keyed: Vec<(f64, usize)> = vec![];
            for (place, &element) in list.iter().enumerate() {
                let near = &neighbours[element];
                let middle = near.iter().map(|&n| height[n]).sum::<f64>() / near.len() as f64;
                let own = (place as f64 + 0.5) / count;
                keyed.push((if near.is_empty() { own } else { middle }, element));
            }
            keyed.sort_by(|a, b| a.0.total_cmp(&b.0)); // stable: equals stay as they were
            *list = keyed.into_iter().map(|(_, element)| element).collect();
            for (place, &element) in list.iter().enumerate() {
                height[element] = (place as f64 + 0.5) / count;
            }
        }
    }
}

/// The connections without those that lead back to where packets came from.
fn forward(count: usize, edges: &[(usize, usize)]) -> Vec<(usize, usize)> {
    #[derive(Clone, Copy, PartialEq)]
    enum Seen {
        Not,
        Open,
        Done,
    }
    let mut next = vec![vec![]; count];
    let mut entered = vec![false; count];
    for &(from, to) in edges {
        next[from].push(to);
        entered[to] = true;
    }
    let mut seen = vec![Seen::Not; count];
    let mut forward = vec![];
    // From where packets begin first, so that it is circles' ends that lead back.
    let starts = (0..count).filter(|&e| !entered[e]).chain(0..count);
    for start in starts {
        if seen[start] != Seen::Not {
            continue;
        }
        seen[start] = Seen::Open;
        let mut path = vec![(start, 0)];
        while let Some((element, place)) = path.last_mut() {
            let Some(&to) = next[*element].get(*place) else {
                seen[*element] = Seen::Done;
                path.pop();
                continue;
            };
            *place += 1;
            match seen[to] {
                Seen::Open => forward.push((to, *element)), // turned round
                Seen::Done => forward.push((*element, to)),
                Seen::Not => {
                    forward.push((*element, to));
                    seen[to] = Seen::Open;
                    path.push((to, 0));
                }
            }
        }
    }
    forward
}

/// Each element's column: one behind the last that leads to it. There are no circles.
fn columns(count: usize, forward: &[(usize, usize)]) -> Vec<usize> {
    let (mut next, mut waits) = (vec![vec![]; count], vec![0usize; count]);
    for &(from, to) in forward {
        next[from].push(to);
        waits[to] += 1;
    }
    let mut column = vec![0; count];
    let mut ready: Vec<usize> = (0..count).filter(|&e| waits[e] == 0).collect();
    while let Some(element) = ready.pop() {
        for &to in &next[element] {
            column[to] = column[to].max(column[element] + 1);
            waits[to] -= 1;
            if waits[to] == 0 {
                ready.push(to);
            }
        }
    }
    column
}

/// Boxes with places, and what is written on them.
struct Picture<'a> {
    plan: &'a Plan,
    reports: &'a [ElementReport],
    /// Left edge, upper edge and width of each box.
    boxes: Vec<(f64, f64, f64)>,
    width: f64,
    height: f64,
}

impl<'a> Picture<'a> {
    fn new(plan: &'a Plan, reports: &'a [ElementReport], layout: &Layout) -> Picture<'a> {
        let letters =
            |report: &ElementReport| report.name.chars().count().max(report.class.chars().count() + 2);
        let rows = layout.columns.iter().map(Vec::len).max().unwrap_or(0) as f64;
        let mut boxes = vec![(0.0, 0.0, 0.0); reports.len()];
        let mut left = MARGIN;
        for column in &layout.columns {
            let widest = column.iter().map(|&e| letters(&reports[e])).max().unwrap_or(0);
            let width = (widest as f64 * LETTER + 16.0).clamp(60.0, 320.0);
            let top = MARGIN + (rows - column.len() as f64) * ROW / 2.0;
            for (place, &element) in column.iter().enumerate() {
                boxes[element] = (left, top + place as f64 * ROW, width);
            }
            left += width + GAP;
        }
        let (width, height) = ((left - GAP + MARGIN).max(120.0), rows * ROW + 2.0 * MARGIN);
        Picture { plan, reports, boxes, width, height }
    }

    fn text(&self) -> String {
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {w:.0} {h:.0}\" width=\"{w:.0}\" \
             height=\"{h:.0}\" font-family=\"ui-monospace, monospace\" font-size=\"12\">\n\
             <style>rect{{stroke:#334155}} path{{fill:none;stroke:#475569;stroke-width:1.3}} \
             .pull{{stroke-dasharray:5 4}} .port{{font-size:9px;fill:#475569}} .class{{fill:#475569}}</style>\n\
             <defs><marker id=\"a\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" \
             markerHeight=\"7\" orient=\"auto\"><path d=\"M0,0 L8,4 L0,8 z\" \
             style=\"fill:#475569;stroke:none\"/></marker></defs>\n\
             <rect width=\"100%\" height=\"100%\" style=\"fill:#ffffff;stroke:none\"/>\n",
            w = self.width,
            h = self.height,
        );
        (0..self.plan.wires.len()).for_each(|wire| self.wire(wire, &mut out));
        (0..self.reports.len()).for_each(|element| self.element(element, &mut out));
        out.push_str("</svg>\n");
        out
    }

    /// Where a port is at its box's edge.
    fn port(&self, element: usize, port: usize, output: bool) -> (f64, f64) {
        let (left, top, width) = self.boxes[element];
        let planned = &self.plan.elements[element];
        let ports = if output { planned.pull_outputs.len() } else { planned.pull_inputs.len() };
        let down = BOX * (port as f64 + 1.0) / (ports as f64 + 1.0);
        (if output { left + width } else { left }, top + down)
    }

    fn wire(&self, index: usize, out: &mut String) {
        let wire = self.plan.wires[index];
        let from = &self.plan.elements[wire.from.element];
        let ((x1, y1), (x2, y2)) = (
            self.port(wire.from.element, wire.from.port, true),
            self.port(wire.to.element, wire.to.port, false),
        );
        let class = if from.pull_outputs[wire.from.port] { " class=\"pull\"" } else { "" };
        let bend = if x2 > x1 { (x2 - x1) / 2.0 } else { 60.0 + (x1 - x2) / 8.0 };
        // What leads back goes round below, so that it is not taken for a way on.
        let dip = if x2 > x1 { 0.0 } else { BOX };
        let (a, b, c, d) = (x1 + bend, y1 + dip, x2 - bend, y2 + dip);
        let _ = writeln!(
            out,
            "<path{class} marker-end=\"url(#a)\" d=\"M{x1:.1},{y1:.1} C{a:.1},{b:.1} {c:.1},{d:.1} {x2:.1},{y2:.1}\"/>"
        );
        if from.pull_outputs.len() > 1 {
            let (x, y) = (x1 + 3.0, y1 - 3.0);
            let _ = writeln!(out, "<text class=\"port\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", wire.from.port);
        }
    }

    fn element(&self, index: usize, out: &mut String) {
        let report = &self.reports[index];
        let (left, top, width) = self.boxes[index];
        let fill = match report.threads[..] {
            [one] => FILLS[one % (FILLS.len() - 1)],
            _ => FILLS[FILLS.len() - 1],
        };
        let edge = if report.locked { " stroke-width=\"2.5\"" } else { "" };
        let most = ((width - 14.0) / LETTER) as usize;
        let (x, first, second) = (left + 8.0, top + 17.0, top + 33.0);
        let mut about = format!(
            "{} :: {}\n{}, threads {}",
            report.name,
            report.class,
            report.way,
            ranges(&report.threads)
        );
        report.notes.iter().for_each(|note| about.push_str(&format!("\n{note}")));
        let _ = writeln!(
            out,
            "<g><title>{}</title><rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{BOX}\" \
             rx=\"5\" fill=\"{fill}\"{edge}/><text x=\"{x:.1}\" y=\"{first:.1}\">{}</text><text class=\"class\" \
             x=\"{x:.1}\" y=\"{second:.1}\">{}</text></g>",
            escaped(&about),
            escaped(&cut(&report.name, most)),
            escaped(&cut(&report.class, most)),
        );
    }
}

/// A text of at most so many letters, its end kept: that is what differs.
fn cut(text: &str, most: usize) -> String {
    let count = text.chars().count();
    match count <= most {
        true => text.to_string(),
        false => format!("…{}", text.chars().skip(count + 1 - most.max(1)).collect::<String>()),
    }
}

/// A text that can stand in XML.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push('\n'),
            c if c.is_control() => out.push('.'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_stand_behind_those_that_lead_to_them() {
        // 0 -> 1 -> 2 -> 1 (a circle), 0 -> 2
        let forward = forward(3, &[(0, 1), (0, 2), (1, 2), (2, 1)]);
        assert_eq!(columns(3, &forward), [0, 1, 2]);
        assert_eq!(columns(2, &super::forward(2, &[(0, 1), (1, 0)])), [0, 1]);
    }

    #[test]
    fn few_connections_cross() {
        // Two chains that are declared crosswise: 0 -> 3, 1 -> 2.
        let layout = Layout::new(4, &[(0, 3), (1, 2)]);
        assert_eq!(layout.columns, [[0, 1], [3, 2]]);
    }

    #[test]
    fn what_is_written_is_text() {
        assert_eq!(escaped("a<b>&\"\u{1b}"), "a&lt;b&gt;&amp;&quot;.");
        assert_eq!(cut("abcdef", 4), "…def");
    }
}
