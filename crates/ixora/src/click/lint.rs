//! What `--check` finds that no element complains of: variables that nothing sets, names of
//! ports that are none, and ports that are not there. All are right in Click's language.

use element::io::router_ports::Use;
use graph::lang::{Declared, Flat, Problem, args};
use graph::plan::{Plan, Planned};

use crate::open;

/// A problem with an element.
fn about(planned: &Planned, message: String) -> Problem {
    let element = format!("{} :: {}", planned.name, planned.class);
    Problem::error(&planned.place, message).context(element, "configuring")
}

/// The variable that an argument is, if it is nothing else: `$X`, `${X}`, `KEYWORD $X`.
fn variable(argument: &str) -> Option<&str> {
    let value = args::keyword(argument).map_or(argument, |(_, value)| value).trim().trim_matches('"');
    let name = value.strip_prefix('$')?;
    let name = name.strip_prefix('{').and_then(|name| name.strip_suffix('}')).unwrap_or(name);
    let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    (is_name && name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')).then_some(name)
}

/// Variables that are left in arguments: nothing sets them. Scripts have their own. This looks
/// at the configuration as it was read, for of elements that cannot be made there is no plan.
pub fn unset(flat: &Flat) -> Vec<Problem> {
    let of_element = |declared: &Declared| -> Vec<Problem> {
        if matches!(&*declared.class, "Script" | "DriverManager") {
            return vec![];
        }
        let arguments = args::split(&declared.config);
        let names = arguments.iter().filter_map(|argument| variable(argument));
        let problem = |name: &str| {
            let Declared { name: element, class, place, .. } = declared;
            let problem = Problem::error(place, format!("variable '${name}' is not set"));
            problem.context(format!("{element} :: {class}"), "configuring").note(
                None,
                format!("set it on the command line, {name}=VALUE, or in the file, define(${name} VALUE)"),
            )
        };
        names.map(problem).collect()
    };
    flat.elements.iter().flat_map(of_element).collect()
}

/// Names of ports that are none, once for each; not those that are variables. With `look_for`
/// ports that are not there as well: a picture of another machine's router needs none.
pub fn ports(plan: &Plan, uses: &[Use], look_for: bool) -> Vec<Problem> {
    let mut seen: Vec<&str> = vec![];
    let mut problems = vec![];
    for one in uses {
        if seen.contains(&one.port.as_str()) || variable(&one.port).is_some() {
            continue;
        }
        seen.push(&one.port);
        let found = if look_for { open::look_for(&one.port) } else { open::check_name(&one.port) };
        if let Err(failure) = found {
            problems.push(about(&plan.elements[one.element], failure.said()));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::variable;

    #[test]
    fn an_argument_may_be_a_variable() {
        for (argument, name) in [
            ("$P0", Some("P0")),
            ("${P0}", Some("P0")),
            ("RATE $rate", Some("rate")),
            ("\"$P0\"", Some("P0")),
            ("P0", None),
            ("$(add 1 2)", None),
            ("cost: $5", None),
            ("$5", None),
        ] {
            assert_eq!(variable(argument), name, "{argument}");
        }
    }
}
