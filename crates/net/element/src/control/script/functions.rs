//! What scripts compute with: `$(add 1 2)`, `$(if $x a b)`, `$(sprintf "%05d" 3)`.
//! Text in, text out; nothing here looks at the router. `kill` is there as well.

use std::cmp::Ordering;
use std::fs::File;
use std::io::Read;
use std::iter::Peekable;
use std::str::Chars;

use graph::lang::args::{shift_word, unquote_text, words};

/// Bytes of a file that is read.
const LONGEST_FILE: u64 = 16 << 20;

/// The names of functions.
pub const PUBLIC: [&[&str]; 3] = [
    &[
        "add", "sub", "min", "max", "mul", "div", "idiv", "mod", "rem", "neg", "abs", "eq", "ne", "gt", "ge",
        "lt", "le", "not", "sprintf", "first",
    ],
    &["and", "or", "nand", "nor", "if", "in"],
    &["length", "unquote", "htons", "htonl", "ntohs", "ntohl"],
];
/// Those that only the configuration may call: they look at files and at processes.
pub const PRIVATE: &[&str] = &["cat", "catq", "kill"];

/// Names as a list of their own.
pub fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| name.to_string()).collect()
}

/// Whether there is a function of this name.
pub fn is_function(name: &str) -> bool {
    PUBLIC.iter().any(|names| names.contains(&name)) || PRIVATE.contains(&name)
}

/// The result, or what is wrong.
type Result = std::result::Result<String, String>;

/// Calls a function by name.
///
/// # Errors
/// What is wrong with its parameters.
pub fn call(name: &str, text: &str) -> Result {
    match name {
        "add" | "sub" | "min" | "max" | "mul" | "div" | "idiv" => fold(name, text),
        "mod" | "rem" => remainder(name, text),
        "neg" | "abs" => sign(name, text),
        "eq" | "ne" | "gt" | "ge" | "lt" | "le" => compare(name, text),
        "not" => boolean(text).map(|b| (!b).to_string()),
        "and" | "or" | "nand" | "nor" => logic(name, text),
        "if" => choose(text),
        "in" => Ok(contains(text).to_string()),
        "first" => Ok(shift_word(text).0.to_string()),
        "length" => Ok(text.len().to_string()),
        "unquote" => Ok(plain(text)),
        "sprintf" => sprintf(text),
        "htons" | "ntohs" => integer(text).map(|n| (n as u16).to_be().to_string()),
        "htonl" | "ntohl" => integer(text).map(|n| (n as u32).to_be().to_string()),
        "cat" => file(text),
        "kill" => kill(text),
        "catq" => file(text).map(|text| graph::lang::args::quote(text.as_bytes())),
        _ => Err(format!("no function '{name}'")),
    }
}

fn plain(text: &str) -> String {
    unquote_text(text).unwrap_or_else(|| text.to_string())
}

/// A number: whole where it can be.
#[derive(Clone, Copy)]
enum Number {
    Whole(i64),
    Real(f64),
}

impl Number {
    fn parse(text: &str) -> Option<Number> {
        let (negative, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text),
        };
        if let Some(value) = graph::value::unsigned(digits) {
            return Some(Number::Whole(if negative { (value as i64).wrapping_neg() } else { value as i64 }));
        }
        text.parse().ok().filter(|f: &f64| f.is_finite()).map(Number::Real)
    }

    fn real(self) -> f64 {
        match self {
            Number::Whole(n) => n as f64,
            Number::Real(f) => f,
        }
    }
}

fn fold(name: &str, text: &str) -> Result {
    let numbers: Option<Vec<Number>> = words(text).into_iter().map(Number::parse).collect();
    let numbers = numbers.ok_or("expected list of numbers")?;
    let nothing = if matches!(name, "add" | "sub") { 0 } else { 1 };
    let real = matches!(name, "div" | "idiv") || numbers.iter().any(|n| matches!(n, Number::Real(_)));
    if !real {
        let whole = numbers.iter().map(|n| if let Number::Whole(n) = n { *n } else { 0 });
        let fold = |a: i64, b: i64| match name {
            "add" => a.wrapping_add(b),
            "sub" => a.wrapping_sub(b),
            "min" => a.min(b),
            "max" => a.max(b),
            _ => a.wrapping_mul(b),
        };
        return Ok(whole.reduce(fold).unwrap_or(nothing).to_string());
    }
    let fold = |a: f64, b: f64| match name {
        "add" => a + b,
        "sub" => a - b,
        "min" => a.min(b),
        "max" => a.max(b),
        "mul" => a * b,
        _ => a / b,
    };
    let value = numbers.into_iter().map(Number::real).reduce(fold).unwrap_or(nothing as f64);
    Ok(if name == "idiv" { (value as i64).to_string() } else { double(value) })
}

