//! What is printed: the list of bugs, and what became of each.

use super::Row;
use super::process::End;
use super::seeded::{Bug, Linter};

/// A bug's name and sentence; with `source`, its edits.
pub fn describe(bug: &Bug, source: bool) {
    println!("{:<38} {}", bug.name, bug.about);
    for edit in bug.edits.iter().filter(|_| source) {
        println!("  crates/nic/driver/src/{}", edit.file);
        edit.from.lines().for_each(|line| println!("  - {}", line.trim_end()));
        edit.to.lines().for_each(|line| println!("  + {}", line.trim_end()));
    }
}

/// A line for each bug, what is not as it should be below it, and the sums.
pub fn print(rows: &[Row]) {
    println!("{:<38} {:<46} {:<9} demo", "seeded bug", "the linter reports", "its test");
    for row in rows {
        let linter = match row.bug.linter {
            Linter::Reports(rule, section) if row.is_reported() => format!("{rule} ({section})"),
            Linter::Reports(..) => "NOT WHAT IT SHOULD".to_owned(),
            Linter::Blind(_) => "nothing: it cannot see it".to_owned(),
        };
        let demo = row.demo.map_or("", |demo| if row.bug.demo { word(demo) } else { "not met" });
        println!("{:<38} {linter:<46} {:<9} {demo}", row.bug.name, word(row.test));
        for complaint in row.complaints() {
            println!("    {complaint}");
        }
        if !row.complaints().is_empty() && !row.found.is_empty() {
            let found: Vec<_> =
                row.found.iter().map(|(rule, section)| format!("{rule} ({section})")).collect();
            println!("    the linter reports {}", found.join(", "));
        }
    }
    let count = |is: &dyn Fn(&Row) -> bool| rows.iter().filter(|row| is(row)).count();
    println!(
        "{} seeded bugs: {} fail their test, {} are reported by the linter with the right section, {} it cannot see",
        rows.len(),
        count(&|row| row.test == End::Failed),
        count(&Row::is_reported),
        count(&|row| matches!(row.bug.linter, Linter::Blind(_))),
    );
    if rows.iter().any(|row| row.demo.is_some()) {
        println!(
            "ixora demo ends with an error for {} of the {} that it meets",
            count(&|row| row.bug.demo && row.demo == Some(End::Failed)),
            count(&|row| row.bug.demo),
        );
    }
}

fn word(end: End) -> &'static str {
    match end {
        End::Passed => "PASSES",
        End::Failed => "fails",
        End::TimeLimit => "HANGS",
    }
}
