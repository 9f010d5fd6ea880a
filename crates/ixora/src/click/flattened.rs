//! `click-flatten`: a configuration without its compound elements, as Click's tool of
//! that name prints it. Classes need not be known here.

use std::fmt::Write as _;
use std::path::Path;

use graph::lang::{self, Flat, Problems};

use super::clp::Shown;
use super::{Click, configuration};
use crate::Failure;

/// Prints what was asked for.
///
/// # Errors
/// When there is no configuration, or it is none.
pub fn run(click: &Click, shown: Shown) -> Result<(), Failure> {
    let sources = configuration::sources(click)?;
    for source in sources.iter().filter(|source| source.text.is_empty()) {
        eprintln!("{}: warning: empty configuration", source.name);
    }
    let options = |options: &lang::Options<'_>| lang::read(sources, options);
    let flat = match configuration::with_any_class(click, options) {
        Ok(flat) => flat,
        Err(problems) => {
            eprint!("{}", problems.compat());
            return Err(Failure::status(1));
        }
    };
    let warnings = Problems { list: flat.warnings.clone(), sources: flat.sources.clone() };
    eprint!("{}", warnings.compat());
    let text = match shown {
        Shown::Configuration => unparse(&flat),
        Shown::Classes => sorted(flat.elements.iter().map(|e| e.class.to_string()).collect(), true),
        Shown::Names => sorted(flat.elements.iter().map(|e| e.name.to_string()).collect(), false),
        Shown::Declarations => {
            sorted(flat.elements.iter().map(|e| format!("{} :: {}", e.name, e.class)).collect(), false)
        }
    };
    match &click.output {
        Some(file) if file != Path::new("-") => {
            std::fs::write(file, text).map_err(|error| Failure::new(format!("{}: {error}", file.display())))
        }
        _ => {
            print!("{text}");
            Ok(())
        }
    }
}

/// A line each, in order; equals once if so wanted.
fn sorted(mut lines: Vec<String>, once: bool) -> String {
    lines.sort();
    if once {
        lines.dedup();
    }
    lines.into_iter().map(|line| line + "\n").collect()
}

/// Each declaration under a line that says where it was made; connections under one
/// that says where they are now.
fn unparse(flat: &Flat) -> String {
    let mut out = String::new();
    flat.unparse_requirements(&mut out);
    for element in &flat.elements {
        let landmark = element.place.landmark();
        let (file, line) = landmark.rsplit_once(':').unwrap_or((&landmark, "0"));
        let _ = writeln!(out, "# {line} \"{file}\"");
        let config = if element.config.is_empty() { String::new() } else { format!("({})", element.config) };
        let _ = writeln!(out, "{} :: {}{config};", element.name, element.class);
    }
    if !flat.connections.is_empty() {
        let line = out.matches('\n').count() + 2;
        let _ = writeln!(out, "# {line} \"\"");
        flat.unparse_connections(&mut out);
    }
    out
}
