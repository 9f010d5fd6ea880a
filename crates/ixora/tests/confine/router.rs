//! Routers give up what others give up, and keep what their elements said that they need.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use super::{NOBODY, assert_confined, expected_user, is_root, refused, status, threads, until_confined};
use crate::common::{IXORA, Running, names, start_command, until};

/// How long an answer may take.
const LIMIT: Option<Duration> = Some(Duration::from_secs(60));

/// What is asked through `-u` in a folder, and what is answered.
fn ask(place: &Path, request: &str) -> String {
    let mut stream = UnixStream::connect(place.join("control")).expect("a control socket");
    stream.set_read_timeout(LIMIT).expect("a limit");
    write!(stream, "{request}\r\nQUIT\r\n").expect("it is listened to");
    let mut all = String::new();
    stream.read_to_string(&mut all).expect("an answer");
    all
}

/// A router with a control socket in a folder; its words are split at `|`.
fn router(place: &Path, words: &str) -> Running {
    let mut command = Command::new(IXORA);
    command.arg("click").arg("-u").arg(place.join("control")).args(words.split('|'));
    let running = start_command(command.env_remove("SUDO_UID"), place);
    until_confined(running.id());
    running
}

/// A folder that whoever a router becomes may write to.
fn folder() -> tempfile::TempDir {
    let place = tempfile::tempdir().expect("a folder");
    if is_root() {
        chown(place.path(), Some(NOBODY), Some(NOBODY)).expect("root may");
    }
    place
}

fn end(router: Running, place: &Path) -> crate::common::Done {
    assert!(ask(place, "WRITE stop").contains("200 Write handler 'stop' OK"));
    let done = router.wait(20);
    assert_eq!(done.code(), Some(0), "{done:#?}");
    done
}

/// What a thread of a process is answered that opens a file, or makes a socket: 0, or an
/// error's number; `None` where nobody may look into others.
fn answer(process: u32, what: &str) -> Option<i64> {
    refused::try_one(process, what).map(|answer| answer.min(0))
}

pub const EPERM: Option<i64> = Some(-(libc::EPERM as i64));
pub const EACCES: Option<i64> = Some(-(libc::EACCES as i64));

/// Whether what was tried came out so, where it could be tried.
pub fn assert_answer(process: u32, what: &str, expected: Option<i64>) {
    let answer = answer(process, what);
    assert!(answer.is_none() || answer == expected, "{what}: {answer:?}, not {expected:?}");
}

#[test]
fn a_router_works_on_with_nothing_left_to_abuse() {
    let place = folder();
    let config = "FromDevice(\"model:82599,wire=gen:rate=5k\") -> c :: Counter -> Queue \
        -> ToDevice(\"model:82599,wire=sink\"); RatedSource(RATE 100) -> Discard";
    let running = router(place.path(), &format!("-j|2|-p|0|-e|{config}"));
    let process = running.id();
    assert!(threads(process).len() >= 4, "two lanes, one that watches, one that steps models");
    assert_confined(process, expected_user());
    refused::try_all(process);
    let count = || ask(place.path(), "READ c.count");
    let before = count();
    until("packets", || count() != before);
    let port = ask(place.path(), "READ click_driver@@ControlSocket.port");
    let port = port.lines().find_map(|line| line.strip_suffix("200 Goodbye!")).unwrap_or("").to_string();
    let client = TcpStream::connect(format!("127.0.0.1:{port}")).expect("a port");
    client.set_read_timeout(LIMIT).expect("a limit");
    let mut line = String::new();
    BufReader::new(client).read_line(&mut line).expect("a greeting");
    assert_eq!(line, "Click::ControlSocket/1.3\r\n", "users are told apart all the same");
    let done = end(running, place.path());
    assert!(!done.stderr.contains("not confined"), "there is nothing to tell: {}", done.stderr);
    assert_eq!(names(place.path()), Vec::<String>::new(), "the socket is removed by who still may");
}

#[test]
fn what_a_killed_router_leaves_is_removed() {
    let place = folder();
    let running = router(place.path(), "-e|RatedSource -> Discard");
    assert_eq!(names(place.path()), ["control"]);
    running.signal(Signal::KILL);
    assert_eq!(running.wait(10).code(), None);
    until("end of the socket", || names(place.path()).is_empty());
}

