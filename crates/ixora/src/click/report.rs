//! What is printed after a run: handlers, times, and what was counted.

use std::time::Instant;

use graph::Router;
use graph::lang::args;
use rustix::time::{ClockId, Timespec, clock_gettime};
use serde_json::{Map, Value, json};

use super::Click;
use super::account::Counted;
use crate::open::PortFindings;

/// What a handler said after a run.
pub struct Answer {
    /// Its name, with the element's.
    name: String,
    value: String,
    /// Its name is printed as well: there are others.
    named: bool,
}

/// Prints them, and what the router counted; that on standard error, for programs read the
/// handlers.
pub fn print(answers: &[Answer], counted: Option<&Counted>) {
    for Answer { name, value, named } in answers {
        let (head, tail) = if *named { (format!("{name}:\n"), "\n") } else { (String::new(), "") };
        print!("{head}{value}{tail}");
    }
    if let Some(counted) = counted {
        eprint!("{}", counted.text());
    }
}

/// The same as JSON, with what the linters of models found and what ended the run before
/// its time.
pub fn json(
    start: Instant,
    answers: &[Answer],
    counted: Option<&Counted>,
    findings: &[PortFindings],
    error: Option<&str>,
) {
    let handlers: Map<String, Value> =
        answers.iter().map(|answer| (answer.name.clone(), answer.value.clone().into())).collect();
    println!(
        "{:#}",
        json!({
            "command": "click",
            "seconds": start.elapsed().as_secs_f64(),
            "handlers": handlers,
            "ports": counted.map(|counted| &counted.ports),
            "account": counted.map(|counted| &counted.account),
            "findings": findings,
            "error": error,
        })
    );
}

/// Reads the handlers that were asked for; whether all could be.
pub fn handlers(click: &Click, router: &mut Router) -> (Vec<Answer>, bool) {
    let (mut answers, mut fine) = (Vec::new(), true);
    for asked in &click.handler {
        let (names, several) = match asked.split_once('.') {
            Some((element, handler)) => {
                let (elements, several) = elements(element, handler, router);
                if elements.is_empty() && !several {
                    let kind = if is_pattern(element) { "matching " } else { "" };
                    eprintln!("no element {kind}'{element}'");
                    fine = false;
                }
                (elements.into_iter().map(|e| format!("{e}.{handler}")).collect(), several)
            }
            None => (vec![format!(".{asked}")], false),
        };
        for name in names {
            let (value, read) = value_of(&name, click.compat, router);
            fine &= read;
            let named = several || click.handler.len() > 1;
            let name = name.strip_prefix('.').unwrap_or(&name).to_owned();
            answers.extend(value.map(|value| Answer { name, value, named }));
        }
    }
    (answers, fine)
}

fn is_pattern(name: &str) -> bool {
    name.contains(['*', '?', '['])
}

/// The elements that a name stands for: one, all that match a pattern, or all of a
/// class; and whether it may be several.
fn elements(name: &str, handler: &str, router: &Router) -> (Vec<String>, bool) {
    let shared = router.shared();
    let plan = &shared.plan;
    if plan.find(name, None).is_some() {
        return (vec![name.to_string()], false);
    }
    let fits = |e: &&graph::plan::Planned| {
        if is_pattern(name) {
            glob(name.as_bytes(), e.name.as_bytes())
        } else {
            *e.class == *name || e.kind.name == name
        }
    };
    let all: Vec<_> = plan.elements.iter().filter(fits).collect();
    let any = !all.is_empty();
    let readable = |e: &&graph::plan::Planned| {
        router.lanes()[0].handler_of(None, &format!("{}.{handler}", e.name)).is_ok_and(|h| h.is_public())
    };
    (all.into_iter().filter(readable).map(|e| e.name.to_string()).collect(), any)
}

