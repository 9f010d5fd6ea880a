//! The commands that the documents tell a reader to type: those of `ixora` have words and
//! options that there are, and those that need nothing run and end well.

use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;

use crate::common::{self, Running, start_command};

/// A command of a document.
#[derive(Debug, Clone)]
struct Typed {
    /// The document and the line.
    place: String,
    /// The command, as the shell gets it: `ixora` for what cargo builds and runs, without the
    /// comment behind it.
    text: String,
    /// Whether the shell does not wait for it.
    background: bool,
    /// Whether root types it.
    root: bool,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the project is there")
}

/// The README and the documents; the elements' examples are configurations.
fn documents() -> Vec<(String, String)> {
    let docs = std::fs::read_dir(root().join("docs")).expect("a folder").flatten();
    let mut files: Vec<PathBuf> = docs.map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|end| end == "md") && !file.ends_with("elements.md"));
    files.push(root().join("README.md"));
    files.sort();
    let name = |file: &Path| file.file_name().expect("a file").to_string_lossy().into_owned();
    files.iter().map(|file| (name(file), std::fs::read_to_string(file).expect("text"))).collect()
}

/// A command as far as a character outside quotes for which this is true, given what is in
/// front of it.
fn until(text: &str, ends: impl Fn(&str, char) -> bool) -> &str {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match quote {
            Some(open) => quote = (c != open).then_some(open),
            None if c == '\'' || c == '"' => quote = Some(c),
            None if ends(&text[..at], c) => return &text[..at],
            None => {}
        }
    }
    text
}

/// The commands of each block of a document: every line of one of `sh`, those behind a prompt
/// of one of `console`.
fn blocks(name: &str, text: &str) -> Vec<Vec<Typed>> {
    let (mut blocks, mut open, mut held) = (vec![], None, String::new());
    for (line, number) in text.lines().zip(1..) {
        match (line.trim_start().strip_prefix("```"), open) {
            (Some(kind @ ("sh" | "console")), None) => {
                open = Some(kind);
                blocks.push(vec![]);
                continue;
            }
            (Some(_), None) => open = Some(""),
            (Some(_), Some(_)) => open = None,
            (None, _) => {}
        }
        let prompted = |prompt| line.strip_prefix(prompt).map(|command| (command, prompt == "# "));
        let (command, root) = match (open, held.is_empty()) {
            (Some("sh"), _) => (line, false),
            (Some("console"), false) => (line, false),
            (Some("console"), true) => match prompted("$ ").or_else(|| prompted("# ")) {
                Some(command) => command,
                None => continue,
            },
            _ => continue,
        };
        held += command.trim();
        if let Some(begun) = held.strip_suffix('\\') {
            held = format!("{} ", begun.trim_end());
            continue;
        }
        let whole = std::mem::take(&mut held);
        let bare = until(&whole, |before, c| c == '#' && before.ends_with(' ')).trim();
        let (bare, background) = bare.strip_suffix('&').map_or((bare, false), |bare| (bare.trim(), true));
        let text = bare.replace("cargo run --release -- ", "ixora ");
        let typed = Typed { place: format!("{name}:{number}"), text, background, root };
        blocks.last_mut().expect("a block is open").extend((!typed.text.is_empty()).then_some(typed));
    }
    blocks
}

/// Starts a command as a shell does, in a folder that is also `/tmp` and `/run`, and where
/// `ixora` is found.
fn start(typed: &Typed, place: &Path) -> Running {
    let folder = format!("{}/", place.display());
    // The folder may itself be in /tmp.
    let text = typed.text.replace("/tmp/", &folder).replace(" /run/", &format!(" {folder}"));
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", place.join("bin").display());
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("exec {text}")).env("PATH", path).current_dir(place);
    start_command(&mut shell, place)
}

/// A folder as a reader would have it.
fn folder() -> tempfile::TempDir {
    let place = tempfile::tempdir().expect("a directory");
    let inside = |name: &str| place.path().join(name);
    std::fs::create_dir(inside("bin")).expect("a folder");
    std::os::unix::fs::symlink(crate::common::IXORA, inside("bin/ixora")).expect("a link");
    std::fs::create_dir(inside("conf")).expect("a folder");
    for file in std::fs::read_dir(root().join("conf")).expect("a folder").flatten() {
        std::fs::copy(file.path(), inside("conf").join(file.file_name())).expect("room");
    }
    let router = "InfiniteSource(LIMIT 5, STOP true) -> Queue -> Unqueue -> Counter -> Discard;";
    std::fs::write(inside("router.click"), router).expect("room");
    place
}

#[test]
fn what_the_documents_say_to_type_can_be_typed() {
    let (place, mut typed) = (folder(), 0);
    let blocks = documents().into_iter().flat_map(|(name, text)| blocks(&name, &text)).flatten();
    // With `--help` at the end all in front of it is read, and nothing is done.
    for mut one in blocks.filter(|one| one.text.contains("ixora ") && !one.text.contains(" -- ")) {
        let from = one.text.find("ixora ").expect("it is there");
        let commands = one.text[from..].split(" & ").filter(|command| command.starts_with("ixora "));
        for command in commands.map(str::to_owned).collect::<Vec<_>>() {
            let words = until(&command, |_, c| matches!(c, '|' | '>' | ';'));
            one.text = format!("{} --help", words.trim());
            let done = start(&one, place.path()).wait(20);
            assert_eq!(done.code(), Some(0), "{}: {command}: {done:#?}", one.place);
            assert!(done.stdout.contains("Usage"), "{}: {command}: {done:#?}", one.place);
            typed += 1;
        }
    }
    assert!(typed > 60, "{typed} commands were typed");
}

