//! What ports of a router count and lose: in metrics, in `top`, and when it stops.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::common::{Done, IXORA, output, start_command, until};

/// A NIC without room for what comes, and a queue without room for what it gives.
const OVERLOADED: &str = "FromDevice(\"model:82599,wire=gen:rate=20M,flows=64\") -> q :: Queue(40)
    -> u :: RatedUnqueue(1000) -> Strip(14) -> Unstrip(14) -> ToDevice(\"model:82599,wire=sink\")";

/// Runs a router until it stops by itself.
fn router(place: &Path, text: &str, more: &[&str]) -> Done {
    let mut command = Command::new(IXORA);
    start_command(command.args(["click", "-e", text]).args(more), place).wait(30)
}

/// A connection to a control socket, which is there a moment before it is listened at.
fn control(socket: &Path) -> UnixStream {
    let mut stream = None;
    until("control socket", || {
        stream = UnixStream::connect(socket).ok();
        stream.is_some()
    });
    stream.expect("it was waited for")
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn each_packet_of_an_overloaded_router_has_its_line() {
    let place = tempfile::tempdir().expect("a directory");
    let text = format!("{OVERLOADED}; Script(wait 700ms, stop)");
    let done = router(place.path(), &text, &["--json", "-w", "-h", "q.drops"]);
    assert_eq!(done.code(), Some(0), "{done:#?}");
    let all = done.json();
    let (port, account) = (&all["ports"][0], &all["account"]);
    let losses = port["losses"].as_object().expect("losses");
    assert!(losses.values().map(number).sum::<u64>() > 0, "{all:#}");
    assert_eq!(port["counters"]["RXMPC"], port["losses"]["rx_fifo_full"]);
    assert_eq!(account["received"], port["rx_queues"][0]["packets"]);
    assert_eq!(account["sent"], all["ports"][1]["tx_queues"][0]["packets"]);
    let dropped = &account["dropped"][0];
    assert_eq!((&dropped["element"], &dropped["reason"]), (&"q".into(), &"queue full".into()), "{all:#}");
    assert_eq!(all["handlers"]["q.drops"], format!("{}\n", dropped["packets"]));
    assert!(number(&account["held"]) > 0 && number(&account["sent"]) > 100, "{all:#}");
    // Packets that nothing makes and nothing ends are all somewhere.
    assert_eq!((&account["balanced"], &account["missing"]), (&true.into(), &0.into()), "{all:#}");
    let known = [&account["sent"], &dropped["packets"], &account["held"]].map(number);
    assert_eq!(number(&account["received"]), known.iter().sum::<u64>());
}

/// Standard output is one JSON document, whatever a script prints.
#[test]
fn what_a_script_prints_is_not_in_the_json() {
    let place = tempfile::tempdir().expect("a directory");
    let text = "c :: Counter; Idle -> c -> Discard; Script(print \"said\", print c.count, stop)";
    let done = router(place.path(), text, &["--json", "-h", "c.count"]);
    assert_eq!((done.code(), &done.json()["handlers"]["c.count"]), (Some(0), &"0\n".into()), "{done:#?}");
    assert!(done.stderr.contains("said\n"), "{done:#?}");
    let plain = router(place.path(), text, &["-h", "c.count"]);
    assert!(plain.stdout.starts_with("said\n"), "{plain:#?}");
}

/// Elements that make and end packets count them, so that a loss is found all the same.
#[test]
fn an_account_knows_what_elements_make_and_end() {
    let place = tempfile::tempdir().expect("a directory");
    let text = "FromDevice(\"model:82599,wire=gen:rate=20k\") -> t :: Tee -> d :: Discard;
        t[1] -> q :: Queue(40) -> i :: Idle;
        s :: InfiniteSource(LENGTH 60, LIMIT 100) -> UDPIPEncap(10.0.0.1, 1, 10.0.0.2, 2)
        -> a :: ARPQuerier(10.0.0.1, 2:0:0:0:0:1, TABLE n) -> Discard; n :: ARPTable;
        b :: ARPQuerier(10.0.0.1, 2:0:0:0:0:1, TABLE n) -> Discard; Idle -> b; Idle -> [1] a; Idle -> [1] b;
        Script(wait 700ms, stop)";
    let done = router(place.path(), text, &["--json", "-w", "-h", "d.count"]);
    assert_eq!(done.code(), Some(0), "{done:#?}");
    let all = done.json();
    let account = &all["account"];
    assert_eq!((&account["balanced"], &account["missing"]), (&true.into(), &0.into()), "{all:#}");
    let of = |list: &str, element: &str| {
        let parts = account[list].as_array().expect("a list").iter();
        parts.filter(|part| part["element"] == element).map(|part| number(&part["packets"])).sum::<u64>()
    };
    assert_eq!((of("made", "s"), of("made", "t")), (100, number(&account["received"])), "{all:#}");
    assert!(number(&account["received"]) > 0 && of("made", "a") > 0, "{all:#}");
    assert_eq!(all["handlers"]["d.count"], format!("{}\n", of("ended", "d")));
}

/// Packets are counted where they are pulled, too, and where they are scheduled, shaped and delayed.
#[test]
fn an_account_knows_packets_that_are_pulled() {
    let place = tempfile::tempdir().expect("a directory");
    let text = "FromDevice(\"model:82599,wire=gen:rate=20k\") -> q :: Queue(400) -> [0] s :: RoundRobinSched
        -> DelayShaper(2ms) -> Shaper(8000) -> DelayUnqueue(1ms) -> Queue(100) -> LinkUnqueue(3ms, 1Gbps)
        -> RandomSample(0.9) -> d :: Discard;
        InfiniteSource(LENGTH 60, LIMIT 50) -> Queue -> [1] s; Script(wait 700ms, stop)";
    let done = router(place.path(), text, &["--json", "-w", "-h", "d.count"]);
    assert_eq!(done.code(), Some(0), "{done:#?}");
    let all = done.json();
    let account = &all["account"];
    assert_eq!((&account["balanced"], &account["missing"]), (&true.into(), &0.into()), "{all:#}");
    assert!(account["unknown"].as_array().is_some_and(Vec::is_empty), "{all:#}");
    let dropped = account["dropped"].as_array().expect("a list");
    assert!(number(&account["held"]) > 0 && dropped.len() > 1, "{all:#}");
}

/// What routers counted and dropped that came before is part of the account.
#[test]
fn an_account_has_what_routers_before_counted() {
    let place = tempfile::tempdir().expect("a directory");
    let (socket, next) =
        (place.path().join("control"), "FromDevice(\"model:82599,wire=gen:rate=20k\") -> f :: Discard");
    let first =
        next.replace("-> f :: Discard", "-> e :: Tee -> d :: Discard; e[1] -> q :: Queue(40) -> Idle");
    let mut command = Command::new(IXORA);
    command.args(["click", "-R", "--json", "-w", "-e", &first, "-u"]).arg(&socket);
    let running = start_command(&mut command, place.path());
    let mut control = control(&socket);
    control.set_read_timeout(Some(Duration::from_secs(20))).expect("a limit");
    let mut answer = BufReader::new(control.try_clone().expect("a socket"));
    let mut count = |handler: &str| {
        control.write_all(format!("READ {handler}\r\n").as_bytes()).expect("sent");
        let mut line = String::new();
        loop {
            line.clear();
            answer.read_line(&mut line).expect("an answer");
            if let Some(length) = line.strip_prefix("DATA ") {
                let mut data = vec![0; length.trim().parse().expect("a length")];
                answer.read_exact(&mut data).expect("data");
                return String::from_utf8_lossy(&data).trim().parse::<u64>().expect("a number");
            }
            if line.starts_with('5') {
                return 0; // of the other configuration
            }
        }
    };
    until("packets that wait and are dropped", || count("q.drops") > 0);
    let mut writer = UnixStream::connect(&socket).expect("a control socket");
    writer.write_all(format!("WRITE hotconfig {next}\r\n").as_bytes()).expect("sent");
    until("packets of the next configuration", || count("f.count") > 0);
    running.signal(Signal::INT);
    let done = running.wait(30);
    assert_eq!(done.code(), Some(0), "{done:#?}");
    let all = done.json();
    let account = &all["account"];
    assert_eq!((&account["balanced"], &account["missing"]), (&true.into(), &0.into()), "{all:#}");
    let dropped = account["dropped"].as_array().expect("a list");
    let reason = |reason: &str| dropped.iter().any(|d| d["element"] == "q" && d["reason"] == reason);
    assert!(reason("queue full") && reason("not taken over by the new configuration"), "{all:#}");
    let ended = account["ended"].as_array().expect("a list").iter().map(|part| part["element"].clone());
    assert_eq!(ended.collect::<Vec<_>>(), ["d", "f"], "{all:#}");
}

#[test]
fn a_router_that_was_interrupted_says_what_became_of_its_packets() {
    let place = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(IXORA);
    let text = "FromDevice(\"model:82599,wire=gen:rate=20k\") -> c :: Counter -> Discard";
    let running =
        start_command(command.args(["click", "-j", "2", "-h", "c.count", "-e", text]), place.path());
    std::thread::sleep(Duration::from_millis(800));
    running.signal(Signal::INT);
    let done = running.wait(15);
    assert_eq!(done.code(), Some(0), "{done:#?}");
    let count = done.stdout.trim();
    assert!(count.parse::<u64>().is_ok_and(|count| count > 0), "handlers alone are on standard output");
    let account = format!("received {count} packets = sent 0 + held 0 + ended by Discard@3 {count}\n");
    assert!(done.stderr.ends_with(&account), "{done:#?}");
    assert!(done.stderr.contains("(ixgbe, ") && done.stderr.contains("GPRC "), "{done:#?}");
    let compat = router(place.path(), &format!("{text}; Script(wait 200ms, stop)"), &["--compat"]);
    assert_eq!((compat.stdout.as_str(), compat.stderr.as_str()), ("", ""), "Click says nothing of ports");
}

/// A router without ports has an account, too; it is told where packets were lost.
#[test]
fn a_router_without_ports_says_what_became_of_its_packets() {
    let place = tempfile::tempdir().expect("a directory");
    let text =
        "s :: InfiniteSource(LIMIT 50, BURST 5) -> t :: Tee -> d :: Discard; t[1] -> q :: Queue(20) -> Idle;
        Script(wait 500ms, stop)";
    let done = router(place.path(), text, &["--json", "-h", "s.drops"]);
    assert_eq!(done.code(), Some(0), "{done:#?}");
    let all = done.json();
    let account = &all["account"];
    assert_eq!(
        (&account["balanced"], &account["held"], &all["ports"]),
        (&true.into(), &20.into(), &json!([]))
    );
    let part = |element: &str, packets: u64| json!([{ "element": element, "packets": packets }]);
    assert_eq!(account["ended"], part("d", 50), "{all:#}");
    assert_eq!(account["dropped"], json!([{ "element": "q", "reason": "queue full", "packets": 30 }]));
    assert_eq!(all["handlers"]["s.drops"], "0\n");
    let told = router(place.path(), text, &["-h", "q.drops"]);
    let line = "made by s 50 + made by t 50 = dropped by q (queue full) 30 + held 20 + ended by d 50\n";
    assert!(told.stdout == "30\n" && told.stderr.ends_with(line), "{told:#?}");
    let quiet = text.replace("Queue(20)", "Queue(100)");
    assert_eq!(router(place.path(), &quiet, &[]).stderr, "", "nothing was lost");
    assert_eq!(router(place.path(), text, &["--compat", "-w"]).stderr.matches("made by").count(), 0);
}

/// A limit of packet buffers that a port's receive ring alone exceeds is refused, with how many are
/// needed and by whom.
#[test]
fn too_few_buffers_for_a_ring_are_refused() {
    let place = tempfile::tempdir().expect("a directory");
    let text = "f :: FromDevice(\"model:82599,wire=gen:rate=20k\") -> c :: Counter -> Discard; Script(wait 400ms, stop)";
    let done = router(place.path(), text, &["--buffers", "300"]);
    assert_eq!(done.code(), Some(1), "{done:#?}");
    for said in ["thread 0 needs 659 packet buffers", "f :: FromDevice(", "may have 300", "--buffers 659"] {
        assert!(done.stderr.contains(said), "{said}: {done:#?}");
    }
    for fits in ["--buffers 659", "--buffers 300 --ring 64"] {
        let options: Vec<&str> = fits.split(' ').chain(["--json", "-w"]).collect();
        let done = router(place.path(), text, &options);
        assert_eq!(done.code(), Some(0), "{done:#?}");
        let account = done.json()["account"].clone();
        assert!(number(&account["received"]) > 0 && account["balanced"] == true, "{account:#}");
    }
}

#[test]
fn losses_of_a_port_are_in_metrics_and_in_top() {
    let place = tempfile::tempdir().expect("a directory");
    let socket = place.path().join("control");
    let mut command = Command::new(IXORA);
    command.args(["click", "-w", "-j", "2", "--metrics=0", "-e", OVERLOADED, "-u"]).arg(&socket);
    let _router = start_command(&mut command, place.path());
    let mut handler = control(&socket);
    let socket = socket.to_string_lossy().into_owned();
    handler.write_all(b"READ click_driver@@Metrics.port\r\nQUIT\r\n").expect("sent");
    let mut answer = String::new();
    handler.read_to_string(&mut answer).expect("an answer");
    let (_, data) = answer.split_once("DATA ").expect("data");
    let (length, data) = data.split_once("\r\n").expect("a length");
    let port: u16 = data[..length.parse().expect("a length")].parse().expect("a port");
    std::thread::sleep(Duration::from_millis(500));
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("metrics");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a limit");
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    let value = |series: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{series}: {text}")).parse::<u64>().expect("a number")
    };
    let name = "port=\"model:82599,wire=gen:rate=20M,flows=64\"";
    let lost = |reason: &str, counter: &str| {
        value(&format!("ixora_port_losses_total{{{name},reason=\"{reason}\",counter=\"{counter}\"}}"))
    };
    assert!(lost("rx_fifo_full", "RXMPC") + lost("rx_no_descriptor", "QPRDC") > 0, "{text}");
    assert_eq!(value(&format!("ixora_port_up{{{name}}}")), 1);
    assert!(value(&format!("ixora_port_counter_total{{{name},counter=\"GPRC\"}}")) > 0);
    let queues = [0, 1].map(|n| value(&format!("ixora_queue_rx_packets_total{{{name},queue=\"{n}\"}}")));
    assert!(queues.iter().sum::<u64>() > 0, "queues of both threads: {queues:?}");
    for place in [socket, format!("http://127.0.0.1:{port}")] {
        let shown =
            output(Command::new(IXORA).args(["top", &place, "--once", "--json", "--interval", "500ms"]));
        let all: Value = serde_json::from_slice(&shown.stdout).unwrap_or_else(|e| panic!("{e}: {shown:?}"));
        let port = &all["ports"][0];
        let losses = port["losses"].as_object().expect("losses").values();
        assert!(losses.filter_map(|loss| loss["per_second"].as_f64()).sum::<f64>() > 0.0, "{all:#}");
        assert!(port["rx_packets_per_second"].as_f64() > Some(0.0), "{all:#}");
        assert_eq!(port["rx_queues"].as_array().map(Vec::len), Some(2), "{all:#}");
    }
}
