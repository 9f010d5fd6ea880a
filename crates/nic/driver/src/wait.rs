//! Waiting with a limit: for the answer to a command, and for a register, with an error
//! that tells what was seen.

use std::thread::sleep;
use std::time::{Duration, Instant};

use bus::{Bar, Pci};

use crate::{Error, Result};

/// How often a register is read while it is waited for.
const REGISTER: Duration = Duration::from_micros(50);

/// A wait that was given up, after so many milliseconds.
pub(crate) struct Late(pub(crate) u64);

/// Asks until there is an answer, with a pause between, for at most `limit`.
///
/// # Errors
/// When asking fails: there will be no answer.
pub(crate) fn poll<T>(
    limit: Duration,
    pause: Duration,
    mut ask: impl FnMut() -> Result<Option<T>>,
) -> Result<std::result::Result<T, Late>> {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask()? {
            return Ok(Ok(answer));
        }
        let waited = start.elapsed();
        if waited >= limit {
            return Ok(Err(Late(waited.as_millis() as u64)));
        }
        sleep(pause);
    }
}

/// A condition on a register: the bits under `mask` become `wanted`.
pub(crate) struct Until {
    pub register: &'static str,
    pub offset: u32,
    pub mask: u32,
    pub wanted: u32,
    /// What it means if they do not, and what to do.
    pub meaning: &'static str,
}

/// Polls until the condition holds, for at most `limit_ms`, and as long as the device is there.
pub(crate) fn wait(pci: &Pci, bar: &Bar, device: &str, limit_ms: u64, until: &Until) -> Result<()> {
    let mut last = 0;
    let ask = || {
        last = bar.read32(until.offset);
        if last & until.mask == until.wanted {
            return Ok(Some(()));
        }
        // So all registers of a device read that is gone.
        if last == u32::MAX {
            pci.health()?;
        }
        Ok(None)
    };
    let (begin, polled) = (Instant::now(), poll(Duration::from_millis(limit_ms), REGISTER, ask)?);
    let &Until { register, offset, mask, wanted, meaning } = until;
    let Err(Late(waited_ms)) = polled else {
        let waited_us = begin.elapsed().as_micros();
        tracing::debug!(port = device, "{register} ({offset:#x}) is {last:#x} after {waited_us} us");
        return Ok(());
    };
    let device = device.to_owned();
    Err(Error::Timeout { device, register, offset, last, mask, wanted, waited_ms, meaning })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_with_an_answer_a_failure_or_its_limit() {
        let pause = Duration::from_micros(1);
        let mut asked = 0;
        let third = || {
            asked += 1;
            Ok((asked == 3).then_some(asked))
        };
        assert!(matches!(poll(Duration::from_secs(60), pause, third), Ok(Ok(3))));
        let limit = Duration::from_millis(2);
        assert!(matches!(poll::<()>(limit, pause, || Ok(None)), Ok(Err(Late(2..)))));
        let fails = || Err(port::OptionError { option: "", value: 0, limit: "" }.into());
        assert!(poll::<()>(Duration::from_secs(60), pause, fails).is_err());
        let mut asked = 0;
        let once = poll::<()>(Duration::ZERO, pause, || {
            asked += 1;
            Ok(None)
        });
        assert!(matches!(once, Ok(Err(Late(0)))) && asked == 1, "it is asked once at least");
    }
}
