//! Tunnel endpoints: the demo's verdict and accounts, and configurations that are refused.

use crate::common::{names, run};

/// What a demo printed that passed.
fn demo(options: &str) -> serde_json::Value {
    let place = tempfile::tempdir().expect("a directory");
    let done = run(place.path(), &format!("overlay demo --duration 300ms --rate 20k --json {options}"));
    assert_eq!(done.code(), Some(0), "{options}: {done:#?}");
    let json = done.json();
    assert_eq!(json["verdict"]["passed"], true, "{options}: {json:#}");
    for direction in json["directions"].as_array().expect("a list") {
        assert_eq!(direction["balanced"], true, "{options}: {direction:#}");
        assert_eq!(direction["wrong"], 0, "{options}: {direction:#}");
        assert!(direction["delivered"].as_u64().expect("a number") > 100, "{options}: {direction:#}");
        // Each endpoint has asked for the other.
        assert!(direction["resolution"].as_u64().expect("a number") >= 1, "{options}: {direction:#}");
    }
    assert_eq!(names(place.path()), Vec::<String>::new());
    json
}

#[test]
fn the_demo_carries_frames_through_every_tunnel() {
    for protocol in ["vxlan", "vxlan-gpe", "geneve", "nvgre", "gretap"] {
        demo(&format!("--protocol {protocol}"));
    }
}

#[test]
fn the_demo_carries_packets_through_every_tunnel() {
    for protocol in ["ipip", "gre", "gtpu", "mpls-gre", "mpls-udp", "lisp", "srv6"] {
        demo(&format!("--protocol {protocol}"));
    }
}

#[test]
fn the_demo_goes_over_ipv6_by_neighbour_discovery() {
    demo("--ipv6");
    demo("--ipv6 --protocol gre --size imix");
}
