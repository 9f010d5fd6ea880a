//! Values that are written as what they should be, and that nothing can have.

use crate::{GOOD, changed, refused};

/// What is wrong with the good file after a line of it is another one, and its place.
fn wrong(from: &str, to: &str, line: usize, cause: &str) {
    let error = changed(from, to);
    assert!(error.cause.contains(cause), "{to}: {error:?}");
    assert_eq!(error.line, line, "{to}: {error:?}");
}

#[test]
fn an_address_of_nobody_is_refused() {
    for (address, cause) in [
        ("192.0.2.0/24", "network's own address"),
        ("192.0.2.255/24", "broadcast address"),
        ("127.0.0.1/8", "not one host's"),
        ("224.0.0.1/24", "not one host's"),
        ("255.255.255.255/24", "not one host's"),
        ("2001:db8::/64", "all routers"),
    ] {
        wrong("\"192.0.2.1/24\"", &format!("\"{address}\""), 5, cause);
    }
    wrong("mtu = 1600", "mac = \"ff:ff:ff:ff:ff:ff\"", 6, "not one station's");
    wrong("mtu = 1600", "mac = \"00:00:00:00:00:00\"", 6, "not one station's");
    wrong("\"02:00:00:00:00:02\" }", "\"01:00:00:00:00:02\" }", 8, "not one station's");
    wrong("{ \"192.0.2.2\"", "{ \"192.0.2.1\"", 8, "no neighbour's");
    wrong("{ \"192.0.2.2\"", "{ \"224.0.0.2\"", 8, "no neighbour's");
    wrong("\"02:00:00:00:0c:01\"", "\"ff:ff:ff:ff:ff:ff\"", 30, "not one station's");
    for (gateway, cause) in [("['224.0.0.1']", "not one host's"), ("['10.0.0.1', '10.0.0.1']", "already")] {
        wrong("dscp = \"inherit\"", &format!("gateway = {gateway}"), 18, cause);
    }
    wrong("dscp = \"inherit\"", "peer = \"02:00:00:00:00:09\"", 18, "have Ethernet headers");
    for key in ["ff:ff:ff:ff:ff:ff", "00:00:00:00:00:00"] {
        wrong("\"02:00:00:00:0b:01\"", &format!("\"{key}\""), 22, "no station's address");
    }
}

#[test]
fn the_name_of_a_device_is_one_that_linux_has() {
    let with = |link: &str| {
        let text = GOOD.replacen("vlan = 30", &format!("vlan = 30\nlink = \"{link}\""), 1);
        format!("learn = \"kernel\"\n{text}")
    };
    for link in ["", "a/b", "a b", "a-name-that-is-too-long"] {
        let error = refused(&with(link));
        assert!(error.line == 9 && error.cause.contains("no name"), "{link}: {error:?}");
    }
    vtep::Config::parse(&with("fifteen-letters")).unwrap();
}

#[test]
fn a_route_leads_to_a_prefix_by_another_host() {
    wrong("\"198.51.100.0/24\"", "\"198.51.100.1/24\"", 11, "bits behind the 24");
    wrong("\"192.0.2.254\"", "\"192.0.2.1\"", 12, "of this host");
    wrong("\"192.0.2.254\"", "\"192.0.2.255\"", 12, "broadcast address");
    wrong("\"192.0.2.254\"", "\"224.0.0.1\"", 12, "not one host's");
}

#[test]
fn a_far_end_is_another_host() {
    let entry = "ttl = 9";
    for (remote, cause) in [
        ("255.255.255.255", "not one host's"),
        ("127.0.0.1", "not one host's"),
        ("192.0.2.255", "broadcast address"),
        ("192.0.2.0", "network's own"),
        ("192.0.2.1", "of this host"),
        ("::ffff:192.0.2.7", "not one host's"),
    ] {
        let error = refused(&GOOD.replacen(
            "remote = \"192.0.2.2\"\nttl = 9",
            &format!("remote = \"{remote}\"\n{entry}"),
            1,
        ));
        assert!(error.cause.contains(cause), "{remote}: {error:?}");
        assert_eq!((error.line, error.column), (23, 11), "{remote}: {error:?}");
        wrong("flood = [\"192.0.2.2\"", &format!("flood = [\"{remote}\""), 19, cause);
    }
    wrong("flood = [\"192.0.2.2\"", "flood = [\"192.0.2.2\", \"192.0.2.2\"", 19, "two copies");
    wrong("ttl = 9", "local = \"224.0.0.1\"", 24, "not one host's");
    // A prefix of 31 bits within that of another port has no addresses of its own.
    let parse = |length: u8| {
        vtep::Config::parse(&format!(
            "[[underlay]]\nname = 'a'\nport = 'tap:a'\naddresses = ['10.0.0.1/{length}']\n\
             [[underlay]]\nname = 'b'\nport = 'tap:b'\naddresses = ['10.0.0.9/24']\n\
             [[network]]\nnumber = 5\nprotocol = 'vxlan'\nflood = ['10.0.0.0']\n"
        ))
    };
    parse(31).unwrap();
    assert!(parse(30).unwrap_err().cause.contains("network's own"));
}

/// What a tunnel cannot have is told where it stands, with the key.
#[test]
fn what_a_tunnel_cannot_have_is_told_at_its_key() {
    for (key, cause, fix) in [
        ("gre_checksum = true", "no GRE checksum", "leave gre_checksum out"),
        ("qos_flow = 3", "no flow identifier", "leave qos_flow out"),
        ("segments = [\"2001:db8::9\"]", "no segments", "leave segments out"),
        ("service = { path = 7, index = 9 }", "no network service header", "leave service out"),
        ("identifier = 16777216", "below 2^24", "write identifier = a number below 2^24"),
        ("local = \"2001:db8::1\"", "both be IPv4", "write an address of the same version of IP, or none"),
    ] {
        // In the entry, and for the whole network.
        let column = key.find('=').unwrap() + if key.contains("= \"") { 4 } else { 3 };
        let error = changed("ttl = 9", key);
        assert_eq!((error.line, error.column, error.fix.as_str()), (24, column, fix), "{error:?}");
        assert!(error.cause.contains(cause), "{error:?}");
        if !key.starts_with("identifier") {
            let error = changed("dscp = \"inherit\"", key);
            assert_eq!((error.line, error.column, error.fix.as_str()), (18, column, fix), "{error:?}");
        }
    }
    let error = changed("remote = \"2001:db8::2\"", "remote = \"2001:db8::2\"\nudp_checksum = true");
    assert_eq!((error.fix.as_str(), error.line), ("leave udp_checksum out", 34), "{error:?}");
    let service = "service = { path = 7, index = 0 }";
    assert_eq!(changed("ttl = 9", service).cause, "0 is not possible here");
}

/// GRE's key is one number or two, and nothing says which.
#[test]
fn tunnels_that_cannot_be_told_apart_have_their_place() {
    let head = GOOD.split("[[network]]").next().unwrap();
    let network = |number: u32, protocol: &str, more: &str| {
        format!("[[network]]\nnumber = {number}\nprotocol = \"{protocol}\"\nflood = [\"192.0.2.9\"]\n{more}")
    };
    let error = refused(&format!("{head}{}{}", network(5, "nvgre", ""), network(6, "gretap", "")));
    assert_eq!((error.line, error.column), (21, 11), "{error:?}");
    assert!(error.cause.contains("those of nvgre, which network 5 has"), "{error:?}");
    assert!(error.fix.contains("local"), "{error:?}");
    vtep::Config::parse(&format!("{head}{}{}", network(5, "nvgre", ""), network(6, "vxlan", ""))).unwrap();
}
