//! Any text as `overlay.toml`, of an endpoint and of a router: a configuration, or what is wrong at
//! a place in the text. A table takes all that a configuration says, is not different when it
//! is read again, and is empty when the next one says nothing; what a table refuses leaves nothing.
//!
//! The first byte says what the others are: text as it is; a line or value for each byte, which
//! gets deeper; or edits of a configuration that is right, a line and its new value for two bytes,
//! which gets to the limits of each number. No file or port is opened.
#![no_main]

use std::collections::BTreeSet;

use overlay::Overlay;
use vtep::{Changes, Config, Desired, Error, Held};
use wire::MacAddress;

#[rustfmt::skip]
const TOKENS: [&str; 96] = [
    "\n", " ", "[", "]", "{ ", " }", ", ", " = ", "[[underlay]]\n", "[[route]]\n", "[[group]]\n", "[[network]]\n",
    "[[network.entry]]\n", "[[network.end]]\n", "[api]\n", "[fpm]\n", "learn = \"kernel\"\n", "learn = \"fpm\"\n",
    "name = \"a\"\n", "name = \"b\"\n", "port = \"tap:a\"\n", "port = \"tap:b\"\n", "port = \"model:82599\"\n",
    "port = \"a\"\n", "mac = \"02:00:00:00:00:01\"\n", "addresses = [\"192.0.2.1/24\", \"2001:db8::1/64\"]\n",
    "addresses = [\"198.51.100.1/24\"]\n", "mtu = ", "vlan = ", "link = \"eth1\"\n",
    "neighbors = { \"192.0.2.2\" = \"02:00:00:00:00:02\" }\n", "to = \"10.0.0.0/8\"\n", "to = \"::/0\"\n",
    "via = \"192.0.2.254\"\n", "number = ", "protocol = \"vxlan\"\n", "protocol = \"vxlan-gpe\"\n",
    "protocol = \"geneve\"\n", "protocol = \"gre\"\n", "protocol = \"nvgre\"\n", "protocol = \"gretap\"\n",
    "protocol = \"ipip\"\n", "protocol = \"gtpu\"\n", "protocol = \"srv6\"\n", "protocol = \"lisp\"\n",
    "protocol = \"mpls-gre\"\n", "protocol = \"mpls-udp\"\n", "layer = \"ip\"\n", "layer = \"service\"\n",
    "layer = \"ethernet\"\n", "key = \"lpm\"\n", "key = \"mac\"\n", "key = { offset = 16, bits = 32 }\n",
    "key = \"02:00:00:00:0b:01\"\n", "key = \"10.1.0.0/16\"\n", "key = \"10.1.0.1\"\n", "key = ", "key = \"0x7\"\n",
    "unknown = \"flood\"\n", "unknown = \"punt\"\n", "unknown = \"drop\"\n", "inner = \"tap:i\"\n",
    "gateway = [\"10.7.0.1\"]\n", "peer = \"02:00:00:00:0c:01\"\n", "remote = \"192.0.2.2\"\n",
    "remote = \"2001:db8::2\"\n", "remotes = [\"192.0.2.2\", { remote = \"192.0.2.3\", weight = 3 }]\n",
    "group = \"a\"\n", "flood = [\"192.0.2.2\", \"198.51.100.7\"]\n", "flood = [{ remote = \"192.0.2.9\", identifier = 7 }]\n",
    "identifier = ", "local = \"192.0.2.1\"\n", "local = \"2001:db8::1\"\n", "ttl = ", "dscp = \"inherit\"\n", "dscp = ",
    "dont_fragment = false\n", "udp_port = ", "udp_checksum = true\n", "udp_checksum = false\n",
    "gre_checksum = true\n", "gre_sequence = true\n", "qos_flow = ", "service = { path = 7, index = 255 }\n",
    "segments = [\"2001:db8::3\"]\n", "accept_zero_checksum = true\n", "learning = true\n",
    "listen = \"127.0.0.1:8080\"\n", "users = [1000]\n", "0\n", "1\n", "7\n", "100\n", "1500\n", "70000\n", "-1\n",
];

