//! `HandlerAggregate`: one handler for those of several elements.

use graph::class::{Handlers, ask, rest, write};
use graph::{Class, Cx, Element, Named, Refused};

pub static CLASS: Class = Class {
    name: "HandlerAggregate",
    brief: "sums up handlers of several elements",
    doc: "Reading `add` with the name of a handler gives the sum of what all ELEMENTs say, `avg` the mean; \
          writing `NAME VALUE` to `write` writes all of them.",
    ports: "0/0",
    arguments: &[rest("ELEMENT", "an element, by keyword or not")],
    handlers: &Handlers::<HandlerAggregate>(&[
        ask("add", "the sum of the handler named", |aggregate, cx, parameter| {
            Ok(aggregate.sum(cx, parameter)?.to_string())
        }),
        ask("avg", "the mean of the handler named", |aggregate, cx, parameter| {
            Ok((aggregate.sum(cx, parameter)? / aggregate.elements.len().max(1) as f64).to_string())
        }),
        write("write", "`NAME VALUE`: written to all", |aggregate, cx, value| {
            let (name, value) = value.trim().split_once(char::is_whitespace).unwrap_or((value.trim(), ""));
            let mut elements = aggregate.elements.iter();
            elements.try_for_each(|element| cx.write(&format!("{element}.{name}"), value.trim()))
        }),
    ]),
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

/// A `HandlerAggregate` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct HandlerAggregate {
    elements: Vec<String>,
}

impl HandlerAggregate {
    /// The sum of what a handler, named with its parameter, reads in all elements.
    fn sum(&self, cx: &mut Cx<'_>, named: &str) -> Result<f64, Refused> {
        let (name, parameter) = named.trim().split_once(char::is_whitespace).unwrap_or((named.trim(), ""));
        let mut sum = 0.0;
        for element in &self.elements {
            let text = cx.read(&format!("{element}.{name}"), parameter.trim())?;
            let value: Option<f64> = text.split_whitespace().next().and_then(|word| word.parse().ok());
            sum += value.ok_or_else(|| Refused::from(format!("'{element}.{name}' reads no number")))?;
        }
        Ok(sum)
    }
}

impl Element for HandlerAggregate {
    fn check_names(&self, named: &Named<'_>) -> Result<(), String> {
        match self.elements.iter().find(|name| named.find(name).is_none()) {
            Some(name) => Err(format!("no element named '{name}'")),
            None => Ok(()),
        }
    }
}
