//! Where a configuration comes from: files, the command line, libraries.

use std::fmt::Display;
use std::io::Read;
use std::path::{Path, PathBuf};

use graph::Registry;
use graph::lang::archive::{self, Archive};
use graph::lang::{self, Declared, Flat, Problems, Source, SourceLocation, args};
use graph::plan::Planned;
use graph::run::shared::CONTINUED;

use super::{Click, endpoint};
use crate::Failure;
use crate::compiled::Compiled;

/// So many members of an archive are named that are not read.
const NAMED: usize = 8;

/// A word of the command line that sets a variable.
fn variable(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let named = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    named.then_some((name, value))
}

/// The one configuration that the command line names; standard input without one.
pub fn sources(click: &Click) -> Result<Vec<Source>, Failure> {
    if let Some(compiled) = &click.compiled {
        return built_in(click, compiled);
    }
    let files = click.words.iter().filter(|word| variable(word).is_none());
    let mut given: Vec<Source> = click.expression.iter().map(|e| Source::new("", e.as_str())).collect();
    for file in click.file.iter().chain(files) {
        given.push(read(click, file)?);
    }
    match given.len() {
        0 => Ok(vec![read(click, "-")?]),
        1 => Ok(given),
        _ => Err(Failure::usage("router configuration specified twice")
            .fix("name one file, or one expression; a configuration can require(library FILE)")),
    }
}

/// The configuration of a compiled program, which takes no other.
fn built_in(click: &Click, compiled: &Compiled) -> Result<Vec<Source>, Failure> {
    if !click.words.is_empty() || click.file.is_some() || click.expression.is_some() {
        return Err(Failure::usage(format!("{} is built into this program", compiled.name))
            .fix("ixora compile makes a program of another configuration, or with other variables"));
    }
    Ok(vec![Source::new(compiled.name, compiled.configuration)])
}

fn read(click: &Click, file: &str) -> Result<Source, Failure> {
    let (name, mut text) = (if file == "-" { "<stdin>" } else { file }, vec![]);
    let read = match file {
        "-" => std::io::stdin().read_to_end(&mut text).map(|_| text),
        file => std::fs::read(file),
    };
    let failed = |error: &dyn Display| {
        let failure = Failure::new(format!("{name}: {error}"));
        match click.metrics.is_some() && endpoint::metrics(file).is_ok() {
            true => failure.fix(format!("write --metrics={file} to serve counters there")),
            false => failure,
        }
    };
    let text = read.map_err(|error| failed(&error))?;
    unpacked(click, name, text).map_err(|error| failed(&error))
}

/// A configuration, of an archive of Click's tools if it is one. Which members of that mean
/// nothing here is said in a note.
///
/// # Errors
/// When the archive is broken, or holds no configuration.
pub fn unpacked(click: &Click, name: &str, text: Vec<u8>) -> Result<Source, archive::Broken> {
    let Some(Archive { configuration, others }) = archive::unpack(&text)? else {
        return Ok(Source::new(name, text));
    };
    if !others.is_empty() && !click.compat && !click.no_warnings {
        let named: Vec<String> =
            others.iter().take(NAMED).map(|name| name.escape_debug().to_string()).collect();
        let more = others.len() - named.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        eprintln!("{name}: note: of this archive only 'config' is read, not {}{more}", named.join(", "));
    }
    Ok(Source::new(name, configuration))
}

/// A library's file: beside the file that asks, then along the path.
fn library(click: &Click, name: &str, folder: &str) -> Option<Source> {
    let path = click.clickpath.as_deref().unwrap_or("");
    let folders = std::iter::once(folder).chain(path.split(':').filter(|f| !f.is_empty()));
    let beside = |folder: &str| {
        let base = Path::new(folder);
        [base.join(name), base.join(format!("{name}.click")), base.join("conf").join(name)]
    };
    let candidates: Vec<PathBuf> = folders.flat_map(beside).collect();
    let found = candidates.iter().find(|path| path.is_file())?;
    Some(Source::new(found.to_string_lossy(), std::fs::read(found).ok()?))
}

/// Reads a configuration down to elements and connections.
pub fn flatten(click: &Click, sources: Vec<Source>, registry: &Registry) -> Result<Flat, Problems> {
    with_options(click, registry, |options| lang::read(sources, options))
}

/// As [`flatten`], and what could be read although something is wrong.
pub fn flatten_anyway(click: &Click, sources: Vec<Source>, registry: &Registry) -> (Flat, Problems) {
    with_options(click, registry, |options| lang::read_anyway(sources, options))
}

