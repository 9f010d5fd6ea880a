//! Other frameworks' names of ports, and the port that stands in for each.

use std::collections::BTreeMap;

use graph::element::interfaces::PortName;
use graph::{Conf, Services};

/// The ports that DPDK's numbers stand for, as the command line gives them: a
/// [service](graph::Services), without which no number is known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PortNumbers(pub BTreeMap<u32, String>);

/// What a name means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Meaning {
    pub port: String,
    /// The one queue that the name is about, in netmap's `eth1-2`.
    pub queue: Option<usize>,
    /// What is told of it, where it is not the name itself.
    pub note: Option<String>,
}

/// The port that `name` means in an element of a class.
///
/// # Errors
/// What to write instead.
pub(super) fn port(class: &str, name: &str, numbers: Option<&PortNumbers>) -> Result<Meaning, String> {
    let name = name.trim();
    let stands_for = |port: String| {
        let note = Some(format!("'{name}' is the port {port} here"));
        Ok(Meaning { port, queue: None, note })
    };
    if let Ok(number) = name.parse::<u32>() {
        let named = numbers.and_then(|numbers| numbers.0.get(&number)).ok_or_else(|| {
            format!(
                "'{name}' is a number of DPDK's that no option names: give its port on the command line, \
                 --port {name}=0000:03:00.0 or --port {name}=model:82599"
            )
        })?;
        return stands_for(port(class, named, None)?.port);
    }
    if let Some(interface) = name.strip_prefix("netmap:").or_else(|| name.strip_prefix("netmap-")) {
        let mut parts = interface.split(['-', '*', '^', '{', '}', '/']);
        let port = format!("af_xdp:{}", parts.next().unwrap_or(interface));
        // Behind the others stand a host's rings, or a pipe's number.
        let queue = interface.contains('-').then(|| parts.next()?.parse().ok()).flatten();
        return Ok(Meaning { queue, ..stands_for(port)? });
    }
    if let Some(interface) = name.strip_prefix("net_af_packet").and_then(virtual_interface) {
        return stands_for(format!("af_packet:{interface}"));
    }
    if let Some(interface) = name.strip_prefix("net_af_xdp").and_then(virtual_interface) {
        return stands_for(format!("af_xdp:{interface}"));
    }
    if let Some(interface) = name.strip_prefix("net_tap").and_then(virtual_interface) {
        return stands_for(format!("tap:{interface}"));
    }
    // A name alone is an interface of Linux's.
    if is_interface(name) {
        let way = match class {
            _ if class.contains("Netmap") || class.contains("XDP") => "af_xdp",
            _ if class.contains("Host") || class.contains("Tap") => "tap",
            _ => "af_packet",
        };
        return stands_for(format!("{way}:{name}"));
    }
    Ok(Meaning { port: name.to_string(), queue: None, note: None })
}

/// Whether an element's further arguments are Click's `FromDevice(DEVNAME, PROMISC, SNAPLEN)`: there is
/// no queue to be named of an interface that stands alone.
pub(super) fn is_click(class: &str, name: &str) -> bool {
    matches!(class, "FromDevice" | "FromDevice.u") && is_interface(name.trim())
}

/// The port that the configuration of an element names first.
pub(super) fn port_name(class: &str, conf: &mut Conf<'_>, services: &Services) -> Option<PortName> {
    let written: String = conf.mandatory("PORT").ok()?;
    let Meaning { port, .. } = port(class, &written, services.get::<PortNumbers>().as_deref()).ok()?;
    // The name of a TAP alone is that of the interface at its other end.
    let written = if port.starts_with("tap:") { port.clone() } else { written.trim().to_string() };
    Some(PortName { written, port })
}

/// The `iface=` of a virtual device of DPDK's.
fn virtual_interface(rest: &str) -> Option<&str> {
    rest.split(',').find_map(|word| word.strip_prefix("iface="))
}

/// Whether it can be an interface's name, and not a PCI address or a port's.
fn is_interface(name: &str) -> bool {
    let fine = |b: u8| b.is_ascii_alphanumeric() || b"_-.@".contains(&b);
    (1..16).contains(&name.len())
        && name.bytes().all(fine)
        && name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(class: &str, name: &str) -> String {
        port(class, name, None).map_or_else(|error| error, |meaning| meaning.port)
    }

    #[test]
    fn further_arguments_are_of_click_where_an_interface_stands_alone() {
        for (class, name) in [("FromDevice", "eth0"), ("FromDevice", " eth0.7 "), ("FromDevice.u", "lo")] {
            assert!(is_click(class, name), "{class}({name})");
        }
        let others = [("PollDevice", "eth0"), ("FromDevice", "0"), ("FromDevice", "af_xdp:eth0")];
        for (class, name) in others.into_iter().chain([("FromDevice", "0000:03:00.0"), ("FromHost", "tap0")])
        {
            assert!(!is_click(class, name), "{class}({name})");
        }
    }

    #[test]
    fn names_of_ports_are_left_alone() {
        for name in ["0000:03:00.0", "03:00.0", "model:82599,wire=loop", "tap:x", "af_xdp:eth1,generic"] {
            let unchanged = Meaning { port: name.to_string(), queue: None, note: None };
            assert_eq!(port("FromDPDKDevice", name, None), Ok(unchanged));
        }
    }

    #[test]
    fn others_have_a_port_that_stands_in() {
        assert_eq!(found("FromNetmapDevice", "netmap:eth1-2"), "af_xdp:eth1");
        let queue = |name| port("FromDevice", name, None).expect("it is netmap's").queue;
        assert_eq!(
            [queue("netmap:eth1-2"), queue("netmap:eth1"), queue("netmap:eth1^")],
            [Some(2), None, None]
        );
        assert_eq!(found("FromNetmapDevice", "eth1"), "af_xdp:eth1");
        assert_eq!(found("FromDevice", "eth1"), "af_packet:eth1");
        assert_eq!(
            (found("FromHost", "fake0"), found("ToHost", "fake0")),
            ("tap:fake0".into(), "tap:fake0".into())
        );
        assert_eq!(found("FromDPDKDevice", "net_tap0,iface=x0"), "tap:x0");
        assert_eq!(found("FromDPDKDevice", "net_af_packet0,iface=eth1,blocksz=4096"), "af_packet:eth1");
        let Meaning { note, .. } = port("FromDevice", "eth1", None).expect("it is an interface");
        assert_eq!(note.as_deref(), Some("'eth1' is the port af_packet:eth1 here"));
    }

    #[test]
    fn numbers_of_dpdk_are_ports_of_the_command_line() {
        assert!(found("FromDPDKDevice", "0").contains("--port 0="));
        let names = [(0, "0000:03:00.0"), (3, "net_af_packet0,iface=eth1"), (4, "4")];
        let numbers = PortNumbers(names.map(|(number, name)| (number, name.to_string())).into());
        let found = |name| port("ToDPDKDevice", name, Some(&numbers));
        let note = |name: &str, port: &str| {
            let note = Some(format!("'{name}' is the port {port} here"));
            Ok(Meaning { port: port.into(), queue: None, note })
        };
        assert_eq!(found("0"), note("0", "0000:03:00.0"));
        assert_eq!(found("3"), note("3", "af_packet:eth1"));
        assert!(found("1").is_err() && found("4").is_err(), "a number is no port's name");
    }
}
