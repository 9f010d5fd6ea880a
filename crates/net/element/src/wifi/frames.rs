//! `WifiEncap`, `WifiDecap`: Ethernet frames as data frames of Wi-Fi.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use graph::class::{Handlers, both, keyword, mandatory, positional};
use graph::value::{Ethernet, Value, parse_alone};
use graph::{Action, Class, Cx, Each, PerPacket, Refused};
use memory::Packet;
use memory::annotation::Header;
use port::Reason;
use wire::MacAddress;
use wire::ethernet;
use wire::wifi::{self, Direction, SNAP_LEN};

/// The class of what makes frames of Wi-Fi.
pub static ENCAP: Class = Class {
    name: "WifiEncap",
    brief: "makes Ethernet frames data frames of Wi-Fi",
    doc: "The Ethernet header goes, and the headers of 802.11, LLC and SNAP come. MODE says where BSSID stands \
          among the three addresses: 0 from station to station, 1 to an access point, 2 from one, 3 between \
          two.",
    arguments: &[
        mandatory("MODE", "0 to 3"),
        positional("BSSID", "the access point's address; 00-00-00-00-00-00"),
        keyword("DEBUG", "accepted: nothing more is told; false"),
    ],
    handlers: &Handlers::<WifiEncap>(&[
        both(
            "debug",
            "accepted: nothing more is told",
            |encap| format!("{}\n", encap.debug),
            |encap, _, value| {
                encap.debug = super::debug(value)?;
                Ok(())
            },
        ),
        both(
            "mode",
            "where BSSID stands",
            |encap| format!("{}\n", encap.mode),
            |encap, _, value| {
                encap.mode = parsed(value, "mode parameter must be int")?;
                Ok(())
            },
        ),
        both(
            "bssid",
            "the access point's address",
            |encap| format!("{}\n", encap.bssid),
            |encap, _, value| {
                encap.bssid = parsed(value, "bssid parameter must be ethernet address")?;
                Ok(())
            },
        ),
    ]),
    drops: &[Reason::TooShort, Reason::NoHeadroom, Reason::NoRoom],
    example: "src -> EtherEncap(0x0800, 0:0:0:0:0:1, ff:ff:ff:ff:ff:ff) -> WifiEncap(0, 0:0:0:0:0:0) -> ToDump(wifi.pcap)",
    see: &["WifiDecap", "EtherEncap"],
    make: |_, conf| {
        let mode = conf.mandatory("MODE")?;
        let bssid = conf.positional("BSSID")?.unwrap_or_default();
        let debug = conf.keyword("DEBUG")?.unwrap_or(false);
        conf.complete()?;
        Ok(Each::boxed(WifiEncap { mode, bssid, debug }))
    },
    ..Class::BASE
};

/// The class of what makes Ethernet frames again.
pub static DECAP: Class = Class {
    name: "WifiDecap",
    brief: "makes data frames of Wi-Fi Ethernet frames",
    doc: "The headers of 802.11, LLC and SNAP go, and an Ethernet header comes, unless ETHER is false. Frames \
          that are encrypted are dropped, and with STRICT those without SNAP.",
    arguments: &[
        keyword("DEBUG", "tells of each frame that gets an Ethernet header; false"),
        keyword("STRICT", "whether frames without SNAP are dropped; false"),
        keyword("ETHER", "whether an Ethernet header comes; true"),
    ],
    handlers: &Handlers::<WifiDecap>(&[both(
        "debug",
        "whether it tells of each frame that gets an Ethernet header",
        |decap| format!("{}\n", decap.tells()),
        |decap, _, value| {
            // Relaxed: nothing else hangs on it.
            decap.debug.store(super::debug(value)?, Ordering::Relaxed);
            Ok(())
        },
    )]),
    drops: &[Reason::TooShort, Reason::NoHeadroom, Reason::AnotherProtocol],
    example: "FromDump(wifi.pcap) -> Classifier(0/08%0c) -> WifiDecap -> CheckIPHeader(OFFSET 14)",
    see: &["WifiEncap", "HostEtherFilter"],
    make: |_, conf| {
        let debug = conf.keyword("DEBUG")?.unwrap_or(false);
        let strict = conf.keyword("STRICT")?.unwrap_or(false);
        let ether = conf.keyword("ETHER")?.unwrap_or(true);
        conf.complete()?;
        Ok(Each::boxed(WifiDecap { strict, ether, debug: Arc::new(AtomicBool::new(debug)) }))
    },
    ..Class::BASE
};

