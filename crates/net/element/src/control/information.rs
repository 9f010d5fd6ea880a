//! Elements that only say something: names of addresses and ports, messages, and
//! hints that other systems need.

use std::net::{Ipv4Addr, Ipv6Addr};

use graph::class::{mandatory, positional, rest};
use graph::lang::args::words;
use graph::value::{Ethernet, NameKind, Prefix4, Prefix6, Value};
use graph::{Class, ConfFault, Cx, Element};

use super::sched::Nothing;

/// Names of addresses.
pub static ADDRESS_INFO: Class = Class {
    name: "AddressInfo",
    brief: "gives addresses names",
    doc: "Each argument is a name and what it stands for: an IPv4 or IPv6 address or prefix, an Ethernet \
          address, one of each kind at most. Configurations may then say the name; where several kinds would \
          do, `name:ip`, `name:ipnet`, `name:bcast`, `name:eth`. A prefix with a host part is an address as \
          well. Without being declared, interfaces of the machine are known by their names, and ports of the \
          router by theirs and by those of their FromDevice and ToDevice, with their Ethernet address \
          (`p0:eth`). A name holds in the compound element it is declared in, and within.",
    ports: "0/0",
    arguments: &[rest("NAME ADDRESS...", "a name and its addresses")],
    phase: Class::INFORMATION,
    example: "AddressInfo(me 10.0.0.1/8 00:1b:21:00:00:01, gateway 10.0.0.254)",
    see: &["PortInfo"],
    make: |setup, conf| {
        let scope = *conf.scope();
        let mut wrong = vec![];
        for argument in conf.rest() {
            let words = words(&argument);
            let Some((name, addresses)) = words.split_first() else { continue };
            if addresses.is_empty() {
                wrong.push("expected 'NAME [ADDRS]'".to_string());
            }
            // The first of a kind holds, but one that can be nothing else.
            let mut known: Vec<NameKind> = vec![];
            for address in addresses {
                let kinds = kinds(address, &scope);
                if kinds.is_empty() {
                    wrong.push(format!("'{address}' is not a recognizable address"));
                }
                let only = kinds.len() == 1;
                for (kind, value) in kinds {
                    if only || !known.contains(&kind) {
                        setup.declare(kind, name, value);
                        known.push(kind);
                    }
                }
            }
        }
        if wrong.is_empty() { Ok(Box::new(Nothing)) } else { Err(ConfFault::new(wrong.join("\n"))) }
    },
    ..Class::BASE
};

/// All that an address can be.
fn kinds(text: &str, scope: &graph::value::Scope<'_>) -> Vec<(NameKind, String)> {
    let mut kinds = vec![];
    if let Ok(address) = Ethernet::parse(text, scope) {
        kinds.push((NameKind::Ethernet, address.to_string()));
    }
    if let Ok(address) = Ipv4Addr::parse(text, scope) {
        kinds.push((NameKind::Ipv4, address.to_string()));
    } else if let Ok(prefix) = Prefix4::parse(text, scope) {
        kinds.push((NameKind::Ipv4Prefix, format!("{}/{}", prefix.address, prefix.mask)));
        if prefix.address.to_bits() & !prefix.mask.to_bits() != 0 {
            kinds.push((NameKind::Ipv4, prefix.address.to_string()));
        }
    }
    if let Ok(address) = Ipv6Addr::parse(text, scope) {
        kinds.push((NameKind::Ipv6, address.to_string()));
    } else if let Ok(prefix) = Prefix6::parse(text, scope) {
        kinds.push((NameKind::Ipv6Prefix, format!("{}/{}", prefix.address, prefix.length)));
        let host = u128::MAX.checked_shr(u32::from(prefix.length)).unwrap_or(0);
        if prefix.address.to_bits() & host != 0 {
            kinds.push((NameKind::Ipv6, prefix.address.to_string()));
        }
    }
    kinds
}

