//! Who must not be let do anything at a control socket: a page in a browser, which can
//! have bytes of its own sent to any port of this machine, and other users.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::Rig;
use rustix::process::Uid;

const CONFIG: &str = "cs :: ControlSocket(TCP, 0); chatter :: ChatterSocket(TCP, 0); m :: Metrics(0);
    any :: ControlSocket(TCP, 0, SAME_USER false);
    s :: Switch(0); Idle -> s -> ac :: AggregateCounter -> c :: Counter -> Discard; s[1] -> Discard";

/// The user that has nothing.
const NOBODY: u32 = 65534;

/// Runs a router while `talk` goes on with the ports of `cs`, `chatter`, `m` and `any`.
fn with_router(talk: impl FnOnce([&str; 4])) -> Rig {
    let mut rig = Rig::with_threads(CONFIG, 2).unwrap_or_else(|problems| panic!("{problems}"));
    let ports = ["cs.port", "chatter.port", "m.port", "any.port"].map(|name| rig.read(name));
    let shared = rig.router.shared();
    std::thread::scope(|scope| {
        scope.spawn(|| rig.run());
        let talk = std::panic::AssertUnwindSafe(|| talk([&ports[0], &ports[1], &ports[2], &ports[3]]));
        let told = std::panic::catch_unwind(talk);
        shared.end();
        told.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    rig
}

/// What is answered until the connection ends.
fn answer(port: &str, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).expect("a listening socket");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    let _ = stream.write_all(request); // it may have been closed already
    let mut all = vec![];
    let ended = stream.read_to_end(&mut all);
    let reset = |error: &std::io::Error| error.kind() == std::io::ErrorKind::ConnectionReset;
    assert!(ended.as_ref().map_or_else(reset, |_| true), "the connection stays: {ended:?}");
    String::from_utf8_lossy(&all).into_owned()
}

/// A line that does something that can be seen.
const DONE: &str = "WRITE s.switch 1\r\n";

/// What the router's switch says afterwards.
fn switch_after(request: &[u8]) -> String {
    let mut rig = with_router(|[cs, ..]| drop(answer(cs, request)));
    rig.read("s.switch")
}

#[test]
fn a_line_that_is_ours_is_done() {
    assert_eq!(switch_after(format!("{DONE}QUIT\r\n").as_bytes()), "1");
}

#[test]
fn what_a_page_posts_is_not_done() {
    for head in [
        "POST / HTTP/1.1\r\nHost: 127.0.0.1:7777\r\nContent-Length: 99\r\n\r\n",
        "PUT * HTTP/1.0\r\n\r\n",
        "GET handler HTTP/1.1\r\n",
        "GET /%0D%0AWRITE%20s.switch HTTP/1.1\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "POST http://127.0.0.1/\r\n",
        "Host: 127.0.0.1\r\n",
    ] {
        assert_eq!(switch_after(format!("{head}{DONE}QUIT\r\n").as_bytes()), "0", "{head:?}");
        // Behind lines that are ours as well, however they came to be there.
        assert_eq!(
            switch_after(format!("\r\nREAD c.class\r\n{head}{DONE}QUIT\r\n").as_bytes()),
            "0",
            "{head:?}"
        );
    }
}

/// The beginning of a TLS connection, in which the other end's ticket is sent back to it,
/// or to whoever has its name by then.
#[test]
fn what_stands_in_other_protocols_is_not_done() {
    let hello =
        [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03ticket\r\n", DONE.as_bytes(), b"QUIT\r\n"].concat();
    assert_eq!(switch_after(&hello), "0");
    let behind = [b"WRITEDATA c.reset 4\r\n\0\x01\n\xff", &hello[..]].concat();
    assert_eq!(switch_after(&behind), "0");
}

#[test]
fn only_the_one_who_asks_ends() {
    with_router(|[cs, chatter, metrics, _]| {
        let mut good = TcpStream::connect(format!("127.0.0.1:{cs}")).expect("a listening socket");
        answer(cs, b"POST / HTTP/1.1\r\n\r\n");
        answer(chatter, b"POST / HTTP/1.1\r\n\r\n");
        assert!(answer(metrics, b"POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
        let rebound = answer(metrics, b"GET /metrics HTTP/1.1\r\nhost: evil.example:9464\r\n\r\n");
        assert!(rebound.starts_with("HTTP/1.1 421 ") && !rebound.contains("ixora_threads"), "{rebound}");
        let two = answer(metrics, b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n");
        assert!(two.starts_with("HTTP/1.1 421 "), "{two}");
        good.write_all(b"READ c.class\r\nQUIT\r\n").expect("it is listened to");
        let mut all = String::new();
        good.read_to_string(&mut all).expect("an answer");
        assert!(all.contains("DATA 7\r\nCounter"), "{all}");
    });
}

#[test]
fn files_are_not_written_for_clients() {
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("written").display().to_string();
    with_router(|[cs, ..]| {
        for request in [
            format!("WRITE ac.write_file {file}"),
            format!("WRITE ac.write_text_file {file}"),
            format!("WRITE c.count_call 1 ac.write_file {file}"),
            format!("WRITE ac.count_call 1 ac.write_ip_file {file}"),
            "CHECKWRITE ac.write_pdf_file".to_string(),
        ] {
            let said = answer(cs, format!("{request}\r\nQUIT\r\n").as_bytes());
            assert!(said.contains("\r\n530 Permission denied"), "{request}: {said}");
        }
        let said = answer(cs, format!("WRITE ac.write_file {file}\r\nQUIT\r\n").as_bytes());
        assert!(said.contains("--control-files"), "what would allow it is told: {said}");
    });
    assert!(!std::path::Path::new(&file).exists());
}

/// What another user is answered.
fn answer_to_nobody(port: &str, request: &'static str) -> String {
    let port = port.to_string();
    let other = std::thread::spawn(move || {
        let nobody = Uid::from_raw(NOBODY);
        // Of this thread alone: its sockets are that user's.
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody).expect("root may");
        answer(&port, request.as_bytes())
    });
    other.join().expect("an answer")
}

#[test]
fn other_users_are_not_let_in() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("passed over: only root can be another user as well");
    }
    let mut rig = with_router(|[cs, chatter, metrics, any]| {
        for port in [cs, chatter] {
            let said = answer_to_nobody(port, "WRITE s.switch 1\r\nREAD c.class\r\nQUIT\r\n");
            assert!(said.starts_with("530 ") || said.is_empty(), "{said}");
            assert!(!said.contains("Click::"), "{said}");
        }
        assert!(answer_to_nobody(metrics, "GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 "));
        assert!(answer_to_nobody(any, "READ c.class\r\nQUIT\r\n").contains("Counter"), "it was told to");
        assert!(answer(cs, b"READ cs.clients\r\nQUIT\r\n").contains("strangers 1\n"), "it is counted");
    });
    assert_eq!(rig.read("s.switch"), "0");
}
