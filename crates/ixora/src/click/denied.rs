//! Why a new configuration is denied a file: who started the router as root is another user by then.

use std::path::Path;

use runtime::confine::existing_ancestor;

/// What the system says of a file that a user may not use, behind the file's name.
const DENIED: &str = ": Permission denied";

/// What is wrong with a configuration, and behind each file that `user` may not use what to do.
pub fn explain(text: &str, user: u32) -> String {
    text.lines().map(|line| format!("{line}\n{}", fix(line, user).unwrap_or_default())).collect()
}

/// A line of its own, as far from the edge as the line that it explains.
fn fix(line: &str, user: u32) -> Option<String> {
    let (before, _) = line.split_once(DENIED)?;
    let indent = &line[..line.len() - line.trim_start().len()];
    let path = Path::new(before.rsplit(": ").next().unwrap_or(before).trim());
    let place = match path.exists() {
        true => path.to_path_buf(),
        false => existing_ancestor(&super::confine::folder(path))?,
    };
    Some(format!(
        "{indent}the router became user {user} when it started, who may not use {}: name a folder of that \
         user's (install -d -o {user} FOLDER makes one), or start the router as the user whose it is, or with \
         --no-confine\n",
        place.display()
    ))
}