/// Commands that are not run, each with what tells it from the others, and why.
const NOT_RUN: &[(&str, &str)] = &[
    ("0000:0", "needs a NIC"),
    ("af_packet:", "needs interfaces, and root"),
    ("top 7777", "needs a router that runs; top.rs has one"),
    ("top /", "needs a router or an overlay that runs; top.rs and overlay.rs have them"),
    ("-p 7777 ", "takes a port of this machine that another program may have"),
    ("-p 0.0.0.0:", "takes a port of this machine that another program may have"),
    ("ixora tcp show", "needs a server that runs; serve.rs has one"),
    ("ixora tcp cores", "needs a server that runs; serve.rs has one"),
    ("ixora bench", "measures for minutes; bench.rs runs short ones"),
    ("overlay run", "needs a configuration of the reader's; overlay.rs has one"),
    ("overlay show", "needs an overlay that runs; overlay.rs has one"),
    ("overlay explain", "needs a capture of the reader's; overlay.rs has one"),
    ("overlay reconcile", "needs a configuration of the reader's; overlay.rs has one"),
    ("soak --duration", "runs for minutes; soak.rs runs short ones"),
    ("soak --seed 2 --episode", "runs for minutes; soak.rs runs short ones"),
    ("/tmp/nic", "has a generator that runs until it is stopped; pf.rs runs the same with an end"),
    ("vm fwd", "fetches packages and starts a virtual machine; the lab does that"),
];

/// Demos, which run for as long as a reader likes to look.
const DEMOS: &[&str] = &["ixora demo", "ixora serve demo", "ixora overlay demo"];

/// A command as it is run here: a demo is short.
fn shortened(mut typed: Typed) -> Typed {
    if let Some((begin, _)) = typed.text.split_once("--duration ") {
        typed.text = format!("{begin}--duration 1s");
    } else if DEMOS.iter().any(|demo| typed.text.starts_with(demo)) && !typed.text.contains("--config") {
        typed.text += " --duration 1s";
    }
    typed
}

/// Waits for the socket that a command in the background makes: a reader types more slowly.
fn wait_for_socket(typed: &Typed, place: &Path) {
    let socket = ["--socket /tmp/", "--vhost-user /tmp/"].iter().find_map(|way| typed.text.split_once(way));
    let name = socket.and_then(|(_, behind)| behind.split_whitespace().next());
    common::until("the socket", || name.is_none_or(|name| place.join(name).exists()));
}

#[test]
fn what_needs_nothing_runs_as_the_documents_say() {
    let (mut run, mut unused) = (0, NOT_RUN.to_vec());
    let blocks = documents().into_iter().flat_map(|(name, text)| blocks(&name, &text));
    for block in blocks {
        let (place, mut behind) = (folder(), vec![]);
        for typed in block.into_iter().filter(|typed| typed.text.starts_with("ixora ") && !typed.root) {
            unused.retain(|(part, _)| !typed.text.contains(part));
            if NOT_RUN.iter().any(|(part, _)| typed.text.contains(part)) {
                continue;
            }
            let typed = shortened(typed);
            let running = start(&typed, place.path());
            run += 1;
            if typed.background {
                wait_for_socket(&typed, place.path());
                behind.push((typed, running));
                continue;
            }
            let done = running.wait(60);
            assert_eq!(done.code(), Some(0), "{}: {}: {done:#?}", typed.place, typed.text);
        }
        for (typed, running) in behind {
            running.signal(Signal::TERM);
            let done = running.wait(20);
            assert_eq!(done.code(), Some(0), "{}: {}: {done:#?}", typed.place, typed.text);
        }
    }
    assert!(run >= 15, "{run} commands ran");
    assert!(unused.is_empty(), "no command is excepted by {unused:?}");
}

#[test]
fn commands_are_found_in_documents() {
    let text = "$ not here\n```console\n$ cargo run --release -- demo   # what\n  out 1\n# ip link &\n\
                $ ixora a \\\n      b &     # and\n```\n```text\nixora no\n```\n```sh\n  ixora x -e 'a # b' # c\n```\n";
    let found = blocks("d", text);
    let short = |typed: &Typed| (typed.text.clone(), typed.background, typed.root);
    let found: Vec<Vec<_>> = found.iter().map(|block| block.iter().map(short).collect()).collect();
    let (demo, link) = (("ixora demo".into(), false, false), ("ip link".into(), true, true));
    assert_eq!(found[0], [demo, link, ("ixora a b".into(), true, false)]);
    assert_eq!(found[1..], [[("ixora x -e 'a # b'".into(), false, false)]]);
}