// Places in the classes' drops.
const TOO_SHORT: usize = 0;
const NO_HEADROOM: usize = 1;
const NO_MODE: usize = 2;
const UNREADABLE: usize = 2;

fn parsed<T: Value>(value: &str, wrong: &str) -> Result<T, Refused> {
    parse_alone(value).map_err(|_| wrong.into())
}

/// A `WifiEncap` element; [`ENCAP`] says what it does.
#[derive(Debug, Clone)]
pub struct WifiEncap {
    mode: i32,
    bssid: Ethernet,
    debug: bool,
}

impl PerPacket for WifiEncap {
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let Some(ether) = ethernet::Header::of(packet) else { return Action::drop(TOO_SHORT) };
        let (src, dst, ethertype) = (ether.src(), ether.dst(), ether.ethertype());
        let Some(mode) = u8::try_from(self.mode).ok().filter(|mode| *mode <= 3) else {
            cx.say(&format!("{} :: {}: invalid mode {}\n", cx.name(), cx.class(), self.mode));
            return Action::drop(NO_MODE);
        };
        let more = wifi::HEADER_LEN + SNAP_LEN - ethernet::HEADER_LEN;
        if !cx.has_headroom(packet, more) || packet.push_front(more).is_err() {
            return Action::drop(NO_HEADROOM);
        }
        let Some((header, rest)) = packet.split_first_chunk_mut::<{ wifi::HEADER_LEN }>() else {
            return Action::drop(TOO_SHORT);
        };
        let bssid = MacAddress(self.bssid.0);
        wifi::Header::new(header).fill(Direction::of(mode), src, dst, bssid);
        if let Some(snap) = rest.first_chunk_mut::<SNAP_LEN>() {
            *snap = wifi::snap(ethertype);
        }
        packet.set_header(Header::Link, 0);
        Action::ON
    }

    /// It is there once: `mode`, `bssid` and `debug` can be written.
    fn replicate(&self) -> Option<WifiEncap> {
        None
    }
}

/// A `WifiDecap` element; [`DECAP`] says what it does.
#[derive(Debug, Clone)]
pub struct WifiDecap {
    strict: bool,
    ether: bool,
    /// All copies have the same.
    debug: Arc<AtomicBool>,
}

impl WifiDecap {
    fn tells(&self) -> bool {
        // Relaxed: nothing else hangs on it.
        self.debug.load(Ordering::Relaxed)
    }
}

impl PerPacket for WifiDecap {
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let Some(header) = wifi::Header::of(packet) else { return Action::drop(TOO_SHORT) };
        let ((src, dst), length) = (header.ends(), header.header_len());
        let told = (self.ether && self.tells()).then(|| (header.direction(), header.bssid()));
        let is_protected = header.is_protected();
        let snap = packet.get(length..).and_then(wifi::snap_type);
        let Some((ethertype, is_snap)) = snap else { return Action::drop(TOO_SHORT) };
        if is_protected || self.strict && !is_snap {
            return Action::drop(UNREADABLE);
        }
        if !cx.advance(packet, (length + SNAP_LEN) as isize) {
            return Action::drop(TOO_SHORT);
        }
        if self.ether {
            let header = ethernet::Header::between(dst, src, ethertype).into_inner();
            if !cx.has_headroom(packet, header.len()) {
                return Action::drop(NO_HEADROOM);
            }
            let Ok(room) = packet.push_front(header.len()) else { return Action::drop(NO_HEADROOM) };
            room.copy_from_slice(&header);
            packet.set_header(Header::Link, 0);
            if let Some((direction, bssid)) = told {
                let [src, dst, bssid] = [src, dst, bssid].map(|address| Ethernet(address.0));
                let (name, class, dir) = (cx.name(), cx.class(), direction as u8);
                cx.say(&format!(
                    "{name} :: {class}: dir {dir} src {src} dst {dst} bssid {bssid} eth 0x{:04x}\n",
                    ethertype.0
                ));
            }
        }
        Action::ON
    }

    fn replicate(&self) -> Option<WifiDecap> {
        Some(self.clone())
    }
}
