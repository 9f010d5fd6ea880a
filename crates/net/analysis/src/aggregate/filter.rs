//! `AggregateFilter`: packets by their aggregates.

use graph::class::rest;
use graph::lang::args;
use graph::value::unsigned;
use graph::{Action, Class, ConfFault, Cx, Each, PerPacket};
use memory::Packet;

use graph::annotation::{AGGREGATE, PacketAnnotations};
use port::Reason;

pub static CLASS: Class = Class {
    name: "AggregateFilter",
    brief: "sends packets where their aggregates say",
    doc: "Each pattern is an action and aggregates: `allow 1 2 10-20`, `1 7`, `drop all`. The action is an \
          output, `allow` for output 0, or `drop`, `deny`; the first pattern that has the packet's aggregate \
          decides. Packets of none are dropped.",
    ports: "1/-",
    processing: "h/h",
    arguments: &[rest("PATTERNS", "actions and aggregates")],
    drops: &[Reason::Filtered],
    example: "AggregateFilter(allow 1093 3500 972-980, drop all)",
    see: &["AggregateIPFlows", "IPFilter"],
    make: |setup, conf| {
        let mut ranges = vec![];
        for (n, text) in conf.rest().iter().enumerate() {
            if ranges.iter().any(|range: &Range| range.first == 0 && range.last == u32::MAX) {
                setup.warn(format!("pattern {n} matches no packets"));
                continue;
            }
            parse(n, text, &mut ranges)?;
        }
        conf.complete()?;
        Ok(Each::boxed(Filter(ranges)))
    },
    ..Class::BASE
};

#[derive(Debug, Clone)]
struct Range {
    first: u32,
    last: u32,
    action: Action,
}

fn parse(n: usize, text: &str, ranges: &mut Vec<Range>) -> Result<(), ConfFault> {
    let words = args::words(text);
    let Some((action, aggregates)) = words.split_first() else {
        return Err(format!("empty pattern {n}").into());
    };
    let action = match *action {
        "allow" => Action::out(0),
        "drop" | "deny" => Action::drop(0),
        port => match unsigned(port).filter(|port| *port < 0xFFFF) {
            Some(port) => Action::out(port as usize),
            None => return Err(format!("pattern {n}: expected a port number").into()),
        },
    };
    if aggregates.is_empty() {
        return Err(format!("pattern {n} has no aggregates").into());
    }
    if let ["all" | "-"] = aggregates {
        ranges.push(Range { first: 0, last: u32::MAX, action });
        return Ok(());
    }
    for word in aggregates {
        let number = |text: &str| unsigned(text).and_then(|n| u32::try_from(n).ok());
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        let range = number(first).zip(number(last));
        let (first, last) = range.ok_or_else(|| format!("pattern {n}: bad aggregate number '{word}'"))?;
        ranges.push(Range { first, last, action });
    }
    Ok(())
}

/// An `AggregateFilter` element; [`CLASS`] says what it does.
#[derive(Debug, Clone)]
pub struct Filter(Vec<Range>);

impl PerPacket for Filter {
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let aggregate = packet.u32_at(AGGREGATE);
        let found = self.0.iter().find(|range| (range.first..=range.last).contains(&aggregate));
        found.map_or(Action::drop(0), |range| range.action)
    }

    fn replicate(&self) -> Option<Filter> {
        Some(self.clone())
    }
}