/// Each flow has a file of its own, made when its first packets come.
#[test]
fn files_that_are_named_are_written_and_no_others() {
    let place = folder();
    let files = place.path().join("flows");
    let config = format!(
        "s :: FastUDPSource(100, -1, 60, 1:1:1:1:1:1, 10.0.0.1, 1000, 2:2:2:2:2:2, 10.0.0.2, 2000, 0) -> Strip(14)
            -> CheckIPHeader -> af :: AggregateIPFlows -> d :: ToIPFlowDumps({}/flow%n, NOTIFIER af) -> Discard",
        files.display()
    );
    let running = router(place.path(), &format!("-e|{config}"));
    let process = running.id();
    assert_confined(process, expected_user());
    // By landlock, which knows names; without it the user's own files are left.
    if runtime::confine::landlock_version().is_some() {
        assert_answer(process, "open a file", EACCES);
    }
    for what in ["make a TCP socket", "run a program", "make a process"] {
        assert_answer(process, what, EPERM);
    }
    until("a flow", || ask(place.path(), "READ d.nflows").contains("DATA 1\r\n1"));
    let done = end(running, place.path());
    assert_eq!(names(&files).len(), 1, "{done:#?}");
}

#[test]
fn a_script_opens_the_files_it_names() {
    let place = folder();
    let file = place.path().join("said");
    let config = format!(
        "s :: Script(TYPE PASSIVE, print >{} \"hello\", return $(cat {})); RatedSource -> c :: Counter -> Discard",
        file.display(),
        file.display()
    );
    let running = router(place.path(), &format!("-e|{config}"));
    assert_confined(running.id(), expected_user());
    if runtime::confine::landlock_version().is_some() {
        assert_answer(running.id(), "open a file", EACCES);
    }
    assert!(ask(place.path(), "READ s.run").contains("hello"));
    let done = end(running, place.path());
    assert!(!done.stderr.contains("not confined"), "{}", done.stderr);
    assert_eq!(std::fs::read_to_string(file).expect("it was written"), "hello\n");
}

/// Names that are known only when a handler is written: that is told.
#[test]
fn who_opens_any_file_says_so() {
    let place = folder();
    let (file, counts) = (place.path().join("said"), place.path().join("counts"));
    std::fs::write(&file, "hello").expect("a file");
    let config =
        "s :: Script(TYPE PASSIVE, return $(cat $1)); RatedSource -> ac :: AggregateCounter -> Discard";
    let running = router(place.path(), &format!("--control-files|-e|{config}"));
    assert_confined(running.id(), expected_user());
    assert_answer(running.id(), "open a file", Some(0));
    assert_answer(running.id(), "make a TCP socket", EPERM);
    assert!(ask(place.path(), &format!("READ s.run {}", file.display())).contains("hello"));
    let said = ask(place.path(), &format!("WRITE ac.write_text_file {}", counts.display()));
    assert!(said.contains("200 Write handler"), "{said}");
    let done = end(running, place.path());
    for who in ["s :: Script", "ac :: AggregateCounter"] {
        assert!(done.stderr.contains(who), "{}", done.stderr);
    }
    assert!(counts.exists());
    // And one who does not may not, whatever a handler is written with.
    let config = "c :: Counter; RatedSource -> ac :: AggregateCounter -> c -> Discard";
    let running = router(place.path(), &format!("-e|{config}"));
    assert_answer(running.id(), "open a file", EPERM);
    let said = ask(place.path(), &format!("WRITE ac.write_text_file {}", file.display()));
    assert!(said.contains("530 Permission denied"), "{said}");
    end(running, place.path());
}

#[test]
fn a_server_takes_clients_and_makes_no_socket() {
    let place = folder();
    let socket = place.path().join("packets");
    let config = format!("Socket(UNIX, {}) -> c :: Counter -> Discard", socket.display());
    let running = router(place.path(), &format!("-e|{config}"));
    assert_confined(running.id(), expected_user());
    refused::try_all(running.id());
    let mut client = UnixStream::connect(&socket).expect("it listens");
    client.write_all(b"hello").expect("it is connected");
    until("a packet", || ask(place.path(), "READ c.count").contains("DATA 1\r\n1"));
    end(running, place.path());
    assert_eq!(names(place.path()), Vec::<String>::new());
}

#[test]
fn a_new_configuration_has_what_is_left() {
    let place = folder();
    let running = router(place.path(), "-R|-e|RatedSource(RATE 100) -> c :: Counter -> Discard");
    let process = running.id();
    if is_root() {
        assert_eq!(status(process, process)["Uid"], [NOBODY.to_string().as_str(); 4].join("\t"));
    }
    for what in ["run a program", "trace a process", "make a user namespace", "run a program by x32"] {
        assert_answer(process, what, EPERM);
    }
    for (config, who) in [
        ("tun :: KernelTun(10.9.9.1/24); tun -> Discard", "tun :: KernelTun"),
        ("RatedSource -> d :: ToDump(x.pcap.gz)", "d :: ToDump"),
    ] {
        let said = ask(place.path(), &format!("WRITE hotconfig {config}"));
        assert!(said.contains(who) && said.contains("--no-confine"), "{config}: {said}");
        assert!(!said.contains("ports:") && !said.contains("start it with this"), "{config}: {said}");
    }
    let file = place.path().join("dump");
    let next = format!("RatedSource(RATE 100) -> n :: Counter -> ToDump({})", file.display());
    let said = ask(place.path(), &format!("WRITE hotconfig {next}"));
    assert!(said.contains("200 Write handler"), "{said}");
    until("the new one", || ask(place.path(), "READ n.class").contains("Counter"));
    assert_eq!(status(process, process)["Seccomp"], "2", "still");
    let done = end(running, place.path());
    assert!(done.stderr.contains("-R: a new configuration may open any file"), "{}", done.stderr);
    assert!(file.exists());
}

