//! Click's own command lines, for its programs' names: `click` and `click-flatten`.
//!
//! Options as Eddie Kohler's Clp reads them: long ones may be cut short, `--no-` takes
//! some back, short ones stand together, a value follows or stands behind `=`. What is
//! wrong is said in Click's words.

use clap::Parser;

use super::{Click, endpoint};

/// An option: its long and short name, and what it takes.
struct Flag {
    long: &'static str,
    short: char,
    value: Takes,
    negates: bool,
}

/// The value of an option.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    Nothing,
    Text,
    Integer,
    Optional,
}

const fn flag(long: &'static str, short: char, value: Takes) -> Flag {
    Flag { long, short, value, negates: false }
}

const fn negated(long: &'static str, short: char, value: Takes) -> Flag {
    Flag { long, short, value, negates: true }
}

/// No short name.
const NONE: char = '\0';

/// Click's, and ours that it does not have.
const CLICK: &[Flag] = &[
    negated("allow-reconfigure", 'R', Takes::Nothing),
    flag("clickpath", 'C', Takes::Text),
    flag("expression", 'e', Takes::Text),
    flag("file", 'f', Takes::Text),
    flag("handler", 'h', Takes::Text),
    flag("help", NONE, Takes::Nothing),
    flag("output", 'o', Takes::Text),
    flag("port", 'p', Takes::Text),
    flag("quit", 'q', Takes::Nothing),
    flag("simtime", NONE, Takes::Optional),
    flag("simulation-time", NONE, Takes::Optional),
    flag("threads", 'j', Takes::Integer),
    negated("cpu", NONE, Takes::Optional),
    negated("affinity", 'a', Takes::Optional),
    flag("time", 't', Takes::Nothing),
    flag("unix-socket", 'u', Takes::Text),
    flag("version", 'v', Takes::Nothing),
    negated("warnings", NONE, Takes::Nothing),
    flag("exit-handler", 'x', Takes::Text),
    negated("", 'w', Takes::Nothing),
    flag("check", NONE, Takes::Nothing),
    flag("explain", NONE, Takes::Nothing),
    flag("json", NONE, Takes::Nothing),
    flag("dot", NONE, Takes::Nothing),
    flag("svg", NONE, Takes::Text),
    flag("measure", NONE, Takes::Nothing),
    flag("metrics", NONE, Takes::Optional),
    flag("doc", NONE, Takes::Text),
    flag("markdown", NONE, Takes::Nothing),
    flag("ring", NONE, Takes::Integer),
    flag("compat", NONE, Takes::Nothing),
    negated("confine", NONE, Takes::Nothing),
    negated("chains", NONE, Takes::Nothing),
    flag("control-files", NONE, Takes::Nothing),
];

const FLATTEN: &[Flag] = &[
    flag("classes", 'c', Takes::Nothing),
    flag("clickpath", 'C', Takes::Text),
    flag("config", NONE, Takes::Nothing),
    flag("decls", 'd', Takes::Nothing),
    flag("declarations", 'd', Takes::Nothing),
    flag("elements", 'n', Takes::Nothing),
    negated("expand-vars", NONE, Takes::Nothing),
    flag("expression", 'e', Takes::Text),
    flag("file", 'f', Takes::Text),
    flag("help", NONE, Takes::Nothing),
    flag("names", 'n', Takes::Nothing),
    flag("output", 'o', Takes::Text),
    flag("version", 'v', Takes::Nothing),
];

/// A word of the command line.
enum Word {
    /// An option, with its value, and whether it is taken back.
    Option(&'static str, Option<String>, bool),
    Other(String),
    /// It makes no sense, and what follows is not looked at.
    Wrong(String),
}

/// What a command line asks for.
pub enum Asked {
    /// To run a configuration, or to look at it.
    Run(Box<Click>),
    /// To print this and end.
    Print(String),
    /// It cannot be: this is wrong, and how it should be.
    Wrong(String),
}

/// What `click-flatten` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shown {
    /// The configuration, flat: without compound elements.
    #[default]
    Configuration,
    /// The classes it uses.
    Classes,
    /// Its elements' names.
    Names,
    /// Its elements' declarations.
    Declarations,
}

/// As it is when nothing is said.
fn usual() -> Click {
    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        click: Click,
    }
    Words { ..Words::parse_from(["click"]) }.click
}

