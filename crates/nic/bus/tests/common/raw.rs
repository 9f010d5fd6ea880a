//! Both ends of vfio-user by hand: messages that neither our client nor our server would send.
#![allow(dead_code, clippy::unwrap_used)]

use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use bus::vfio_user::client::Client;
use bus::vfio_user::message::{Command, Encoder, HEADER, Header, decode_header};
use proptest::prelude::*;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use super::Serving;

pub const EOPNOTSUPP: u32 = libc::EOPNOTSUPP as u32;

/// A client that says what it likes.
pub struct Raw(pub UnixStream);

impl Raw {
    pub fn connect(serving: &Serving) -> Raw {
        let stream = UnixStream::connect(serving.path()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        Raw(stream)
    }

    pub fn attached(serving: &Serving) -> Raw {
        let mut raw = Raw::connect(serving);
        assert_eq!(raw.ask(version(0)).1, 0);
        raw
    }

    pub fn send_with(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
        self.send_so(bytes, fds, SendFlags::empty());
    }

    /// With flags, such as that of a byte out of band.
    pub fn send_so(&self, bytes: &[u8], fds: &[BorrowedFd<'_>], flags: SendFlags) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(64))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(fds)));
        sendmsg(&self.0, &[IoSlice::new(bytes)], &mut control, flags).unwrap();
    }

    pub fn reply(&mut self) -> (Header, u32, Vec<u8>) {
        let mut bytes = [0; HEADER];
        self.0.read_exact(&mut bytes).unwrap();
        let header = decode_header(&bytes).unwrap();
        let mut body = vec![0; header.body_len()];
        self.0.read_exact(&mut body).unwrap();
        let errno = header.error().map_or(0, |errno| errno.raw_os_error() as u32);
        (header, errno, body)
    }

    pub fn ask(&mut self, bytes: Vec<u8>) -> (Header, u32, Vec<u8>) {
        self.0.write_all(&bytes).unwrap();
        self.reply()
    }

    pub fn errno(&mut self, message: Encoder) -> u32 {
        self.ask(message.finish()).1
    }

    pub fn is_closed(&mut self) -> bool {
        matches!(self.0.read(&mut [0; 1]), Ok(0) | Err(_))
    }
}

pub fn version(major: u16) -> Vec<u8> {
    Encoder::request(0, Command::Version, 0).u16(major).u16(1).finish()
}

pub fn command(command: Command) -> Encoder {
    Encoder::request(9, command, 0)
}

/// A server that follows a script: each request is answered by `answer`.
pub fn scripted(
    answer: impl Fn(usize, &Header, &[u8], &mut UnixStream) -> bool + Send + 'static,
) -> UnixStream {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    std::thread::spawn(move || {
        for turn in 0.. {
            let mut bytes = [0; HEADER];
            if theirs.read_exact(&mut bytes).is_err() {
                return;
            }
            let header = decode_header(&bytes).unwrap();
            let mut body = vec![0; header.body_len()];
            if theirs.read_exact(&mut body).is_err() || !answer(turn, &header, &body, &mut theirs) {
                return;
            }
        }
    });
    ours
}

/// What a decent server says while a client connects: no BARs but BAR 0.
pub fn decent(header: &Header, body: &[u8], stream: &mut UnixStream) {
    let reply = Encoder::reply(header);
    let reply = match Command::from_number(header.command).unwrap() {
        Command::Version => reply.u16(0).u16(1).bytes(b"{}\0"),
        Command::DeviceInfo => reply.u32(16).u32(3).u32(1).u32(3),
        Command::IrqInfo => reply.u32(16).u32(1).u32(2).u32(1),
        Command::RegionInfo => reply.u32(32).u32(3).u32(0).u32(0).u64(4096).u64(0),
        Command::RegionRead => reply.bytes(&body[..16]).bytes(&vec![1; usize::from(body[12])]),
        _ => reply,
    };
    stream.write_all(&reply.finish()).unwrap();
}

pub fn connect(stream: UnixStream) -> bus::Result<Client> {
    Client::over(stream, "script".into(), Duration::from_millis(400))
}

/// Messages that look right at first: a header that fits, a known command.
pub fn plausible() -> impl Strategy<Value = Vec<u8>> {
    let field = prop_oneof![Just(0_u8), Just(1), Just(2), Just(0x10), Just(0x24), Just(0xFF), any::<u8>()];
    let message = (0_u16..20, prop::collection::vec(field, 0..64), 0_u32..0x40);
    prop::collection::vec(message, 0..8).prop_map(|messages| {
        let encode = |(command, body, flags): (u16, Vec<u8>, u32)| {
            let mut bytes = Encoder::request(1, Command::Reset, flags).bytes(&body).finish();
            bytes[2..4].copy_from_slice(&command.to_le_bytes());
            bytes
        };
        messages.into_iter().flat_map(encode).collect()
    })
}
