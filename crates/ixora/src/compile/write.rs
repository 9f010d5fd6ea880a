//! The code of programs: a Rust module for a configuration.

use std::collections::BTreeMap;
use std::fmt::Write;

use graph::element::kernel::{Code, Inside};

use super::group::{Group, Layout, OutputTarget};
use super::region::Graph;

/// The module's text.
pub fn module(graph: &Graph<'_>, layouts: &[Layout]) -> String {
    let mut out = String::from(
        "// Made by `ixora compile`: do not change it, change the configuration.\n\n\
         use element::kernels;\n\
         use graph::fused::{Exit, Members, Program, Region, EntryState, ask};\n\
         use graph::{Cx, Each, Element, Action, Next, PerPacket};\n\
         use memory::{Batch, Packet};\n",
    );
    let _ = write!(
        out,
        "\n/// The parts of the configuration that became programs.\npub static REGIONS: &[Region] = &["
    );
    for number in 0..layouts.len() {
        let _ = write!(out, "R{number}::REGION, ");
    }
    out.push_str("];\n");
    for (number, layout) in layouts.iter().enumerate() {
        Writer { graph, layout, name: format!("R{number}"), out: &mut out }.region();
    }
    out
}

struct Writer<'a> {
    graph: &'a Graph<'a>,
    layout: &'a Layout,
    name: String,
    out: &'a mut String,
}

macro_rules! line {
    ($writer:expr, $($text:tt)*) => {{
        let _ = writeln!($writer.out, $($text)*); // a String takes all
    }};
}

impl<'a> Writer<'a> {
    /// The groups whose elements are in the program, with the place of their first.
    fn members(&self) -> Vec<(usize, &'a Group, usize)> {
        let mut place = 0;
        let layout = self.layout;
        let groups = layout.groups.iter().enumerate().filter(|(_, group)| !is_guard(group));
        groups
            .map(|(number, group)| {
                let first = place;
                place += group.rows.len();
                (number, group, first)
            })
            .collect()
    }

    fn kernel(&self, group: &Group) -> Inside {
        self.graph.nodes[&group.rows[0]].kernel
    }

    fn region(&mut self) {
        self.fields();
        self.table();
        for number in 0..self.layout.groups.len() {
            self.function(number);
        }
        line!(self, "}}");
        self.program();
    }

    fn fields(&mut self) {
        line!(self, "\n/// A region's elements.\npub struct {} {{", self.name);
        for (number, group, _) in self.members() {
            let path = self.kernel(group).path;
            match group.rows.len() {
                1 => line!(self, "    g{number}: {path},"),
                rows => line!(self, "    g{number}: [{path}; {rows}],"),
            }
        }
        line!(self, "}}");
    }

    /// What the router needs to know of the region.
    fn table(&mut self) {
        let plan = self.graph.plan;
        line!(self, "\nimpl {} {{", self.name);
        line!(self, "    const REGION: Region = Region {{");
        line!(self, "        members: &[");
        for element in self.members().iter().flat_map(|(_, group, _)| &group.rows) {
            line!(self, "            ({element}, {:?}),", plan.elements[*element].name);
        }
        let ports = |ports: Vec<(usize, usize)>| format!("{ports:?}");
        let entries = self.layout.entries.iter().map(|(to, ..)| (to.element, to.port)).collect();
        let exits = self.layout.exits.iter().map(|to| (to.element, to.port)).collect();
        let emitters: Vec<usize> = self
            .layout
            .groups
            .iter()
            .filter(|group| self.kernel(group).emits)
            .flat_map(|group| group.rows.clone())
            .collect();
        line!(self, "        ],\n        entries: &{},", ports(entries));
        line!(self, "        exits: &{},", ports(exits));
        line!(self, "        emitters: &{emitters:?},");
        let fixed = self.layout.groups.iter().filter(|group| group.code != Code::Asked);
        let fixed: Vec<usize> = fixed.flat_map(|group| group.rows.clone()).collect();
        line!(self, "        fixed: &{fixed:?},");
        line!(self, "        make: Self::make,\n    }};\n");
        line!(self, "    fn make(members: &mut Members) -> Option<Box<dyn Program>> {{");
        line!(self, "        Some(Box::new({} {{", self.name);
        for (number, group, first) in self.members() {
            let take = |place: usize| format!("members.take({place})?");
            match group.rows.len() {
                1 => line!(self, "            g{number}: {},", take(first)),
                rows => {
                    let all: Vec<String> = (first..first + rows).map(take).collect();
                    line!(self, "            g{number}: [{}],", all.join(", "));
                }
            }
        }
        line!(self, "        }}))\n    }}");
    }

    /// The names of a group's elements, as a comment.
    fn names(&self, group: &Group) -> String {
        let name = |&element: &usize| {
            let planned = &self.graph.plan.elements[element];
            let config: String = planned.config.split_whitespace().collect::<Vec<_>>().join(" ");
            let short = config.chars().count() <= 60;
            let text =
                format!("{} :: {}({})", planned.name, planned.class, if short { &config } else { "…" });
            plain(&text)
        };
        group.rows.iter().map(name).collect::<Vec<_>>().join("\n    // ")
    }