/// Reads the command line of `click`.
pub fn click(words: &[String]) -> Asked {
    let mut click = Click { compat: true, ..usual() };
    let wrong = |message: String| Asked::Wrong(message + "\n" + &try_help("click"));
    let (words, dpdk) = without_dpdk(words);
    click.dpdk = dpdk;
    for word in read(&words, CLICK) {
        let (name, value, not) = match word {
            Word::Wrong(message) => return Asked::Wrong(misused("click", &message) + &try_help("click")),
            Word::Option(name, value, not) => (name, value, not),
            Word::Other(word) => {
                if let Err(message) = other(&mut click, word) {
                    return wrong(message);
                }
                continue;
            }
        };
        match name {
            "help" => return Asked::Print(HELP.to_string()),
            "version" => return Asked::Print(format!("click (Click) {}\n", env!("CARGO_PKG_VERSION"))),
            _ => {}
        }
        if let Err(message) = set(&mut click, name, value, not) {
            // Of an option's value Clp complains, of what options mean together Click.
            let text =
                if message.contains(" expects ") { misused("click", &message) } else { message + "\n" };
            return Asked::Wrong(text + &try_help("click"));
        }
    }
    Asked::Run(Box::new(click))
}

/// Reads the command line of `click-flatten`.
pub fn flatten(words: &[String]) -> (Asked, Shown) {
    let mut click = Click { compat: true, ..usual() };
    let mut shown = Shown::default();
    let wrong = |message: String| Asked::Wrong(message + "\n" + &try_help("click-flatten"));
    for word in read(words, FLATTEN) {
        let done = match word {
            Word::Wrong(message) => {
                let text = misused("click-flatten", &message) + &try_help("click-flatten");
                return (Asked::Wrong(text), shown);
            }
            Word::Other(word) => other(&mut click, word),
            Word::Option("help", ..) => return (Asked::Print(FLATTEN_HELP.to_string()), shown),
            Word::Option("version", ..) => {
                let text = format!("click-flatten (Click) {}\n", env!("CARGO_PKG_VERSION"));
                return (Asked::Print(text), shown);
            }
            Word::Option(name, value, not) => {
                match name {
                    "classes" => shown = Shown::Classes,
                    "decls" | "declarations" => shown = Shown::Declarations,
                    "elements" | "names" => shown = Shown::Names,
                    "config" => shown = Shown::Configuration,
                    "output" if click.output.is_some() => {
                        return (wrong("click-flatten: --output file specified twice".into()), shown);
                    }
                    _ => {}
                }
                set(&mut click, name, value, not)
            }
        };
        if let Err(message) = done {
            return (wrong(format!("click-flatten: {message}")), shown);
        }
    }
    (Asked::Run(Box::new(click)), shown)
}

/// What is wrong with an option, with the program's name before it, and the quotes of
/// the user's language.
fn misused(program: &str, message: &str) -> String {
    let lang = std::env::var("LANG").unwrap_or_default();
    let curly = ["UTF-8", "UTF8", "utf8"].iter().any(|name| lang.contains(name));
    message
        .lines()
        .map(|line| format!("{program}: {}\n", if curly { curled(line) } else { line.into() }))
        .collect()
}

/// Straight quotes made curly: one that begins a word opens.
fn curled(line: &str) -> String {
    let mut before = ' ';
    let curl = |c: char| {
        let begins = matches!(std::mem::replace(&mut before, c), ' ' | '(');
        match c {
            '\'' if begins => '‘',
            '\'' => '’',
            c => c,
        }
    };
    line.chars().map(curl).collect()
}

fn try_help(program: &str) -> String {
    format!("Usage: {program} [OPTION]... [ROUTERFILE]\nTry '{program} --help' for more information.\n")
}

/// A word that is no option: a variable, or the configuration's file.
fn other(click: &mut Click, word: String) -> Result<(), String> {
    let name = word.split_once('=').map_or("", |(name, _)| name);
    let named = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if named {
        let known = |before: &String| before.split_once('=').is_some_and(|(known, _)| known == name);
        if click.words.iter().any(known) {
            eprintln!("parameter '{name}' multiply defined");
        } else {
            click.words.push(word);
        }
        return Ok(());
    }
    configured(click)?;
    click.file = Some(word);
    Ok(())
}

/// Nobody named a configuration yet.
fn configured(click: &Click) -> Result<(), String> {
    match click.file.is_some() || click.expression.is_some() {
        true => Err("router configuration specified twice".into()),
        false => Ok(()),
    }
}

