//! As much of netlink as it takes to ask for one interface and to turn it on
//! (RFC 3549; linux/netlink.h, linux/rtnetlink.h). One request, one answer.

use std::cell::Cell;
use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::{Errno, Result};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags, SocketType, recv, sendmsg,
    socket_with,
};

/// Bytes of `nlmsghdr`, and of `ifinfomsg` behind it.
const HEADER: usize = 16;
pub(super) const LINK_LEN: usize = 16;
/// Bytes of `ifaddrmsg`, and of `rtmsg`.
pub(super) const ADDRESS_LEN: usize = 8;
pub(super) const ROUTE_LEN: usize = 12;
/// Where an `ifinfomsg` has the interface's number, and its flags.
pub(super) const LINK_INDEX: usize = 4;
pub(super) const LINK_FLAGS: usize = 8;

const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const RTM_GETADDR: u16 = 22;
const RTM_GETROUTE: u16 = 26;
const NLM_F_DUMP: u16 = 0x300;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_CREATE: u16 = 0x400;
const RTM_NEWADDR: u16 = 20;
const RTM_NEWROUTE: u16 = 24;
const AF_INET: u8 = 2;
const RT_TABLE_MAIN: u8 = 254;
const RTPROT_STATIC: u8 = 4;
const RTN_UNICAST: u8 = 1;

/// A socket to the kernel's rtnetlink.
#[derive(Debug)]
pub(super) struct Netlink {
    socket: OwnedFd,
    sequence: Cell<u32>,
}

/// A request about a link.
pub(super) struct Message {
    bytes: Vec<u8>,
    kind: u16,
    flags: u16,
}

impl Message {
    fn new(kind: u16, flags: u16, index: u32, up: u32, change: u32) -> Message {
        let mut bytes = vec![0; HEADER + LINK_LEN];
        bytes[HEADER + 4..HEADER + 8].copy_from_slice(&index.to_ne_bytes());
        bytes[HEADER + 8..HEADER + 12].copy_from_slice(&up.to_ne_bytes());
        bytes[HEADER + 12..].copy_from_slice(&change.to_ne_bytes());
        Message { bytes, kind, flags }
    }

    /// Asks for a link, by its index or, where that is zero, by an attribute.
    pub(super) fn find_link(index: u32) -> Message {
        Message::new(RTM_GETLINK, NLM_F_REQUEST, index, 0, 0)
    }

    /// Asks for all links (`ifinfomsg`).
    pub(super) fn all_links() -> Message {
        Message::new(RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP, 0, 0, 0)
    }

    /// Asks for all addresses (`ifaddrmsg`).
    pub(super) fn all_addresses() -> Message {
        let bytes = vec![0; HEADER + ADDRESS_LEN];
        Message { bytes, kind: RTM_GETADDR, flags: NLM_F_REQUEST | NLM_F_DUMP }
    }

    /// Asks for all IPv4 routes (`rtmsg`).
    pub(super) fn all_routes() -> Message {
        let mut bytes = vec![0; HEADER + ROUTE_LEN];
        bytes[HEADER] = AF_INET;
        Message { bytes, kind: RTM_GETROUTE, flags: NLM_F_REQUEST | NLM_F_DUMP }
    }

    /// Changes the flags in `change` to those in `flags`, and has it confirmed.
    pub(super) fn new_link(index: u32, flags: u32, change: u32) -> Message {
        Message::new(RTM_NEWLINK, NLM_F_REQUEST | NLM_F_ACK, index, flags, change)
    }

    /// Adds an IPv4 address to the interface of an index (`ifaddrmsg`).
    pub(super) fn new_address(index: u32, prefix: u8) -> Message {
        let body = [&[AF_INET, prefix, 0, 0][..], &index.to_ne_bytes()].concat();
        Message::making(RTM_NEWADDR, &body)
    }

    /// Adds a route to everywhere, of the main table (`rtmsg`).
    pub(super) fn new_default_route() -> Message {
        Message::making(
            RTM_NEWROUTE,
            &[AF_INET, 0, 0, 0, RT_TABLE_MAIN, RTPROT_STATIC, 0, RTN_UNICAST, 0, 0, 0, 0],
        )
    }

    /// One that makes something new, and is confirmed.
    fn making(kind: u16, body: &[u8]) -> Message {
        let mut bytes = vec![0; HEADER];
        bytes.extend_from_slice(body);
        Message { bytes, kind, flags: NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE }
    }

