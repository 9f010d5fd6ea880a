//! Doc comments are sentences, or at least phrases: this check reads all Rust files and
//! refuses a `///` comment that is a single word, such as the name of its item once
//! more. What a longer comment is worth is left to the reader.

use std::fs;

use crate::step::{Failure, root, rust_files};

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
        let shown = file.strip_prefix(root()).unwrap_or(&file).display();
        wrong.extend(single_words(&text).iter().map(|(line, word)| format!("{shown}:{line}: {word}")));
    }
    match wrong.len() {
        0 => Ok(()),
        count => {
            Err(format!("{}\n{count} doc comments are one word: say more, or nothing", wrong.join("\n")))
        }
    }
}

/// The doc comments of a single word, each with its line, counted from one.
fn single_words(text: &str) -> Vec<(usize, &str)> {
    let comments: Vec<Option<&str>> = text.lines().map(comment).collect();
    let mut found = vec![];
    let mut start = 0;
    for block in comments.split(Option::is_none) {
        let mut words = block.iter().flatten().flat_map(|line| line.split_whitespace());
        if let (Some(word), None) = (words.next(), words.next()) {
            found.push((start + 1, word));
        }
        start += block.len() + 1;
    }
    found
}

/// What a line says, if it is part of a doc comment.
fn comment(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix("///").filter(|rest| !rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_of_one_word_is_found_whatever_stands_around_it() {
        let text = "/// Length.\npub a: u8,\n/// Length in bytes.\npub b: u8,\n    /// `->`\n    Arrow,\n";
        assert_eq!(single_words(text), [(1, "Length."), (5, "`->`")]);
    }

    #[test]
    fn a_comment_is_counted_over_all_its_lines() {
        assert_eq!(single_words("/// Bytes\n/// sent.\nlet a;"), []);
        assert_eq!(single_words("///\n/// Bytes.\n///\nlet a;"), [(1, "Bytes.")]);
    }

    #[test]
    fn other_comments_do_not_count() {
        assert_eq!(single_words("// Length.\n//// Length.\n//! Length.\nlet a; /// Length."), []);
    }
}
