//! What `--check` finds that no element complains of: variables that nothing sets, names of
//! ports that are none, and ports that are not there. All are right in Click's language.

use std::collections::HashSet;
use std::sync::Arc;

use graph::Registry;
use graph::class::Given;
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

/// Variables that nothing sets.
#[derive(Default)]
pub struct Unset {
    /// What is told of them.
    pub problems: Vec<Problem>,
    /// Where the arguments are that have them, as far as that is known.
    arguments: HashSet<(Arc<str>, u32, u32)>,
    /// Of which element the others are, `name :: Class`, and how complaints of them begin, `KEYWORD: `.
    elsewhere: HashSet<(String, String)>,
}

impl Unset {
    /// Whether a problem is that such an argument is no value: it has none yet. One that tells what
    /// arguments there are is of something else.
    pub fn explains(&self, problem: &Problem) -> bool {
        let SourceLocation { file, line, column, .. } = &problem.place;
        let is_there = self.arguments.contains(&(file.clone(), *line, *column));
        let is_of_it = problem.context.as_ref().zip(problem.message.split_once(": ")).is_some_and(
            |(context, (keyword, _))| self.elsewhere.contains(&(context.element.clone(), keyword.to_owned())),
        );
        problem.expected.is_none() && (is_there || is_of_it)
    }
}

/// Variables that are left in arguments: nothing sets them. Scripts have their own. This looks
/// at the configuration as it was read, for of elements that cannot be made there is no plan.
pub fn unset(flat: &Flat, registry: &Registry) -> Unset {
    let mut unset = Unset::default();
    for (index, declared) in flat.with_variables() {
        if matches!(&*declared.class, "Script" | "DriverManager") {
            continue;
        }
        let problem = |name: &str| {
            declared.problem(format!("variable '${name}' is not set")).note(
                None,
                format!("set it on the command line, {name}=VALUE, or in the file, define(${name} VALUE)"),
            )
        };
        let arguments = args::split(&declared.config);
        for (argument, text) in arguments.iter().enumerate() {
            let names = variables(text);
            let place = flat.argument_place(index, argument).filter(|place| *place != declared.place);
            match place {
                _ if names.is_empty() => {}
                Some(place) => _ = unset.arguments.insert((place.file, place.line, place.column)),
                // A compound's argument, or a variable's value.
                None => {
                    let key = keyword(registry, declared, &arguments[..=argument]);
                    let element = format!("{} :: {}", declared.name, declared.class);
                    unset.elsewhere.extend(key.map(|key| (element, key)));
                }
            }
            unset.problems.extend(names.into_iter().map(problem));
        }
    }
    unset
}

/// By which keyword complaints of the last of these arguments of an element name it.
fn keyword(registry: &Registry, declared: &Declared, arguments: &[String]) -> Option<String> {
    let class = registry.find(&declared.class)?;
    let named = |text: &str| {
        let (word, _) = args::keyword(text)?;
        class.arguments.iter().map(|it| it.name).find(|name| *name == word)
    };
    let (last, before) = arguments.split_last()?;
    let place = before.iter().filter(|text| named(text).is_none()).count();
    let placed = class.arguments.iter().filter(|it| matches!(it.given, Given::Mandatory | Given::Positional));
    named(last).or_else(|| placed.map(|it| it.name).nth(place)).map(str::to_owned)
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
