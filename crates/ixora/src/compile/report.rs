//! Which elements are in which program, and why others are not.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::group::Layout;
use super::region::Graph;
use crate::rate::plural;

/// A table, one element a line.
pub fn report(graph: &Graph<'_>, layouts: &[Layout]) -> String {
    let elements = &graph.plan.elements;
    let width = elements.iter().map(|e| e.name.len()).max().unwrap_or(0).clamp(7, 40);
    let mut out = format!("{:width$}  COMPILED\n", "ELEMENT");
    let mut fused = 0;
    let mut places = BTreeMap::new();
    for (region, layout) in layouts.iter().enumerate() {
        for group in &layout.groups {
            places.extend(group.rows.iter().map(|row| (*row, (region, group))));
        }
    }
    for (number, planned) in elements.iter().enumerate() {
        let note = match (places.get(&number), graph.outside.get(&number)) {
            (Some((region, group)), _) => {
                fused += 1;
                let guard = matches!(group.code, graph::element::kernel::Code::Aside(_));
                let what = if guard { "a test in program" } else { "in program" };
                match group.rows.len() {
                    1 => format!("{what} {region}"),
                    rows => format!("{what} {region}, one code for {rows} of its kind"),
                }
            }
            (None, Some(why)) => format!("as it is: {why}"),
            (None, None) => "as it is: no packet comes here".into(),
        };
        let _ = writeln!(out, "{:width$}  {note}", planned.name);
    }
    let _ = writeln!(
        out,
        "{fused} of {} in {}",
        plural(elements.len(), "element"),
        plural(layouts.len(), "program")
    );
    out
}