/// Does what an option says.
fn set(click: &mut Click, name: &str, value: Option<String>, not: bool) -> Result<(), String> {
    let text = || value.clone().unwrap_or_default();
    match name {
        "file" | "expression" => {
            configured(click)?;
            let place = if name == "file" { &mut click.file } else { &mut click.expression };
            *place = Some(text());
        }
        "output" if click.output.is_some() => return Err("output file specified twice".into()),
        "output" => click.output = Some(text().into()),
        "exit-handler" if click.exit_handler.is_some() => {
            return Err("--exit-handler specified twice".into());
        }
        "exit-handler" => click.exit_handler = value,
        "handler" => click.handler.push(text()),
        "clickpath" => click.clickpath = value,
        "port" => click.port.push(port(text())?),
        "unix-socket" => click.unix_socket.push(text()),
        "allow-reconfigure" => click.allow_reconfigure = !not,
        "quit" => click.quit = true,
        "time" => click.time = true,
        "warnings" => click.no_warnings = not,
        "" => click.no_warnings = !not,
        "threads" => click.threads = text().parse::<i64>().unwrap_or(1).clamp(1, 1 << 16) as usize,
        "cpu" | "affinity" => {
            click.affinity = (!not).then(|| value.and_then(|v| v.parse().ok()).unwrap_or(0));
        }
        "simtime" | "simulation-time" => {
            click.simtime = Some(value.and_then(|v| v.parse().ok()).unwrap_or(1e9));
        }
        "check" => click.check = true,
        "confine" => click.no_confine = not,
        "chains" => click.no_chains = not,
        "control-files" => click.control_files = true,
        "explain" => click.explain = true,
        "json" => click.json = true,
        "dot" => click.dot = true,
        "svg" => click.svg = Some(text().into()),
        "measure" => click.measure = true,
        "metrics" => click.metrics = Some(value.unwrap_or_else(|| "9464".into())),
        "doc" => click.doc = value,
        "markdown" => click.markdown = true,
        "ring" => click.ring = text().parse().map_err(|_| "--ring expects a number".to_string())?,
        _ => {}
    }
    Ok(())
}

/// The words without DPDK's, and those: what stands between `--dpdk` and `--`.
fn without_dpdk(words: &[String]) -> (Vec<String>, Vec<String>) {
    let Some(begin) = words.iter().position(|word| word == "--dpdk") else { return (words.to_vec(), vec![]) };
    let rest = &words[begin + 1..];
    let len = rest.iter().position(|word| word == "--").unwrap_or(rest.len());
    let others = words[..begin].iter().chain(rest.iter().skip(len + 1));
    (others.cloned().collect(), rest[..len].to_vec())
}

/// A port to listen at: a number, perhaps with `+`, perhaps with an address before it; or a
/// packet port and its number.
fn port(text: String) -> Result<String, String> {
    match super::dpdk::numbered(&text).is_some() || endpoint::is_tcp(&text) {
        true => Ok(text),
        false => Err(format!("'-p' expects a TCP port number, not '{text}'")),
    }
}

/// The command line's words, as far as they make sense.
fn read(words: &[String], flags: &'static [Flag]) -> Vec<Word> {
    let mut read = vec![];
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        let mut done = Ok(());
        if word == "--" {
            read.extend(words.by_ref().map(|word| Word::Other(word.to_string())));
        } else if let Some(long) = word.strip_prefix("--") {
            done = read_long(long, flags, &mut words).map(|word| read.push(word));
        } else if word.len() > 1 && word.starts_with('-') {
            done = read_short(&word[1..], flags, &mut words, &mut read);
        } else {
            read.push(Word::Other(word.to_string()));
        }
        if let Err(message) = done {
            read.push(Word::Wrong(message));
            break;
        }
    }
    read
}

fn read_long<'w>(
    word: &str,
    flags: &'static [Flag],
    words: &mut impl Iterator<Item = &'w str>,
) -> Result<Word, String> {
    let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
    let fits = |name: &str, negated: bool| -> Result<Option<&'static Flag>, String> {
        let known = || flags.iter().filter(|f| !f.long.is_empty() && (f.negates || !negated));
        if let Some(exact) = known().find(|f| f.long == name) {
            return Ok(Some(exact));
        }
        let mut near = known().filter(|f| f.long.starts_with(name) && !name.is_empty());
        match (near.next(), near.next()) {
            (Some(first), Some(second)) => Err(format!(
                "option '--{word}' is ambiguous\n(Possibilities are '--{}' and '--{}'.)",
                first.long, second.long
            )),
            (first, _) => Ok(first),
        }
    };
    let (mut found, mut not) = (fits(name, false)?, false);
    if found.is_none()
        && let Some(rest) = name.strip_prefix("no-")
    {
        (found, not) = (fits(rest, true)?, true);
    }
    let flag = found.ok_or_else(|| format!("unrecognized option '--{word}'"))?;
    let shown = format!("--{}{}", if not { "no-" } else { "" }, flag.long);
    let value = match (flag.value, value) {
        _ if not || flag.value == Takes::Nothing => match value {
            Some(_) => return Err(format!("'{shown}' can't take an argument")),
            None => None,
        },
        (_, Some(value)) => Some(value.to_string()),
        (Takes::Optional, None) => None,
        (_, None) => {
            let next = words.next().ok_or_else(|| format!("'{shown}' requires an argument"))?;
            Some(next.to_string())
        }
    };
    checked(flag, &shown, value, not)
}

