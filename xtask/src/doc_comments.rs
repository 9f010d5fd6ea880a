//! Doc comments are sentences, or at least phrases: this check reads all Rust files and
//! refuses a `///` or `//!` comment of one or two words, which says hardly more than the name
//! of its item. What a longer comment is worth is left to the reader.

use std::fs;

use crate::step::{Failure, root, rust_files};

/// The words that a doc comment has at least.
const LEAST: usize = 3;
/// Checks the source of all crates, of the chores and of the fuzz targets.
pub fn check() -> Result<(), Failure> {
    println!("==> doc comments");
    let mut files = vec![];
    for folder in ["crates", "xtask", "fuzz"] {
        rust_files(&root().join(folder), &mut files)?;
    }
    let mut wrong = vec![];
    for file in files {
        let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let shown = file.strip_prefix(root()).unwrap_or(&file).display().to_string();
        let found = short(&text).into_iter();
        wrong.extend(found.map(|(line, words)| format!("{shown}:{line}: {}", words.join(" "))));
    }
    if wrong.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{}\n{} doc comments have fewer than {LEAST} words: say more, or nothing",
        wrong.join("\n"),
        wrong.len()
    ))
}

/// The doc comments of fewer words than [`LEAST`], each with its line, counted from one.
fn short(text: &str) -> Vec<(usize, Vec<&str>)> {
    let comments: Vec<Option<&str>> = text.lines().map(comment).collect();
    let mut found = vec![];
    let mut start = 0;
    for block in comments.split(Option::is_none) {
        let words: Vec<&str> = block.iter().flatten().flat_map(|line| line.split_whitespace()).collect();
        if (1..LEAST).contains(&words.len()) {
            found.push((start + 1, words));
        }
        start += block.len() + 1;
    }
    found
}

/// What a line says, if it is part of a doc comment.
fn comment(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let of_item = line.strip_prefix("///").filter(|rest| !rest.starts_with('/'));
    of_item.or_else(|| line.strip_prefix("//!"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_comment_is_found_whatever_stands_around_it() {
        let text =
            "/// Length.\npub a: u8,\n/// Length in bytes.\npub b: u8,\n    /// Its `->`\n    Arrow,\n";
        assert_eq!(short(text), [(1, vec!["Length."]), (5, vec!["Its", "`->`"])]);
    }

    #[test]
    fn a_comment_is_counted_over_all_its_lines() {
        assert_eq!(short("/// Bytes\n/// sent by it.\nlet a;"), []);
        assert_eq!(short("///\n/// Bytes.\n///\nlet a;"), [(1, vec!["Bytes."])]);
    }

    #[test]
    fn other_comments_do_not_count() {
        assert_eq!(short("// Length.\n//// Length.\nlet a; /// Length."), []);
    }

    #[test]
    fn comments_of_modules_count() {
        assert_eq!(short("//! Lengths.\n\n/// A length in bytes.\n"), [(1, vec!["Lengths."])]);
    }
}