/// A packed file goes on in the configuration that has the same element, and no other program is
/// started for it.
#[test]
fn a_program_that_runs_is_taken_over_by_the_next_configuration() {
    let place = folder();
    let file = place.path().join("dump.pcap.gz");
    let config = |more: &str| {
        let source = "RatedSource(RATE 1000) -> UDPIPEncap(1.0.0.1, 1, 2.0.0.2, 2)";
        format!("{source} -> d :: ToDump({}, ENCAP IP{more});", file.display())
    };
    let running = router(place.path(), &format!("-R|-e|{}", config("")));
    let count = || {
        let said = ask(place.path(), "READ d.count");
        let data = said.split_once("DATA ").and_then(|(_, data)| data.split_once("\r\n"));
        let (length, data) = data.expect("a count");
        data[..length.parse().expect("a length")].parse::<u64>().expect("a number")
    };
    until("packets", || count() > 100);
    for _ in 0..2 {
        let before = count();
        let said = ask(place.path(), &format!("WRITE hotconfig {}", config("")));
        assert!(said.contains("200 Write handler"), "{said}");
        until("more packets", || count() > before + 100);
    }
    let said = ask(place.path(), &format!("WRITE hotconfig {}", config(", SNAPLEN 9")));
    assert!(said.contains("520") && said.contains("d :: ToDump"), "another configuration: {said}");
    assert!(said.contains("taken over by the same name and configuration"), "{said}");
    let done = end(running, place.path());
    assert!(!done.stderr.contains("ToDump("), "{done:#?}");
    let read = Command::new("gzip").arg("-dc").arg(&file).output().expect("gzip runs");
    assert!(read.status.success(), "the file is whole");
    let (packet, header) = (16 + 28 + 69, 24);
    assert_eq!((read.stdout.len() - header) % packet, 0, "whole packets, one header");
    assert!(read.stdout.len() > header + 300 * packet, "{} bytes", read.stdout.len());
}

/// What packets begin with may be other than before there, so that the file could not go on.
#[test]
fn no_program_is_taken_over_where_other_elements_say_what_packets_begin_with() {
    let place = folder();
    let [from, to] = ["in.pcap", "out.pcap.gz"].map(|name| place.path().join(name));
    let header = [0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0];
    std::fs::write(&from, header).expect("it can be written");
    let dump = format!("d :: ToDump({}, USE_ENCAP_FROM f)", to.display());
    let config = format!("f :: FromDump({}) -> {dump};", from.display());
    let running = router(place.path(), &format!("-R|-e|{config}"));
    let said = ask(place.path(), &format!("WRITE hotconfig {config}"));
    assert!(said.contains("520") && said.contains("d :: ToDump"), "{said}");
    end(running, place.path());
}

/// Who started as root is told why a file is denied to its new configurations, and what to do.
#[test]
fn a_new_configuration_that_is_denied_a_file_is_told_who_it_is() {
    if !is_root() {
        return println!("passed over: only root becomes somebody else");
    }
    let (place, roots) = (folder(), tempfile::tempdir().expect("a folder of root's"));
    let running = router(place.path(), "-R|-e|RatedSource(RATE 100) -> c :: Counter -> Discard");
    let next = format!("RatedSource -> ToDump({})", roots.path().join("dump").display());
    let said = ask(place.path(), &format!("WRITE hotconfig {next}"));
    let why = format!("became user {NOBODY} when it started, who may not use {}:", roots.path().display());
    assert!(said.contains("520") && said.contains(&why) && said.contains("--no-confine"), "{said}");
    end(running, place.path());
}

/// A process that takes new configurations may still ask the system for names.
#[test]
fn a_new_configuration_may_name_interfaces_and_services() {
    let place = folder();
    let running = router(place.path(), "-R|-e|RatedSource(RATE 100) -> c :: Counter -> Discard");
    let listed = |file, name| std::fs::read_to_string(file).is_ok_and(|text: String| text.contains(name));
    let filters =
        [("/etc/protocols", "xns-idp", "ip proto xns-idp"), ("/etc/services", "nbd", "dst tcp port nbd")];
    let known = filters.iter().filter(|(file, name, _)| listed(*file, *name));
    let filter: String = known.map(|(_, _, what)| format!("IPFilter(allow {what}) -> ")).collect();
    let next = format!(
        "RatedSource(RATE 100) -> SetIPAddress(lo) -> MarkIPHeader -> n :: Counter -> {filter} Discard"
    );
    let said = ask(place.path(), &format!("WRITE hotconfig {next}"));
    assert!(said.contains("200 Write handler"), "{said}");
    until("the new one", || ask(place.path(), "READ n.class").contains("Counter"));
    end(running, place.path());
}

