//! Threads: each has a source, and all have the router.

use std::sync::Arc;

use super::{Point, Seen, Setup};
use crate::Result;
use crate::distance::{Line, is_near, near_or_all};
use crate::graph::window::{FromMemory, Threads};
use crate::two_cores::distance;
use runtime::cores::pin;

/// Each window stands between two measurements of the distance between the first thread's
/// core and the last's.
pub(super) fn measure(point: &Point, setup: &Setup) -> Result<Seen> {
    let count = point.x as usize;
    let cores: Vec<usize> = setup.cores.iter().copied().take(count).collect();
    let far = cores.last().copied().filter(|_| count > 1);
    let router = FromMemory::new(point.curve, count)?;
    let threads = Threads { count, cores };
    let packets = setup.packets * count as u64;
    router.window(setup.batch, (packets / 4).max(count as u64), &threads)?;
    let line = Arc::new(Line::default());
    let measured = || {
        // The router's lanes have pinned this thread as well.
        setup.cores.first().map(|&core| pin(core));
        far.map(|core| distance(&line, core))
    };
    let mut windows = vec![];
    for _ in 0..setup.windows {
        let before = measured();
        let cycles = router.window(setup.batch, packets, &threads)?;
        windows.push((cycles, before.max(measured())));
    }
    let (chosen, near) = near_or_all(windows, |(_, trip)| trip.is_some_and(is_near));
    Ok(Seen {
        cycles: chosen.into_iter().map(|(cycles, _)| cycles).collect(),
        windows: setup.windows,
        near_windows: far.map(|_| near),
        ..Seen::default()
    })
}
