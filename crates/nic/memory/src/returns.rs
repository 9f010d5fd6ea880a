//! The way back to a pool from any thread: a stack onto which anyone pushes
//! with one atomic operation and from which the owner takes everything.
//!
//! Taking all at once is what makes it safe without counters or hazard
//! pointers: no one ever pops a single node, so a head that was seen cannot
//! have left and come back with another successor (ABA). The nodes are the
//! buffers themselves, each with one owner, so the stack never holds more than
//! the pool has. A model checker walks through its interleavings (`tests`).

use std::ptr::{self, NonNull};

#[cfg(loom)]
use loom::sync::atomic::{AtomicIsize, AtomicPtr, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicIsize, AtomicPtr, Ordering};

/// A node that can stand in a [`Returns`] stack.
///
/// # Safety
/// `next` must give the same place each time, inside the node, and nothing else
/// may use that place while the node stands in the stack.
pub(crate) unsafe trait Node {
    fn next(node: NonNull<Self>) -> NonNull<*mut Self>;
}

/// Nodes on their way back to the owner.
#[derive(Debug)]
pub(crate) struct Returns<N> {
    head: AtomicPtr<N>,
    /// Nodes still out when the owner closed the stack, less those that came
    /// back since; below zero while the owner still counts.
    outstanding: AtomicIsize,
}

/// The head once the owner is gone: an address no node can have.
const CLOSED: usize = 1;

impl<N: Node> Returns<N> {
    pub(crate) fn new() -> Self {
        Returns { head: AtomicPtr::new(ptr::null_mut()), outstanding: AtomicIsize::new(0) }
    }

    /// Hands `node` back. `true` when the owner is gone and this was the last
    /// node out: the caller must then free what the nodes live in.
    #[must_use]
    pub(crate) fn push(&self, node: NonNull<N>) -> bool {
        let next = N::next(node);
        // Relaxed: the value is only compared, and CLOSED is final.
        let mut head = self.head.load(Ordering::Relaxed);
        while head.addr() != CLOSED {
            // SAFETY: the node is ours until the exchange below succeeds, and
            // `Node` promises that `next` is a place inside it for this use.
            unsafe { next.write(head) };
            // Release: the owner that takes the node sees all that was done to
            // it here, the link included. On failure only the value matters.
            match self.head.compare_exchange_weak(head, node.as_ptr(), Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return false,
                Err(seen) => head = seen,
            }
        }
        // AcqRel: whoever counts the last one sees what all others did before.
        self.outstanding.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Takes all nodes, last returned first.
    pub(crate) fn take(&self) -> Taken<N> {
        // A load first: most of the time there is nothing, and a load leaves
        // the cache line shared.
        if self.head.load(Ordering::Relaxed).is_null() {
            return Taken(ptr::null_mut());
        }
        // Acquire: pairs with the release in `push`.
        Taken(self.head.swap(ptr::null_mut(), Ordering::Acquire))
    }

    /// Ends the owner's part. `home` nodes of `capacity` are with the owner.
    /// `true` when no node is out any more: the caller must then free what the
    /// nodes live in; else the last [`push`](Self::push) says so.
    #[must_use]
    pub(crate) fn close(&self, home: usize, capacity: usize) -> bool {
        let closed = ptr::without_provenance_mut(CLOSED);
        let returned = Taken(self.head.swap(closed, Ordering::Acquire)).count();
        let out = (capacity - home - returned) as isize;
        // Until this addition the count is at most zero, so that no `push` can
        // take itself for the last.
        self.outstanding.fetch_add(out, Ordering::AcqRel) + out == 0
    }
}

/// Nodes taken from the stack; each belongs to whoever iterates.
pub(crate) struct Taken<N>(*mut N);

impl<N: Node> Iterator for Taken<N> {
    type Item = NonNull<N>;

    fn next(&mut self) -> Option<NonNull<N>> {
        let node = NonNull::new(self.0)?;
        // SAFETY: the node left the stack and is ours; its link was written
        // before it was pushed.
        self.0 = unsafe { N::next(node).read() };
        Some(node)
    }
}

/// Run with `RUSTFLAGS="--cfg loom" cargo test -p ixora-memory --release returns`.
#[cfg(all(test, loom))]
mod tests {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicUsize;

    struct Cell {
        next: *mut Cell,
    }

    // SAFETY: `next` is a field that only the stack uses.
    unsafe impl Node for Cell {
        fn next(node: NonNull<Cell>) -> NonNull<*mut Cell> {
            // SAFETY: a field of a live node.
            unsafe { NonNull::new_unchecked(&raw mut (*node.as_ptr()).next) }
        }
    }

    fn cell() -> usize {
        NonNull::from(Box::leak(Box::new(Cell { next: ptr::null_mut() }))).addr().get()
    }

    fn node(address: usize) -> NonNull<Cell> {
        NonNull::new(ptr::with_exposed_provenance_mut(address)).expect("boxes are not null")
    }

    /// Two threads return a node each while the owner takes: none is lost, none
    /// comes twice.
    #[test]
    fn every_node_comes_back_once() {
        loom::model(|| {
            let returns = Arc::new(Returns::<Cell>::new());
            let cells = [cell(), cell()];
            let threads = cells.map(|c| {
                let returns = returns.clone();
                loom::thread::spawn(move || assert!(!returns.push(node(c))))
            });
            let mut seen: Vec<usize> = returns.take().map(|n| n.addr().get()).collect();
            threads.into_iter().for_each(|t| t.join().expect("no panic"));
            seen.extend(returns.take().map(|n| n.addr().get()));
            seen.sort_unstable();
            let mut expected = cells.to_vec();
            expected.sort_unstable();
            assert_eq!(seen, expected);
        });
    }

    /// The owner leaves while two nodes are out: exactly one party is told to
    /// free, and only after both nodes are back.
    #[test]
    fn exactly_one_frees() {
        loom::model(|| {
            let returns = Arc::new(Returns::<Cell>::new());
            let told = Arc::new(AtomicUsize::new(0));
            let threads = [cell(), cell()].map(|c| {
                let (returns, told) = (returns.clone(), told.clone());
                loom::thread::spawn(move || {
                    if returns.push(node(c)) {
                        told.fetch_add(1, Ordering::SeqCst);
                    }
                })
            });
            if returns.close(0, 2) {
                told.fetch_add(1, Ordering::SeqCst);
            }
            threads.into_iter().for_each(|t| t.join().expect("no panic"));
            assert_eq!(told.load(Ordering::SeqCst), 1);
        });
    }
}
