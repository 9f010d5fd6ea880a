//! `WifiDupeFilter`: frames of Wi-Fi that came twice.

use std::collections::HashMap;

use graph::class::{Handlers, action, both, keyword, read};
use graph::value::Ethernet;
use graph::{Action, Class, Cx, Each, PerPacket};
use memory::Packet;
use port::Reason;
use wire::MacAddress;
use wire::wifi;

pub static CLASS: Class = Class {
    name: "WifiDupeFilter",
    brief: "drops frames of Wi-Fi that came twice",
    doc: "A frame that is sent again because its acknowledgement was lost is marked as such. It is dropped if \
          it has the number of its sender's last frame, and as a fragment a number no higher than the last \
          fragment's. Control frames and those to groups pass. The last frames of 65,536 senders are known; \
          with one more all are forgotten.",
    arguments: &[keyword("DEBUG", "tells of frames that came twice; false")],
    handlers: &Handlers::<DupeFilter>(&[
        both(
            "debug",
            "whether it tells of frames that came twice",
            |filter| format!("{}\n", filter.debug),
            |filter, _, value| {
                filter.debug = super::debug(value)?;
                Ok(())
            },
        ),
        read("dupes", "frames that came twice", |filter| format!("{}\n", filter.dropped)),
        read("drops", "frames that came twice", |filter| format!("{}\n", filter.dropped)),
        action("reset", "forgets all, and counts from zero", |filter: &mut DupeFilter, _| {
            (filter.last, filter.dropped) = (HashMap::new(), 0);
        })
        .marked("b"),
        read("stats", "a line for each sender", |filter| {
            let mut lines: Vec<String> = filter.last.iter().map(|(src, last)| last.line(*src)).collect();
            lines.sort();
            lines.concat()
        }),
    ]),
    drops: &[Reason::CameTwice],
    example: "FromDump(wifi.pcap) -> WifiDupeFilter -> WifiDecap -> Discard",
    see: &["WifiDecap"],
    make: |_, conf| {
        let debug = conf.keyword("DEBUG")?.unwrap_or(false);
        conf.complete()?;
        Ok(Each::boxed(DupeFilter { last: HashMap::new(), dropped: 0, debug }))
    },
    ..Class::BASE
};

/// Senders that are known.
const MOST: usize = 1 << 16;

/// What is known of a sender.
#[derive(Debug, Default)]
struct Last {
    number: u16,
    fragment: u8,
    dropped: u64,
}

impl Last {
    fn line(&self, src: MacAddress) -> String {
        let Last { number, fragment, dropped } = self;
        format!("{} packets 0 dupes {dropped} seq {number} frag {fragment}\n", Ethernet(src.0))
    }
}

/// A `WifiDupeFilter` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct DupeFilter {
    last: HashMap<MacAddress, Last>,
    dropped: u64,
    debug: bool,
}

impl PerPacket for DupeFilter {
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let Some(header) = wifi::Header::of(packet) else { return Action::ON };
        let [dst, src, _] = header.addresses();
        if header.is_control() || dst.is_multicast() {
            return Action::ON;
        }
        let (number, fragment) = header.sequence();
        let is_fragment = fragment > 0 || header.more_fragments();
        if self.last.len() >= MOST && !self.last.contains_key(&src) {
            self.last.clear();
        }
        let last = self.last.entry(src).or_default();
        if header.is_retry() && number == last.number && (!is_fragment || fragment <= last.fragment) {
            last.dropped += 1;
            self.dropped += 1;
            if self.debug {
                let (name, class, src) = (cx.name(), cx.class(), Ethernet(src.0));
                cx.say(&format!("{name} :: {class}: dup seq {number} frag {fragment} src {src}\n"));
            }
            return Action::drop(0);
        }
        (last.number, last.fragment) = (number, fragment);
        Action::ON
    }
}
