//! `HandlerAggregate`: one handler for those of several elements.

use graph::class::{ask, rest, write};
use graph::{Class, Cx, Element, Refused};

/// The class.
pub static CLASS: Class = Class {
    name: "HandlerAggregate",
    brief: "sums up handlers of several elements",
    doc: "Reading `add` with the name of a handler gives the sum of what all ELEMENTs say, `avg` the mean; \
          writing `NAME VALUE` to `write` writes all of them.",
    ports: "0/0",
    arguments: &[rest("ELEMENT", "an element, by keyword or not")],
    handlers: &[
        ask("add", "the sum of the handler named"),
        ask("avg", "the mean of the handler named"),
        write("write", "`NAME VALUE`: written to all"),
    ],
    example: "agg :: HandlerAggregate(ELEMENT a, ELEMENT b); Script(read agg.add count)",
    see: &["Script", "Counter"],
    make: |_, conf| {
        let name = |text: String| match text.trim().strip_prefix("ELEMENT") {
            Some(rest) if rest.starts_with(char::is_whitespace) => rest.trim().to_string(),
            _ => text.trim().to_string(),
        };
        let elements: Vec<String> = conf.rest().into_iter().map(name).collect();
        conf.complete()?;
        Ok(Box::new(HandlerAggregate { elements }))
    },
    ..Class::BASE
};

/// See [`CLASS`].
#[derive(Debug)]
pub struct HandlerAggregate {
    elements: Vec<String>,
}

impl Element for HandlerAggregate {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        match self.elements.iter().find(|name| cx.find(name).is_none()) {
            Some(name) => Err(format!("no element named '{name}'")),
            None => Ok(()),
        }
    }

    fn read(&mut self, cx: &mut Cx<'_>, handler: &str, parameter: &str) -> Result<String, Refused> {
        let (name, parameter) =
            parameter.trim().split_once(char::is_whitespace).unwrap_or((parameter.trim(), ""));
        let mut sum = 0.0;
        for element in &self.elements {
            let text = cx.read(&format!("{element}.{name}"), parameter.trim())?;
            let value: Option<f64> = text.split_whitespace().next().and_then(|word| word.parse().ok());
            sum += value.ok_or_else(|| Refused::from(format!("'{element}.{name}' reads no number")))?;
        }
        let count = if handler == "avg" { self.elements.len().max(1) as f64 } else { 1.0 };
        Ok((sum / count).to_string())
    }

    fn write(&mut self, cx: &mut Cx<'_>, _: &str, value: &str) -> Result<(), Refused> {
        let (name, value) = value.trim().split_once(char::is_whitespace).unwrap_or((value.trim(), ""));
        self.elements.iter().try_for_each(|element| cx.write(&format!("{element}.{name}"), value.trim()))
    }
}