#[test]
fn who_called_sudo_has_the_socket() {
    if !is_root() {
        return println!("passed over: only root becomes somebody else");
    }
    let place = folder();
    let mut command = Command::new(IXORA);
    command.arg("click").arg("-u").arg(place.path().join("control")).args(["-e", "RatedSource -> Discard"]);
    let running = start_command(command.env("SUDO_UID", "1234").env("SUDO_GID", "1234"), place.path());
    assert_confined(running.id(), Some(1234));
    let socket = std::fs::metadata(place.path().join("control")).expect("a socket");
    assert_eq!((socket.uid(), socket.mode() & 0o777), (1234, 0o600));
    end(running, place.path());
}

/// What would fail in the middle of the night is refused in the beginning: with the privileges of
/// who may open any file, root's own are not written to.
#[test]
fn files_that_root_alone_may_write_are_refused_at_the_start() {
    if !is_root() {
        return println!("passed over: only root becomes somebody else");
    }
    let place = tempfile::tempdir().expect("a folder of root's");
    let config = format!("s :: Script(wait 1000s, print >{}/said $(cat $(s.name)))", place.path().display());
    let mut command = Command::new(IXORA);
    let done = start_command(command.args(["click", "-e", &config]), place.path()).wait(20);
    assert_eq!(done.code(), Some(1), "{done:#?}");
    for words in ["s :: Script", "writes files", "--no-confine"] {
        assert!(done.stderr.contains(words), "{words}: {}", done.stderr);
    }
}

/// Where the files are named it stays root for them, who is let to no others and may do nothing
/// that an ordinary user may not.
#[test]
fn root_stays_the_owner_of_files_that_are_named() {
    if !is_root() || runtime::confine::landlock_version().is_none_or(|version| version < 3) {
        return println!("passed over: only root, and only landlock tells its files from others");
    }
    let place = tempfile::tempdir().expect("a folder of root's");
    let file = place.path().join("said");
    let config =
        format!("s :: Script(TYPE PASSIVE, print >{} \"hello\"); RatedSource -> Discard", file.display());
    let running = router(place.path(), &format!("-e|{config}"));
    assert_confined(running.id(), None);
    assert_eq!(status(running.id(), running.id())["Uid"], ["0"; 4].join("\t"));
    assert_answer(running.id(), "open a file", EACCES);
    for what in ["make a TCP socket", "run a program", "make a process"] {
        assert_answer(running.id(), what, EPERM);
    }
    ask(place.path(), "READ s.run");
    assert_eq!(std::fs::read_to_string(&file).expect("it was written"), "hello\n");
    let done = end(running, place.path());
    assert!(done.stderr.contains("stays root, without capabilities"), "{}", done.stderr);
}

/// A port that is taken at first is had later, although sockets are given up.
#[test]
fn a_socket_that_is_tried_again_is_had_in_the_end() {
    let place = folder();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port();
    let config = format!(
        "late :: ControlSocket(TCP, {port}, RETRIES 30, RETRY_WARNINGS false); RatedSource -> Discard"
    );
    let running = router(place.path(), &format!("-e|{config}"));
    assert_confined(running.id(), expected_user());
    assert_answer(running.id(), "run a program", EPERM);
    assert_answer(running.id(), "open a file", EPERM);
    drop(taken);
    until("a listener", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    end(running, place.path());
}

/// Who started with an element that starts programs may go on so.
#[test]
fn programs_that_were_kept_are_there_for_a_new_configuration() {
    let place = folder();
    let flows = place.path().join("flow%n");
    let config = format!(
        "RatedSource(RATE 100) -> Discard; Idle -> CheckIPHeader -> AggregateIPFlows -> ToIPFlowDumps({}, GZIP true)",
        flows.display()
    );
    let running = router(place.path(), &format!("-R|-e|{config}"));
    let dump = place.path().join("dump.pcap.gz");
    let next = format!("RatedSource(RATE 100) -> n :: Counter -> ToDump({})", dump.display());
    let said = ask(place.path(), &format!("WRITE hotconfig {next}"));
    assert!(said.contains("200 Write handler"), "{said}");
    until("the new one", || ask(place.path(), "READ n.class").contains("Counter"));
    let done = end(running, place.path());
    assert!(done.stderr.contains("starts programs while it runs"), "{}", done.stderr);
    assert!(std::fs::read(dump).expect("it was written").starts_with(&[0x1F, 0x8B]));
}