fn read_short<'w>(
    letters: &str,
    flags: &'static [Flag],
    words: &mut impl Iterator<Item = &'w str>,
    read: &mut Vec<Word>,
) -> Result<(), String> {
    let mut rest = letters;
    while let Some(letter) = rest.chars().next() {
        rest = &rest[letter.len_utf8()..];
        let flag = flags.iter().find(|f| f.short == letter);
        let flag = flag.ok_or_else(|| format!("unrecognized option '-{letter}'"))?;
        let shown = format!("-{letter}");
        let value = match flag.value {
            Takes::Nothing => None,
            _ if !rest.is_empty() => {
                let value = std::mem::take(&mut rest);
                Some(value.strip_prefix('=').unwrap_or(value).to_string())
            }
            Takes::Optional => None,
            _ => {
                let next = words.next().ok_or_else(|| format!("'{shown}' requires an argument"))?;
                Some(next.to_string())
            }
        };
        read.push(checked(flag, &shown, value, false)?);
    }
    Ok(())
}

/// An option whose value is what it should be.
fn checked(flag: &'static Flag, shown: &str, value: Option<String>, not: bool) -> Result<Word, String> {
    let number = |value: &String| value.parse::<i64>().is_ok();
    if let Some(value) = value.as_ref().filter(|value| flag.value == Takes::Integer && !number(value)) {
        return Err(format!("'{shown}' expects an integer, not '{value}'"));
    }
    if let Some(value) = value.as_ref().filter(|_| flag.value == Takes::Optional) {
        let real = matches!(flag.long, "simtime" | "simulation-time") && value.parse::<f64>().is_err();
        let whole = matches!(flag.long, "cpu" | "affinity") && !number(value);
        if real || whole {
            let what = if real { "a real number" } else { "an integer" };
            return Err(format!("'{shown}' expects {what}, not '{value}'"));
        }
    }
    Ok(Word::Option(flag.long, value, not))
}

/// What `click --help` prints.
const HELP: &str = "\
Runs a router written in Click's language until it stops or is interrupted.

Usage: click [OPTION]... [ROUTERFILE]

Options:
  -f, --file FILE               The router is in FILE ('-' for standard input).
  -e, --expression EXPR         The router is EXPR.
  -j, --threads N               Run with N threads; 1 without.
  -a, --affinity[=N]            Bind threads to cores, the first to core N; 0 without.
  -p, --port PORT               Take control connections on a TCP port.
  -p, --port N=NAME             The packet port NAME is DPDK's port N.
      --dpdk OPTIONS --         DPDK's options; ports and cores are read.
  -u, --unix-socket FILE        Take control connections on a Unix socket.
  -R, --allow-reconfigure       Let 'hotconfig' be written: another router.
  -h, --handler ELEMENT.H       After the run, read a handler and print it.
  -x, --exit-handler ELEMENT.H  After the run, the exit status is a handler's.
  -o, --output FILE             Write the flat router to FILE.
  -q, --quit                    Do not run it.
  -t, --time                    Print how long it ran.
  -w, --no-warnings             Keep warnings to yourself.
      --simtime                 Time is simulated.
  -C, --clickpath PATH          Look for libraries in the folders of PATH.
      --help                    Print this.
  -v, --version                 Print the version.

'ixora click --help' tells of more.
";

/// What `click-flatten --help` prints.
const FLATTEN_HELP: &str = "\
Prints a router written in Click's language without its compound elements.

Usage: click-flatten [OPTION]... [ROUTERFILE]

Options:
  -c, --classes             The names of its classes instead.
  -n, --names               The names of its elements instead.
  -d, --declarations        Its elements, with their classes, instead.
  -f, --file FILE           The router is in FILE ('-' for standard input).
  -e, --expression EXPR     The router is EXPR.
      --config              The router alone; this is always so.
      --expand-vars         Replace variables; this is always done.
  -o, --output FILE         Write to FILE.
  -C, --clickpath PATH      Look for libraries in the folders of PATH.
      --help                Print this.
  -v, --version             Print the version.
";
