//! What elements name: other elements, and handlers. All of it is known of a plan, so that a name
//! that is none is found before anything runs.

use std::any::{Any, TypeId};
use std::cell::Cell;
use std::sync::Arc;

use super::common::{ElementRow, LIVE_CONFIG, OF_HOTSWAP, OF_ROUTER, OF_TASKS, RouterRow, TaskRow, of_all};
use crate::element::Refused;
use crate::element::class::Class;
use crate::element::handler::Handler;
use crate::element::well_known::HandlerName;
use crate::lang::Problem;
use crate::plan::configure::{Results, in_phases};
use crate::plan::setup::Shares;
use crate::plan::{Instances, Plan, reach};
use crate::run::lane::Lane;
use crate::run::shared::RouterShared;

/// An element's number and the name of one of its handlers.
type Target = (usize, String);

/// The elements and handlers of a router, as one of its elements names them.
#[derive(Clone, Copy)]
pub struct Named<'a> {
    plan: &'a Plan,
    shares: &'a Shares,
    further: Further,
    stage: Stage<'a>,
    /// Who names them.
    from: Option<usize>,
}

/// Which handlers there are beside those that each router has.
#[derive(Clone, Copy)]
pub(crate) struct Further {
    /// Those of the router for a new configuration.
    pub(crate) hotswap: bool,
    /// Those of elements that Click's have not.
    pub(crate) beyond_click: bool,
}

/// How far a router is.
#[derive(Clone, Copy)]
enum Stage<'a> {
    /// Its elements are made, as far as nothing is wrong with them.
    Made(&'a Made<'a>),
    /// It is there, and knows which elements have tasks.
    There(&'a RouterShared),
}

/// The elements of a plan before there is a router, and what is not certain of an answer about
/// their names.
struct Made<'a> {
    /// The elements; none where something is wrong with one.
    elements: &'a Instances,
    /// Whether nothing is wrong with the configuration: else elements and connections are missing.
    is_whole: bool,
    /// The answer rests on something that is missing.
    misses: Cell<bool>,
    /// The answer is of a handler that elements have which have tasks: known when all are initialized.
    rests_on_tasks: Cell<bool>,
}

