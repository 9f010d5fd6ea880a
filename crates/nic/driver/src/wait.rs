//! Waiting for a register, with a limit and an error that tells what was seen.

use std::thread::sleep;
use std::time::{Duration, Instant};

use bus::Bar;

use crate::{Error, Result};

/// A condition on a register: the bits under `mask` become `wanted`.
pub(crate) struct Until {
    pub register: &'static str,
    pub offset: u32,
    pub mask: u32,
    pub wanted: u32,
    /// What it means if they do not, and what to do.
    pub meaning: &'static str,
}

/// Polls until the condition holds, for at most `limit_ms`.
pub(crate) fn wait(bar: &Bar, device: &str, limit_ms: u64, until: &Until) -> Result<()> {
    let start = Instant::now();
    loop {
        let last = bar.read32(until.offset);
        if last & until.mask == until.wanted {
            return Ok(());
        }
        let waited_ms = start.elapsed().as_millis() as u64;
        if waited_ms >= limit_ms {
            let &Until { register, offset, mask, wanted, meaning } = until;
            let device = device.to_owned();
            return Err(Error::Timeout { device, register, offset, last, mask, wanted, waited_ms, meaning });
        }
        sleep(Duration::from_micros(50));
    }
}