/// As C's `%.12g` prints it.
pub fn double(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let scientific = format!("{value:.11e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text.to_string(),
    };
    if !(-4..12).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trim(digits), exponent.abs());
    }
    trim(&format!("{value:.*}", (11 - exponent).max(0) as usize))
}

fn two(text: &str) -> std::result::Result<(&str, &str), String> {
    match words(text)[..] {
        [a, b] => Ok((a, b)),
        _ => Err("expected two numbers".into()),
    }
}

fn remainder(name: &str, text: &str) -> Result {
    let (a, b) = two(text)?;
    match (Number::parse(a), Number::parse(b)) {
        (Some(Number::Whole(_)), Some(Number::Whole(0))) => Err("division by zero".into()),
        (Some(Number::Whole(a)), Some(Number::Whole(b))) => Ok(a.wrapping_rem(b).to_string()),
        (Some(a), Some(b)) if name == "rem" => Ok(double(a.real() % b.real())),
        _ => Err("expected two numbers".into()),
    }
}

fn sign(name: &str, text: &str) -> Result {
    match Number::parse(text.trim()) {
        Some(Number::Whole(n)) if name == "neg" => Ok(n.wrapping_neg().to_string()),
        Some(Number::Whole(n)) => Ok(n.wrapping_abs().to_string()),
        Some(Number::Real(f)) => Ok(double(if name == "neg" { -f } else { f.abs() })),
        None => Err("expected one number".into()),
    }
}

fn compare(name: &str, text: &str) -> Result {
    let (a, b) = two(text)?;
    let order = match (Number::parse(a), Number::parse(b)) {
        (Some(Number::Whole(a)), Some(Number::Whole(b))) => Some(a.cmp(&b)),
        (Some(a), Some(b)) => a.real().partial_cmp(&b.real()),
        _ => Some(plain(a).cmp(&plain(b))),
    };
    let holds = match name {
        "eq" => order == Some(Ordering::Equal),
        "ne" => order != Some(Ordering::Equal),
        "gt" => order == Some(Ordering::Greater),
        "ge" => order.is_some_and(Ordering::is_ge),
        "lt" => order == Some(Ordering::Less),
        _ => order.is_some_and(Ordering::is_le),
    };
    Ok(holds.to_string())
}

/// A truth value as configurations write it.
pub fn boolean(text: &str) -> std::result::Result<bool, String> {
    match text.trim() {
        "1" | "true" | "yes" => Ok(true),
        "0" | "false" | "no" => Ok(false),
        _ => Err("syntax error".into()),
    }
}

fn logic(name: &str, text: &str) -> Result {
    let all = matches!(name, "and" | "nand");
    let mut value = all;
    for word in words(text) {
        if value != all {
            break; // decided: the rest is not looked at
        }
        value = boolean(word)?;
    }
    Ok((value != matches!(name, "nand" | "nor")).to_string())
}

fn choose(text: &str) -> Result {
    let (condition, rest) = shift_word(text);
    let (yes, rest) = shift_word(rest);
    let no = shift_word(rest).0;
    Ok(if boolean(condition)? { yes } else { no }.to_string())
}

fn contains(text: &str) -> bool {
    let words = words(text);
    let Some((first, rest)) = words.split_first() else { return false };
    let first = plain(first);
    rest.iter().any(|word| plain(word) == first)
}

fn integer(text: &str) -> std::result::Result<i64, String> {
    match Number::parse(text.trim()) {
        Some(Number::Whole(n)) => Ok(n),
        _ => Err("syntax error".into()),
    }
}

fn file(name: &str) -> Result {
    let name = plain(name.trim());
    if name.is_empty() {
        return Err("bad FILE".into());
    }
    let mut bytes = vec![];
    let read = File::open(&name).and_then(|file| file.take(LONGEST_FILE + 1).read_to_end(&mut bytes));
    read.map_err(|error| format!("{name}: {}", super::cause(&error)))?;
    if bytes.len() as u64 > LONGEST_FILE {
        return Err(format!("{name}: longer than {LONGEST_FILE} bytes"));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Sends a signal to processes.
fn kill(text: &str) -> Result {
    let (signal, processes) = shift_word(text);
    let number = crate::control::signals::number(signal).ok_or("bad SIGNO")?;
    for word in words(processes) {
        let process: i32 = word.parse().map_err(|_| "bad PID")?;
        let Some(pid) = rustix::process::Pid::from_raw(process) else {
            return Err(format!("kill({process}, {number}): Invalid argument"));
        };
        let signal = rustix::process::Signal::from_named_raw(number).ok_or("bad SIGNO")?;
        let failed =
            |errno: rustix::io::Errno| format!("kill({process}, {number}): {}", super::cause(&errno.into()));
        rustix::process::kill_process(pid, signal).map_err(failed)?;
    }
    Ok(String::new())
}

/// How one `%` directive prints.
#[derive(Default)]
struct Directive {
    left: bool,
    zero: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    width: usize,
    precision: Option<usize>,
}

/// No field is wider: a script must not fill memory with blanks.
const WIDEST: usize = 4096;

/// The parameters of a format, one after the other; empty ones when they run out.
struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    fn next(&mut self) -> &'a str {
        let (word, rest) = shift_word(self.0);
        self.0 = rest;
        word
    }
}

