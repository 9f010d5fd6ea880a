//! SIGINT, SIGTERM and SIGHUP end a command cleanly; a second one ends it at
//! once, unless it comes together with the first: `timeout -s INT` sends two.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bus::signal::Again;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::Failure;

/// A signal that comes earlier than this after the first one is part of it.
const TOGETHER: Duration = Duration::from_millis(200);

/// A flag that these signals set. SIGHUP stays ignored where `nohup` said so.
pub fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    stop_flag_but(|_| false)
}

/// As [`stop_flag`], but for signals that somebody else waits for.
pub fn stop_flag_but(claimed: impl Fn(i32) -> bool) -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    // Not `stop` itself: a command that is ending by itself has set that, and its
    // first signal is not to end it at once.
    let again = Again::new(TOGETHER);
    let hangup = (!is_ignored(SIGHUP)).then_some(SIGHUP);
    for signal in [SIGINT, SIGTERM].into_iter().chain(hangup).filter(|signal| !claimed(*signal)) {
        let failed = |error| Failure::new(format!("cannot catch signal {signal}: {error}"));
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, again.clone())
            .map_err(failed)?;
        signal_hook::flag::register(signal, stop.clone()).map_err(failed)?;
    }
    Ok(stop)
}

/// A flag that a signal sets.
pub fn flag_of(signal: i32) -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::<AtomicBool>::default();
    signal_hook::flag::register(signal, flag.clone())
        .map_err(|error| Failure::new(format!("cannot catch signal {signal}: {error}")))?;
    Ok(flag)
}

/// Catches SIGHUP where `nohup` had it ignored, and does nothing then: exec(3) gives what was
/// caught its default action again, so programs that are started end when it is sent to them.
pub fn have_children_hang_up() -> Result<(), Failure> {
    if is_ignored(SIGHUP) {
        signal_hook::flag::register(SIGHUP, Arc::default())
            .map_err(|error| Failure::new(format!("cannot catch SIGHUP: {error}")))?;
    }
    Ok(())
}

/// Whether the signal was ignored when this process began (proc(5), `SigIgn`).
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn the_first_signal_of_a_command_that_is_ending_changes_nothing() {
        // Others in this process are not asked to stop by the signal of this test.
        let stop = stop_flag_but(|signal| signal != SIGHUP).expect("a handler");
        stop.store(true, Ordering::Relaxed);
        let own = rustix::process::getpid();
        rustix::process::kill_process(own, rustix::process::Signal::HUP).expect("a signal to ourselves");
        assert!(stop.load(Ordering::Relaxed), "and this process is still there");
    }
}
