//! Other frameworks' names of ports, and the port that stands in for each.

/// The port that `name` means in an element of a class, with a note where it is not
/// the name itself.
///
/// # Errors
/// What to write instead.
pub(super) fn port(class: &str, name: &str) -> Result<(String, Option<String>), String> {
    let name = name.trim();
    let stands_for = |port: String| {
        let note = format!("'{name}' is the port {port} here");
        Ok((port, Some(note)))
    };
    if name.parse::<u32>().is_ok() {
        return Err(format!(
            "'{name}' is a number of DPDK's: write the device's PCI address (0000:03:00.0), or model:82599"
        ));
    }
    if let Some(interface) = name.strip_prefix("netmap:").or_else(|| name.strip_prefix("netmap-")) {
        let interface = interface.split(['-', '*', '^', '{', '}']).next().unwrap_or(interface);
        return stands_for(format!("af_xdp:{interface}"));
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
    Ok((name.to_string(), None))
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
        port(class, name).map_or_else(|error| error, |(port, _)| port)
    }

    #[test]
    fn names_of_ports_are_left_alone() {
        for name in ["0000:03:00.0", "03:00.0", "model:82599,wire=loop", "tap:x", "af_xdp:eth1,generic"] {
            assert_eq!(port("FromDPDKDevice", name), Ok((name.to_string(), None)));
        }
    }

    #[test]
    fn others_have_a_port_that_stands_in() {
        assert_eq!(found("FromNetmapDevice", "netmap:eth1-2"), "af_xdp:eth1");
        assert_eq!(found("FromNetmapDevice", "eth1"), "af_xdp:eth1");
        assert_eq!(found("FromDevice", "eth1"), "af_packet:eth1");
        assert_eq!(
            (found("FromHost", "fake0"), found("ToHost", "fake0")),
            ("tap:fake0".into(), "tap:fake0".into())
        );
        assert_eq!(found("FromDPDKDevice", "net_tap0,iface=x0"), "tap:x0");
        assert_eq!(found("FromDPDKDevice", "net_af_packet0,iface=eth1,blocksz=4096"), "af_packet:eth1");
        let (_, note) = port("FromDevice", "eth1").expect("it is an interface");
        assert_eq!(note.as_deref(), Some("'eth1' is the port af_packet:eth1 here"));
    }

    #[test]
    fn numbers_of_dpdk_are_explained() {
        assert!(found("FromDPDKDevice", "0").contains("PCI address"));
    }
}
