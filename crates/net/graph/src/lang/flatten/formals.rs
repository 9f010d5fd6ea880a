//! Arguments to a compound class's parameters.
//!
//! As many positional arguments as there are positional parameters, then keywords,
//! all of which must be given; `__REST__` takes what is left, which otherwise there
//! must not be. Of a keyword given twice the last counts.

use std::sync::Arc;

use super::body::Formal;
use crate::lang::args::is_keyword_byte;

/// The keyword that takes what is left.
pub const REST: &str = "__REST__";

/// The value of each parameter; none if the arguments do not fit.
pub fn assign(arguments: &[String], formals: &[Formal]) -> Option<Vec<Arc<str>>> {
    let Some((_, last)) = formals.last().filter(|(_, keyword)| !keyword.is_empty()) else {
        let fits = arguments.len() == formals.len();
        return fits.then(|| arguments.iter().map(|a| a.as_str().into()).collect());
    };
    let rest = &**last == REST;
    let named = &formals[..formals.len() - usize::from(rest)];
    let positional = named.iter().take_while(|(_, keyword)| keyword.is_empty()).count();
    let mut values: Vec<Option<&str>> = vec![None; named.len()];
    let mut left: Vec<&str> = vec![];
    let mut keywords = false;
    let mut supplied = 0;
    for argument in arguments {
        if supplied >= positional {
            if let Some((word, value)) = keyword(argument)
                && let Some(at) = named.iter().position(|(_, k)| &**k == word)
            {
                values[at] = Some(value);
                keywords = true;
                continue;
            }
            if !rest {
                return None;
            }
            if keywords {
                left.push(argument);
                continue;
            }
        }
        match values.get_mut(supplied).filter(|_| supplied < positional) {
            Some(value) => *value = Some(argument),
            None => left.push(argument),
        }
        supplied += 1;
    }
    let mut values: Vec<Arc<str>> = values.into_iter().map(|v| v.map(Arc::from)).collect::<Option<_>>()?;
    if rest {
        values.push(left.join(", ").into());
    }
    Some(values)
}

/// The keyword of an argument and its value, which unlike an element's may be empty.
fn keyword(argument: &str) -> Option<(&str, &str)> {
    let space = |c: char| matches!(c, ' ' | '\t'..='\r');
    let (word, rest) = argument.split_at(argument.find(space).unwrap_or(argument.len()));
    let valid = !word.is_empty() && word.bytes().all(is_keyword_byte);
    valid.then(|| (word, rest.trim_start_matches(space)))
}
