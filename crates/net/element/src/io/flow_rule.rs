//! Rules for flows that a port is given, in the words of DPDK's testpmd (`flow create`), which
//! FastClick's are, too: a pattern of headers and what is done with the packets. A port's filters
//! compare whole flows (`port::Flow`), so that a pattern names both addresses, and both ports or
//! none; masks, ranges and other headers are refused.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use port::{Flow, FlowTarget, Transport};
use wire::ip::Addresses;

/// Words before the pattern that say what is so here: rules are for received packets.
const OPENING: &[&str] = &["flow", "create", "ingress"];

/// The flow of a rule, and what is done with it, if the rule says so.
pub fn parse(text: &str) -> Result<(Flow, Option<FlowTarget>), String> {
    let (before, rest) =
        text.split_once("pattern").ok_or("expected 'pattern HEADER / … / end actions ACTION / end'")?;
    let is_known = |word: &&str| OPENING.contains(word) || word.parse::<u16>().is_ok();
    if let Some(word) = before.split_whitespace().find(|word| !is_known(word)) {
        return Err(format!("'{word}' is not done: a rule is 'ingress pattern …'"));
    }
    let (pattern, actions) = match rest.split_once("actions") {
        Some((pattern, actions)) => (pattern, Some(actions)),
        None => (rest, None),
    };
    Ok((flow(pattern)?, actions.map(target).transpose()?))
}

/// What stands between slashes before the word `end`, which is the last.
fn items(text: &str) -> Result<Vec<&str>, String> {
    let mut items: Vec<&str> = text.split('/').map(str::trim).collect();
    match items.pop() {
        Some("end") => Ok(items),
        _ => Err(format!("expected '/ end' behind '{}'", text.trim())),
    }
}

fn flow(pattern: &str) -> Result<Flow, String> {
    let (mut addresses, mut transport) = (None, Transport::Other);
    for item in items(pattern)? {
        let (header, fields) = item.split_once(char::is_whitespace).unwrap_or((item, ""));
        match header {
            "eth" if fields.trim().is_empty() => {}
            "ipv4" => {
                let (src, dst) = both::<Ipv4Addr>(header, fields)?;
                addresses = Some(Addresses::V4 { src, dst });
            }
            "ipv6" => {
                let (src, dst) = both::<Ipv6Addr>(header, fields)?;
                addresses = Some(Addresses::V6 { src, dst });
            }
            "udp" => transport = both(header, fields).map(|(src, dst)| Transport::Udp { src, dst })?,
            "tcp" => transport = both(header, fields).map(|(src, dst)| Transport::Tcp { src, dst })?,
            "sctp" => transport = both(header, fields).map(|(src, dst)| Transport::Sctp { src, dst })?,
            _ => return Err(format!("'{item}' is not compared: eth, ipv4, ipv6, udp, tcp and sctp are")),
        }
    }
    let addresses = addresses.ok_or("a flow has addresses: 'ipv4 src is ADDRESS dst is ADDRESS'")?;
    Ok(Flow { addresses, transport })
}

/// Source and destination of a header, both whole.
fn both<T: FromStr>(header: &str, fields: &str) -> Result<(T, T), String> {
    let words: Vec<&str> = fields.split_whitespace().collect();
    let (mut src, mut dst) = (None, None);
    for field in words.chunks(3) {
        let [name @ ("src" | "dst"), "is", value] = field else {
            return Err(format!("'{}' is not compared: {header} src is VALUE dst is VALUE", field.join(" ")));
        };
        let value = value.parse().map_err(|_| format!("'{value}' is no {header} {name}"))?;
        *(if *name == "src" { &mut src } else { &mut dst }) = Some(value);
    }
    src.zip(dst).ok_or_else(|| format!("expected '{header} src is VALUE dst is VALUE'"))
}

