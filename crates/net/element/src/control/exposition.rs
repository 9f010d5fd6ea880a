//! Words of the text format that Prometheus reads (exposition format 0.0.4).

use std::fmt::Write;

/// Begins the lines of a series: what it is, and of which kind.
pub(crate) fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// The value of a label, as it stands between quotes.
pub(crate) fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
