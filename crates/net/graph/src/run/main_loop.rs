//! A lane's round: tasks, timers, files, messages.

use crate::run::lane::Lane;

/// Tasks that run before anything else is looked at.
const TASKS_A_ROUND: usize = 128;
/// Rounds between two looks at watched files while tasks go on.
const ROUNDS_PER_POLL: u32 = 16;
/// How often those who want to go on are asked when the router is to stop.
const STEPS: usize = 1000;
/// How much later a timer fires whose element is at work when it is due.
const BUSY_NS: i64 = 1_000_000;

impl Lane {
    /// Runs until the router ends.
    pub(crate) fn run_until_end(&mut self) {
        let mut round = 0u32;
        while !self.shared.has_ended() {
            if self.id == 0 && self.shared.runs() <= 0 && !self.goes_on() {
                self.shared.end();
                break;
            }
            self.read_messages();
            self.run_tasks();
            if self.id == 0 && self.shared.runs() <= 0 {
                continue; // timers have their turn if it goes on
            }
            self.run_timers();
            self.run_deferred();
            if self.buffers.missing > 0 {
                self.tell_lack();
            }
            round = round.wrapping_add(1);
            if !self.tasks.any() && !self.has_deferred() {
                self.rest();
            } else if round.is_multiple_of(ROUNDS_PER_POLL) && self.watches.any() {
                self.poll_events(Some(0));
            }
        }
        // Who asks something now waits for no answer; who did already gets one.
        self.shared.mailboxes[self.id].set_served(false);
        self.read_messages();
    }

    /// Tells that packets were lost for want of buffers, if no thread of the router did yet.
    #[cold]
    fn tell_lack(&mut self) {
        let Some((element, complaint)) = self.buffers.complaint() else { return };
        if !self.shared.is_first_to_tell_lack() {
            return;
        }
        let named = |n: usize| format!("{} :: {}: ", self.shared.name(n), self.shared.plan.elements[n].class);
        let element = element.map(named).unwrap_or_default();
        self.shared.say(&format!("{element}thread {}: {complaint}", self.id));
    }

    fn run_tasks(&mut self) {
        for _ in 0..TASKS_A_ROUND {
            match self.run_task() {
                None => return,
                Some(_) if self.shared.runs() <= 0 || self.shared.has_ended() => return,
                Some(_) => {}
            }
        }
    }

    /// Calls elements whose timers are due, as many as there are now.
    pub(crate) fn run_timers(&mut self) {
        let mut now = self.shared.clock.now_ns();
        for _ in 0..64 {
            let Some((timer, element)) = self.timers.take(now) else { return };
            self.begin_turn();
            if self.with(element, |element, cx| element.fire(cx, timer)).is_none() {
                self.timers.set(timer, now.saturating_add(BUSY_NS)); // it is at work further up
            }
            self.charge(element);
            self.deliver(element);
            self.run_deferred();
            self.profiler.end();
            if !self.shared.clock.is_simulated() {
                now = now.max(self.shared.clock.now_ns());
            }
        }
    }

    /// Looks at watched files, and waits for them, timers and messages if there is
    /// nothing else to do.
    fn poll_events(&mut self, timeout_ns: Option<i64>) {
        let happened = self.watches.wait(&self.shared.mailboxes[self.id].wakeup, timeout_ns);
        if self.shared.clock.jumps() {
            self.shared.simulation.work(self.id);
        }
        for (watch, element) in happened {
            self.begin_turn();
            self.with(element, |element, cx| element.ready(cx, watch));
            self.charge(element);
            self.deliver(element);
            self.run_deferred();
            self.profiler.end();
        }
    }

    /// Does what other threads asked for.
    pub(crate) fn read_messages(&mut self) {
        let mailbox = self.shared.mailboxes[self.id].clone();
        if mailbox.has_messages() {
            let (tasks, jobs) = mailbox.take();
            tasks.into_iter().for_each(|task| self.tasks.schedule(task));
            for job in jobs {
                job(self);
                self.run_deferred();
            }
        }
    }

    /// Nothing to run: to the next timer, file or message.
    fn rest(&mut self) {
        if self.shared.runs() <= 0 || self.shared.has_ended() {
            return;
        }
        let first = self.timers.first();
        let clock = &self.shared.clock;
        let timeout = first.map(|at| clock.system_ns(at.saturating_sub(clock.now_ns())));
        match timeout {
            // More were due than fire in one round, or they are set anew each time.
            Some(..=0) if !self.watches.any() => {}
            Some(..=0) => self.poll_events(Some(0)),
            _ if clock.jumps() => self.rest_until_all_do(first, timeout.filter(|_| !clock.is_simulated())),
            _ => self.poll_events(timeout),
        }
    }

    /// As [`rest`](Self::rest), where time moves on when all threads rest: who moves it on wakes this
    /// one. It waits for messages and files, and for time where that passes meanwhile.
    fn rest_until_all_do(&mut self, first: Option<i64>, timeout: Option<i64>) {
        let shared = self.shared.clone();
        let goes_on = shared.simulation.rest(self.id, first, &shared.clock, &shared.mailboxes);
        if !goes_on || self.watches.any() {
            self.poll_events(if goes_on { Some(0) } else { timeout });
        }
    }

    /// Enough want to stop: asks whether somebody has something to do first.
    fn goes_on(&mut self) -> bool {
        for _ in 0..STEPS {
            let stepped = (0..self.slots.len()).any(|element| {
                let asked =
                    self.with_real(element, |e, cx| e.stop_hook().is_some_and(|hook| hook.stopping(cx)));
                let goes_on = asked.unwrap_or(false);
                self.deliver(element);
                goes_on
            });
            self.run_deferred();
            if self.shared.runs() > 0 {
                return true;
            }
            if !stepped {
                return false;
            }
        }
        false
    }
}

impl Lane {
    /// Runs up to `rounds` tasks and the timers between them: for tests and tools
    /// that look on.
    pub fn step(&mut self, rounds: usize) {
        for _ in 0..rounds {
            self.read_messages();
            let ran = self.run_task();
            self.run_timers();
            self.run_deferred();
            let idle = ran.is_none() && self.shared.clock.is_simulated();
            if let Some(at) = self.timers.first().filter(|_| idle) {
                self.shared.clock.jump_to(at);
            }
        }
    }
}
