//! A script's instructions, one for each argument of its configuration.

use graph::lang::args::shift_word;

/// What is done, and with what text. Variables in it are replaced when it is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Instruction {
    /// Where a script begins whose first instruction is no wait.
    Initial,
    /// Waits for so many steps.
    WaitStep(u32),
    /// Waits for a time.
    WaitTime(String),
    /// Writes a handler.
    Write { call: String, unquote: bool },
    /// Reads a handler and prints its name and what it says.
    Read { call: String, unquote: bool },
    /// Prints a text.
    Print { text: String, newline: bool, unquote: bool },
    /// Sets a variable.
    Set { variable: String, value: String, unquote: bool },
    /// Sets a variable when the router begins; `export` makes it a handler.
    Init { variable: String, value: String, unquote: bool, export: bool },
    /// Ends, with a value for who asked.
    Return { value: String, unquote: bool },
    /// A place to go to.
    Label(String),
    /// Goes to a place, on a condition.
    Goto { label: String, condition: String },
    /// Ends, with an error.
    Error { message: String, unquote: bool },
    /// Ends the script.
    End,
    /// Ends; a packet script drops its packet.
    Exit,
    /// Has the router stop.
    Stop,
}

/// Reads an instruction; `None` for an empty one.
///
/// # Errors
/// The word that makes no sense.
pub fn parse(text: &str) -> Result<Option<Instruction>, String> {
    let (name, rest) = shift_word(text);
    let wrong = || Err(format!("syntax error at '{name}'"));
    let rest_owned = || rest.to_string();
    // The same word with a q takes quotes off.
    let unquote = name.ends_with('q');
    Ok(Some(match name {
        "" => return Ok(None),
        "wait" if !rest.is_empty() => Instruction::WaitTime(rest_owned()),
        "wait_time" | "wait_for" => Instruction::WaitTime(rest_owned()),
        "wait" | "wait_step" | "wait_stop" | "pause" if rest.is_empty() => Instruction::WaitStep(1),
        "wait_step" | "wait_stop" | "pause" => match rest.parse() {
            Ok(steps) => Instruction::WaitStep(steps),
            Err(_) => return wrong(),
        },
        "write" | "writeq" => Instruction::Write { call: rest_owned(), unquote },
        "read" | "readq" => Instruction::Read { call: rest_owned(), unquote },
        "print" | "printq" => Instruction::Print { text: rest_owned(), newline: true, unquote },
        "printn" | "printnq" => Instruction::Print { text: rest_owned(), newline: false, unquote },
        "save" | "append" => {
            let (handler, file) = shift_word(rest);
            let file = if file.is_empty() { "-" } else { file };
            let arrows = if name == "save" { ">" } else { ">>" };
            Instruction::Print { text: format!("{arrows}{file} {handler}"), newline: true, unquote: false }
        }
        "set" | "setq" | "init" | "initq" | "export" | "exportq" => {
            let (variable, value) = shift_word(rest);
            let (variable, value) = (variable.to_string(), value.to_string());
            match name.trim_end_matches('q') {
                _ if variable.is_empty() => return wrong(),
                "set" if value.is_empty() => return wrong(),
                "set" => Instruction::Set { variable, value, unquote },
                word => Instruction::Init { variable, value, unquote, export: word == "export" },
            }
        }
        "return" | "returnq" => Instruction::Return { value: rest_owned(), unquote },
        "label" => match shift_word(rest) {
            ("", _) => return wrong(),
            (label, "") => Instruction::Label(label.to_string()),
            _ => return wrong(),
        },
        "goto" => {
            let (label, condition) = shift_word(rest);
            Instruction::Goto { label: label.to_string(), condition: condition.to_string() }
        }
        "error" | "errorq" => Instruction::Error { message: rest_owned(), unquote },
        "loop" | "end" | "exit" | "stop" if !rest.is_empty() => return wrong(),
        "loop" => Instruction::Goto { label: String::new(), condition: String::new() },
        "end" => Instruction::End,
        "exit" => Instruction::Exit,
        "stop" => Instruction::Stop,
        _ => return wrong(),
    }))
}
