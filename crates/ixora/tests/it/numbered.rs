//! FastClick's configurations: DPDK's numbers of ports, and DPDK's options.

use std::process::Command;

use serde_json::Value;

use crate::common::{IXORA, output};

/// What a run of `ixora click` writes as JSON, and its standard error.
fn click(arguments: &[&str]) -> (Value, String) {
    let out = output(Command::new(IXORA).arg("click").args(arguments));
    let errors = String::from_utf8_lossy(&out.stderr).into_owned();
    (serde_json::from_slice(&out.stdout).unwrap_or_default(), errors)
}

const BOUNCE: &str = "FromDPDKDevice(0, RETA_SIZE 128) -> c :: Counter -> ToDPDKDevice(1, MAXQUEUES 4);";
const SOURCE: &str = "model:82599,wire=gen:rate=20k";
const SINK: &str = "model:82599,wire=sink";

#[test]
fn a_number_is_the_port_that_an_option_names() {
    let text = format!("{BOUNCE} Script(wait 500ms, stop)");
    let ports = [format!("--port=0={SOURCE}"), format!("--port=1={SINK}")];
    let (all, errors) = click(&["-w", "--json", &ports[0], &ports[1], "-e", &text]);
    assert_eq!(
        (&all["ports"][0]["name"], &all["ports"][1]["name"]),
        (&SOURCE.into(), &SINK.into()),
        "{errors}"
    );
    assert!(all["account"]["sent"].as_u64().is_some_and(|sent| sent > 100), "{all:#}");
}

#[test]
fn two_elements_take_queues_of_one_port() {
    let text = "FromDPDKDevice(0, QUEUE 0) -> a :: Counter -> Discard;
        FromDPDKDevice(0, QUEUE 1) -> b :: Counter -> Discard; Script(wait 500ms, stop)";
    let port = "--port=0=model:82599,wire=gen:rate=20k,flows=64";
    let (all, errors) = click(&["-w", "--json", port, "-e", text, "-h", "a.count", "-h", "b.count"]);
    let counted = ["a.count", "b.count"].map(|name| {
        let value = all["handlers"][name].as_str().unwrap_or_default();
        value.trim().parse::<u64>().unwrap_or_default()
    });
    // Which flow comes to which queue is the port's choice: both get their part.
    assert!(counted.iter().all(|count| *count > 100), "{counted:?}: {errors}: {all:#}");
    let twice = text.replace("QUEUE 1", "QUEUE 0");
    let (_, errors) = click(&["-w", "--json", port, "-e", &twice]);
    assert!(errors.contains("another element receives from these queues"), "{errors}");
}

#[test]
fn options_of_dpdk_say_which_ports_and_threads_there_are() {
    let dpdk = ["--dpdk", "-l", "0-1", "-n", "4", "-a", SOURCE, "--vdev", SINK, "--"];
    let plan = |front: &[&str]| click(&[front, &dpdk, &["--explain", "--json", "-e", BOUNCE]].concat());
    for front in [&[][..], &["--compat"]] {
        let (plan, errors) = plan(front);
        let ports: Vec<&str> = plan["ports"].as_object().expect("ports").keys().map(String::as_str).collect();
        assert_eq!((ports, &plan["threads"]), (vec![SOURCE, SINK], &2.into()), "{errors}");
        assert!(errors.contains("--dpdk: note: -n means nothing here\n"), "{errors}");
    }
}

#[test]
fn a_number_that_nothing_names_is_an_error_that_tells_the_option() {
    let (all, _) = click(&["--check", "--json", "--port", "0=model:82599", "-e", BOUNCE]);
    let problems = all["problems"].as_array().expect("a list");
    let error = problems.iter().find(|problem| problem["severity"] == "error").expect("an error");
    let message = error["message"].as_str().expect("a message");
    assert!(message.contains("'1' is a number of DPDK's") && message.contains("--port 1="), "{message}");
    let (_, errors) = click(&["--port", "0=tap:a", "--dpdk", "-a", "tap:b", "--", "-e", BOUNCE]);
    assert!(errors.contains("packet port 0 is given twice"), "{errors}");
}

