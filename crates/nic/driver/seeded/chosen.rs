//! Which seeded bug this process has: the one that the variable `IXORA_SEEDED_BUG`
//! names, or none.

use std::sync::LazyLock;

use super::SEEDED;

static CHOSEN: LazyLock<Option<usize>> = LazyLock::new(|| {
    let wanted = std::env::var("IXORA_SEEDED_BUG").ok().filter(|name| !name.is_empty())?;
    let number = SEEDED.iter().position(|name| *name == wanted);
    Some(number.unwrap_or_else(|| panic!("no seeded bug is called {wanted}: see cargo xtask mutants --list")))
});

/// Whether the bug of this number is chosen.
pub(crate) fn is(number: usize) -> bool {
    *CHOSEN == Some(number)
}
