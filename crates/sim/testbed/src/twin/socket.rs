//! Whole messages of either protocol over a unix stream, with the files that come along.

use std::io::{self, IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::fs::fstat;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

use super::protocol::{Head, Protocol};

/// Most files that the kernel takes with one message (unix(7)).
const MAX_FILES: usize = 253;

/// A message and its files.
#[derive(Debug, Default)]
pub(super) struct Message {
    pub bytes: Vec<u8>,
    pub files: Vec<OwnedFd>,
}

impl Message {
    pub fn try_clone(&self) -> io::Result<Message> {
        let files = self.files.iter().map(OwnedFd::try_clone).collect::<io::Result<_>>()?;
        Ok(Message { bytes: self.bytes.clone(), files })
    }

    /// Bytes of the file that comes along, or of some memory where there is none.
    pub fn file_len(&self) -> u64 {
        let len = self.files.first().and_then(|file| fstat(file).ok()).map(|stat| stat.st_size as u64);
        len.filter(|&len| len > 0).unwrap_or(1 << 16)
    }
}

/// The next message that an honest party sent; `None` when it hung up.
pub(super) fn receive(stream: &mut UnixStream, protocol: &Protocol) -> io::Result<Option<(Head, Message)>> {
    let mut message = Message { bytes: vec![0; protocol.header_len], files: Vec::new() };
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = recvmsg(
        stream.as_fd(),
        &mut [IoSliceMut::new(&mut message.bytes)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    for ancillary in control.drain() {
        if let RecvAncillaryMessage::ScmRights(files) = ancillary {
            message.files.extend(files);
        }
    }
    if got.bytes == 0 {
        return Ok(None);
    }
    stream.read_exact(&mut message.bytes[got.bytes..])?;
    let head = (protocol.head)(&message.bytes);
    let header = message.bytes.len();
    message.bytes.resize(head.len.max(header), 0);
    stream.read_exact(&mut message.bytes[header..])?;
    Ok(Some((head, message)))
}

/// Sends what may be no message at all; the files go with its first byte.
pub(super) fn send(stream: &UnixStream, message: &Message) -> io::Result<()> {
    let files: Vec<_> = message.files.iter().map(OwnedFd::as_fd).collect();
    let (mut files, mut bytes) = (files.as_slice(), message.bytes.as_slice());
    while !bytes.is_empty() {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(files)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let sent = sendmsg(stream.as_fd(), &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?;
        (bytes, files) = (&bytes[sent..], &[]);
    }
    Ok(())
}
