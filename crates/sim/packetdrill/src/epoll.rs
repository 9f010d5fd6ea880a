//! `poll` and `epoll`: which of a socket's events an application is told.

use crate::errors::Answer;
use crate::host::{Descriptor, Host};
use crate::socket::{Role, Socket};

/// What an epoll instance waits for on a descriptor.
#[derive(Debug, Clone, Copy)]
pub struct Interest {
    /// `EPOLLIN` and others, `EPOLLET` and `EPOLLONESHOT` among them.
    pub events: u32,
    /// What the application wants to be told with them.
    pub data: u64,
    /// The events of the socket that were told by an instance with `EPOLLET`.
    told: (u64, u64),
    /// What was told then.
    last: u32,
}

const IN: u32 = libc::EPOLLIN as u32;
const OUT: u32 = libc::EPOLLOUT as u32;
const URGENT: u32 = libc::EPOLLPRI as u32;
/// What Linux tells with the two of them.
const READ_NORMAL: u32 = libc::EPOLLRDNORM as u32;
const WRITE_NORMAL: u32 = libc::EPOLLWRNORM as u32;
const ERR: u32 = libc::EPOLLERR as u32;
const HUP: u32 = libc::EPOLLHUP as u32;
const RDHUP: u32 = libc::EPOLLRDHUP as u32;
const EDGE: u32 = libc::EPOLLET as u32;
const ONE_SHOT: u32 = libc::EPOLLONESHOT as u32;

impl Host {
    /// The events of a socket at present, as `poll` and `epoll` number them alike.
    pub fn events(&self, socket: &Socket) -> u32 {
        let events = self.plain_events(socket);
        let normal = [(IN, READ_NORMAL), (OUT, WRITE_NORMAL)];
        normal.iter().filter(|(event, _)| events & event != 0).fold(events, |all, (_, more)| all | more)
    }

    fn plain_events(&self, socket: &Socket) -> u32 {
        let mut events = 0;
        match &socket.role {
            Role::Listening { waiting, .. } => return if waiting.is_empty() { 0 } else { IN },
            Role::Fresh if socket.put_off.is_some() => return OUT,
            Role::Fresh => return OUT | HUP,
            Role::Ended => events |= IN | OUT | HUP | RDHUP,
            Role::Open(id) => {
                if socket.was_open && self.is_roomy(socket, *id) {
                    events |= OUT;
                }
            }
        }
        // One that is passed over does not count.
        let least = socket.choices.least_read + usize::from(socket.before_mark() == Some(0));
        if socket.received.len() >= least {
            events |= IN;
        }
        if socket.has_urgent() {
            events |= URGENT;
        }
        if socket.is_peer_finished || socket.is_read_shut {
            events |= IN | RDHUP;
        }
        if socket.is_write_shut {
            events |= OUT;
        }
        if (socket.is_peer_finished || socket.is_read_shut) && socket.is_write_shut {
            events |= HUP;
        }
        if socket.error != 0 || socket.zero_copy.has_notice() || socket.stamps.has_stamp() {
            events |= ERR;
        }
        events
    }

    /// Below how many bytes that were not sent a socket counts as writable.
    pub fn not_sent_low(&self, socket: &Socket) -> Option<u32> {
        socket
            .choices
            .not_sent_low
            .filter(|low| *low != 0)
            .or_else(|| self.settings.number("tcp_notsent_lowat"))
    }

    /// The events of a descriptor at present; `POLLNVAL` where it is none of a socket.
    pub fn poll_one(&self, descriptor: i32, wanted: i16) -> i16 {
        let Ok(number) = self.number(descriptor) else { return libc::POLLNVAL };
        let Some(socket) = self.sockets.get(&number) else { return libc::POLLNVAL };
        let always = libc::POLLERR | libc::POLLHUP;
        self.events(socket) as i16 & (wanted | always)
    }

    fn interests(&mut self, instance: i32) -> Answer<&mut std::collections::BTreeMap<i32, Interest>> {
        match self.descriptors.get_mut(&instance) {
            Some((Descriptor::Epoll(interests), _)) => Ok(interests),
            Some(_) => Err(libc::EINVAL),
            None => Err(libc::EBADF),
        }
    }

    /// Has an instance wait for events of a descriptor, or not any more.
    ///
    /// # Errors
    /// As `epoll_ctl` has them.
    pub fn epoll_control(
        &mut self,
        instance: i32,
        operation: i32,
        descriptor: i32,
        events: u32,
        data: u64,
    ) -> Answer {
        self.number(descriptor)?;
        let interests = self.interests(instance)?;
        let is_known = interests.contains_key(&descriptor);
        match (operation, is_known) {
            (libc::EPOLL_CTL_ADD, true) => return Err(libc::EEXIST),
            (libc::EPOLL_CTL_MOD | libc::EPOLL_CTL_DEL, false) => return Err(libc::ENOENT),
            (libc::EPOLL_CTL_DEL, true) => drop(interests.remove(&descriptor)),
            (libc::EPOLL_CTL_ADD | libc::EPOLL_CTL_MOD, _) => {
                let interest = Interest { events, data, told: (u64::MAX, u64::MAX), last: 0 };
                interests.insert(descriptor, interest);
            }
            _ => return Err(libc::EINVAL),
        }
        Ok(0)
    }

    /// What an instance has to tell: events and what the application gave for them.
    ///
    /// # Errors
    /// As `epoll_wait` has them.
    pub fn epoll_look(&mut self, instance: i32, most: usize) -> Answer<Vec<(u32, u64)>> {
        let mut interests = std::mem::take(self.interests(instance)?);
        let mut found = Vec::new();
        for (descriptor, interest) in &mut interests {
            if found.len() < most
                && let Some(events) = self.told_events(*descriptor, interest)
            {
                found.push((events, interest.data));
            }
        }
        *self.interests(instance)? = interests;
        Ok(found)
    }

    /// The events that are told of a descriptor; `None` for none.
    fn told_events(&self, descriptor: i32, interest: &mut Interest) -> Option<u32> {
        let number = self.number(descriptor).ok()?;
        let socket = self.sockets.get(&number)?;
        let is_disarmed = interest.events & !(EDGE | ONE_SHOT) == 0;
        let events = self.events(socket) & (interest.events | ERR | HUP);
        if events == 0 || is_disarmed {
            return None;
        }
        if interest.events & EDGE != 0 {
            let present = (socket.in_events, socket.out_events);
            if interest.told == present && interest.last & events == events {
                return None;
            }
            (interest.told, interest.last) = (present, events);
        }
        if interest.events & ONE_SHOT != 0 {
            interest.events &= EDGE | ONE_SHOT;
        }
        Some(events)
    }
}