/// A width or precision: digits, or `*` for the next parameter.
fn number(chars: &mut Peekable<Chars<'_>>, parameters: &mut Words<'_>) -> std::result::Result<usize, String> {
    if chars.next_if_eq(&'*').is_some() {
        return parameters.next().parse().map_err(|_| "syntax error".into());
    }
    let mut value = 0usize;
    while let Some(digit) = chars.next_if(char::is_ascii_digit) {
        value = (value * 10 + digit.to_digit(10).unwrap_or(0) as usize).min(WIDEST);
    }
    Ok(value)
}

fn sprintf(text: &str) -> Result {
    let (format, rest) = shift_word(text);
    let mut rest = Words(rest);
    let format = plain(format);
    let mut out = String::new();
    let mut chars = format.chars().peekable();
    let wrong = || String::from("syntax error");
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut directive = Directive::default();
        while let Some(flag) = chars.next_if(|c| "0#- +".contains(*c)) {
            match flag {
                '0' => directive.zero = true,
                '#' => directive.alternate = true,
                '-' => directive.left = true,
                ' ' => directive.space = true,
                _ => directive.plus = true,
            }
        }
        directive.width = number(&mut chars, &mut rest)?.min(WIDEST);
        if chars.next_if_eq(&'.').is_some() {
            directive.precision = Some(number(&mut chars, &mut rest)?.min(WIDEST));
        }
        let mut short = false;
        while let Some(size) = chars.next_if(|c| "hlLq".contains(*c)) {
            short |= size == 'h';
        }
        match chars.next() {
            Some('%') => out.push('%'),
            Some('s') => match rest.next() {
                "" => return Err(wrong()),
                word => out.push_str(&directive.text(plain(word))),
            },
            Some('d' | 'i') => {
                let value = integer(rest.next()).map_err(|_| wrong())?;
                let value = if short { i64::from(value as i16) } else { value };
                out.push_str(&directive.number(value.unsigned_abs().to_string(), value < 0, true, ""));
            }
            Some(kind @ ('u' | 'x' | 'X' | 'o')) => {
                let value = graph::value::unsigned(rest.next()).ok_or_else(wrong)?;
                let value = if short { u64::from(value as u16) } else { value };
                let (digits, prefix) = match kind {
                    'x' => (format!("{value:x}"), "0x"),
                    'X' => (format!("{value:X}"), "0X"),
                    'o' => (format!("{value:o}"), "0"),
                    _ => (value.to_string(), ""),
                };
                let prefix = if directive.alternate && value != 0 { prefix } else { "" };
                out.push_str(&directive.number(digits, false, false, prefix));
            }
            _ => return Err(wrong()),
        }
    }
    if rest.0.is_empty() { Ok(out) } else { Err(wrong()) }
}

impl Directive {
    fn text(&self, text: String) -> String {
        let text: String = text.chars().take(self.precision.unwrap_or(usize::MAX)).collect();
        if self.left {
            format!("{text:<width$}", width = self.width)
        } else {
            format!("{text:>width$}", width = self.width)
        }
    }

    fn number(&self, digits: String, negative: bool, signed: bool, prefix: &str) -> String {
        let least = self.precision.unwrap_or(0);
        let digits = format!("{digits:0>least$}");
        let sign = match (negative, signed) {
            (true, _) => "-",
            (_, true) if self.plus => "+",
            (_, true) if self.space => " ",
            _ => "",
        };
        let head = format!("{sign}{prefix}");
        let fill = self.width.saturating_sub(head.len() + digits.len());
        match (self.left, self.zero && self.precision.is_none()) {
            (true, _) => format!("{head}{digits}{}", " ".repeat(fill)),
            (_, true) => format!("{head}{}{digits}", "0".repeat(fill)),
            _ => format!("{}{head}{digits}", " ".repeat(fill)),
        }
    }
}