impl<'a> Named<'a> {
    /// Those of a plan, before there is a router.
    fn of_plan(
        plan: &'a Plan,
        shares: &'a Shares,
        further: Further,
        made: &'a Made<'a>,
        from: usize,
    ) -> Named<'a> {
        Named { plan, shares, further, stage: Stage::Made(made), from: Some(from) }
    }

    /// Those of a router.
    pub(crate) fn of_router(shared: &'a RouterShared, from: Option<usize>) -> Named<'a> {
        let further = Further { hotswap: shared.hotswap.is_some(), beyond_click: shared.thorough };
        Named { plan: &shared.plan, shares: shared.shares(), further, stage: Stage::There(shared), from }
    }

    /// An element of this name, looked for in the same compound, then further out.
    pub fn find(&self, name: &str) -> Option<usize> {
        let found = self.plan.find(name, self.from);
        if let (Stage::Made(made), Some(element)) = (self.stage, found)
            && made.elements[element].is_none()
        {
            made.misses.set(true);
        }
        found
    }

    /// Tells that an answer rests on connections.
    fn rests_on_connections(&self) {
        if let Stage::Made(made) = self.stage
            && !made.is_whole
        {
            made.misses.set(true);
        }
    }

    /// What the element of this name shares ([`Setup::share`](crate::Setup::share)).
    pub fn shared<T: Any + Send + Sync>(&self, name: &str) -> Option<Arc<T>> {
        self.shares.get(&(self.find(name)?, TypeId::of::<T>()))?.clone().downcast().ok()
    }

    /// Whether packets are pushed from an output of the element that asks.
    pub fn is_push_output(&self, output: usize) -> bool {
        self.rests_on_connections();
        let pulled = |from: usize| self.plan.elements[from].pull_outputs.get(output).copied();
        self.from.and_then(pulled) == Some(false)
    }

    /// The names of the nearest elements of which `is` is true: behind output `port`, or
    /// before input `port`. None of those that are only reached through another one.
    pub fn nearest(&self, port: usize, behind: bool, is: impl Fn(&Class) -> bool) -> Vec<String> {
        self.rests_on_connections();
        self.from.map_or_else(Vec::new, |from| self.plan.nearest(from, port, behind, is))
    }

    /// What is known of a handler: `element.handler`, or a global one.
    ///
    /// # Errors
    /// When there is none.
    pub fn handler_of(&self, name: &str) -> Result<Handler, Refused> {
        let (_, full, found) = self.look_up(name)?;
        found.ok_or(Refused::NoHandler(full))
    }

    /// What is known of a handler of another element.
    ///
    /// # Errors
    /// When there is none.
    pub fn handler_of_element(&self, element: &str, handler: HandlerName) -> Result<Handler, Refused> {
        self.handler_of(&format!("{element}.{handler}"))
    }

    /// Whether a handler can be written: for those who will later, and are to complain
    /// while the router is built.
    ///
    /// # Errors
    /// What [`Cx::write`](crate::Cx::write) would say if it cannot.
    pub fn can_write(&self, name: &str) -> Result<(), Refused> {
        let (_, full, found) = self.look_up(name)?;
        if found.is_some_and(|handler| handler.write) { Ok(()) } else { Err(Refused::NotWritable(full)) }
    }

    /// A handler's name as messages have it.
    pub(crate) fn full_name(&self, name: &str) -> String {
        let target = self.target(name).ok().flatten();
        self.full_name_of(target.as_ref(), name)
    }

    /// What a name stands for: an element's handler, or a global one; its full name, and what is
    /// known of it, if it is there.
    pub(super) fn look_up(&self, name: &str) -> Result<(Option<Target>, String, Option<Handler>), Refused> {
        let target = self.target(name)?;
        let full = self.full_name_of(target.as_ref(), name);
        let found = match &target {
            Some((element, handler)) => self.handler(*element, handler),
            None => self.global(&full),
        };
        Ok((target, full, found))
    }

    /// An element and one of its handlers; `None` for a global handler. A name alone is
    /// the asking element's own handler, or a global one.
    fn target(&self, name: &str) -> Result<Option<Target>, Refused> {
        if name.starts_with('.') && name.len() > 1 {
            return Ok(None);
        }
        let parts = name.split_once('.');
        if name.is_empty() || parts.is_some_and(|(_, handler)| handler.is_empty()) {
            return Err(Refused::BadName);
        }
        if let Some((element, handler)) = parts
            && let Some(index) = self.find(element)
        {
            return Ok(Some((index, handler.to_string())));
        }
        if let Some(own) = self.from.filter(|own| self.handler(*own, name).is_some()) {
            return Ok(Some((own, name.to_string())));
        }
        match parts {
            Some((element, _)) if self.global(name).is_none() => Err(Refused::NoElement(element.into())),
            _ => Ok(None),
        }
    }

    fn full_name_of(&self, target: Option<&Target>, name: &str) -> String {
        match target {
            Some((element, handler)) => format!("{}.{handler}", self.plan.elements[*element].name),
            None => name.strip_prefix('.').unwrap_or(name).to_string(),
        }
    }

    fn global(&self, name: &str) -> Option<Handler> {
        self.router_rows().find(|row| row.handler.name == name).map(|row| row.handler)
    }

    /// The handlers of this router.
    pub(super) fn router_rows(&self) -> impl Iterator<Item = &'static RouterRow> + use<> {
        let further = if self.further.hotswap { OF_HOTSWAP } else { &[] };
        OF_ROUTER.iter().chain(further)
    }

    /// The handlers of an element's tasks, if it has any. Before there is a router its ports tell
    /// whether it may.
    pub(super) fn task_rows(&self, element: usize) -> &'static [TaskRow] {
        let planned = &self.plan.elements[element];
        let has_tasks = match self.stage {
            Stage::There(router) => router.has_tasks(element),
            Stage::Made(made) => {
                let pulls = planned.kind.processing.contains('l');
                !made.is_whole || pulls || planned.hands_over || reach::drives(planned)
            }
        };
        if has_tasks { OF_TASKS } else { &[] }
    }

    /// The handlers that an element has without a row in its class.
    pub(super) fn rows_of_all(
        &self,
        element: usize,
    ) -> impl DoubleEndedIterator<Item = &'static ElementRow> + use<> {
        of_all(&self.plan.elements[element], self.further.beyond_click)
    }

    /// A handler of an element: the class's own before those that all have. `*` stands
    /// for any that is not there otherwise.
    fn handler(&self, element: usize, name: &str) -> Option<Handler> {
        let planned = &self.plan.elements[element];
        if name == "config" && planned.kind.live {
            return Some(LIVE_CONFIG);
        }
        let row = |row| planned.kind.handlers.handler(row);
        let of_all = || self.rows_of_all(element).find(|row| row.handler.name == name).map(|row| row.handler);
        let of_tasks = || {
            let rows = self.task_rows(element);
            let found = rows.iter().find(|row| row.handler.name == name).map(|row| row.handler);
            if let (Stage::Made(made), Some(_)) = (self.stage, found) {
                made.rests_on_tasks.set(true);
            }
            found
        };
        let own = planned.own_row(name).map(row);
        own.or_else(of_all).or_else(of_tasks).or_else(|| planned.own_row("*").map(row))
    }
}

/// Asks elements whether what they name is there, in the order in which they are initialized. One
/// that is made again when ports are open is asked as well: names do not depend on addresses. Those
/// that are to be asked again when all are initialized.
pub(crate) fn names_are_there(
    plan: &Plan,
    results: &Results,
    further: Further,
    is_whole: bool,
) -> Result<Vec<usize>, Vec<Problem>> {
    let (misses, rests_on_tasks) = (Cell::new(false), Cell::new(false));
    let made = Made { elements: &results.made, is_whole, misses, rests_on_tasks };
    let (mut again, mut problems) = (vec![], vec![]);
    for element in in_phases(&plan.elements) {
        let Some(one) = &results.made[element] else { continue };
        let named = Named::of_plan(plan, &results.shares, further, &made, element);
        let found = one.check_names(&named);
        if made.rests_on_tasks.take() {
            again.push(element);
        }
        // What comes of another problem is not told.
        if let Err(message) = found
            && !made.misses.get()
        {
            problems.push(plan.elements[element].initializing(message));
        }
        made.misses.set(false);
    }
    if problems.is_empty() { Ok(again) } else { Err(problems) }
}

/// Whether what an element names is there, in a router.
pub(crate) fn names_of(lane: &mut Lane, element: usize) -> Result<(), String> {
    lane.with_real(element, |element, cx| element.check_names(&cx.named())).unwrap_or(Ok(()))
}
