//! The reader's path: a forwarder with its whole driver, in files listed in
//! docs/reading.md, under 1,000 lines of code. Code is what is neither blank nor
//! a comment nor a test.

use std::fs;
use std::path::Path;

use crate::step::{Failure, root};

/// The promise of docs/reading.md.
const LIMIT: usize = 1000;

/// Counts every file that docs/reading.md lists in its numbered list.
pub fn run() -> Result<(), Failure> {
    println!("==> count");
    let list = root().join("docs/reading.md");
    let text = fs::read_to_string(&list).map_err(|e| format!("{}: {e}", list.display()))?;
    let mut total = 0;
    for path in listed(&text) {
        let file = root().join(path);
        let source = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        let lines = code_lines(&source);
        total += lines;
        println!("{lines:6}  {path}");
    }
    println!("{total:6}  in all, of {LIMIT} allowed");
    match total {
        0 => Err(format!("{} lists no files", Path::new("docs/reading.md").display())),
        n if n >= LIMIT => {
            Err(format!("the reader's path has {n} lines of code; it promises fewer than {LIMIT}"))
        }
        _ => Ok(()),
    }
}

/// The paths in lines like "1. [`crates/x/src/y.rs`](…) text".
fn listed(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let (number, rest) = line.split_once(". [`")?;
        number.parse::<usize>().ok()?;
        rest.split_once('`').map(|(path, _)| path)
    })
}

/// Lines that hold code, up to the file's tests.
fn code_lines(source: &str) -> usize {
    let body = source.split("#[cfg(test)]\nmod ").next().unwrap_or(source);
    let code = |line: &&str| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with("//")
    };
    body.lines().filter(code).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_blanks_and_tests_do_not_count() {
        let source =
            "//! Module\n\n/// Doc\nfn a() {\n    // why\n    b() // what\n}\n#[cfg(test)]\nmod tests {\n}\n";
        assert_eq!(code_lines(source), 3);
    }

    #[test]
    fn only_numbered_entries_are_listed() {
        let text = "see [`x`](y)\n1. [`a/b.rs`](../a/b.rs): it\n12. [`c.rs`](c)\n";
        assert_eq!(listed(text).collect::<Vec<_>>(), ["a/b.rs", "c.rs"]);
    }
}
