//! What lanes and the control tell each other: frames and stations, few, short and bounded.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use overlay::Observation;

/// Bytes of a frame: the longest that are understood are neighbours' messages with a few options.
pub(crate) const ROOM: usize = 128;
/// Frames that may wait, either way.
const WAITING: usize = 256;
/// Stations that may wait. Those for which there is no room are told of when they send again.
const OBSERVED: usize = 1024;

/// A short frame that came by a port of the underlay, or is to leave by it.
#[derive(Debug, Clone, Copy)]
pub struct Frame {
    /// The number of the underlay's port.
    pub port: u16,
    len: u8,
    bytes: [u8; ROOM],
}

impl Frame {
    /// A copy of a frame; `None` of one that is too long.
    pub fn new(port: u16, frame: &[u8]) -> Option<Frame> {
        let mut bytes = [0; ROOM];
        bytes.get_mut(..frame.len())?.copy_from_slice(frame);
        Some(Frame { port, len: frame.len() as u8, bytes })
    }

    /// The bytes of the frame, from the Ethernet header on.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// The control's ends of both channels.
#[derive(Debug)]
pub struct Channels {
    /// Answers that came.
    pub(crate) received: Receiver<Frame>,
    /// Requests that came.
    pub(crate) asking: Receiver<Frame>,
    /// Stations that were heard of behind tunnels.
    pub(crate) observed: Receiver<Observation>,
    /// Frames that are to leave.
    pub(crate) requests: SyncSender<Frame>,
}

/// A lane's way to the control.
#[derive(Debug, Clone)]
pub struct ToControl {
    /// For answers that came by ports of the underlay.
    pub frames: SyncSender<Frame>,
    /// For requests of neighbours. They have room of their own, as all hosts of a link get those for
    /// any of them, and nobody wakes up for them.
    pub asking: SyncSender<Frame>,
    /// For stations that were heard of behind tunnels.
    pub observed: SyncSender<Observation>,
}

/// The channels between lanes and a control: the control's ends, what lanes put frames into,
/// and what the first lane takes requests from.
pub fn channels() -> (Channels, ToControl, Receiver<Frame>) {
    let ((frames, received), (requests, to_lane)) = (sync_channel(WAITING), sync_channel(WAITING));
    let ((to_asking, asking), (to_observed, observed)) = (sync_channel(WAITING), sync_channel(OBSERVED));
    let to_control = ToControl { frames, asking: to_asking, observed: to_observed };
    (Channels { received, asking, observed, requests }, to_control, to_lane)
}