fn target(actions: &str) -> Result<FlowTarget, String> {
    let mut target = None;
    for action in items(actions)? {
        let words: Vec<&str> = action.split_whitespace().collect();
        let said = match words[..] {
            ["queue", "index", queue] => {
                FlowTarget::Queue(queue.parse().map_err(|_| format!("'{queue}' is no queue"))?)
            }
            ["drop"] => FlowTarget::Drop,
            ["count"] => continue, // all are
            _ => return Err(format!("'{action}' is not done: 'queue index N' and 'drop' are")),
        };
        if target.replace(said).is_some() {
            return Err("a rule does one thing".into());
        }
    }
    target.ok_or_else(|| "expected 'queue index N' or 'drop'".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const V4: Addresses = Addresses::V4 { src: Ipv4Addr::new(10, 0, 0, 1), dst: Ipv4Addr::new(10, 0, 0, 2) };

    #[test]
    fn rules_are_those_of_testpmd() {
        let udp = Flow { addresses: V4, transport: Transport::Udp { src: 7, dst: 9 } };
        let rule = "pattern eth / ipv4 src is 10.0.0.1 dst is 10.0.0.2 / udp src is 7 dst is 9 / end";
        assert_eq!(parse(rule), Ok((udp, None)));
        for (actions, target) in [
            ("queue index 3 / end", FlowTarget::Queue(3)),
            ("queue index 0 / count / end", FlowTarget::Queue(0)),
            (" drop/end ", FlowTarget::Drop),
        ] {
            for before in ["", "ingress ", "flow create 0 ingress "] {
                assert_eq!(parse(&format!("{before}{rule} actions {actions}")), Ok((udp, Some(target))));
            }
        }
        let other = parse("pattern ipv4 dst is 10.0.0.2 src is 10.0.0.1 / end actions drop / end");
        let other = other.map(|(flow, _)| flow);
        assert_eq!(other, Ok(Flow { addresses: V4, transport: Transport::Other }));
        let six = parse("pattern eth / ipv6 src is fd00::1 dst is fd00::2 / tcp src is 1 dst is 2 / end");
        let addresses = ["fd00::1", "fd00::2"].map(|address| address.parse().expect("an address"));
        let addresses = Addresses::V6 { src: addresses[0], dst: addresses[1] };
        assert_eq!(six, Ok((Flow { addresses, transport: Transport::Tcp { src: 1, dst: 2 } }, None)));
    }

    #[test]
    fn what_filters_do_not_compare_or_do_is_refused_with_its_words() {
        const IP: &str = "ipv4 src is 10.0.0.1 dst is 10.0.0.2";
        for (rule, word) in [
            ("".into(), "pattern"),
            (format!("egress pattern {IP} / end actions drop / end"), "'egress'"),
            (format!("pattern {IP}"), "/ end"),
            (format!("pattern eth type is 0x0806 / {IP} / end"), "eth type"),
            (format!("pattern vlan / {IP} / end"), "'vlan'"),
            ("pattern udp src is 1 dst is 2 / end".into(), "addresses"),
            ("pattern ipv4 src is 10.0.0.1 / end".into(), "src is VALUE dst is VALUE"),
            ("pattern ipv4 src is 10.0.0 dst is 10.0.0.2 / end".into(), "'10.0.0' is no ipv4 src"),
            ("pattern ipv4 src spec 10.0.0.1 dst is 10.0.0.2 / end".into(), "src spec"),
            (format!("pattern {IP} / udp src is 7 / end"), "udp src"),
            (format!("pattern {IP} / udp src is 7 dst is 65536 / end"), "65536"),
            (format!("pattern {IP} / end actions end"), "queue index"),
            (format!("pattern {IP} / end actions rss / end"), "'rss'"),
            (format!("pattern {IP} / end actions queue index x / end"), "'x'"),
            (format!("pattern {IP} / end actions drop / queue index 1 / end"), "one thing"),
        ] {
            let refused = parse(&rule).expect_err(&rule);
            assert!(refused.contains(word), "{rule}: {refused}");
        }
    }
}
