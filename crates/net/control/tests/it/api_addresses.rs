//! What the HTTP API takes as a host's address, a network's number and a parameter.

use crate::api::Rig;

/// Addresses that no other host has.
const NOBODYS: [&str; 7] =
    ["0.0.0.0", "127.0.0.1", "224.0.0.1", "255.255.255.255", "::", "::1", "::ffff:192.0.2.7"];

#[test]
fn an_end_a_far_end_and_a_peer_are_hosts() {
    let mut rig = Rig::new();
    let mut told = |path: &str, body: String| {
        let (status, told) = rig.ask("PUT", path, &body);
        (status, told["error"].as_str().unwrap_or_default().to_owned())
    };
    let network = "/v1/networks/10";
    for address in NOBODYS {
        let (status, why) = told(network, format!(r#"{{"local": "{address}"}}"#));
        assert!(status == 400 && why.contains("one host"), "{address}: {status} {why}");
    }
    assert_eq!(told(network, r#"{"local": "192.0.2.1"}"#.into()).0, 201);
    for address in NOBODYS {
        let far = format!(r#"{{"remote": "{address}"}}"#);
        let (status, why) = told("/v1/networks/10/entries/02:00:00:00:01:01", far.clone());
        assert!(status == 400 && why.contains("one host"), "{address}: {status} {why}");
        let (status, why) = told("/v1/networks/10/flood", format!(r#"{{"far_ends": [{far}]}}"#));
        assert!(status == 400 && why.contains("one host"), "{address}: {status} {why}");
        let peers = format!(r#"{{"designated": true, "peers": ["{address}"]}}"#);
        let (status, why) = told("/v1/networks/10/segment", peers);
        assert!(status == 400 && why.contains("one host"), "{address}: {status} {why}");
    }
    let own = r#"{"remote": "192.0.2.1"}"#;
    let (status, why) = told("/v1/networks/10/entries/02:00:00:00:01:01", own.into());
    assert!(status == 400 && why.contains("no far end"), "{status} {why}");
}

#[test]
fn a_network_has_one_path_and_a_parameter_is_known() {
    let mut rig = Rig::new();
    for number in ["+5", "05", "5 ", "-5", "0x5"] {
        let (status, _) = rig.ask("GET", &format!("/v1/networks/{}", number.replace(' ', "%20")), "");
        assert_eq!(status, 400, "{number}");
    }
    assert_eq!(rig.ask("GET", "/v1/networks/5", "").0, 404);
    for path in ["/v1/claims?ownr=api", "/v1/claims?owner=api&x=1", "/v1/status?x", "/v1/networks/5?a=b"] {
        let (status, told) = rig.ask("GET", path, "");
        assert!(status == 400 && told["error"].as_str().unwrap().contains("no parameter"), "{path}: {told}");
    }
    assert_eq!(rig.ask("GET", "/v1/claims?owner=api", "").0, 200);
    // Of a path that is not there, or is read only, that is said first.
    assert_eq!(rig.ask("GET", "/nothing?x", "").0, 404);
    assert_eq!(rig.ask("PUT", "/v1/status?x", "{}").0, 405);
}
