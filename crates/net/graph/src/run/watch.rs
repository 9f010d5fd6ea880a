//! Files that elements wait for.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::run::mailbox::Mailbox;

/// A watch of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WatchId(pub(crate) usize);

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// It can be read, or is closed.
    Readable,
    /// It can be written.
    Writable,
    /// Either.
    Either,
}

#[derive(Debug)]
struct Watch {
    element: usize,
    file: Arc<OwnedFd>,
    until: Until,
}

/// The watches of a lane.
#[derive(Debug, Default)]
pub struct Watches {
    watches: Vec<Option<Watch>>,
}

impl Watches {
    /// Begins to watch a file for an element.
    pub(crate) fn add(&mut self, element: usize, file: Arc<OwnedFd>, until: Until) -> WatchId {
        let watch = Some(Watch { element, file, until });
        match self.watches.iter().position(Option::is_none) {
            Some(free) => {
                self.watches[free] = watch;
                WatchId(free)
            }
            None => {
                self.watches.push(watch);
                WatchId(self.watches.len() - 1)
            }
        }
    }

    /// Changes what is waited for.
    pub(crate) fn change(&mut self, id: WatchId, until: Until) {
        if let Some(watch) = &mut self.watches[id.0] {
            watch.until = until;
        }
    }

    /// Ends a watch.
    pub(crate) fn remove(&mut self, id: WatchId) {
        self.watches[id.0] = None;
    }

    /// Whether anything is watched.
    pub(crate) fn any(&self) -> bool {
        self.watches.iter().any(Option::is_some)
    }

    /// Waits until something happens, for `timeout_ns` at most (forever without);
    /// which watches, and their elements.
    pub(crate) fn wait(&self, mailbox: &Mailbox, timeout_ns: Option<i64>) -> Vec<(WatchId, usize)> {
        let live = || self.watches.iter().enumerate().filter_map(|(i, w)| Some((WatchId(i), w.as_ref()?)));
        let flags = |until| match until {
            Until::Readable => PollFlags::IN,
            Until::Writable => PollFlags::OUT,
            Until::Either => PollFlags::IN | PollFlags::OUT,
        };
        let mut polled = vec![PollFd::from_borrowed_fd(mailbox.wakeup(), PollFlags::IN)];
        polled.extend(live().map(|(_, w)| PollFd::from_borrowed_fd(w.file.as_fd(), flags(w.until))));
        let timeout = timeout_ns
            .map(|ns| Timespec { tv_sec: ns.max(0) / 1_000_000_000, tv_nsec: ns.max(0) % 1_000_000_000 });
        // A signal is as good as a timeout: the caller looks around in any case.
        if poll(&mut polled, timeout.as_ref()).is_err() {
            return vec![];
        }
        if !polled[0].revents().is_empty() {
            mailbox.clear_wakeup();
        }
        let happened = live().zip(&polled[1..]).filter(|(_, p)| !p.revents().is_empty());
        happened.map(|((id, watch), _)| (id, watch.element)).collect()
    }
}
