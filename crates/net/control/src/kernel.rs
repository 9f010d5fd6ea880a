//! The kernel's side of rtnetlink: a socket that is told of changes, dumps of everything at
//! the start, and both again when the socket overflowed.
//!
//! A dump and the notifications come by one socket in the order in which the kernel made
//! them, so that a mirror that takes all of them ends with what is so. A dump that the kernel
//! marks as interrupted is asked for again; what a complete round did not tell of is swept.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, getsockname, recvfrom, sendto,
    socket_with, sockopt,
};

use crate::mirror::{Generation, Mirror, Origin};
use crate::netlink::write::Writer;
use crate::netlink::{
    self, Body, DEL_ADDRESS, FAMILY_BRIDGE, FAMILY_V4, Header, IS_DUMP, IS_INTERRUPTED, IS_REQUEST, Messages,
    OVERRUN,
};

/// The receive buffer that is asked for: 100,000 changes at once and some more.
pub const RECEIVE_BUFFER: usize = 32 << 20;
/// The receive buffer of a socket by which answers come and nothing else.
const ASKING_BUFFER: usize = 1 << 20;
/// Bytes of a datagram, at most: the kernel fills 32 KiB, and one message may be longer.
const DATAGRAM: usize = 256 << 10;
/// How long the kernel may take over the next part of a dump.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// How often a dump, or all of them, are asked for again before that is put off.
const ATTEMPTS: usize = 8;

/// `RTMGRP_LINK`, `RTMGRP_NEIGH`, `RTMGRP_IPV4_IFADDR`, `RTMGRP_IPV4_ROUTE`, `RTMGRP_IPV6_ROUTE`, and
/// the group of nexthop objects, `RTNLGRP_NEXTHOP` (32).
const GROUPS: u32 = 0x1 | 0x4 | 0x10 | 0x40 | 0x400 | 1 << 31;
/// How long after it said that an address went the kernel is done with the routes that go with it.
const SETTLED: Duration = Duration::from_millis(200);
/// How often everything is asked for at most because addresses went.
const PACE: Duration = Duration::from_secs(5);

/// What is asked for, in this order: the request, its family, and the length of the header
/// behind the message's, in which all but the family is 0.
const DUMPS: &[(u16, u8, usize)] = &[
    (18, 0, 16),             // RTM_GETLINK, struct ifinfomsg
    (106, 0, 8),             // RTM_GETNEXTHOP, struct nhmsg
    (30, 0, 12),             // RTM_GETNEIGH, struct ndmsg
    (30, FAMILY_BRIDGE, 12), // the same for forwarding databases
    (26, 0, 12),             // RTM_GETROUTE, struct rtmsg
];

/// Why the kernel's tables cannot be followed.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// A socket cannot be had or used.
    #[error("rtnetlink: {0}")]
    Socket(#[from] io::Error),
    /// The kernel refused a dump.
    #[error("rtnetlink: the kernel refuses request {request} for its tables: {error}")]
    Refused {
        /// The request's number.
        request: u16,
        /// Why it was refused.
        error: io::Error,
    },
    /// Changes came faster than they could be taken, or interrupted dumps, each time.
    #[error("rtnetlink: the kernel's tables change faster than they are asked for")]
    Restless,
    /// The kernel does not go on with a dump.
    #[error("rtnetlink: the kernel has not answered request {0} for {ANSWER_LIMIT:?}")]
    Silent(u16),
}

impl From<Errno> for KernelError {
    fn from(error: Errno) -> KernelError {
        KernelError::Socket(error.into())
    }
}

/// What became of the socket's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KernelCounters {
    /// How often the socket overflowed, and changes were lost.
    pub overflows: u64,
    /// How often everything was asked for.
    pub rounds: u64,
    /// Dumps that the kernel marked as interrupted.
    pub interrupted: u64,
    /// Datagrams that the kernel did not send.
    pub foreign: u64,
    /// Datagrams that were longer than there was room for.
    pub truncated: u64,
}

/// How a dump ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dumped {
    Complete,
    Interrupted,
}

/// When everything is asked for again, as an address went: IPv4 routes from it and those of a device
/// without another one go a moment later, without a message (net/ipv4/fib_frontend.c).
#[derive(Debug, Default)]
struct GoneAddresses {
    last: Option<Instant>,
    due: Option<Instant>,
    /// Before which it is not due again.
    paced: Option<Instant>,
}

impl GoneAddresses {
    /// Notes that an address went. What is due already is not put off.
    fn note(&mut self, now: Instant) {
        self.last = Some(now);
        let settled = now + SETTLED;
        self.due.get_or_insert(self.paced.map_or(settled, |paced| settled.max(paced)));
    }

    /// Whether everything is to be asked for now.
    fn is_due(&mut self, now: Instant) -> bool {
        if self.due.is_none_or(|due| now < due) {
            return false;
        }
        self.paced = Some(now + PACE);
        // The routes of one that went just now may be there yet.
        self.due = self.paced.filter(|_| self.last.is_some_and(|last| now < last + SETTLED));
        true
    }
}

