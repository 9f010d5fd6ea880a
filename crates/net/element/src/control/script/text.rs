//! A script's texts: variables and calls of handlers in them, which are replaced by what
//! they stand for. The script's own handlers go before those of others.

use std::cell::RefCell;

use graph::lang::args::{shift_word, words};
use graph::lang::variable::{Form, Variables, expand};
use graph::{Cx, Refused};

use super::handler::HANDLERS;
use super::{Script, functions, plain};

impl Script {
    /// Replaces variables and calls in a text.
    pub(super) fn expand(&mut self, cx: &mut Cx<'_>, text: &str, quoted: bool) -> String {
        if !text.contains('$') {
            return text.to_string();
        }
        let names = Names(RefCell::new((self, cx)));
        expand(text, &names, quoted, 0).into_owned()
    }

    /// A variable's value, of the script's own or of its caller's.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        if let Some(value) = self.variables.get(name) {
            return Some(value.clone());
        }
        let argument = |n: usize| words(&self.arguments).get(n - 1).map_or(String::new(), |w| w.to_string());
        Some(match name {
            "?" => self.status.to_string(),
            "args" => self.arguments.clone(),
            "$" => std::process::id().to_string(),
            "0" => self.handler.clone(),
            "#" => words(&self.arguments).len().to_string(),
            "write" => self.writes.to_string(),
            _ => match name.parse() {
                Ok(n @ 1..) => argument(n),
                _ => return None,
            },
        })
    }

    /// Reads a handler: the script's own first, then any other by its full name.
    pub(super) fn call_read(
        &mut self,
        cx: &mut Cx<'_>,
        call: &str,
        unquote: bool,
    ) -> Result<(String, String), Refused> {
        let (name, parameter) = shift_word(call);
        let (name, parameter) = (plain(name), if unquote { plain(parameter) } else { parameter.to_string() });
        let own = self.own(cx, &name);
        if !own.contains('.') && self.knows(&own) {
            let full = format!("{}.{own}", cx.name());
            if !parameter.is_empty() && (own == "now" || self.exports.contains(&own)) {
                return Err(Refused::NoParameter(full));
            }
            let _old = cx.take_complaints();
            self.calls_itself = true;
            return HANDLERS.read_own(self, cx, &own, &parameter).map(|value| (full, value));
        }
        let value = cx.read(&name, &parameter)?;
        Ok((cx.full_name(&name), value))
    }

    pub(super) fn call_write(&mut self, cx: &mut Cx<'_>, call: &str, unquote: bool) -> Result<(), Refused> {
        let (name, value) = shift_word(call);
        let (name, value) = (plain(name), if unquote { plain(value) } else { value.to_string() });
        let own = self.own(cx, &name);
        if matches!(own.as_str(), "step" | "goto" | "run" | "set") {
            let _old = cx.take_complaints();
            self.calls_itself = true;
            return HANDLERS.write_own(self, cx, &own, &value);
        }
        cx.write(&name, &value)
    }

    /// A handler's name without this element's.
    pub(super) fn own(&self, cx: &Cx<'_>, name: &str) -> String {
        name.strip_prefix(cx.name()).and_then(|rest| rest.strip_prefix('.')).unwrap_or(name).to_string()
    }

    pub(super) fn knows(&self, name: &str) -> bool {
        functions::is_function(name)
            || matches!(name, "run" | "get" | "shift" | "now" | "random" | "readable" | "writable")
            || self.exports.iter().any(|e| e == name)
    }
}

/// What a script's texts may name.
struct Names<'s, 'c, 'l>(RefCell<(&'s mut Script, &'c mut Cx<'l>)>);

impl Variables for Names<'_, '_, '_> {
    fn value(&self, name: &str, form: Form, _: usize) -> Option<String> {
        // A call within a call's text was replaced before, so this is never borrowed.
        let mut inner = self.0.try_borrow_mut().ok()?;
        let (script, cx) = &mut *inner;
        if form != Form::Parentheses {
            return script.variable(name);
        }
        match script.call_read(cx, name, false) {
            Ok((_, value)) => {
                script.complain_of(cx, None, None);
                Some(value)
            }
            Err(refused) => {
                script.complain_of(cx, None, Some(&refused));
                (!refused.is_uncalled()).then(String::new)
            }
        }
    }
}
