//! One router in the place of another, while packets come in.
//!
//! The new one is made ready beside the old one, which goes on, and refused when
//! anything is wrong with it. Then the old one ends, the new one takes over what
//! elements of the same name and class kept, and runs. What came in meanwhile waits
//! in the rings of the ports.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use smallvec::smallvec;

use crate::element::Refused;
use crate::plan::configure::in_phases;
use crate::run::counters::Counters;
use crate::run::lane::Lane;
use crate::run::locked::Locked;
use crate::run::router::Router;
use crate::run::shared::{CONTINUED, Hotswap};

/// Turns that packets get which were under way when a router ended: one that goes
/// in circles for ever is not waited for.
const LAST_TURNS: usize = 1024;
/// Tasks that have a turn before it is asked whether the new router is ready.
const TASKS: usize = 32;

impl Router {
    /// Takes over what the elements of an old router kept, where name and class are
    /// the same, and what was counted for them. The old one has ended and was not
    /// cleaned up; this one has not begun.
    pub fn take_over(&mut self, old: &mut Router) {
        old.finish();
        old.lanes.iter_mut().for_each(|lane| crate::run::fused::dissolve_all(&mut lane.slots));
        for (lane, old_lane) in self.lanes.iter_mut().zip(&mut old.lanes) {
            // Memory is near the core that it was made for.
            if self.cores.get(lane.id) == old.cores.get(lane.id) {
                lane.buffers.inherit(&mut old_lane.buffers);
            }
        }
        for index in in_phases(&self.shared.plan.elements) {
            let planned = &self.shared.plan.elements[index];
            let name = planned.name.strip_suffix(CONTINUED).unwrap_or(&planned.name);
            let Some(before) = old.shared.plan.find(name, None) else { continue };
            if std::ptr::eq(old.shared.plan.elements[before].kind, planned.kind) {
                self.take_over_one(index, old, before);
            }
        }
    }

    /// Each copy of the old element gives to one of the new ones.
    fn take_over_one(&mut self, index: usize, old: &mut Router, before: usize) {
        let mine = self.places(index);
        for (n, from) in old.places(before).into_iter().enumerate() {
            let Some(&to) = mine.get(n % mine.len().max(1)) else { return };
            let Some(mut kept) = old.lanes[from].slots[before].element.take() else { continue };
            let lane = &mut self.lanes[to];
            Locked::behind(&mut *kept, |kept| {
                lane.with_real(index, |element, cx| element.take_over(cx, kept));
            });
            lane.deliver(index);
            // What is counted in the old one from now on is its own.
            let counters = &mut old.lanes[from].slots[before].counters;
            let none = Counters { drops: smallvec![0; counters.drops.len()], ..Counters::default() };
            lane.slots[index].counters.add(&std::mem::replace(counters, none));
            old.lanes[from].slots[before].element = Some(kept);
        }
    }

    /// The lanes that an element is in; one for all that share it behind a lock.
    fn places(&self, element: usize) -> Vec<usize> {
        let has = |lane: &&Lane| lane.slots[element].element.is_some();
        let all = self.lanes.iter().filter(has).map(|lane| lane.id);
        all.take(if self.shared.plan.elements[element].locked { 1 } else { usize::MAX }).collect()
    }

    /// Packets that were under way go on to where they are kept, or sent.
    fn finish(&mut self) {
        for lane in &mut self.lanes {
            for _ in 0..LAST_TURNS {
                if !lane.has_deferred() {
                    break;
                }
                lane.run_deferred();
            }
        }
    }
}

impl Lane {
    /// Has a router made of a new configuration, while this one goes on, and ends
    /// this one when it is ready. From then on no other one is made here: the next is
    /// asked of the new router.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub(crate) fn hotswap(&mut self, from: Option<usize>, config: &str) -> Result<(), Refused> {
        let hotswap = self.shared.hotswap.clone().ok_or("this router cannot be replaced")?;
        if !self.shared.begin_swap() {
            return Err(match self.shared.is_replaced() {
                true => "another configuration has been accepted".into(),
                false => "another configuration is being made ready".into(),
            });
        }
        // An element behind a lock would keep others waiting who are waited for.
        let locked = from.is_some_and(|element| self.shared.plan.elements[element].locked);
        let made = match locked || self.shared.clock.jumps() {
            true => hotswap(config, from.map(|element| &self.shared.plan.elements[element])),
            false => self.go_on_until(hotswap, from, config.to_string()),
        };
        if let Err(wrong) = made {
            self.shared.refuse_swap();
            return Err(wrong.into());
        }
        self.shared.end_replaced();
        Ok(())
    }

    /// Has the router made by a thread of its own; tasks and timers go on here.
    fn go_on_until(&mut self, hotswap: Hotswap, from: Option<usize>, config: String) -> Result<(), String> {
        let (answer, wait) = mpsc::sync_channel(1);
        let shared = self.shared.clone();
        let make = move || {
            runtime::cores::unpin();
            let from = from.map(|element| &shared.plan.elements[element]);
            let _ = answer.send(hotswap(&config, from)); // whoever asked waits
        };
        let made = thread::Builder::new().name("hotswap".into()).spawn(make);
        made.map_err(|error| format!("cannot start a thread: {error}"))?;
        let mut idle = false;
        loop {
            let timeout = if idle { Duration::from_millis(1) } else { Duration::ZERO };
            match wait.recv_timeout(timeout) {
                Ok(made) => return made,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err("the new router could not be made".into()),
            }
            self.read_messages();
            idle = true;
            for _ in 0..TASKS {
                match self.run_task() {
                    Some(worked) => idle &= !worked,
                    None => break,
                }
            }
            self.run_timers();
            self.run_deferred();
        }
    }
}
