//! What `--check` finds that no element complains of: variables that nothing sets, names of
//! ports that are none, and ports that are not there. All are right in Click's language.

use graph::lang::{Declared, Flat, Problem, SourceLocation, args};
use graph::plan::Planned;

use crate::open;

/// An element, planned or only declared.
pub trait Element {
    /// A problem with it.
    fn problem(&self, message: String) -> Problem;
}

impl Element for Planned {
    fn problem(&self, message: String) -> Problem {
        about((&self.name, &self.class), &self.place, message)
    }
}

impl Element for Declared {
    fn problem(&self, message: String) -> Problem {
        about((&self.name, &self.class), &self.place, message)
    }
}

/// A problem with an element.
fn about((name, class): (&str, &str), place: &SourceLocation, message: String) -> Problem {
    Problem::error(place, message).context(format!("{name} :: {class}"), "configuring")
}

/// The variables in an argument, `$X` or `${X}`: one that is the whole value, in quotes too,
/// and others outside quotes, such as in `allow src $NET`.
fn variables(argument: &str) -> Vec<&str> {
    let value = args::keyword(argument).map_or(argument, |(_, value)| value).trim();
    if let Some((name, "")) = value.trim_matches('"').strip_prefix('$').and_then(leading_name) {
        return vec![name];
    }
    // What stands at even places is outside quotes.
    let outside = value.split('"').step_by(2);
    outside.flat_map(|text| text.split('$').skip(1)).filter_map(leading_name).map(|(name, _)| name).collect()
}

/// The name of a variable at the begin of what follows its `$`, and what is behind it.
fn leading_name(text: &str) -> Option<(&str, &str)> {
    let (name, rest) = match text.strip_prefix('{') {
        Some(inner) => inner.split_once('}')?,
        None => text.split_at(text.find(|c: char| !is_of_name(c)).unwrap_or(text.len())),
    };
    let is_name = name.starts_with(|first: char| is_of_name(first) && !first.is_ascii_digit());
    (is_name && name.chars().all(is_of_name)).then_some((name, rest))
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Variables that are left in arguments: nothing sets them. Scripts have their own. This looks
/// at the configuration as it was read, for of elements that cannot be made there is no plan.
pub fn unset(flat: &Flat) -> Vec<Problem> {
    let of_element = |declared: &Declared| -> Vec<Problem> {
        if matches!(&*declared.class, "Script" | "DriverManager") {
            return vec![];
        }
        let arguments = args::split(&declared.config);
        let names = arguments.iter().flat_map(|argument| variables(argument));
        let problem = |name: &str| {
            declared.problem(format!("variable '${name}' is not set")).note(
                None,
                format!("set it on the command line, {name}=VALUE, or in the file, define(${name} VALUE)"),
            )
        };
        names.map(problem).collect()
    };
    flat.with_variables().flat_map(of_element).collect()
}

/// Names of ports that are none; not those that are variables. With `look_for` ports that are not
/// there as well: a picture of another machine's router needs none. `named` are the names, each
/// with an index into `elements`.
pub fn ports<E: Element>(elements: &[E], named: &[(String, usize)], look_for: bool) -> Vec<Problem> {
    let mut problems = vec![];
    for (port, element) in named {
        let found = match variables(port).is_empty() {
            true if look_for => open::look_for(port),
            true => open::check_name(port),
            false => Ok(()),
        };
        if let (Err(failure), Some(element)) = (found, elements.get(*element)) {
            problems.push(element.problem(failure.said()));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::variables;

    #[test]
    fn an_argument_may_have_variables() {
        let of: [(&str, &[&str]); 13] = [
            ("$P0", &["P0"]),
            ("${P0}", &["P0"]),
            ("RATE $rate", &["rate"]),
            ("\"$P0\"", &["P0"]),
            ("P0", &[]),
            ("$(add 1 2)", &[]),
            ("cost: $5", &[]),
            ("$5", &[]),
            ("${", &[]),
            ("allow src $NET && (dst ${A} or $B)", &["NET", "A", "B"]),
            ("$DST 0", &["DST"]),
            ("af_packet:$IF", &["IF"]),
            ("say \"it costs $USD\" to $WHOM", &["WHOM"]),
        ];
        for (argument, names) in of {
            assert_eq!(variables(argument), names, "{argument}");
        }
    }
}
