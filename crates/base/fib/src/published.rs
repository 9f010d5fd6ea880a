//! A value that one thread changes while others read it, without locks for them.
//!
//! There are two copies. Readers read one while the writer changes the other;
//! [`Publisher::publish`] swaps them. A reader so sees all of a set of changes or none,
//! never a value between two states, and holds no lock while it reads: once a batch it
//! compares one number. When the readers have moved on, the writer makes the same changes
//! to the copy that they left.
//!
//! A reader that never asks again keeps its copy alive, and the writer makes another:
//! milliseconds and memory, but nothing wrong. So there are never more copies than readers
//! and two. Readers count references ([`Arc`]), so that none of this needs unsafe code.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a publication waits for the readers of the copy before last. A copy of a
/// small table takes about as long to make, so that waiting longer gains nothing.
const GRACE_PERIOD: Duration = Duration::from_millis(1);

#[derive(Debug)]
struct PublishedTable<T> {
    /// How often a value was published.
    version: AtomicU64,
    value: Mutex<Arc<T>>,
}

impl<T> PublishedTable<T> {
    fn value(&self) -> MutexGuard<'_, Arc<T>> {
        // Nothing that is done under the lock can panic half-way.
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which state a copy is in that the writer is to bring up to date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Base {
    /// What is published now.
    Published,
    /// What was published before that.
    Previous,
}

/// The one who changes the value.
#[derive(Debug)]
pub(crate) struct Publisher<T> {
    shared: Arc<PublishedTable<T>>,
    /// Copies that were published before, the newest last: freed here, never by a reader.
    retired: VecDeque<Arc<T>>,
}

/// One who reads the value.
#[derive(Debug)]
pub(crate) struct Reader<T> {
    shared: Arc<PublishedTable<T>>,
    version: u64,
    value: Arc<T>,
}

impl<T> Clone for Reader<T> {
    fn clone(&self) -> Self {
        Reader { shared: Arc::clone(&self.shared), version: self.version, value: Arc::clone(&self.value) }
    }
}

impl<T: Clone> Publisher<T> {
    /// Makes a publisher whose readers see `value` until the first change.
    pub(crate) fn new(value: T) -> Self {
        let shared = PublishedTable { version: AtomicU64::new(0), value: Mutex::new(Arc::new(value)) };
        Publisher { shared: Arc::new(shared), retired: VecDeque::new() }
    }

    /// One more reader, who sees what is published.
    pub(crate) fn reader(&self) -> Reader<T> {
        let value = self.shared.value();
        // Under the lock the number belongs to the value.
        let version = self.shared.version.load(Ordering::Relaxed);
        Reader { shared: Arc::clone(&self.shared), version, value: Arc::clone(&value) }
    }

    /// Shows readers a copy that `update` brought up to date: one that readers have left, if
    /// there is one.
    pub(crate) fn publish(&mut self, update: impl FnOnce(&mut T, Base)) {
        let recycled = self.recycled().map(|copy| (copy, Base::Previous));
        let (mut next, base) = recycled.unwrap_or_else(|| {
            let published = Arc::clone(&self.shared.value());
            (Arc::new(T::clone(&published)), Base::Published)
        });
        update(Arc::get_mut(&mut next).expect("no reader has seen this copy"), base);
        let mut value = self.shared.value();
        let before = std::mem::replace(&mut *value, next);
        // Release: who sees the number finds the value that it stands for.
        self.shared.version.fetch_add(1, Ordering::Release);
        drop(value);
        self.retired.push_back(before);
    }

    /// The copy that was published before this one, once no reader has it any more. Older
    /// ones are freed as soon as that is true of them.
    fn recycled(&mut self) -> Option<Arc<T>> {
        let newest = self.retired.pop_back();
        self.retired.retain_mut(|copy| Arc::get_mut(copy).is_none());
        let mut newest = newest?;
        let begin = Instant::now();
        while Arc::get_mut(&mut newest).is_none() {
            if begin.elapsed() > GRACE_PERIOD {
                self.retired.push_back(newest);
                return None;
            }
            // The reader may be waiting for this very core.
            std::thread::yield_now();
        }
        Some(newest)
    }

    /// All copies that there are.
    pub(crate) fn copies(&self) -> impl Iterator<Item = Arc<T>> {
        let published = Arc::clone(&self.shared.value());
        self.retired.iter().cloned().chain([published])
    }
}

impl<T> Reader<T> {
    /// The value as last published, for one load when nothing was published since.
    #[inline]
    pub(crate) fn value(&mut self) -> &T {
        // Acquire: pairs with the release in `publish`.
        if self.shared.version.load(Ordering::Acquire) != self.version {
            self.refresh();
        }
        &self.value
    }

    /// The lock is held by others for as long as it takes to copy or swap a pointer.
    #[cold]
    fn refresh(&mut self) {
        let value = self.shared.value();
        self.version = self.shared.version.load(Ordering::Relaxed);
        self.value = Arc::clone(&value);
    }

    /// The value that is held, without a look for a newer one.
    #[cfg(test)]
    pub(crate) fn held(&self) -> &T {
        &self.value
    }
}