/// Reads a configuration whose classes may be any.
pub fn with_any_class<R>(click: &Click, read: impl FnOnce(&lang::Options<'_>) -> R) -> R {
    let registry = Registry::default();
    with_options(click, &registry, |options| {
        read(&lang::Options { known_class: &is_class, library: options.library, ..defines(click) })
    })
}

/// Whether a word that nobody declared is a class's name: elements' have other letters.
fn is_class(name: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.starts_with(|c: char| c.is_ascii_uppercase()) && name.bytes().all(known)
}

fn defines(click: &Click) -> lang::Options<'static> {
    let defines = click.words.iter().filter_map(|word| variable(word));
    let defines = defines.map(|(name, value)| (name.to_string(), value.to_string())).collect();
    lang::Options { defines, ..lang::Options::default() }
}

fn with_options<R>(click: &Click, registry: &Registry, read: impl FnOnce(&lang::Options<'_>) -> R) -> R {
    read(&lang::Options {
        library: Some(&|name, folder| library(click, name, folder)),
        known_class: &|name| registry.find(name).is_some(),
        class_names: &|| registry.names().map(str::to_string).collect(),
        ..defines(click)
    })
}

/// Adds the elements that the command line asks for: control sockets, under the names
/// that Click gives them, and metrics. Those of a configuration that takes another's
/// place (`hotswap`) wait for the other's sockets.
pub fn add_driver(click: &Click, flat: &mut Flat, hotswap: bool) {
    let waits = if hotswap { ", RETRIES 1, RETRY_WARNINGS false" } else { "" };
    let ports = click.port.iter().map(|port| {
        let config = match endpoint::split(port) {
            Some((address, port)) => format!("TCP, {port}, ADDRESS {address}"),
            None => format!("TCP, {port}"),
        };
        (format!("--port {port}"), config)
    });
    let files = click
        .unix_socket
        .iter()
        .map(|file| (format!("--unix-socket {file}"), format!("UNIX, {}", quoted(file))));
    for (n, (option, config)) in ports.chain(files).enumerate() {
        let name = match n {
            0 => "click_driver@@ControlSocket".to_string(),
            n => format!("click_driver@@ControlSocket@{n}"),
        };
        add(flat, &option, name, "ControlSocket", format!("{config}{waits}"));
    }
    if let Some(place) = &click.metrics {
        let config = match endpoint::split(place) {
            Some((address, port)) => format!("{port}, {address}"),
            None => place.clone(),
        };
        let name = "click_driver@@Metrics".to_string();
        add(flat, &format!("--metrics={place}"), name, "Metrics", format!("{config}{waits}"));
    }
}

/// What TYPE a script's argument gives it, if that is what it does.
fn script_type(argument: &str) -> Option<&str> {
    args::keyword(argument).filter(|(word, _)| *word == "TYPE").map(|(_, kind)| kind.trim())
}

/// Whether an element is a driver's script.
fn is_driver(class: &str, config: &str) -> bool {
    let is_type =
        || args::split(config).iter().filter_map(|one| script_type(one)).any(|kind| kind == "DRIVER");
    class == "DriverManager" || class == "Script" && is_type()
}

/// Adds what a script of the router that was running has still to do, when it is the
/// script that wrote this configuration. One that stops the router at its end does not
/// where the new configuration has a driver's script of its own, which decides that.
pub fn add_continued(flat: &mut Flat, from: &Planned) {
    if !matches!(from.kind.name, "Script" | "DriverManager") {
        return;
    }
    let mut arguments = args::split(&from.config);
    arguments.retain(|argument| script_type(argument).is_none());
    let stops = is_driver(from.kind.name, &from.config)
        && !flat.elements.iter().any(|new| is_driver(&new.class, &new.config));
    arguments.extend(stops.then(|| "stop".to_string()));
    arguments.push("TYPE ACTIVE".to_string());
    add(flat, "click", format!("{}{CONTINUED}", from.name), from.kind.name, args::join(&arguments));
}

/// Adds an element that `origin` asks for, which errors of it name.
fn add(flat: &mut Flat, origin: &str, name: String, class: &str, config: String) {
    let place = SourceLocation::nowhere(origin);
    flat.elements.push(Declared {
        name: name.into(),
        class: class.into(),
        config,
        place,
        config_place: None,
        within: None,
    });
}

/// A file's name as an argument.
fn quoted(name: &str) -> String {
    graph::lang::args::quote(name.as_bytes())
}
