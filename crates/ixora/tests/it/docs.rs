//! The documents' links lead somewhere: to files that are there, and to headings in them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// The project's folder.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the project is there")
}

/// The documents in a folder, and in those below it that are the project's own.
fn documents(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if path.is_dir() && !name.starts_with('.') && name != "target" {
            documents(&path, found);
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
}

/// The lines of a document that are no code.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().zip(1..).filter_map(move |(line, number)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fenced && !fence).then_some((number, line))
    })
}

/// A heading's anchor, as forges make it.
fn anchor(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    heading.trim().to_lowercase().chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn anchors(text: &str) -> BTreeSet<String> {
    prose(text)
        .filter(|(_, line)| line.starts_with('#'))
        .map(|(_, l)| anchor(l.trim_start_matches('#')))
        .collect()
}

/// The targets of a line's links.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
}

/// A path without `..`.
fn plain(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut plain, part| {
        match part {
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
        plain
    })
}

#[test]
fn links_lead_somewhere() {
    let mut files = vec![];
    documents(&root(), &mut files);
    let texts: BTreeMap<PathBuf, String> =
        files.into_iter().map(|file| (file.clone(), std::fs::read_to_string(file).expect("text"))).collect();
    let (mut dead, mut followed) = (vec![], 0);
    for (file, text) in &texts {
        for (number, line) in prose(text) {
            for target in links(line).filter(|target| !target.contains(':') && !target.contains(' ')) {
                let (path, heading) = target.split_once('#').unwrap_or((target, ""));
                let there = match path {
                    "" => file.clone(),
                    path => plain(&file.parent().expect("in a folder").join(path)),
                };
                let known = texts
                    .get(&there)
                    .is_none_or(|text| heading.is_empty() || anchors(text).contains(heading));
                if !there.exists() || !known {
                    dead.push(format!("{}:{number}: {target}", file.display()));
                }
                followed += 1;
            }
        }
    }
    assert!(dead.is_empty(), "{}", dead.join("\n"));
    assert!(followed > 500, "{followed} links were found");
}