    /// Appends an attribute, padded to four bytes.
    pub(super) fn attribute(&mut self, kind: u16, value: &[u8]) {
        self.bytes.extend((4 + value.len() as u16).to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend(value);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

impl Netlink {
    pub(super) fn open() -> Result<Netlink> {
        // Without a protocol: NETLINK_ROUTE is zero.
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        // The kernel answers within the request; this is for a kernel that does not.
        set_socket_timeout(&socket, Timeout::Recv, Some(Duration::from_secs(1)))?;
        Ok(Netlink { socket, sequence: Cell::new(0) })
    }

    /// Sends a request for all of a table, and shows each of its entries to `show`.
    pub(super) fn dump(&self, message: Message, mut show: impl FnMut(&[u8])) -> Result<()> {
        let sequence = self.send(message)?;
        let mut answer = vec![0; 64 << 10];
        loop {
            let (len, _) = recv(&self.socket, &mut answer[..], RecvFlags::empty())?;
            let mut end = None;
            each(&answer[..len.min(answer.len())], sequence, |kind, body| match kind {
                NLMSG_DONE => end = Some(Ok(())),
                NLMSG_ERROR => end = Some(Err(error_of(body).err().unwrap_or(Errno::BADMSG))),
                _ => show(body),
            });
            if let Some(result) = end {
                return result;
            }
        }
    }

    /// Sends a request and shows the links of the answer to `show`.
    pub(super) fn ask(&self, message: Message, mut show: impl FnMut(&[u8])) -> Result<()> {
        let sequence = self.send(message)?;
        let mut answer = vec![0; 16 << 10];
        loop {
            let (len, _) = recv(&self.socket, &mut answer[..], RecvFlags::empty())?;
            if let Some(result) = read(&answer[..len], sequence, &mut show) {
                return result;
            }
        }
    }

    /// Sends a request; its number.
    fn send(&self, mut message: Message) -> Result<u32> {
        let sequence = self.sequence.get().wrapping_add(1);
        self.sequence.set(sequence);
        let len = message.bytes.len() as u32;
        message.bytes[..4].copy_from_slice(&len.to_ne_bytes());
        message.bytes[4..6].copy_from_slice(&message.kind.to_ne_bytes());
        message.bytes[6..8].copy_from_slice(&message.flags.to_ne_bytes());
        message.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        // `sendmsg`, which a confined program may call, unlike `sendto`.
        let none = &mut SendAncillaryBuffer::default();
        sendmsg(&self.socket, &[IoSlice::new(&message.bytes)], none, SendFlags::empty())?;
        Ok(sequence)
    }
}

/// Shows the kind and the body of each message of an answer, if it is to this request.
fn each(mut bytes: &[u8], sequence: u32, mut show: impl FnMut(u16, &[u8])) {
    while let Some((header, _)) = bytes.split_first_chunk::<HEADER>() {
        let word =
            |at: usize| u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let kind = u16::from_ne_bytes([header[4], header[5]]);
        let len = (word(0) as usize).clamp(HEADER, bytes.len());
        if word(8) == sequence {
            show(kind, &bytes[HEADER..len]);
        }
        bytes = &bytes[len.next_multiple_of(4).min(bytes.len())..];
    }
}

/// What a message of an error says.
fn error_of(body: &[u8]) -> Result<()> {
    match body.first_chunk().map(|code| i32::from_ne_bytes(*code)) {
        Some(0) => Ok(()),
        Some(code) => Err(Errno::from_raw_os_error(code.wrapping_neg())),
        None => Err(Errno::BADMSG),
    }
}

/// Reads the messages of an answer; `None` when it was to another request.
fn read(bytes: &[u8], sequence: u32, show: &mut impl FnMut(&[u8])) -> Option<Result<()>> {
    let mut ours = None;
    each(bytes, sequence, |kind, body| {
        ours = Some(match kind {
            RTM_NEWLINK => {
                show(body);
                Ok(())
            }
            NLMSG_ERROR => error_of(body),
            _ => Err(Errno::BADMSG),
        });
    });
    ours
}

/// The attributes in some bytes, as kind and value; ends where one is cut.
pub(super) struct Attributes<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let head = self.0.first_chunk::<4>()?;
        let len = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        // The upper bits say that the value is nested, or in network order.
        let kind = u16::from_ne_bytes([head[2], head[3]]) & 0x3FFF;
        let value = self.0.get(4..len)?;
        self.0 = self.0.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_end_where_they_are_cut() {
        let mut message = Message::find_link(7);
        message.attribute(3, b"lo\0");
        message.attribute(29, &[1, 2, 3, 4]);
        let bytes = &message.bytes[HEADER + LINK_LEN..];
        let all: Vec<_> = Attributes(bytes).collect();
        assert_eq!(all, [(3, &b"lo\0"[..]), (29, &[1, 2, 3, 4][..])]);
        for len in 0..bytes.len() {
            assert!(Attributes(&bytes[..len]).count() < 2, "{len} bytes");
        }
        assert_eq!(Attributes(&[0, 0, 1, 0, 9, 9, 9, 9]).count(), 0, "a length of zero is no loop");
    }

    #[test]
    fn answers_are_bounded() {
        let mut seen = 0;
        for len in [0_u32, 3, 16, 17, 400, u32::MAX] {
            let mut bytes = vec![0xFF; 64];
            bytes[..4].copy_from_slice(&len.to_ne_bytes());
            bytes[4..6].copy_from_slice(&RTM_NEWLINK.to_ne_bytes());
            bytes[8..12].copy_from_slice(&5_u32.to_ne_bytes());
            assert_eq!(read(&bytes, 5, &mut |_| seen += 1), Some(Ok(())));
            assert_eq!(read(&bytes, 6, &mut |_| seen += 1), None, "another's answer");
        }
        assert_eq!(seen, 6);
        let mut error = [0; 20];
        error[..6].copy_from_slice(&[20, 0, 0, 0, NLMSG_ERROR as u8, 0]);
        error[16..].copy_from_slice(&(-19_i32).to_ne_bytes());
        assert_eq!(read(&error, 0, &mut |_| ()), Some(Err(Errno::NODEV)));
    }
}
