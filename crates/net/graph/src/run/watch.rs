//! Files that elements wait for.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use runtime::{Wakeup, sleep};
use rustix::event::{PollFd, PollFlags};

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
    /// It can be read or written.
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

    /// Waits until something happens or `wakeup` is called, for `timeout_ns` at most
    /// (forever without); which watches, and their elements.
    pub(crate) fn wait(&self, wakeup: &Wakeup, timeout_ns: Option<i64>) -> Vec<(WatchId, usize)> {
        let live = || self.watches.iter().enumerate().filter_map(|(i, w)| Some((WatchId(i), w.as_ref()?)));
        let flags = |until| match until {
            Until::Readable => PollFlags::IN,
            Until::Writable => PollFlags::OUT,
            Until::Either => PollFlags::IN | PollFlags::OUT,
        };
        let mut polled = vec![PollFd::new(wakeup, PollFlags::IN)];
        polled.extend(live().map(|(_, w)| PollFd::from_borrowed_fd(w.file.as_fd(), flags(w.until))));
        if !sleep(&mut polled, timeout_ns.map(|ns| Duration::from_nanos(ns.max(0) as u64))) {
            return vec![];
        }
        if !polled[0].revents().is_empty() {
            wakeup.clear();
        }
        let happened = live().zip(&polled[1..]).filter(|(_, p)| !p.revents().is_empty());
        happened.map(|((id, watch), _)| (id, watch.element)).collect()
    }
}
