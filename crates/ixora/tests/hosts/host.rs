//! `echo --ip`: a host that another stack finds and reaches.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::common::{IXORA, Running, may_make_interfaces, start, start_command, until};
use rustix::process::Signal;

const ASKER: [u8; 6] = [2, 0, 0, 0, 0, 0xA];
const STRANGER: [u8; 6] = [2, 0, 0, 0, 0, 0xC];

/// The far end of a served model's wire: what is sent here comes to the port.
struct FarEnd {
    socket: UnixDatagram,
    model: Running,
    echo: Running,
    local: std::path::PathBuf,
}

impl FarEnd {
    fn start(place: &Path, options: &str) -> FarEnd {
        let (local, remote, nic) = (place.join("local"), place.join("remote"), place.join("nic"));
        let socket = UnixDatagram::bind(&remote).expect("a socket");
        socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a socket");
        let wire = format!("unix:{},remote={}", local.display(), remote.display());
        let model = start(place, &format!("model 82599 --wire {wire} --socket {}", nic.display()));
        until("socket", || nic.exists() && local.exists());
        let echo = start(place, &format!("echo vfio-user:{} {options}", nic.display()));
        FarEnd { socket, model, echo, local }
    }

    fn send(&self, frame: &[u8]) {
        self.socket.send_to(frame, &self.local).expect("the wire listens");
    }

    fn receive(&self) -> Option<Vec<u8>> {
        let mut frame = vec![0; 2000];
        let len = self.socket.recv(&mut frame).ok()?;
        frame.truncate(len);
        Some(frame)
    }

    /// Sends until the answer comes: the port may not be open yet.
    fn ask(&self, frame: &[u8]) -> Vec<u8> {
        let mut answer = None;
        until("answer", || {
            self.send(frame);
            answer = self.receive();
            answer.is_some()
        });
        // Answers to what was sent while nobody listened yet are the same.
        let over = (0..10_000).any(|_| self.receive().is_none());
        assert!(over, "answers come without an end");
        answer.expect("an answer")
    }

    fn end(self) {
        for running in [self.echo, self.model] {
            running.signal(Signal::TERM);
            let done = running.wait(10);
            assert_eq!(done.code(), Some(0), "{done:#?}");
        }
    }
}

/// Pads to the least frame.
fn frame(parts: &[&[u8]]) -> Vec<u8> {
    let mut bytes = parts.concat();
    bytes.resize(bytes.len().max(60), 0);
    bytes
}

fn who_has(ip: [u8; 4]) -> Vec<u8> {
    let head = [8, 6, 0, 1, 8, 0, 6, 4, 0, 1];
    frame(&[&[0xFF; 6], &ASKER, &head, &ASKER, &[10, 9, 9, 1], &[0; 6], &ip])
}

#[test]
fn a_host_is_found_and_answers_a_ping() {
    let place = tempfile::tempdir().expect("a directory");
    let far = FarEnd::start(place.path(), "--ip 10.9.9.2 --promiscuous --no-promiscuous");
    let found = far.ask(&who_has([10, 9, 9, 2]));
    let mac: [u8; 6] = found[6..12].try_into().expect("six bytes");
    assert_eq!(found[..6], ASKER);
    assert_eq!(found[20..22], [0, 2], "a reply");
    assert_eq!(found[22..32], [&mac[..], &[10, 9, 9, 2]].concat());
    // Header and message with their checksums, as bytes.
    let ip = [0x45, 0, 0, 32, 0, 1, 0x40, 0, 9, 1, 0x4B, 0xC8, 10, 9, 9, 1, 10, 9, 9, 2];
    let icmp = [8, 0, 0x5C, 0x6A, 0x12, 0x34, 0, 7, 0x61, 0x62, 0x27, 0xF8];
    let pong = far.ask(&frame(&[&mac, &ASKER, &[8, 0], &ip, &icmp]));
    assert_eq!(pong[..12], [ASKER, mac].concat());
    assert_eq!(pong[26..34], [10, 9, 9, 2, 10, 9, 9, 1]);
    assert_eq!(pong[34..38], [0, 0, 0x64, 0x6A]);
    assert_eq!(pong[38..46], icmp[4..]);
    // Another's address is not answered, but repeated like all else.
    let repeated = far.ask(&who_has([10, 9, 9, 3]));
    assert_eq!(repeated[..6], ASKER);
    assert_eq!(repeated[12..], who_has([10, 9, 9, 3])[12..]);
    // What is addressed to somebody else does not even come in.
    far.send(&frame(&[&STRANGER, &ASKER, &[8, 0]]));
    assert_eq!(far.receive(), None);
    far.end();
}

#[test]
fn the_last_word_on_promiscuous_counts() {
    let place = tempfile::tempdir().expect("a directory");
    let far = FarEnd::start(place.path(), "--no-promiscuous --promiscuous");
    let back = far.ask(&frame(&[&STRANGER, &ASKER, &[8, 0]]));
    assert_eq!(back[..12], [ASKER, STRANGER].concat());
    far.end();
}

#[test]
fn the_kernel_finds_the_host() {
    if !may_make_interfaces() {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let socket = place.path().join("nic");
    let mut command = Command::new("unshare");
    command.args(["-n", IXORA, "model", "82599", "--wire", "tap:ixora0", "--socket"]).arg(&socket);
    let model = start_command(&mut command, place.path());
    until("socket", || socket.exists());
    let id = model.id().to_string();
    let inside = |command: &str| {
        Command::new("nsenter").args(["-t", &id, "-n", "bash", "-c", command]).output().expect("nsenter runs")
    };
    // The wire has set its interface up.
    let done = inside("ip address add 10.9.9.1/24 dev ixora0");
    assert!(done.status.success(), "{done:#?}");
    let echo =
        start(place.path(), &format!("echo vfio-user:{} --ip 10.9.9.2 --no-promiscuous", socket.display()));
    until("answer to the kernel", || {
        inside("echo x > /dev/udp/10.9.9.2/9");
        let table = std::fs::read_to_string(format!("/proc/{id}/net/arp")).expect("a table");
        // Flags 0x2: the kernel has the address from an answer (ATF_COM).
        let complete = |line: &str| line.starts_with("10.9.9.2 ") && line.contains(" 0x2 ");
        table.lines().any(complete)
    });
    for running in [echo, model] {
        running.signal(Signal::TERM);
        assert_eq!(running.wait(10).code(), Some(0));
    }
}
