//! A table that one thread changes while others look up in it.
//!
//! There are two copies. Readers look up in one while the writer changes the other;
//! [`Publisher::publish`] swaps them. A reader so sees all of a set of changes or none,
//! never a table between two states, and holds no lock while it looks up: once a batch
//! it compares one number. When the readers have moved on, the writer makes the same
//! changes to the other copy.
//!
//! A reader that never asks again keeps its copy alive, and the writer must make a
//! third: milliseconds and memory, but nothing wrong. So drop a [`Reader`] that rests.

use crate::error::Result;
use crate::lpm::{Route, Table4, Table6};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Changes that are remembered for the other copy before it is given up and copied anew.
const REMEMBERED: usize = 1 << 16;

/// Between two looks whether the readers have moved on.
const NAP: Duration = Duration::from_micros(50);

/// A change of a table whose addresses are `A`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change<A> {
    /// Adds the route or replaces its value.
    Insert(Route<A>),
    /// Removes the route of this prefix and length.
    Remove(A, u8),
}

/// What can be changed the same way twice.
pub trait Changes: Clone {
    /// A change.
    type Change: Copy;

    /// Makes a change; the value that was there before. Copies that were equal are equal
    /// afterwards, refused changes included.
    fn change(&mut self, change: Self::Change) -> Result<Option<u32>>;
}

impl Changes for Table4 {
    type Change = Change<u32>;

    fn change(&mut self, change: Change<u32>) -> Result<Option<u32>> {
        match change {
            Change::Insert(route) => self.insert(route.prefix, route.len, route.value),
            Change::Remove(prefix, len) => self.remove(prefix, len),
        }
    }
}

impl Changes for Table6 {
    type Change = Change<u128>;

    fn change(&mut self, change: Change<u128>) -> Result<Option<u32>> {
        match change {
            Change::Insert(route) => self.insert(route.prefix, route.len, route.value),
            Change::Remove(prefix, len) => self.remove(prefix, len),
        }
    }
}

#[derive(Debug)]
struct Shared<T> {
    /// How often a table was published.
    version: AtomicU64,
    table: Mutex<Arc<T>>,
}

impl<T> Shared<T> {
    fn table(&self) -> MutexGuard<'_, Arc<T>> {
        // Whoever panics in between leaves a whole table.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The one who changes the table.
#[derive(Debug)]
pub struct Publisher<T: Changes> {
    shared: Arc<Shared<T>>,
    /// The copy that no reader has. `None` until the next change.
    next: Option<Arc<T>>,
    /// Copies that were published before: freed here, never by a reader.
    retired: VecDeque<Arc<T>>,
    /// The changes of `next`; after publishing, those that the newest of the retired
    /// lacks. One more than `REMEMBERED` means that there were even more.
    log: Vec<T::Change>,
    patience: Duration,
}

/// One who looks up in the table; one for each thread.
#[derive(Debug)]
pub struct Reader<T> {
    shared: Arc<Shared<T>>,
    version: u64,
    table: Arc<T>,
}

impl<T: Changes> Publisher<T> {
    /// Publishes `table` as it is.
    pub fn new(table: T) -> Self {
        let shared = Shared { version: AtomicU64::new(0), table: Mutex::new(Arc::new(table)) };
        let (next, retired, log) = (None, VecDeque::new(), Vec::new());
        Publisher { shared: Arc::new(shared), next, retired, log, patience: Duration::from_millis(20) }
    }

    /// How long a change may wait for readers of the table before last (20 ms if nobody
    /// says), until their copy is given up and another made, which takes longer.
    pub fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// One more reader, who sees what is published.
    pub fn reader(&self) -> Reader<T> {
        let table = self.shared.table();
        // Under the lock the number belongs to the table.
        let version = self.shared.version.load(Ordering::Relaxed);
        Reader { shared: Arc::clone(&self.shared), version, table: Arc::clone(&table) }
    }

    /// Changes the copy that nobody sees yet; the value that was there before.
    pub fn change(&mut self, change: T::Change) -> Result<Option<u32>> {
        let old = self.next_mut().change(change)?;
        if self.log.len() <= REMEMBERED {
            self.log.push(change);
        }
        Ok(old)
    }

    /// Shows readers all changes since the last time.
    pub fn publish(&mut self) {
        let Some(next) = self.next.take() else { return };
        let mut table = self.shared.table();
        let before = std::mem::replace(&mut *table, next);
        // Release: who sees the number finds the table that it stands for.
        self.shared.version.fetch_add(1, Ordering::Release);
        drop(table);
        self.retired.push_back(before);
    }

    /// The copy that nobody sees, with all changes so far.
    pub fn pending(&mut self) -> &T {
        self.next_mut()
    }

    fn next_mut(&mut self) -> &mut T {
        if self.next.is_none() {
            self.next = Some(self.recycled().unwrap_or_else(|| Arc::new(T::clone(&self.shared.table()))));
            self.log.clear();
        }
        let next = self.next.as_mut().expect("it was put there");
        Arc::get_mut(next).expect("nobody else has seen this copy")
    }

    /// The copy that was published last, if no reader has it any more, brought up to date.
    fn recycled(&mut self) -> Option<Arc<T>> {
        let newest = self.retired.pop_back();
        self.retired.retain_mut(|table| Arc::get_mut(table).is_none());
        let mut newest = newest?;
        let begin = Instant::now();
        while Arc::get_mut(&mut newest).is_none() && begin.elapsed() < self.patience {
            std::thread::sleep(NAP);
        }
        let Some(table) = Arc::get_mut(&mut newest).filter(|_| self.log.len() <= REMEMBERED) else {
            self.retired.push_back(newest);
            return None;
        };
        for &change in &self.log {
            table.change(change).expect("an equal copy took the same change");
        }
        Some(newest)
    }
}

impl<T> Reader<T> {
    /// The table as last published. Call it once a batch: it costs one load when nothing
    /// was published.
    #[inline]
    pub fn table(&mut self) -> &T {
        // Acquire: pairs with the release in `publish`.
        if self.shared.version.load(Ordering::Acquire) != self.version {
            self.refresh();
        }
        &self.table
    }

    #[cold]
    fn refresh(&mut self) {
        let table = self.shared.table();
        self.version = self.shared.version.load(Ordering::Relaxed);
        self.table = Arc::clone(&table);
    }
}
