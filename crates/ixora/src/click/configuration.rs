//! Where a configuration comes from: files, the command line, libraries.

use std::io::Read;
use std::path::{Path, PathBuf};

use graph::Registry;
use graph::lang::{self, Flat, Problems, Source};

use super::Click;
use crate::Failure;

/// A word of the command line that sets a variable.
fn variable(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let named = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    named.then_some((name, value))
}

/// The one configuration that the command line names; standard input without one.
pub fn sources(click: &Click) -> Result<Vec<Source>, Failure> {
    let files = click.words.iter().filter(|word| variable(word).is_none());
    let mut given: Vec<Source> = click.expression.iter().map(|e| Source::new("", e.as_str())).collect();
    for file in click.file.iter().chain(files) {
        given.push(read(file)?);
    }
    match given.len() {
        0 => Ok(vec![read("-")?]),
        1 => Ok(given),
        _ => Err(Failure::usage("router configuration specified twice")
            .fix("name one file, or one expression; a configuration can require(library FILE)")),
    }
}

fn read(file: &str) -> Result<Source, Failure> {
    let mut text = vec![];
    if file == "-" {
        let failed = |error| Failure::new(format!("<stdin>: {error}"));
        std::io::stdin().read_to_end(&mut text).map_err(failed)?;
        return Ok(Source::new("<stdin>", text));
    }
    text = std::fs::read(file).map_err(|error| Failure::new(format!("{file}: {error}")))?;
    Ok(Source::new(file, text))
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
    let defines = click.words.iter().filter_map(|word| variable(word));
    let options = lang::Options {
        defines: defines.map(|(name, value)| (name.to_string(), value.to_string())).collect(),
        library: Some(&|name, folder| library(click, name, folder)),
        known_class: &|name| registry.find(name).is_some(),
        class_names: &|| registry.names().map(str::to_string).collect(),
        ..lang::Options::default()
    };
    lang::read(sources, &options)
}
