//! Makes the copy of the driver's source that has all seeded bugs. Used by
//! `build.rs` only.
//!
//! Edits of the same or overlapping places become one choice between texts, each
//! whole: `if seeded::is(3) { wrong } else { right }`. An edit whose text does not
//! stand in its file exactly once ends the build and names the bug.

#[allow(dead_code, reason = "what is said of a bug is for others than the build")]
#[path = "mod.rs"]
mod seeded;

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The modules that bugs may be in, with how they are declared in `src/lib.rs`.
const MODULES: [(&str, &str); 7] = [
    ("i40e", "/// Intel XL710, X710 and XXV710.\npub mod i40e"),
    ("iavf", "pub mod iavf"),
    ("intel", "/// What Intel's NICs have in common.\npub mod intel"),
    ("ixgbe", "/// Intel 82599, X520, X540 and X550.\npub mod ixgbe"),
    ("ixgbevf", "pub mod ixgbevf"),
    ("ring", "mod ring"),
    ("wait", "mod wait"),
];

/// One bug's edit, found in a file.
struct EditSite {
    bug: usize,
    at: Range<usize>,
    to: &'static str,
}

/// The bugs of all chips.
fn bugs() -> impl Iterator<Item = &'static seeded::Bug> {
    seeded::CHIPS.iter().flat_map(seeded::Chip::bugs)
}