/// Whether a shell pattern (`*`, `?`, `[a-z]`) fits a name.
fn glob(pattern: &[u8], name: &[u8]) -> bool {
    // For each prefix of the name, whether the pattern so far fits it: linear in both.
    let mut fits: Vec<bool> = (0..=name.len()).map(|n| n == 0).collect();
    let mut rest = pattern;
    while let Some((&first, more)) = rest.split_first() {
        rest = more;
        if first == b'*' {
            let from = fits.iter().position(|f| *f).unwrap_or(fits.len());
            fits.iter_mut().enumerate().for_each(|(n, f)| *f = n >= from);
            continue;
        }
        let end = rest.iter().position(|b| *b == b']').filter(|_| first == b'[');
        let set = end.map(|end| &rest[..end]);
        if let Some(end) = end {
            rest = &rest[end + 1..];
        }
        let one = |byte: u8| match set {
            Some(set) => in_set(set, byte),
            None => first == b'?' || first == byte,
        };
        for n in (1..=name.len()).rev() {
            fits[n] = fits[n - 1] && one(name[n - 1]);
        }
        fits[0] = false;
    }
    fits[name.len()]
}

fn in_set(set: &[u8], byte: u8) -> bool {
    let (not, mut set) = match set {
        [b'^' | b'!', rest @ ..] => (true, rest),
        _ => (false, set),
    };
    let mut found = false;
    while let Some((&low, rest)) = set.split_first() {
        let (high, rest) = match rest {
            [b'-', high, rest @ ..] => (*high, rest),
            _ => (low, rest),
        };
        found |= (low..=high).contains(&byte);
        set = rest;
    }
    found != not
}

/// What a handler says, and whether it does; `None` when there is none to read. One that
/// refuses says nothing, in Click's words.
fn value_of(name: &str, compat: bool, router: &mut Router) -> (Option<String>, bool) {
    let shown = name.strip_prefix('.').unwrap_or(name);
    let handler = match router.lanes()[0].handler_of(None, name) {
        Ok(handler) if handler.is_public() => handler,
        Ok(handler) if handler.write => {
            eprintln!("'{shown}' is a write handler");
            return (None, false);
        }
        _ => {
            eprintln!("no '{shown}' handler");
            return (None, false);
        }
    };
    let (mut value, fine) = match router.read(name, "") {
        Ok(value) => (value, true),
        Err(_) if compat => (String::new(), true),
        Err(refused) => {
            eprintln!("{shown}: {refused}");
            (String::new(), false)
        }
    };
    if !handler.is_raw() && !value.is_empty() && !value.ends_with('\n') {
        value.push('\n');
    }
    (Some(value), fine)
}

/// The exit status that a handler reads: a number, or whether all went well.
pub fn exit_status(handler: &str, router: &mut Router) -> u8 {
    let (name, parameter) = args::shift_word(handler);
    match router.read(name, parameter).map(|value| args::uncomment(&value)) {
        Ok(value) => match (value.parse::<i64>(), value.as_str()) {
            (Ok(status), _) => status as u8, // as exit(3) has it: the low 8 bits
            (_, "true" | "t" | "yes" | "y") => 0,
            (_, "false" | "f" | "no" | "n") => 1,
            _ => {
                eprintln!("exit handler value should be integer");
                255
            }
        },
        Err(refused) => {
            let words = if refused.is_uncalled() {
                refused.to_string()
            } else {
                "exit handler value should be integer".into()
            };
            eprintln!("{words}");
            255
        }
    }
}

/// User and system time apart cost a call that nobody reads: processor time and
/// elapsed time, in Click's shape.
pub fn time((start, cpu): (Instant, Timespec)) {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    let cpu = (now.tv_sec - cpu.tv_sec) as f64 + (now.tv_nsec - cpu.tv_nsec) as f64 / 1e9;
    let elapsed = start.elapsed().as_secs_f64();
    println!("{cpu:.3}u 0.000s {}:{:05.2}", (elapsed / 60.0) as u64, elapsed % 60.0);
}
