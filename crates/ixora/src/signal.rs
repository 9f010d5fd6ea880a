//! SIGINT and SIGTERM end a command cleanly; a second one ends it at once.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::Failure;

/// A flag that SIGINT and SIGTERM set.
pub fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        let failed = |error| Failure::new(format!("cannot catch signal {signal}: {error}"));
        // In this order: the first signal finds the flag unset and only sets
        // it, the second one finds it set and exits with 128 + the signal.
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, stop.clone())
            .map_err(failed)?;
        signal_hook::flag::register(signal, stop.clone()).map_err(failed)?;
    }
    Ok(stop)
}
