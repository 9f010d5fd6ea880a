//! Clients and servers that send files which make others wait: whoever looks at them or
//! closes them would, as long as their owner likes.
#![allow(clippy::unwrap_used)]

mod common;

use std::net::TcpStream;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bus::peer::{Descriptor, Stream};
use bus::vfio_user::message::Command;
use common::Serving;
use common::files::{LONG, lingering};
use common::raw::{Raw, command};
use rustix::net::SendFlags;

/// One test at a time: a program that another one starts holds its files, too, for a moment,
/// and would be the one who waits.
static ONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends a file away: its last holder is who receives it. What comes back keeps it so.
fn send(raw: &Raw, bytes: &[u8], flags: SendFlags) -> TcpStream {
    let (file, other) = lingering();
    raw.send_so(bytes, &[file.as_fd()], flags);
    other
}

#[test]
fn a_server_waits_for_no_file_that_a_client_sends() {
    let _alone = alone();
    let map = || command(Command::DmaMap).u32(32).u32(3).u64(0).u64(0).u64(4096).finish();
    let wire = || command(Command::SetIrqs).u32(20).u32(0x24).u32(2).u32(0).u32(1).finish();
    let stray = || command(Command::Reset).finish();
    for message in [map, wire, stray] {
        let serving = Serving::start();
        let mut raw = Raw::attached(&serving);
        let _other = send(&raw, &message(), SendFlags::empty());
        assert_eq!(raw.reply().1, libc::EINVAL as u32);
        assert_eq!(raw.errno(command(Command::Reset)), 0);
    }
}

#[test]
fn a_server_waits_for_no_file_that_nobody_has_read() {
    let _alone = alone();
    let serving = Serving::start();
    let raw = Raw::attached(&serving);
    // The second message ends the connection; the third, with the file, nobody reads.
    let messages = [command(Command::Reset).finish(), vec![0xFF; 64], vec![0; 64]].concat();
    let (head, last) = messages.split_at(messages.len() - 64);
    serving.state.lock().unwrap().slow = Duration::from_millis(200);
    let slow = command(Command::RegionRead).u64(0).u32(0).u32(4).finish();
    raw.send_with(&[&slow, head].concat(), &[]);
    let _other = send(&raw, last, SendFlags::empty());
    serving.state.lock().unwrap().slow = Duration::ZERO;
    drop(raw);
    assert_eq!(Raw::attached(&serving).errno(command(Command::Reset)), 0);
}

#[test]
fn a_connection_is_read_to_its_end_before_it_is_closed() {
    let _alone = alone();
    for (bytes, flags) in [(100, SendFlags::empty()), (1, SendFlags::OOB), (100, SendFlags::OOB)] {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let _other = send(&Raw(theirs), &vec![0; bytes], flags);
        let begin = Instant::now();
        drop(Stream::from(ours));
        let time = begin.elapsed();
        assert!(time < LONG / 2, "{bytes} bytes with {flags:?}: {time:?}");
    }
}

#[test]
fn no_connection_is_taken_while_too_many_files_wait() {
    let _alone = alone();
    // In a process of its own: nothing is taken any more.
    if std::env::var_os("IXORA_TOO_MANY_FILES").is_none() {
        let test = std::env::current_exe().unwrap();
        let arguments = ["--exact", "no_connection_is_taken_while_too_many_files_wait", "--nocapture"];
        let mut again = std::process::Command::new(test);
        let output = again.args(arguments).env("IXORA_TOO_MANY_FILES", "1").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        return;
    }
    let serving = Serving::start();
    let mut attached = Raw::attached(&serving);
    for _ in 0..66 {
        let (socket, other) = lingering();
        std::mem::forget(other);
        drop(Descriptor::new(socket));
    }
    // Who is attached is served on; another one waits, and is not refused.
    let mut waiting = Raw::connect(&serving);
    assert_eq!(attached.errno(command(Command::Reset)), 0);
    drop(attached);
    std::io::Write::write_all(&mut waiting.0, &common::raw::version(0)).unwrap();
    waiting.0.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let silence = std::io::Read::read(&mut waiting.0, &mut [0]).unwrap_err();
    assert_eq!(silence.kind(), std::io::ErrorKind::WouldBlock);
}
