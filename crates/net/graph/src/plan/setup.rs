//! What an element learns, and may say, while it is made.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Weak};

use crate::element::class::{SystemNeed, SystemUse};
use crate::element::value::{NameKind, enclosing};
use crate::plan::{Plan, Planned};

/// Things that elements share with others: tables, states of flows.
pub type Shares = HashMap<(usize, TypeId), Arc<dyn Any + Send + Sync>>;

/// Things that come from outside the configuration, by type: ports, say.
#[derive(Clone, Default)]
pub struct Services(HashMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl Services {
    /// Adds one; a later one of the same type takes its place.
    pub fn add<T: Any + Send + Sync>(&mut self, service: Arc<T>) {
        self.0.insert(TypeId::of::<T>(), service);
    }

    /// The one of a type.
    pub fn get<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.0.get(&TypeId::of::<T>())?.clone().downcast().ok()
    }
}

/// The router that runs while another one is made to take its place: a service of that one, which
/// does not keep it when its time is over.
pub struct Predecessor(pub Weak<Plan>);

impl Predecessor {
    /// Whether an element of the next router goes on with what the running one has begun: that has
    /// one of the same name, class and configuration, which the next one takes over from.
    pub fn has(&self, planned: &Planned) -> bool {
        let Some(plan) = self.0.upgrade() else { return false };
        let before = plan.find(&planned.name, None).map(|before| &plan.elements[before]);
        before.is_some_and(|it| std::ptr::eq(it.kind, planned.kind) && it.config == planned.config)
    }
}

/// An element about to be made.
pub struct Setup<'a> {
    /// Its full name.
    pub name: &'a str,
    /// The name of its class in the configuration.
    pub class: &'a str,
    /// How many inputs are connected.
    pub inputs: usize,
    /// How many outputs are connected.
    pub outputs: usize,
    /// Its number, as in [`Plan::elements`](crate::plan::Plan::elements).
    pub index: usize,
    /// What comes from outside the configuration.
    pub services: &'a Services,
    pub(crate) shares: &'a mut Shares,
    pub(crate) elements: &'a [Planned],
    /// How many threads the router has.
    pub threads: usize,
    /// The memory that devices and packets share.
    pub dma: &'a memory::Dma,
    pub(crate) requests: Vec<Request>,
}

/// What an element asks of the router while it is made.
#[derive(Debug)]
pub(crate) enum Request {
    Declare(NameKind, String, String),
    Warn(String),
    Note(String),
    Thread(String, usize),
    Tickets(String, u32),
    Balance,
    Measure,
    Need(SystemNeed),
    Hold(u64),
    Single,
    Select(Arc<[AtomicUsize]>),
}

impl Setup<'_> {
    /// Declares a name of an address for the elements of the same compound and of
    /// those within it. Seen by elements of later phases.
    pub fn declare(&mut self, kind: NameKind, name: &str, value: String) {
        let prefix = &self.name[..self.name.rfind('/').map_or(0, |slash| slash + 1)];
        self.requests.push(Request::Declare(kind, format!("{prefix}{name}"), value));
    }

    /// Whether the element goes on with what the one before it has begun ([`Predecessor::has`]).
    pub fn continues(&self) -> bool {
        let before = self.services.get::<Predecessor>();
        before.is_some_and(|before| self.elements.get(self.index).is_some_and(|planned| before.has(planned)))
    }

    /// The element of this name, looked for in the same compound, then further out.
    pub fn find(&self, name: &str) -> Option<&'_ Planned> {
        let named = |full: String| self.elements.iter().find(|element| *element.name == full);
        enclosing(self.name).find_map(|prefix| named(format!("{prefix}{name}")))
    }

    /// Lets other elements have `what` by this element's name
    /// ([`Cx::shared`](crate::Cx::shared)), on any thread.
    pub fn share<T: Any + Send + Sync>(&mut self, what: Arc<T>) {
        self.shares.insert((self.index, TypeId::of::<T>()), what);
    }

    /// Whether this is the only element of the router that says so, for a `T`.
    pub fn claim<T: Any>(&mut self) -> bool {
        let mine: Arc<dyn Any + Send + Sync> = Arc::new(self.index);
        let first = self.shares.entry((usize::MAX, TypeId::of::<T>())).or_insert(mine);
        first.downcast_ref::<usize>() == Some(&self.index)
    }

    /// What elements of a router have in common, whoever they are: the first one that
    /// asks has it made.
    pub fn common<T: Any + Send + Sync + Default>(&mut self) -> Arc<T> {
        let made =
            self.shares.entry((usize::MAX, TypeId::of::<T>())).or_insert_with(|| Arc::new(T::default()));
        made.clone().downcast().expect("kept by its type")
    }

    /// Warns, with the element's name and place.
    pub fn warn(&mut self, message: impl Into<String>) {
        self.requests.push(Request::Warn(message.into()));
    }

    /// Says something that is not wrong, with the element's name and place.
    pub fn note(&mut self, message: impl Into<String>) {
        self.requests.push(Request::Note(message.into()));
    }

    /// Says what the element will ask of the system ([`Class::system`](crate::Class::system)).
    pub fn will_need(&mut self, what: SystemUse) {
        self.requests.push(Request::Need(SystemNeed { what, path: None }));
    }

    /// As [`will_need`](Self::will_need), of a file, or of a folder in which files are made.
    pub fn will_open(&mut self, what: SystemUse, path: impl Into<PathBuf>) {
        self.requests.push(Request::Need(SystemNeed { what, path: Some(path.into()) }));
    }

    /// Says how many packets the element may hold: there are so many buffers more.
    pub fn will_hold(&mut self, packets: usize) {
        self.requests.push(Request::Hold(packets as u64));
    }

    /// Has packets come one by one to the element, and to those in front of it
    /// ([`Planned::single`]): what becomes of one depends on what others did with the packet
    /// before it.
    pub fn take_one_by_one(&mut self) {
        self.requests.push(Request::Single);
    }

    /// For an element that does nothing else than choose one of its inputs for those that pull:
    /// for each output, which input it is now. The lane pulls there in its place, so that it may
    /// lead back to itself.
    pub fn select_inputs(&mut self, inputs: Arc<[AtomicUsize]>) {
        self.requests.push(Request::Select(inputs));
    }

    /// Has packets, batches and cycles counted for all elements.
    pub fn measure(&mut self) {
        self.requests.push(Request::Measure);
    }

    /// Shares elements with tasks out among the threads, as far as nobody says which.
    pub fn balance(&mut self) {
        self.requests.push(Request::Balance);
    }

    /// Has the tasks of an element, or of all in a compound, run by a thread.
    pub fn assign_thread(&mut self, element: impl Into<String>, thread: usize) {
        self.requests.push(Request::Thread(element.into(), thread));
    }

    /// Gives an element's tasks so many tickets, or those of a compound its share of
    /// [`TICKETS`](crate::plan::schedule_info::TICKETS).
    pub fn assign_tickets(&mut self, element: impl Into<String>, tickets: u32) {
        self.requests.push(Request::Tickets(element.into(), tickets));
    }
}