/// Names of ports.
pub static PORT_INFO: Class = Class {
    name: "PortInfo",
    brief: "gives TCP and UDP ports names",
    doc: "Each argument is written as a line of `/etc/services`: a name, `port` or `port/protocol`, and other \
          names. Without a protocol it is a TCP and a UDP port.",
    ports: "0/0",
    arguments: &[rest("NAME PORT[/PROTOCOL]", "a name and its port")],
    phase: Class::INFORMATION,
    example: "PortInfo(http 80, dns 53/udp)",
    see: &["AddressInfo", "IPClassifier"],
    make: |setup, conf| {
        for argument in conf.rest() {
            let plain = argument.split('#').next().unwrap_or("");
            let mut words = words(plain).into_iter();
            let Some(name) = words.next() else { continue };
            let port = words.next().unwrap_or("");
            let (port, protocol) = port.split_once('/').map_or((port, None), |(port, of)| (port, Some(of)));
            let port: u16 = port.parse().map_err(|_| ConfFault::new("expected 'NAME PORT/PROTO'"))?;
            let kinds: &[NameKind] = match protocol {
                None => &[NameKind::Number("tcp port"), NameKind::Number("udp port")],
                Some("tcp" | "6") => &[NameKind::Number("tcp port")],
                Some("udp" | "17") => &[NameKind::Number("udp port")],
                Some(_) => &[],
            };
            for name in [name].into_iter().chain(words) {
                kinds.iter().for_each(|kind| setup.declare(*kind, name, port.to_string()));
            }
        }
        Ok(Box::new(Nothing))
    },
    ..Class::BASE
};

/// Names that are known anyway.
pub static IP_NAME_INFO: Class = Class {
    name: "IPNameInfo",
    brief: "stands for the names of IP's protocols, ports and messages",
    doc: "Those names are always known; this class is there for configurations that name it.",
    ports: "0/0",
    phase: Class::INFORMATION,
    example: "IPNameInfo()",
    see: &["PortInfo", "IPClassifier"],
    make: |_, conf| conf.complete().map(|()| Box::new(Nothing) as Box<dyn Element>),
    ..Class::BASE
};

/// `AlignmentInfo`, which is read and not needed.
pub static ALIGNMENT_INFO: Class = Class {
    name: "AlignmentInfo",
    brief: "says how packets are aligned where",
    doc: "Each argument is an element and, for each of its inputs, a chunk and an offset: tools that place \
          `Align` elements write it. Elements here read headers byte by byte and need none, so it is only \
          checked.",
    ports: "0/0",
    arguments: &[rest("ELEMENT CHUNK OFFSET...", "an element and its inputs' alignments")],
    phase: Class::INFORMATION,
    example: "AlignmentInfo(c 4 2)",
    see: &["Align"],
    make: |_, conf| {
        for argument in conf.rest() {
            let words = words(&argument);
            if words.len().is_multiple_of(2) && !words.is_empty() {
                return Err(ConfFault::new("expected 'ELEMENTNAME CHUNK OFFSET [CHUNK OFFSET...]'"));
            }
            let numbers = words.iter().skip(1).all(|word| word.parse::<i32>().is_ok());
            if !numbers {
                return Err(ConfFault::new("expected CHUNK and OFFSET, both integers"));
            }
        }
        Ok(Box::new(Nothing))
    },
    ..Class::BASE
};

pub static MESSAGE: Class = Class {
    name: "Message",
    brief: "prints a message when the router is built",
    doc: "`WARNING` makes it a warning with its place; `ERROR` keeps the router from being built.",
    ports: "0/0",
    arguments: &[
        mandatory("MESSAGE", "the text"),
        positional("TYPE", "`MESSAGE`, `WARNING` or `ERROR`; MESSAGE"),
    ],
    phase: Class::INFORMATION,
    example: "Message(\"no such device\", ERROR)",
    see: &["Error", "Script"],
    make: |setup, conf| {
        let message: String = conf.mandatory("MESSAGE")?;
        let kind: String = conf.positional("TYPE")?.unwrap_or_else(|| "MESSAGE".into());
        conf.complete()?;
        match kind.as_str() {
            "MESSAGE" => return Ok(Box::new(Message(message))),
            "WARNING" => setup.warn(message),
            "ERROR" => return Err(ConfFault::new(message)),
            _ => return Err(ConfFault::new("unrecognized message type")),
        }
        Ok(Box::new(Nothing))
    },
    ..Class::BASE
};

/// A message that is printed.
#[derive(Debug)]
pub struct Message(String);

impl Element for Message {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let (place, name, class) = (cx.landmark(), cx.name(), cx.class());
        let lines: String = self.0.lines().map(|line| format!("  {line}\n")).collect();
        cx.say(&format!("{place}: While configuring '{name} :: {class}':\n{lines}"));
        Ok(())
    }
}

pub static ERROR: Class = Class {
    name: "Error",
    brief: "keeps a router from being built",
    doc: "Takes any ports and any configuration, and fails: stands where a configuration must be completed \
          first, or where a compound element is used wrongly.",
    ports: "-/-",
    flow: "x/y",
    arguments: &[rest("ANYTHING", "ignored")],
    example: "Error(\"define $DEV first\")",
    see: &["Message"],
    make: |_, conf| {
        conf.rest();
        Err(ConfFault::new("stands for a mistake in the configuration"))
    },
    ..Class::BASE
};