/// A configuration that is right, behind the byte that makes it a seed.
const RIGHT: &str = include_str!("../seeds/overlay_config/file");

/// Lines from which on no section is repeated.
const LONGEST: usize = 128;

/// What an edit makes of a number: about the limits of each kind.
#[rustfmt::skip]
const NUMBERS: [&str; 16] = [
    "-1", "0", "1", "7", "63", "64", "255", "256", "575", "4095", "9601", "65536", "16777216", "4294967296",
    "9223372036854775807", "18446744073709551616",
];

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((&way, rest)) = input.split_first() else { return };
    let text: String = match way % 3 {
        0 => edited(rest),
        1 => rest.iter().map(|&b| TOKENS[usize::from(b) % TOKENS.len()]).collect(),
        _ => String::from_utf8_lossy(rest).into_owned(),
    };
    for read in [Config::parse, Config::parse_for_router] {
        match read(&text) {
            Ok(config) => hold(&config),
            Err(error) => check_place(&text, &error),
        }
    }
});

/// The configuration that is right, with an edit for every two bytes: another number for a number,
/// a section twice for its head, another line for any other.
fn edited(edits: &[u8]) -> String {
    let mut lines: Vec<String> = RIGHT.trim_start().lines().map(str::to_owned).collect();
    for edit in edits.chunks_exact(2) {
        let [at, new] = [edit[0], edit[1]].map(usize::from);
        let at = at % lines.len();
        match lines[at].split_once(" = ") {
            Some((key, value)) if value.parse::<i128>().is_ok() => {
                lines[at] = format!("{key} = {}", NUMBERS[new % NUMBERS.len()]);
            }
            None if lines[at].starts_with('[') && lines.len() < LONGEST => {
                let section: Vec<_> =
                    lines[at..].iter().take_while(|line| !line.is_empty()).cloned().collect();
                lines.extend(section);
            }
            _ => lines[at] = TOKENS[new % TOKENS.len()].to_owned(),
        }
    }
    lines.join("\n")
}

/// What is wrong has a place in the text, and says what to write.
fn check_place(text: &str, error: &Error) {
    assert!(!error.cause.is_empty() && !error.fix.is_empty(), "{error}");
    let line = text.split('\n').nth(error.line - 1).expect("the line is there");
    assert!((1..=line.chars().count() + 1).contains(&error.column), "{error}");
}

fn hold(config: &Config) {
    let ports = &config.underlay;
    let names: BTreeSet<&str> = ports.iter().map(|port| port.name.as_str()).collect();
    assert_eq!(names.len(), ports.len(), "a name is one port's");
    for port in ports {
        assert!((576..=9600).contains(&port.mtu), "{}", port.mtu);
        assert!(port.vlan.is_none_or(|vlan| (1..=4094).contains(&vlan)), "{:?}", port.vlan);
    }
    let desired = config.desired(&vec![MacAddress([2, 0, 0, 0, 0, 1]); ports.len()]);
    let mut held = Held::default();
    if held.apply(desired.clone(), 0).is_err() {
        return assert_empty(&held.table);
    }
    assert!(held.program().refused().is_empty(), "it was checked");
    assert!(held.program().compare_table(&held.table).is_empty(), "the table holds what is wanted");
    held.table.publish();
    let again = held.apply(desired, 1).expect("it was taken before");
    assert_eq!(again, Changes::default(), "nothing is different");
    held.apply(Desired::default(), 2).expect("nothing can be wrong");
    held.table.publish();
    assert_empty(&held.table);
}

fn assert_empty(table: &Overlay) {
    assert_eq!((table.networks().count(), table.tunnels(), table.unresolved().count()), (0, 0, 0));
}