    fn function(&mut self, number: usize) {
        let layout = self.layout;
        let group = &layout.groups[number];
        let many = group.rows.len() > 1;
        let mut inputs: Vec<usize> =
            layout.entries.iter().filter(|(_, g, _)| *g == number).map(|(to, ..)| to.port).collect();
        inputs.dedup();
        let direct = if group.uses == 0 { inputs.len() } else { group.uses };
        line!(self, "\n    // {}", self.names(group));
        line!(self, "    #[inline{}]", if direct == 1 { "(always)" } else { "" });
        line!(
            self,
            "    fn g{number}<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet{}{}) -> Exit {{",
            if self.has_inputs(group) { ", input: usize" } else { "" },
            if many { ", row: usize" } else { "" }
        );
        line!(self, "        let element = {};", by_row(&group.rows));
        if let Code::Aside(action) = &group.code {
            line!(self, "        let Some(action) = {action} else {{");
            line!(self, "            return Exit::aside({});", by_row(&group.asides));
            line!(self, "        }};");
        }
        line!(self, "        if COUNTS {{\n            cx.count(element);\n        }}");
        let kernel = if many { format!("self.g{number}[row]") } else { format!("self.g{number}") };
        let input = if self.has_inputs(group) { "input" } else { "0" };
        match &group.code {
            Code::Action(code) => {
                let kernel =
                    code.contains("kernel.").then(|| format!("let kernel = &mut {kernel};\n            "));
                let kernel = kernel.unwrap_or_default();
                line!(self, "        let action = {{\n            {kernel}{code}\n        }};");
            }
            Code::Aside(_) => {}
            _ => line!(self, "        let action = ask(&mut {kernel}, cx, element, {input}, packet);"),
        }
        line!(self, "        match action.output() {{");
        self.arms(number);
        line!(self, "            _ => Exit::drop(element, action.reason()),\n        }}\n    }}");
    }

    /// The arms of the choice between a group's outputs.
    fn arms(&mut self, number: usize) {
        let layout = self.layout;
        let group = &layout.groups[number];
        for output in 0..group.ways.len() {
            if let Some(way) = self.way(number, output) {
                line!(self, "            {output} => {way},");
            }
        }
        for (outputs, target) in &group.fans {
            let input = if self.has_inputs(&self.layout.groups[*target]) { ", 0" } else { "" };
            let last = outputs.len() - 1;
            if outputs[last] == last {
                line!(
                    self,
                    "            row @ 0..={last} => self.g{target}::<COUNTS>(cx, packet{input}, row),"
                );
                continue;
            }
            let all: Vec<String> = outputs.iter().map(usize::to_string).collect();
            let rows: Vec<String> = (0..last).map(|row| format!("{} => {row}", outputs[row])).collect();
            line!(self, "            output @ ({}) => {{", all.join(" | "));
            line!(self, "                let row = match output {{ {}, _ => {last} }};", rows.join(", "));
            line!(self, "                self.g{target}::<COUNTS>(cx, packet{input}, row)\n            }}");
        }
    }

    /// Where packets go on an output; `None` where they are dropped.
    fn way(&self, number: usize, output: usize) -> Option<String> {
        let call = |target: usize, input: usize, row: &str| {
            let input = match self.has_inputs(&self.layout.groups[target]) {
                true => format!(", {input}"),
                false => String::new(),
            };
            format!("self.g{target}::<COUNTS>(cx, packet{input}{row})")
        };
        match self.layout.groups[number].ways.get(output)? {
            OutputTarget::Nowhere | OutputTarget::Fan => None,
            OutputTarget::Exit(exits) => Some(format!("Exit::to({})", by_row(exits))),
            OutputTarget::Rows(target, input) => Some(call(*target, *input, ", row")),
            OutputTarget::Join(target, input) => Some(call(*target, *input, "")),
        }
    }

    /// Whether a group's elements have several inputs.
    fn has_inputs(&self, group: &Group) -> bool {
        self.graph.plan.elements[group.rows[0]].pull_inputs.len() > 1
    }

    /// Entries, and what keeps the elements' handlers where they were.
    fn program(&mut self) {
        self.carry();
        line!(self, "\nimpl Program for {} {{", self.name);
        line!(
            self,
            "    fn push(&mut self, cx: &mut Cx<'_>, entry: usize, batch: &mut Batch, way: &mut EntryState) -> Next {{"
        );
        line!(self, "        match cx.is_measured() {{");
        line!(self, "            false => self.carry::<false>(cx, entry, batch, way),");
        line!(self, "            true => self.carry::<true>(cx, entry, batch, way),\n        }}\n    }}");
        self.places();
        line!(self, "}}");
    }

