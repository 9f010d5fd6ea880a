//! What clients of a control socket can do to a router: they are told the truth, and
//! none of them stops it or holds it up.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::Rig;
use element::control::protocol::{Parsed, parse, parse_on};
use element::fixture::EndOnDrop;
use proptest::prelude::*;

struct Client(BufReader<TcpStream>);

impl Client {
    fn of(port: &str) -> Client {
        let stream = TcpStream::connect(format!("127.0.0.1:{port}")).expect("a listening socket");
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut client = Client(BufReader::new(stream));
        assert!(client.line().starts_with("Click::ControlSocket"));
        client
    }

    fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).expect("somebody listens");
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("an answer");
        line
    }

    fn write(&mut self, what: &str) -> String {
        self.send(format!("WRITE {what}\r\n").as_bytes());
        loop {
            let line = self.line();
            if line.as_bytes().get(3) != Some(&b'-') {
                return line;
            }
        }
    }

    fn read(&mut self, handler: &str) -> String {
        self.send(format!("READ {handler}\r\n").as_bytes());
        let said = self.line();
        assert!(said.starts_with("200"), "{handler}: {said}");
        let length = self.line().strip_prefix("DATA ").unwrap().trim().parse().unwrap();
        let mut data = vec![0; length];
        self.0.read_exact(&mut data).unwrap();
        String::from_utf8(data).unwrap()
    }
}

/// Runs a router with a control socket `cs` while `talk` goes on.
fn while_it_runs(rig: &mut Rig, talk: impl FnOnce(&str)) {
    let port = rig.read("cs.port");
    let shared = rig.router.shared();
    let told = std::thread::scope(|scope| {
        scope.spawn(|| rig.run());
        let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| talk(&port)));
        shared.end();
        told
    });
    told.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

fn with_router(config: &str, talk: impl FnOnce(&str)) {
    let mut rig = Rig::with_threads(config, 2).unwrap_or_else(|problems| panic!("{problems}"));
    while_it_runs(&mut rig, talk);
}

const CONFIG: &str = "cs :: ControlSocket(TCP, 0); Idle -> c :: Counter -> Discard;
     s :: Script(TYPE PASSIVE, wait_step 2, wait_step 3000000000, label x, wait_step 1, goto x)";

#[test]
fn a_client_is_told_of_itself() {
    with_router(CONFIG, |port| {
        let (mut one, _other) = (Client::of(port), Client::of(port));
        let told = one.read("cs.clients");
        assert!(told.contains("now 2\n") && told.contains("welcomed 2\n"), "{told}");
    });
}

#[test]
fn numbers_at_the_end_of_their_range_stop_nothing() {
    with_router(CONFIG, |port| {
        let mut client = Client::of(port);
        for _ in 0..3 {
            client.write("s.step 9223372036854775807");
            client.write("s.step 4000000000");
        }
        client.write("c.count_call 18446744073709551615 stop");
        assert_eq!(client.read("c.class"), "Counter");
    });
}

#[test]
fn a_long_text_sent_byte_by_byte_is_read_once() {
    let mut input = b"WRITEUNTIL c.reset END\r\n".to_vec();
    input.extend(std::iter::repeat_n(b'\n', 900_000));
    let (start, mut looked) = (Instant::now(), 0);
    for _ in 0..5_000 {
        input.push(b'\n');
        assert_eq!(parse_on(&input, false, &mut looked), Parsed::Wait);
    }
    // Read again each time it would take a minute.
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    input.extend(b"END\n");
    assert!(matches!(parse_on(&input, false, &mut looked), Parsed::Request(_, n) if n == input.len()));
    assert_eq!(looked, 0, "the next one is looked at from its beginning");
}

#[test]
fn a_line_end_that_comes_in_two_halves_is_one() {
    // The terminator is an empty line.
    let input = b"WRITEUNTIL a.b\r\nx\r\ny\r\n\r\n";
    let mut looked = 0;
    for cut in 1..input.len() - 1 {
        assert_eq!(parse_on(&input[..cut], false, &mut looked), Parsed::Wait, "{cut}");
    }
    assert_eq!(parse_on(input, false, &mut looked), parse(input, false));
}

/// A new router finds the port of the old one taken and takes the next: the clients of
/// the old one must not be left behind.
#[test]
fn clients_stay_where_one_of_some_ports_would_do() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let config =
        format!("cs :: ControlSocket(TCP, {free}+, RETRIES 1, RETRY_WARNINGS false); Idle -> Discard");
    let mut old = Rig::with_threads(&config, 2).unwrap();
    let port = old.read("cs.port");
    let mut client = None;
    while_it_runs_without_cleanup(&mut old, || client = Some(Client::of(&port)));
    let mut new = Rig::with_threads(&config, 2).unwrap();
    new.router.take_over(&mut old.router);
    old.router.cleanup();
    drop(old);
    while_it_runs(&mut new, |now| {
        assert_eq!(now, port);
        assert_eq!(client.as_mut().unwrap().read("cs.port"), port);
    });
}

fn while_it_runs_without_cleanup(rig: &mut Rig, talk: impl FnOnce()) {
    let shared = rig.router.shared();
    std::thread::scope(|scope| {
        scope.spawn(|| rig.router.run());
        let _end = EndOnDrop(shared);
        talk();
    });
}

proptest! {
    /// However a client's bytes are cut, the same commands come of them.
    #[test]
    fn a_command_is_the_same_however_it_comes(
        words in proptest::collection::vec(0usize..8, 0..12),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        const WORDS: [&str; 8] = ["WRITEUNTIL a.b END\n", "x\n", "END\r\n", "END", "READ a.b\n", "\n", "WRITEDATA a.b 3\n", "\r"];
        let input: String = words.iter().map(|w| WORDS[*w]).collect();
        let input = input.as_bytes();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(input.len() + 1)).collect();
        cuts.sort_unstable();
        let mut looked = 0;
        for cut in cuts {
            let parsed = parse_on(&input[..cut], false, &mut looked);
            prop_assert_eq!(&parsed, &parse(&input[..cut], false));
            if parsed != Parsed::Wait {
                return Ok(());
            }
        }
        prop_assert_eq!(parse_on(input, true, &mut looked), parse(input, true));
    }
}
