//! `NotifierDebug`: which signals an element would wait for.

use std::fmt::Write;

use graph::class::{Handlers, read};
use graph::{Action, Class, Cx, Each, PerPacket, Signals};
use memory::Packet;

/// Signals that Click keeps in one word.
const IN_A_WORD: usize = 32;

pub static CLASS: Class = Class {
    name: "NotifierDebug",
    brief: "shows which signals one would wait for here",
    doc: "Passes packets on unchanged. Its handler shows the signals of those behind it that tell when they are \
          full, or of those before it that tell when they are empty where packets are pulled: words of a bit \
          for each, which there are and which are raised, with `*` when one is; `busy*` where somebody gives \
          none, `idle` where there is nobody.",
    handlers: &Handlers::<NotifierDebug>(&[read("signal", "the signals", NotifierDebug::shown)]),
    example: "Idle -> Queue -> n :: NotifierDebug -> Discard",
    see: &["Queue", "NotifierQueue"],
    make: |_, conf| {
        conf.complete()?;
        Ok(Each::boxed(NotifierDebug { name: "empty", signals: Signals::default() }))
    },
    ..Class::BASE
};

/// A `NotifierDebug` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct NotifierDebug {
    name: &'static str,
    signals: Signals,
}

impl NotifierDebug {
    fn shown(&self) -> String {
        if self.signals.never() {
            return "idle".into();
        }
        let mut signals: Vec<_> = self.signals.list().iter().collect();
        if signals.is_empty() || self.signals.any() && !signals.iter().any(|signal| signal.is_raised()) {
            return "busy*".into();
        }
        signals.sort_by_key(|signal| signal.number());
        let mut out = String::new();
        for (word, signals) in signals.chunks(IN_A_WORD).enumerate() {
            let there = u64::MAX >> (64 - signals.len());
            let raised = signals.iter().enumerate().filter(|(_, signal)| signal.is_raised());
            let raised = raised.fold(0u64, |bits, (n, _)| bits | 1 << n);
            let plus = if word > 0 { "+" } else { "" };
            let mark = if raised != 0 { "*" } else { "" };
            let _ = write!(out, "{plus}{}.{word}/{there:x}:{raised:x}{mark}", self.name);
        }
        out
    }
}

impl PerPacket for NotifierDebug {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        (self.name, self.signals) = match cx.is_pull_input(0) {
            true => ("empty", cx.upstream(0, None)),
            false => ("full", cx.downstream(0, None)),
        };
        Ok(())
    }

    fn packet(&mut self, _: &mut Cx<'_>, _: usize, _: &mut Packet) -> Action {
        Action::ON
    }
}
