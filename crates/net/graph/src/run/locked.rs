//! An element that several threads reach: a copy in each lane, or, where it must not
//! be there twice, one element behind a lock with a stand-in in each lane.
//!
//! What a locked element sends on is carried on when the lock is free again, so a
//! push holds one lock at a time. A pull holds those of the elements between the
//! one that asked and the one that has packets, always in that order.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memory::Batch;
use smallvec::{SmallVec, smallvec};

use crate::element::{Element, Next, Ran};
use crate::plan::{Instances, MAX_THREADS, Planned};
use crate::run::cx::Cx;
use crate::run::signal::{Notice, SignalKind};
use crate::run::task::TaskId;
use crate::run::timer::TimerId;
use crate::run::watch::WatchId;

/// An element's copies, each with its lane, the last lane first. Most elements are there once: no
/// memory of its own is taken for those.
pub(crate) type Copies = SmallVec<[(usize, Box<dyn Element>); 1]>;

/// One element for each lane that can reach it: copies where it can be there more
/// than once, else stand-ins for one behind a lock.
pub(crate) fn replicate(elements: &mut [Planned], made: Instances) -> impl Iterator<Item = Copies> {
    let one = |(planned, element): (&mut Planned, Option<Box<dyn Element>>)| {
        let Some(element) = element else { return smallvec![] };
        if planned.lanes.is_power_of_two() {
            return smallvec![(planned.lanes.trailing_zeros() as usize, element)];
        }
        let places: Vec<usize> = (0..MAX_THREADS).filter(|lane| planned.lanes >> lane & 1 == 1).collect();
        let mut copies: Vec<Box<dyn Element>> = vec![];
        for _ in 1..places.len() {
            copies.extend(element.replicate());
        }
        if copies.len() + 1 == places.len() {
            copies.insert(0, element);
        } else {
            planned.locked = true;
            copies = Locked::share(element, places.len());
        }
        places.into_iter().zip(copies).rev().collect()
    };
    elements.iter_mut().zip(made).map(one)
}

/// A stand-in for an element.
pub(crate) struct Locked {
    element: Arc<Mutex<Box<dyn Element>>>,
    /// Only one of the stand-ins initializes and ends the element.
    first: bool,
}

impl Locked {
    /// As many stand-ins for an element as are wanted.
    pub(crate) fn share(element: Box<dyn Element>, count: usize) -> Vec<Box<dyn Element>> {
        let element = Arc::new(Mutex::new(element));
        let stand_in = |i| Locked { element: element.clone(), first: i == 0 };
        (0..count).map(|i| Box::new(stand_in(i)) as Box<dyn Element>).collect()
    }

    /// The element behind a stand-in, or the element itself.
    pub(crate) fn behind<R>(element: &mut dyn Element, work: impl FnOnce(&mut dyn Element) -> R) -> R {
        match (&mut *element as &mut dyn std::any::Any).downcast_ref::<Locked>() {
            Some(stand_in) => work(&mut **stand_in.lock()),
            None => work(element),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Box<dyn Element>> {
        self.element.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Element for Locked {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if self.first { self.lock().init(cx) } else { Ok(()) }
    }

    fn push(&mut self, cx: &mut Cx<'_>, input: usize, batch: &mut Batch) -> Next {
        self.lock().push(cx, input, batch)
    }

    fn pull(&mut self, cx: &mut Cx<'_>, output: usize, batch: &mut Batch) {
        self.lock().pull(cx, output, batch);
    }

    fn run(&mut self, cx: &mut Cx<'_>, task: TaskId, batch: &mut Batch) -> Ran {
        self.lock().run(cx, task, batch)
    }

    fn fire(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        self.lock().fire(cx, timer);
    }

    fn ready(&mut self, cx: &mut Cx<'_>, watch: WatchId) {
        self.lock().ready(cx, watch);
    }

    fn notice(&self, kind: SignalKind, port: usize) -> Notice {
        self.lock().notice(kind, port)
    }

    fn begin(&mut self, cx: &mut Cx<'_>) {
        if self.first {
            self.lock().begin(cx);
        }
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        if self.first {
            self.lock().cleanup(cx);
        }
    }
}
