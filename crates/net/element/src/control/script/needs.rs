//! What a script asks of the system: the files that its instructions name, and signals.
//! A name that is computed may be any; so may one that a script reads for somebody else.

use graph::Setup;
use graph::class::SystemUse;
use graph::lang::args::{shift_word, unquote_text};

use super::functions;
use super::instruction::Instruction;

/// What scripts may ask for.
pub const USES: &[SystemUse] =
    &[SystemUse::ReadsFiles, SystemUse::WritesFiles, SystemUse::AnyFiles, SystemUse::Signals];

/// Says what instructions will need.
pub fn say(instructions: &[Instruction], setup: &mut Setup<'_>) {
    for instruction in instructions {
        if let Instruction::Print { text, .. } = instruction
            && let Some(rest) = text.strip_prefix('>')
        {
            let (file, text) = shift_word(rest.strip_prefix('>').unwrap_or(rest));
            open(file, SystemUse::WritesFiles, setup);
            calls(text, setup);
        }
        texts(instruction).for_each(|text| calls(text, setup));
    }
}

/// The texts in which functions may be called.
fn texts(instruction: &Instruction) -> impl Iterator<Item = &str> {
    let (one, other) = match instruction {
        Instruction::Write { call, .. } | Instruction::Read { call, .. } => (call.as_str(), ""),
        Instruction::Print { text, .. } | Instruction::WaitTime(text) => (text.as_str(), ""),
        Instruction::Set { value, .. }
        | Instruction::Init { value, .. }
        | Instruction::Return { value, .. } => (value.as_str(), ""),
        Instruction::Goto { label, condition } => (label.as_str(), condition.as_str()),
        Instruction::Error { message, .. } => (message.as_str(), ""),
        _ => ("", ""),
    };
    [one, other].into_iter()
}

/// Looks for calls of functions that open files or send signals: in `$(…)`, as a handler of
/// the script's own at the beginning, or by the script's name.
fn calls(text: &str, setup: &mut Setup<'_>) {
    for name in functions::PRIVATE {
        for (at, _) in text.match_indices(name) {
            let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let (before, rest) = (&text[..at], &text[at + name.len()..]);
            let is_call =
                before.trim().is_empty() || before.trim_end().ends_with("$(") || before.ends_with('.');
            if !is_call || rest.starts_with(is_word) {
                continue;
            }
            match *name {
                "kill" => setup.will_need(SystemUse::Signals),
                _ => open(argument(rest), SystemUse::ReadsFiles, setup),
            }
        }
    }
}

/// The first word behind a function's name, up to the end of the call.
fn argument(rest: &str) -> &str {
    let rest = rest.trim_start();
    if rest.starts_with('"') {
        return shift_word(rest).0.trim_end_matches(')');
    }
    rest.split(|c: char| c.is_whitespace() || c == ')').next().unwrap_or("")
}

/// A file by its name; any, if that is computed.
fn open(name: &str, what: SystemUse, setup: &mut Setup<'_>) {
    let plain = unquote_text(name).unwrap_or_else(|| name.to_string());
    match plain.as_str() {
        "-" => {}
        "" if what == SystemUse::WritesFiles => {}
        plain if plain.is_empty() || name.contains(['$', '\'']) => setup.will_need(SystemUse::AnyFiles),
        plain => setup.will_open(what, plain),
    }
}