    /// The ways from all entries, for packets that are counted at each element and for
    /// such that are not: who does not count does not even ask. Apart from each other, so
    /// that the one's code is not in the other's way.
    fn carry(&mut self) {
        line!(self, "\nimpl {} {{\n    #[inline(never)]", self.name);
        line!(
            self,
            "    fn carry<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, entry: usize, batch: &mut Batch, \
             way: &mut EntryState) -> Next {{"
        );
        line!(self, "        match entry {{");
        let mut rare = vec![];
        let mut straight: BTreeMap<(usize, usize), Vec<(usize, usize)>> = BTreeMap::new();
        for (entry, &(to, group, row)) in self.layout.entries.iter().enumerate() {
            match self.layout.groups[group].uses {
                0 => straight.entry((group, to.port)).or_default().push((row, entry)),
                _ => rare.push((entry, self.entry(to.port, group, &row.to_string()))),
            }
        }
        for ((group, port), entries) in &straight {
            self.straight(*group, *port, entries);
        }
        match rare.is_empty() {
            true => line!(self, "            _ => Next::Done,\n        }}\n    }}"),
            false => line!(
                self,
                "            _ => way.carry(self, cx, batch, |program, cx, packet| \
                 program.enter::<COUNTS>(cx, packet, entry)),\n        }}\n    }}"
            ),
        }
        if !rare.is_empty() {
            self.rare(&rare);
        }
        line!(self, "}}");
    }

    /// The arm for entries at the beginning of a way, a row each.
    fn straight(&mut self, group: usize, port: usize, entries: &[(usize, usize)]) {
        let call = self.entry(port, group, "row");
        let carry = format!("way.carry(self, cx, batch, |program, cx, packet| program.{call})");
        if let [(row, entry)] = entries {
            let carry = carry.replace(", row)", &format!(", {row})"));
            return line!(self, "            {entry} => {carry},");
        }
        let all: Vec<String> = entries.iter().map(|(_, entry)| entry.to_string()).collect();
        let last = entries.len() - 1;
        let rows: Vec<String> =
            entries[..last].iter().map(|(row, entry)| format!("{entry} => {row}")).collect();
        line!(self, "            {} => {{", all.join(" | "));
        line!(
            self,
            "                let row = match entry {{ {}, _ => {} }};",
            rows.join(", "),
            entries[last].0
        );
        line!(self, "                {carry}\n            }}");
    }

    fn entry(&self, input: usize, group: usize, row: &str) -> String {
        let entered = &self.layout.groups[group];
        let input = if self.has_inputs(entered) { format!(", {input}") } else { String::new() };
        let row = if entered.rows.len() > 1 { format!(", {row}") } else { String::new() };
        format!("g{group}::<COUNTS>(cx, packet{input}{row})")
    }

    /// Entries into the middle of a way, which few packets take: kept out of it.
    fn rare(&mut self, entries: &[(usize, String)]) {
        line!(self, "\n    #[inline(never)]");
        line!(
            self,
            "    fn enter<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet, entry: usize) \
             -> Exit {{"
        );
        line!(self, "        match entry {{");
        for (n, (entry, call)) in entries.iter().enumerate() {
            let entry = if n + 1 == entries.len() { "_".into() } else { entry.to_string() };
            line!(self, "            {entry} => self.{call},");
        }
        line!(self, "        }}\n    }}");
    }

    fn places(&mut self) {
        line!(self, "\n    fn member(&mut self, place: usize) -> Option<&mut dyn Element> {{");
        line!(self, "        Some(match place {{");
        for (number, group, first) in self.members() {
            match group.rows.len() {
                1 => line!(self, "            {first} => &mut self.g{number},"),
                rows => line!(
                    self,
                    "            {first}..{} => &mut self.g{number}[place - {first}],",
                    first + rows
                ),
            }
        }
        line!(self, "            _ => return None,\n        }})\n    }}");
        line!(self, "\n    fn dissolve(self: Box<Self>) -> Vec<Box<dyn Element>> {{");
        line!(self, "        let mut all: Vec<Box<dyn Element>> = vec![];");
        for (number, group, _) in self.members() {
            match group.rows.len() {
                1 => line!(self, "        all.push(Box::new(self.g{number}));"),
                _ => line!(
                    self,
                    "        self.g{number}.into_iter().for_each(|element| all.push(Box::new(element)));"
                ),
            }
        }
        line!(self, "        all\n    }}");
    }
}

/// A text for a comment: what is not seen, or turns the line's direction, the compiler
/// would refuse.
fn plain(text: &str) -> String {
    let seen = |c: char| c == ' ' || c.is_ascii_graphic() || c.is_alphanumeric();
    text.chars().map(|c| if seen(c) || c == '…' { c } else { '?' }).collect()
}

fn is_guard(group: &Group) -> bool {
    matches!(group.code, Code::Aside(_))
}

/// A number that depends on the row, or does not. It is read from a constant, and only where it is
/// used: an array on the stack would be written for each packet.
fn by_row(numbers: &[usize]) -> String {
    match numbers {
        [only] => only.to_string(),
        [first, rest @ ..] if rest.iter().all(|number| number == first) => first.to_string(),
        _ => format!("const {{ &{numbers:?} }}[row]"),
    }
}
