//! Tickets as `ScheduleInfo` gives them: to elements by name, and to compound elements,
//! whose share multiplies with that of what is in them.

use crate::element::value::enclosing;

/// Tickets of a task unless somebody says otherwise.
pub const TICKETS: u32 = 1024;
/// The most tickets a task can have.
pub const MAX_TICKETS: u32 = 32768;

/// What was said: in which compound, of whom, and how many.
pub(crate) type Said = (String, String, u32);

/// What was said of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Granted {
    /// Its tickets, between 1 and [`MAX_TICKETS`].
    pub(crate) tickets: u32,
    /// Whether more were asked for.
    pub(crate) is_reduced: bool,
}

/// An element's tickets; `None` when nobody said anything of it.
pub(crate) fn of(element: &str, said: &[Said]) -> Option<Granted> {
    // Of the whole router, of each compound around it, and of the element itself.
    let mut names: Vec<&str> = enclosing(element).collect();
    names.reverse();
    names.push(element);
    let mut shares = vec![TICKETS; names.len()];
    let mut any = false;
    // Who speaks further out has the last word, also of what is between.
    for context in enclosing(element) {
        let mut spoke = false;
        for (i, name) in names.iter().enumerate().rev().filter(|(_, name)| name.len() > context.len()) {
            let name = name[context.len()..].trim_end_matches('/');
            match said.iter().rev().find(|(from, of, _)| from == context && of == name) {
                _ if spoke => shares[i] = TICKETS,
                Some((.., tickets)) => (shares[i], spoke) = (*tickets, true),
                None => {}
            }
        }
        any |= spoke;
    }
    let product = |all: u64, share: &u32| all.saturating_mul(u64::from(*share)) / u64::from(TICKETS);
    let tickets = shares.iter().fold(u64::from(TICKETS), product);
    let most = u64::from(MAX_TICKETS);
    any.then_some(Granted { tickets: tickets.clamp(1, most) as u32, is_reduced: tickets > most })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tickets(element: &str, said: &[Said]) -> Option<u32> {
        of(element, said).map(|granted| granted.tickets)
    }

    fn said(all: &[(&str, &str, f64)]) -> Vec<Said> {
        all.iter().map(|(c, n, f)| (c.to_string(), n.to_string(), (f * 1024.0) as u32)).collect()
    }

    #[test]
    fn a_compounds_share_multiplies_with_that_of_its_elements() {
        let inner = said(&[("c/", "i", 0.5), ("", "c", 4.0)]);
        assert_eq!(tickets("c/i", &inner), Some(2048));
        assert_eq!(tickets("c/j", &inner), Some(4096));
        assert_eq!(tickets("d", &inner), None);
    }

    #[test]
    fn who_speaks_further_out_has_the_last_word() {
        let outer = said(&[("c/", "i", 0.5), ("", "c", 4.0), ("", "c/i", 10.5)]);
        assert_eq!(tickets("c/i", &outer), Some(10752));
        assert_eq!(tickets("a", &said(&[("", "a", 1000.0)])), Some(MAX_TICKETS));
    }
}
