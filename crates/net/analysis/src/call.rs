//! Handlers that elements write when something has come to pass: `END_CALL` and
//! the like.

use graph::value::{Scope, Value};
use graph::{Cx, Named};

/// A handler, and what is written to it: `element.handler VALUE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) handler: String,
    pub(crate) value: String,
}

impl Value for Call {
    fn parse(text: &str, _: &Scope<'_>) -> Result<Call, String> {
        let text = text.trim();
        let (handler, value) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        if handler.is_empty() {
            return Err("expected write handler".into());
        }
        Ok(Call { handler: handler.into(), value: value.trim().into() })
    }
}

impl Call {
    /// A call that stops the router.
    pub(crate) fn stop() -> Call {
        Call { handler: "stop".into(), value: "true".into() }
    }

    /// Says when there is no such handler.
    pub(crate) fn check(&self, named: &Named<'_>) -> Result<(), String> {
        named.can_write(&self.handler).map_err(|refused| refused.to_string())
    }

    /// Writes the handler when the element that asks has returned.
    pub(crate) fn make(&self, cx: &mut Cx<'_>) {
        cx.call(&self.handler, &self.value);
    }

    /// Whether it only stops the router: what becomes of packets does not depend on it.
    pub(crate) fn is_stop(&self) -> bool {
        self.handler == "stop"
    }

    /// The handler's name, if it is one of the element that asks.
    pub(crate) fn own<'a>(&'a self, cx: &Cx<'_>) -> Option<&'a str> {
        let (_, handler) = self.handler.rsplit_once('.')?;
        (cx.full_name(&self.handler) == format!("{}.{handler}", cx.name())).then_some(handler)
    }
}

impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(format!("{} {}", self.handler, self.value).trim_end())
    }
}
