//! One receive queue over several of the interface's: a socket gets only what its
//! own queue receives, so when a port is opened with fewer queues than the
//! interface uses, each takes its share of the rest. A flow stays on one of the
//! interface's queues, so its packets stay in order.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use memory::{Batch, Pool};
use rustix::event::epoll;

use super::rx::Rx;
use port::{RxQueue, RxStats};

/// Some queues of the interface, at least one.
#[derive(Debug)]
pub(super) struct Several {
    parts: Vec<Rx>,
    /// The one that is looked at first, so that none starves.
    first: usize,
    /// Readable when any of them is, where there are several.
    any: Option<OwnedFd>,
}

impl Several {
    pub(super) fn new(first: Rx) -> Several {
        Several { parts: vec![first], first: 0, any: None }
    }

    /// Takes on another one.
    pub(super) fn add(&mut self, part: Rx) {
        self.parts.push(part);
    }

    /// The interface's queues and their sockets.
    pub(super) fn sockets(&self) -> impl Iterator<Item = (u32, BorrowedFd<'_>)> {
        self.parts.iter().map(|part| (part.queue(), part.socket()))
    }

    /// All parts are there: gets ready to be armed, which a confined program has
    /// not the system calls for.
    pub(super) fn complete(&mut self) -> rustix::io::Result<()> {
        if self.parts.len() == 1 {
            return Ok(()); // its socket will do
        }
        let any = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for part in &self.parts {
            epoll::add(&any, part.socket(), epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        }
        self.any = Some(any);
        Ok(())
    }
}

impl RxQueue for Several {
    #[inline]
    fn recv(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        if let [one] = &mut self.parts[..] {
            return one.recv(pool, batch);
        }
        let (mut came, count) = (0, self.parts.len());
        for n in 0..count {
            came += self.parts[(self.first + n) % count].recv(pool, batch);
        }
        self.first = (self.first + 1) % count;
        came
    }

    fn stats(&self) -> RxStats {
        let mut sum = RxStats::default();
        for stats in self.parts.iter().map(Rx::stats) {
            sum.packets += stats.packets;
            sum.bytes += stats.bytes;
            sum.bursts += stats.bursts;
            sum.empty_polls += stats.empty_polls;
            sum.no_buffer += stats.no_buffer;
            sum.bad_descriptor += stats.bad_descriptor;
        }
        sum
    }

    /// The socket itself, or one descriptor for all: readable when a packet is
    /// there.
    fn arm(&mut self) -> Option<BorrowedFd<'_>> {
        match &self.parts[..] {
            [one] => Some(one.socket()),
            _ => self.any.as_ref().map(AsFd::as_fd),
        }
    }
}