/// Writes the copy to `OUT_DIR`, and `drivers.rs` with its modules.
pub fn run() {
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rerun-if-changed=seeded");
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    let mut edits: BTreeMap<&str, Vec<(usize, &'static seeded::Edit)>> = BTreeMap::new();
    for (number, bug) in bugs().enumerate() {
        for edit in bug.edits {
            edits.entry(edit.file).or_default().push((number, edit));
        }
    }
    let names: Vec<&str> = bugs().map(|bug| bug.name).collect();
    for (n, name) in names.iter().enumerate() {
        assert!(!names[..n].contains(name), "two seeded bugs are called {name}");
    }
    let mut drivers = format!(
        "/// The names of the seeded bugs, in order.\npub const SEEDED: &[&str] = &{names:?};\n\
         #[path = {:?}]\nmod seeded;\n",
        root.join("seeded/chosen.rs")
    );
    for (module, declaration) in MODULES {
        let path = Path::new(module);
        let is_folder = root.join("src").join(path).is_dir();
        let path = if is_folder { path.to_owned() } else { path.with_extension("rs") };
        copy(&root.join("src"), &out, &path, &mut edits);
        drivers.push_str(&format!("#[allow(unused, clippy::all)]\n{declaration};\n"));
    }
    if let Some((file, found)) = edits.first_key_value() {
        panic!("seeded bug {}: no module that may be edited has {file}", names[found[0].0]);
    }
    write(&out.join("drivers.rs"), &drivers);
}

/// Copies a file or a folder of source, with its edits.
fn copy(
    from: &Path,
    out: &Path,
    path: &Path,
    edits: &mut BTreeMap<&str, Vec<(usize, &'static seeded::Edit)>>,
) {
    if from.join(path).is_dir() {
        let entries = fs::read_dir(from.join(path)).expect("the source can be read");
        for entry in entries {
            let name = entry.expect("the source can be read").file_name();
            copy(from, out, &path.join(name), edits);
        }
        return;
    }
    let name = path.to_str().expect("the source's names are ASCII");
    let source = fs::read_to_string(from.join(path)).expect("the source can be read");
    write(&out.join(path), &weave(&source, &places(name, &source, edits.remove(name).unwrap_or_default())));
}

/// Where the edits of a file stand, in order.
fn places(file: &str, source: &str, edits: Vec<(usize, &'static seeded::Edit)>) -> Vec<EditSite> {
    let place = |(bug, edit): (usize, &'static seeded::Edit)| {
        let found: Vec<_> = source.match_indices(edit.from).map(|(at, _)| at).collect();
        let [start] = found[..] else {
            let name = bugs().nth(bug).map_or("", |bug| bug.name);
            panic!("seeded bug {name}: this stands in {file} {} times, not once:\n{}", found.len(), edit.from)
        };
        EditSite { bug, at: start..start + edit.from.len(), to: edit.to }
    };
    let mut places: Vec<EditSite> = edits.into_iter().map(place).collect();
    places.sort_by_key(|place| (place.at.start, place.at.end));
    places
}

/// The source with a choice in every place.
fn weave(source: &str, places: &[EditSite]) -> String {
    let (mut woven, mut done, mut rest) = (String::new(), 0, places);
    while let Some(first) = rest.first() {
        let mut span = first.at.clone();
        let overlaps = |span: &mut Range<usize>, place: &EditSite| {
            let overlaps = place.at.start < span.end;
            span.end = if overlaps { span.end.max(place.at.end) } else { span.end };
            overlaps
        };
        let count = rest.iter().take_while(|place| overlaps(&mut span, place)).count();
        let (group, behind) = rest.split_at(count);
        woven.push_str(&source[done..span.start]);
        woven.push_str(&choice(source, &span, group));
        (done, rest) = (span.end, behind);
    }
    woven + &source[done..]
}

/// One choice between the texts of a span: the right one, and each bug's.
fn choice(source: &str, span: &Range<usize>, group: &[EditSite]) -> String {
    let mut wrong: BTreeMap<usize, (usize, String)> = BTreeMap::new();
    for place in group {
        let (done, text) = wrong.entry(place.bug).or_insert((span.start, String::new()));
        text.push_str(&source[*done..place.at.start]);
        text.push_str(place.to);
        *done = place.at.end;
    }
    wrong.values_mut().for_each(|(done, text)| text.push_str(&source[*done..span.end]));
    let right = &source[span.clone()];
    // A name that is bound stays visible: the choice is what it is bound to.
    let binding = right.strip_prefix("let ").filter(|_| right.ends_with(';'));
    let hidden = binds(binding.unwrap_or(right)) || binding.is_some_and(|rest| statements(rest) > 1);
    assert!(
        !hidden || !right.ends_with([';', '}']),
        "seeded bugs {:?} hide a name from what follows; edit less:\n{right}",
        wrong.keys()
    );
    let binding = binding.and_then(|rest| rest.split_once(" = "));
    let value = |text: &str| match binding {
        Some(_) => text.split_once(" = ").map_or("", |(_, value)| value.trim_end_matches(';')).to_owned(),
        None => text.to_owned(),
    };
    let mut choice = String::new();
    for (bug, (_, text)) in &wrong {
        choice.push_str(&format!("if crate::seeded::is({bug}) {{ {} }} else ", value(text)));
    }
    choice.push_str(&format!("{{ {} }}", value(right)));
    match binding {
        Some((name, _)) => format!("let {name} = {choice};"),
        None if right.ends_with([';', '}']) => choice,
        None => format!("({choice})"),
    }
}

/// Whether a text binds a name outside of its own blocks.
fn binds(text: &str) -> bool {
    outside_blocks(text).any(|at| text[at..].starts_with("let "))
}

/// How many statements a text has, apart from those in its blocks.
fn statements(text: &str) -> usize {
    outside_blocks(text).filter(|&at| text[at..].starts_with(';')).count()
}

/// The places of a text that are in no block or parentheses of its own.
fn outside_blocks(text: &str) -> impl Iterator<Item = usize> {
    let mut depth = 0;
    text.char_indices().filter_map(move |(at, c)| {
        depth += match c {
            '{' | '(' => 1,
            '}' | ')' => -1,
            _ => 0,
        };
        (depth == 0).then_some(at)
    })
}

/// Writes a file if that changes it, so that nothing is compiled twice.
fn write(path: &Path, text: &str) {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return;
    }
    fs::create_dir_all(path.parent().expect("it is inside OUT_DIR")).expect("OUT_DIR can be written");
    fs::write(path, text).expect("OUT_DIR can be written");
}