/// A socket that follows the kernel's tables.
#[derive(Debug)]
pub struct Kernel {
    socket: OwnedFd,
    port: u32,
    sequence: u32,
    generation: Generation,
    datagram: Vec<u8>,
    /// Changes were lost, or a round did not end well.
    is_behind: bool,
    gone_addresses: GoneAddresses,
    counters: KernelCounters,
}

impl Kernel {
    /// Opens a socket in this thread's network namespace. It gets as large a receive buffer as
    /// may be had up to `buffer` bytes.
    ///
    /// # Errors
    /// When there is no such socket to be had.
    pub fn open(mirror: &mut Mirror, buffer: usize) -> Result<Kernel, KernelError> {
        Kernel::open_in(GROUPS, mirror, buffer)
    }

    /// Opens a socket that is told of no changes: all is asked for when it is wanted.
    ///
    /// # Errors
    /// When there is no such socket to be had.
    pub fn open_to_ask(mirror: &mut Mirror) -> Result<Kernel, KernelError> {
        Kernel::open_in(0, mirror, ASKING_BUFFER)
    }

    fn open_in(groups: u32, mirror: &mut Mirror, buffer: usize) -> Result<Kernel, KernelError> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        // The first needs CAP_NET_ADMIN, the second gives what net.core.rmem_max allows.
        if sockopt::set_socket_recv_buffer_size_force(&socket, buffer).is_err() {
            sockopt::set_socket_recv_buffer_size(&socket, buffer)?;
        }
        bind(&socket, &SocketAddrNetlink::new(0, groups))?;
        let own: SocketAddrNetlink = getsockname(&socket)?.try_into()?;
        Ok(Kernel {
            socket,
            port: own.pid(),
            sequence: 0,
            generation: mirror.begin(Origin::Kernel),
            datagram: vec![0; DATAGRAM],
            is_behind: true,
            gone_addresses: GoneAddresses::default(),
            counters: KernelCounters::default(),
        })
    }

    /// Bytes that the receive buffer has; the kernel counts its own overhead in.
    ///
    /// # Errors
    /// When the socket does not tell.
    pub fn receive_buffer(&self) -> Result<usize, KernelError> {
        Ok(sockopt::socket_recv_buffer_size(&self.socket)?)
    }

    /// Whether the mirror has what the kernel has, but for what waits in the socket.
    pub fn is_current(&self) -> bool {
        !self.is_behind
    }

    /// What became of the socket's messages.
    pub fn counters(&self) -> KernelCounters {
        self.counters
    }

    /// Asks for everything, and tells a mirror of it.
    ///
    /// # Errors
    /// When the kernel refuses or leaves out an answer, or its tables change all the time.
    pub fn ask(&mut self, mirror: &mut Mirror) -> Result<(), KernelError> {
        self.synchronize(mirror)?;
        let is_whole = !std::mem::replace(&mut self.is_behind, true);
        is_whole.then_some(()).ok_or(KernelError::Restless)
    }

    /// Lets the next [`turn`](Kernel::turn) ask for everything: the mirror was found to have
    /// something otherwise than the kernel.
    pub fn ask_again(&mut self) {
        self.is_behind = true;
    }

    /// Takes what waits in the socket, `most` datagrams at a time; whether there may be more.
    /// After an overflow, and at the start, everything is asked for: that takes as long as the
    /// kernel needs for its tables.
    ///
    /// # Errors
    /// When the socket fails, or the kernel refuses or leaves out an answer. It may be called
    /// again, and begins with everything then.
    pub fn turn(&mut self, mirror: &mut Mirror, most: usize) -> Result<bool, KernelError> {
        self.is_behind |= self.gone_addresses.is_due(Instant::now());
        if self.is_behind {
            self.synchronize(mirror)?;
        }
        for _ in 0..most {
            match self.receive()? {
                Some(length) => self.deliver(mirror, length, None).map(drop)?,
                None => return Ok(self.is_behind),
            }
        }
        Ok(true)
    }

    /// Asks for everything, until a round is complete and without a loss.
    fn synchronize(&mut self, mirror: &mut Mirror) -> Result<(), KernelError> {
        for _ in 0..ATTEMPTS {
            self.is_behind = false;
            self.counters.rounds += 1;
            self.generation = mirror.begin(Origin::Kernel);
            let round = DUMPS.iter().try_for_each(|dump| self.dump_again(mirror, *dump));
            if let Err(error) = round {
                self.is_behind = true;
                return Err(error);
            }
            if !self.is_behind {
                mirror.sweep(Origin::Kernel, &[self.generation]);
                return Ok(());
            }
        }
        Ok(())
    }

    /// Asks for one kind of objects until a dump is not interrupted.
    fn dump_again(&mut self, mirror: &mut Mirror, dump: (u16, u8, usize)) -> Result<(), KernelError> {
        for _ in 0..ATTEMPTS {
            match self.dump(mirror, dump)? {
                Dumped::Complete => return Ok(()),
                Dumped::Interrupted => self.counters.interrupted += 1,
            }
        }
        self.is_behind = true;
        Ok(())
    }

    fn dump(
        &mut self,
        mirror: &mut Mirror,
        (request, family, length): (u16, u8, usize),
    ) -> Result<Dumped, KernelError> {
        self.sequence = self.sequence.wrapping_add(1).max(1);
        let header = Header { kind: request, flags: IS_REQUEST | IS_DUMP, sequence: self.sequence, port: 0 };
        let mut writer = Writer::default();
        writer.message(header, |body| {
            body.put(&[family]).put(&vec![0; length - 1]);
        });
        sendto(&self.socket, &writer.finish(), SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        let mut dumped = Dumped::Complete;
        loop {
            let limit = Instant::now() + ANSWER_LIMIT;
            let length = loop {
                if let Some(length) = self.receive()? {
                    break length;
                }
                self.wait(limit, request)?;
            };
            match self.deliver(mirror, length, Some(&mut dumped))? {
                None => {}
                Some(0) => return Ok(dumped),
                // A kernel without nexthop objects has none to tell of.
                Some(error) if -error == Errno::OPNOTSUPP.raw_os_error() => return Ok(dumped),
                Some(error) if -error == Errno::INTR.raw_os_error() => return Ok(Dumped::Interrupted),
                Some(error) => {
                    return Err(KernelError::Refused {
                        request,
                        error: io::Error::from_raw_os_error(-error),
                    });
                }
            }
        }
    }

    fn wait(&self, limit: Instant, request: u16) -> Result<(), KernelError> {
        let left = limit.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(KernelError::Silent(request));
        }
        let left = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
        match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&left)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The length of the next datagram that the kernel sent, in `self.datagram`.
    fn receive(&mut self) -> Result<Option<usize>, KernelError> {
        loop {
            match recvfrom(&self.socket, &mut self.datagram[..], RecvFlags::TRUNC) {
                Ok((_, length, from)) => {
                    let from: Option<SocketAddrNetlink> = from.and_then(|from| from.try_into().ok());
                    if from.is_none_or(|from| from.pid() != 0) {
                        self.counters.foreign += 1;
                    } else if length > self.datagram.len() {
                        self.counters.truncated += 1;
                        self.is_behind = true;
                    } else {
                        return Ok(Some(length));
                    }
                }
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => {}
                Err(Errno::NOBUFS) => {
                    self.counters.overflows += 1;
                    self.is_behind = true;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Hands a datagram's messages to the mirror. Within a dump, its end as 0 or an error's
    /// number.
    fn deliver(
        &mut self,
        mirror: &mut Mirror,
        length: usize,
        mut dumped: Option<&mut Dumped>,
    ) -> Result<Option<i32>, KernelError> {
        let bytes = &self.datagram[..length];
        for message in Messages::new(bytes) {
            let Ok((header, body)) = message else {
                mirror.count_malformed();
                // Behind it may have stood anything.
                self.is_behind = true;
                break;
            };
            if header.kind == OVERRUN {
                self.is_behind = true;
            }
            if header.kind == DEL_ADDRESS && body.first() == Some(&FAMILY_V4) {
                self.gone_addresses.note(Instant::now());
            }
            let is_answer = (header.sequence, header.port) == (self.sequence, self.port);
            let parsed = netlink::parse(&header, body);
            match parsed {
                Ok(Body::Done) if is_answer => return Ok(Some(0)),
                Ok(Body::Error(error)) if is_answer => return Ok(Some(error)),
                Ok(body) => mirror.apply(self.generation, &header, body),
                Err(_) => mirror.count_malformed(),
            }
            if let Some(dumped) =
                dumped.as_deref_mut().filter(|_| is_answer && header.flags & IS_INTERRUPTED != 0)
            {
                *dumped = Dumped::Interrupted;
            }
        }
        Ok(None)
    }
}

impl AsFd for Kernel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Addresses that go one after the other neither put the asking off nor have it done for each.
    #[test]
    fn addresses_that_go_all_the_time_are_asked_for_at_a_pace() {
        let (mut gone, start) = (GoneAddresses::default(), Instant::now());
        assert!(!gone.is_due(start));
        let mut asked = Vec::new();
        for ms in (0..12_000).step_by(100) {
            let now = start + Duration::from_millis(ms);
            gone.note(now);
            if gone.is_due(now) {
                asked.push(ms);
            }
        }
        assert_eq!(asked, [200, 5_200, 10_200]);
        // The last of them went after that, and is asked for once more.
        let rest = (12_000..60_000).step_by(100);
        let asked: Vec<u64> = rest.filter(|ms| gone.is_due(start + Duration::from_millis(*ms))).collect();
        assert_eq!(asked, [15_200]);
        gone.note(start + Duration::from_secs(60));
        assert!(gone.is_due(start + Duration::from_millis(60_200)));
        assert!(!gone.is_due(start + Duration::from_secs(120)));
    }
}
