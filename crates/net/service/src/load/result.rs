//! What a load saw.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use hdrhistogram::Histogram;

/// The longest latency that is told apart, in nanoseconds; longer ones count as this.
pub(super) const LONGEST_NS: u64 = 100_000_000_000;

/// What was seen at one rate.
#[derive(Debug, Clone)]
pub struct Step {
    /// Requests that were to arrive in a second; `None` in a closed loop.
    pub rate: Option<f64>,
    /// How long it lasted, in nanoseconds.
    pub elapsed_ns: i64,
    /// Answers that were right.
    pub answers: u64,
    /// Answers that came before the step's time was over, right ones and misses.
    pub answers_in_time: u64,
    /// Keys that were not there.
    pub misses: u64,
    /// Answers that were not right.
    pub wrong: u64,
    /// Requests that were not answered by the end, and those that were not even sent.
    pub unanswered: u64,
    /// Connections that ended before.
    pub lost: u64,
    /// Connections that were opened in the place of those that had had all their requests.
    pub opened: u64,
    /// Latencies in nanoseconds. A request without an answer counts with the time that it
    /// has waited: its latency is not less.
    pub latency: Histogram<u64>,
}

impl Step {
    pub(super) fn new(rate: Option<f64>) -> Step {
        Step {
            rate,
            elapsed_ns: 0,
            answers: 0,
            answers_in_time: 0,
            misses: 0,
            wrong: 0,
            unanswered: 0,
            lost: 0,
            opened: 0,
            latency: histogram(),
        }
    }

    /// Counts a request that is not answered and has waited so long.
    pub(super) fn leave(&mut self, waited_ns: i64) {
        self.unanswered += 1;
        self.latency.saturating_record((waited_ns.max(1) as u64).min(LONGEST_NS));
    }

    /// Adds what another queue's load saw in it.
    fn add(&mut self, other: &Step) {
        self.rate = self.rate.zip(other.rate).map(|(one, other)| one + other);
        self.elapsed_ns = self.elapsed_ns.max(other.elapsed_ns);
        self.answers += other.answers;
        self.answers_in_time += other.answers_in_time;
        self.misses += other.misses;
        self.wrong += other.wrong;
        self.unanswered += other.unanswered;
        self.lost += other.lost;
        self.opened += other.opened;
        // Both have the same bounds.
        self.latency += &other.latency;
    }

    /// Answers in a second of the step's time, misses among them, as the latencies have them.
    pub fn rate_seen(&self) -> f64 {
        let seconds = self.elapsed_ns as f64 / 1e9;
        if seconds > 0.0 { self.answers_in_time as f64 / seconds } else { 0.0 }
    }
}

/// An empty histogram of three digits.
pub(super) fn histogram() -> Histogram<u64> {
    // The bounds are constants that it takes.
    Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("bounds of a histogram")
}

/// What a load saw in all.
#[derive(Debug, Clone, Default)]
pub struct Results {
    /// What was seen at each rate, one after the other.
    pub steps: Vec<Step>,
    /// Connections that were opened.
    pub connected: u64,
    /// Connections that were refused or not answered.
    pub refused: u64,
    /// Wrong answers in front of the first step.
    pub wrong: u64,
    /// Connections that ended in front of the first step and between two steps.
    pub lost: u64,
    /// The share of keys that may be missing, 0 to 1.
    pub max_misses: f64,
    /// Whether all steps came to their end.
    pub is_whole: bool,
}

impl Results {
    /// What loads saw together that ran on several queues: rates and counts are added up, and a step
    /// lasted as long as the longest.
    pub fn merged(all: impl IntoIterator<Item = Results>) -> Results {
        let mut all = all.into_iter();
        let mut sum = all.next().unwrap_or_default();
        for other in all {
            sum.connected += other.connected;
            sum.refused += other.refused;
            sum.wrong += other.wrong;
            sum.lost += other.lost;
            sum.is_whole &= other.is_whole;
            let common = sum.steps.len();
            for (step, other) in sum.steps.iter_mut().zip(&other.steps) {
                step.add(other);
            }
            sum.steps.extend(other.steps.into_iter().skip(common));
        }
        sum
    }

    /// Why the load is a failure; nothing when it is none.
    pub fn failures(&self) -> Vec<String> {
        let sum = |of: fn(&Step) -> u64| self.steps.iter().map(of).sum::<u64>();
        let answers = sum(|step| step.answers);
        // Of a load that a signal ended some are always under way.
        let unanswered = if self.is_whole { sum(|step| step.unanswered) } else { 0 };
        let counts = [
            (sum(|step| step.wrong) + self.wrong, "answers were wrong"),
            (self.refused, "connections were refused, or nobody answered"),
            (sum(|step| step.lost) + self.lost, "connections ended before their time"),
            (unanswered, "requests were not answered"),
        ];
        let counts = counts.iter().filter(|(count, _)| *count > 0);
        let mut reasons: Vec<String> = counts.map(|(count, what)| format!("{count} {what}")).collect();
        reasons.extend(self.too_many_misses(sum(|step| step.misses), answers));
        if answers == 0 {
            reasons.push("there was no right answer".to_owned());
        }
        reasons
    }

    /// That more keys were not there than may be.
    fn too_many_misses(&self, misses: u64, answers: u64) -> Option<String> {
        let share = misses as f64 / (misses + answers).max(1) as f64;
        (share > self.max_misses).then(|| {
            format!(
                "{misses} keys were not there, {:.3} % of those asked for; {:.3} % may be: give the cache more \
                 memory, ask for fewer keys, or allow more misses",
                share * 100.0,
                self.max_misses * 100.0
            )
        })
    }
}

/// What a load tells while it runs, once in a second, and at its end.
#[derive(Debug, Default)]
pub struct Live {
    /// Answers so far, misses among them.
    pub answers: AtomicU64,
    /// Latencies of the last second: the median, 99 of 100, and the longest, in nanoseconds.
    pub median_ns: AtomicU64,
    /// Of a hundred latencies of the last second 99 are at most this one, in nanoseconds.
    pub p99_ns: AtomicU64,
    /// The longest latency of the last second, in nanoseconds.
    pub max_ns: AtomicU64,
    /// The load has come to its end by itself.
    pub is_over: AtomicBool,
    results: Mutex<Results>,
}

impl Live {
    /// Tells of the last second.
    pub(super) fn tell(&self, answers: u64, latency: &Histogram<u64>) {
        self.answers.store(answers, Relaxed);
        self.median_ns.store(latency.value_at_quantile(0.5), Relaxed);
        self.p99_ns.store(latency.value_at_quantile(0.99), Relaxed);
        self.max_ns.store(latency.max(), Relaxed);
    }

    /// Keeps the results, those of a load that was ended from outside too.
    pub(super) fn keep(&self, results: Results) {
        *self.results.lock().unwrap_or_else(PoisonError::into_inner) = results;
    }

    /// The results, once the load has ended.
    pub fn results(&self) -> Results {
        self.results.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