#[test]
fn what_is_no_place_to_listen_at_is_told_as_the_options_own_error() {
    let refused = |option: &str| {
        let out = output(Command::new(IXORA).args(["click", option, "-e", "Idle -> Discard"]));
        assert!(!out.status.success(), "{option}");
        let errors = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(!errors.contains("ControlSocket") && !errors.contains("Metrics ::"), "{errors}");
        errors
    };
    let named = refused("--port=p0=model:82599");
    assert!(named.contains("'p0' is no number") && named.contains("0=model:82599"), "{named}");
    assert!(named.contains("FromDevice(\"model:82599\")"), "{named}");
    for (empty, number) in [("--port=2=", 2), ("--port=p0=", 0)] {
        let named = refused(empty);
        assert!(named.contains("no packet port stands behind '='"), "{named}");
        assert!(named.contains(&format!("write {number}=af_xdp:eth1")), "{named}");
    }
    for wrong in ["--port=", "--port=eth0", "--port=10.0.0.1:", "--port=70000", "--port=:7"] {
        let errors = refused(wrong);
        assert!(errors.contains("expected a TCP port") || errors.contains("a value is required"), "{errors}");
    }
    for wrong in ["--metrics=p0", "--metrics=70000", "--metrics=10.0.0.1:x", "--metrics=9464+"] {
        assert!(refused(wrong).contains("expected a TCP port to listen at"), "{wrong}");
    }
}

#[test]
fn what_is_wrong_with_a_place_to_listen_at_is_told_with_the_option() {
    for option in ["--port=nobody:7", "--metrics=nobody:7"] {
        let out = output(Command::new(IXORA).args(["click", option, "-e", "Idle -> Discard"]));
        let errors = String::from_utf8_lossy(&out.stderr).into_owned();
        let (name, _) = option.split_once('=').expect("both");
        assert!(!out.status.success() && errors.contains(name), "{errors}");
        assert!(errors.contains("nobody:7"), "{errors}");
    }
    // The place is optional, so a word of its own behind it is the configuration's file.
    for place in ["9464", "127.0.0.1:9464"] {
        let out = output(Command::new(IXORA).args(["click", "--metrics", place, "-e", "Idle -> Discard"]));
        let errors = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(errors.contains(&format!("write --metrics={place} to serve counters there")), "{errors}");
    }
}

/// Hexadecimal digits, without what stands between them.
fn digits(text: &str) -> String {
    text.chars().filter(char::is_ascii_hexdigit).collect::<String>().to_lowercase()
}

/// The address is the port's own, which is known when it is open; elements are made before.
#[test]
fn a_ports_address_is_known_by_its_name() {
    let text = "InfiniteSource(DATA abcd, LIMIT 1) -> EtherEncap(0x0800, me, 0:eth) -> Print(x) -> Discard;
        p0 :: FromDPDKDevice(0) -> Discard; AddressInfo(me p0); Script(wait 200ms, stop)";
    let port = format!("--port=0={SINK}");
    let (all, errors) = click(&["-w", "--json", &port, "-e", text, "-h", "p0.mac"]);
    let mac = digits(all["handlers"]["p0.mac"].as_str().unwrap_or_default());
    assert!(mac.len() == 12 && mac != "020000000000", "{all:#}: {errors}");
    let printed = errors.split_once("| ").map(|(_, packet)| digits(packet)).unwrap_or_default();
    assert!(printed.starts_with(&format!("{mac}{mac}0800")), "{mac}: {errors}");
    let (all, _) = click(&["--check", "--json", &port, "-e", text]);
    let about = format!("the address of {SINK} is known when the port is open");
    let problems = all["problems"].as_array().expect("a list");
    let notes = problems.iter().filter(|problem| problem["message"] == about.as_str());
    assert_eq!((notes.count(), &all["errors"]), (2, &0.into()), "{all:#}");
}
