//! Documentation of classes, from the classes themselves: a page for the terminal,
//! or Markdown.

use std::fmt::Write;

use graph::Class;
use graph::class::{Given, Handler};

use crate::Failure;

/// Prints a class's documentation, all of them (`all`), or their names (`list`).
pub fn print(name: &str, markdown: bool) -> Result<(), Failure> {
    let registry = super::classes();
    match (name, markdown) {
        ("list", _) => {
            for (name, class) in registry.iter() {
                println!("{name:28} {}", class.brief);
            }
        }
        ("all", true) => print!("{}", reference()),
        ("all", false) => {
            for class in classes() {
                println!("{}\n{}", page(class), "-".repeat(72));
            }
        }
        _ => {
            let class = registry.find(name).ok_or_else(|| unknown(name, registry.names()))?;
            print!("{}", if markdown { section(class) } else { page(class) });
        }
    }
    Ok(())
}

fn unknown<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Failure {
    let failure = Failure::usage(format!("there is no element class '{name}'"));
    match graph::lang::suggestion(name, names) {
        Some(near) => failure.fix(format!("did you mean '{near}'?")),
        None => failure.fix("ixora click --doc list names them all"),
    }
}

/// Each class once, in order of names.
fn classes() -> Vec<&'static Class> {
    let registry = super::classes();
    registry.iter().filter(|(name, class)| *name == class.name).map(|(_, class)| class).collect()
}

/// How an argument is given, in a few words.
fn given(given: Given) -> &'static str {
    match given {
        Given::Mandatory => "must be there",
        Given::Positional => "by place or keyword",
        Given::Keyword => "by keyword",
        Given::Rest => "any number",
    }
}

fn mode(handler: &Handler) -> &'static str {
    match (handler.read, handler.write) {
        (true, true) => "rw",
        (true, false) => "r",
        _ => "w",
    }
}

/// What an element needs to know of headers, and finds out, in words.
fn headers(class: &Class) -> String {
    let mut parts = vec![];
    let headers = &class.headers;
    if headers.needs_network {
        parts.push("the network header must have been found".to_string());
    }
    if headers.needs_transport {
        parts.push("the transport header must have been found".to_string());
    }
    if headers.finds_network {
        parts.push("finds the network header".to_string());
    }
    if !headers.finds_if.is_empty() {
        parts.push(format!("finds the network header with {}", headers.finds_if));
    }
    if headers.forgets {
        parts.push("what was known of headers no longer is".to_string());
    }
    parts.join("; ")
}

/// What elements of a class may ask of the system, in words.
fn system(class: &Class) -> String {
    class.system.iter().map(|what| what.about()).collect::<Vec<_>>().join("; ")
}

/// Other names of a class.
fn aliases(class: &Class) -> Vec<&'static str> {
    let registry = super::classes();
    let same =
        |(name, other): &(&'static str, &'static Class)| *name != class.name && std::ptr::eq(*other, class);
    registry.iter().filter(same).map(|(name, _)| name).collect()
}

/// A page for the terminal.
fn page(class: &Class) -> String {
    let mut out = format!("{}: {}\n\n{}\n\n", class.name, class.brief, class.doc);
    let _ = writeln!(
        out,
        "Ports        {} (inputs/outputs), {} (h push, l pull, a agnostic)",
        class.ports, class.processing
    );
    let mut list = |title: &str, rows: Vec<String>| {
        if !rows.is_empty() {
            let _ = writeln!(out, "\n{title}\n  {}", rows.join("\n  "));
        }
    };
    let argument = |a: &graph::class::Argument| format!("{:20} {} ({})", a.name, a.about, given(a.given));
    list("Arguments", class.arguments.iter().map(argument).collect());
    let handler = |h: &Handler| format!("{:20} {:2} {}", h.name, mode(h), h.about);
    list("Handlers", class.handlers().map(|h| handler(&h)).collect());
    let mut line = |title: &str, text: String| {
        if !text.is_empty() {
            let _ = writeln!(out, "\n{title:12} {text}");
        }
    };
    line("Headers", headers(class));
    line("Costs", class.costs.to_string());
    line("System", system(class));
    line("Drops", class.drops.iter().map(|reason| reason.name()).collect::<Vec<_>>().join(", "));
    line("Other names", aliases(class).join(", "));
    let _ = writeln!(out, "\nExample\n  {}", class.example);
    if !class.see.is_empty() {
        let _ = writeln!(out, "\nSee also     {}", class.see.join(", "));
    }
    out
}

/// A text that stands in a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// A section in Markdown.
fn section(class: &Class) -> String {
    let mut out = format!("## {}\n\n{}.\n\n{}\n\n", class.name, capital(class.brief), class.doc);
    let _ = writeln!(out, "Ports `{}`, processing `{}`.", class.ports, class.processing);
    if !class.arguments.is_empty() {
        out.push_str("\n| argument | given | |\n|---|---|---|\n");
        for a in class.arguments {
            let _ = writeln!(out, "| `{}` | {} | {} |", a.name, given(a.given), cell(a.about));
        }
    }
    if class.handlers().next().is_some() {
        out.push_str("\n| handler | | |\n|---|---|---|\n");
        for h in class.handlers() {
            let _ = writeln!(out, "| `{}` | {} | {} |", h.name, mode(&h), cell(h.about));
        }
    }
    let mut line = |title: &str, text: String| {
        if !text.is_empty() {
            let _ = writeln!(out, "\n{title}: {text}.");
        }
    };
    line("Headers", headers(class));
    line("Costs", class.costs.to_string());
    line("System", system(class));
    line("Drops", class.drops.iter().map(|d| format!("`{d}`")).collect::<Vec<_>>().join(", "));
    line("Other names", aliases(class).iter().map(|a| format!("`{a}`")).collect::<Vec<_>>().join(", "));
    let _ = writeln!(out, "\n```click\n{}\n```", class.example);
    if !class.see.is_empty() {
        let link = |name: &&str| match super::classes().find(name) {
            Some(_) => format!("[{name}](#{})", name.to_lowercase()),
            None => (*name).to_string(),
        };
        let _ = writeln!(out, "\nSee {}.", class.see.iter().map(link).collect::<Vec<_>>().join(", "));
    }
    out
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// All classes in one Markdown document.
fn reference() -> String {
    let mut out = String::from(
        "# Elements\n\nMade from the classes themselves by `ixora click --doc all --markdown`; a test compares \
         them.\nIn port and processing codes inputs stand before the slash, outputs behind it: `h` is push, \
         `l` pull,\n`a` either; `-` any number.\n\n",
    );
    for class in classes() {
        let _ = writeln!(out, "- [{}](#{}): {}", class.name, class.name.to_lowercase(), class.brief);
    }
    for class in classes() {
        out.push('\n');
        out.push_str(&section(class));
    }
    out
}
