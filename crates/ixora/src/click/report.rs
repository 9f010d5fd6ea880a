//! What is printed after a run: handlers and times.

use std::time::Instant;

use graph::Router;
use graph::lang::args;
use rustix::time::{ClockId, Timespec, clock_gettime};

use super::Click;

/// Reads and prints the handlers that were asked for; whether all could be.
pub fn handlers(click: &Click, router: &mut Router) -> bool {
    let mut fine = true;
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
            fine &= print(&name, several || click.handler.len() > 1, click.compat, router);
        }
    }
    fine
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
    (all.into_iter().filter(readable).map(|e| e.name.clone()).collect(), any)
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

/// Prints what a handler says; false when there is none to read. One that refuses says
/// nothing, in Click's words.
fn print(name: &str, named: bool, compat: bool, router: &mut Router) -> bool {
    let shown = name.strip_prefix('.').unwrap_or(name);
    let handler = match router.lanes()[0].handler_of(None, name) {
        Ok(handler) if handler.is_public() => handler,
        Ok(handler) if handler.write => {
            eprintln!("'{shown}' is a write handler");
            return false;
        }
        _ => {
            eprintln!("no '{shown}' handler");
            return false;
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
    let (head, tail) = if named { (format!("{shown}:\n"), "\n") } else { (String::new(), "") };
    print!("{head}{value}{tail}");
    fine
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
