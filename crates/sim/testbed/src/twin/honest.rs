//! What an honest client says to a server, from the first message to the last: each kind of
//! request that our clients have.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use bus::vfio_user::client::Client;
use bus::vhost_user::{Frontend, SPLIT_START, VhostRing};
use bus::{Backend, Error, Result};
use rustix::event::{EventfdFlags, eventfd};

use super::guarded::Guarded;
use super::vfio_user::SAMPLE_IOVA;

/// Pages of memory that a conversation offers.
pub const PAGES: usize = 2;
const BYTES: usize = PAGES * 4096;
/// Virtio features that are asked for: VERSION_1.
const FEATURES: u64 = 1 << 32;

fn event() -> Result<OwnedFd> {
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    eventfd(0, flags).map_err(|errno| Error::Os { doing: "making an eventfd".to_owned(), errno })
}

/// Speaks vfio-user, and goes on where something is refused. `timeout` is how long an
/// answer is waited for.
///
/// # Errors
/// The first thing that did not go as it should.
pub fn vfio_user(stream: UnixStream, memory: &Guarded, timeout: Duration) -> Result<()> {
    let client = Client::over(stream, "vfio-user:twin".to_owned(), timeout)?;
    let event = event()?;
    let mut word = [0; 4];
    let results = [
        client.read_config(0, &mut word),
        client.write_config(4, &[6, 0]),
        (0..6).try_for_each(|index| match client.bar_layout(index) {
            Ok(_) | Err(Error::NoBar { .. }) => Ok(()),
            Err(error) => Err(error),
        }),
        client.read_bar(0, 0, &mut word),
        client.map_dma(&memory.range(SAMPLE_IOVA)),
        client.set_interrupt(0, Some(event.as_fd())),
        client.write_bar(0, 0x14, &[0]),
        client.read_bar(0, 0x14, &mut word[..1]),
        client.set_interrupt(0, None),
        client.reset(),
        client.unmap_dma(SAMPLE_IOVA, BYTES),
        client.health(),
    ];
    results.into_iter().collect()
}

/// Likewise vhost-user. `later` is memory that comes and goes while rings run.
///
/// # Errors
/// The first thing that did not go as it should.
pub fn vhost_user(stream: UnixStream, memory: &Guarded, later: &Guarded, timeout: Duration) -> Result<()> {
    let frontend = Frontend::over(stream, "vhost-user:twin".to_owned(), timeout)?;
    let event = event()?;
    let ring = |index: u64| {
        let at = SAMPLE_IOVA + 0x1000 * index;
        VhostRing { size: 16, descriptors: at, driver: at + 0x400, device: at + 0x800, base: SPLIT_START }
    };
    let results = [
        frontend.set_features(FEATURES & frontend.features()),
        frontend.set_status(15),
        frontend.status().map(drop),
        if frontend.has_config() { frontend.config(0, &mut [0; 6]) } else { Ok(()) },
        frontend.map_dma(&memory.range(SAMPLE_IOVA)),
        frontend.set_interrupt(0, Some(event.as_fd())),
        frontend.start_ring(0, &ring(0), event.as_fd(), Some(0)),
        frontend.start_ring(1, &ring(1), event.as_fd(), None),
        frontend.enable_ring(0, true),
        frontend.enable_ring(1, true),
        frontend.map_dma(&later.range(2 * SAMPLE_IOVA)),
        frontend.unmap_dma(2 * SAMPLE_IOVA, BYTES),
        frontend.set_interrupt(0, None),
        frontend.stop_ring(0).map(drop),
        frontend.reset(),
        frontend.unmap_dma(SAMPLE_IOVA, BYTES),
        frontend.health(),
    ];
    results.into_iter().collect()
}
