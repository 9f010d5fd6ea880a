//! Ethernet segments: hosts that are connected to several tunnel endpoints at once (RFC 7432,
//! section 5). A frame for all comes from the overlay to each of these, and only one of them hands
//! it on to the hosts, the designated forwarder (section 8.5); none does if it came from the
//! segment itself by way of another endpoint, which is split horizon by local bias for tunnels
//! that carry no label of the segment (RFC 8365, section 8.3.1).
//!
//! Who is designated, and who the other endpoints are, others tell. Frames to one station are
//! handed on: nothing in VXLAN's header says of one that its sender did not know where the station
//! is (RFC 8365, section 8.3.3).

use std::net::IpAddr;

use fib::Reader;
use fib::exact::Exact;
use port::Reason;
use wire::ethernet;

use crate::error::{Error, Result};
use crate::learn::Observations;
use crate::network::Layer;
use crate::protocol::Refusal;
use crate::table::{Overlay, network_key};

/// Other endpoints of a segment, at most.
pub const MAX_PEERS: usize = 64;

/// The Ethernet segment that is behind a network's port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Segment {
    /// Whether frames for all that come from the overlay go to the segment by this endpoint.
    pub is_designated: bool,
    /// The addresses of the other endpoints that have the segment, as their tunnels' packets come
    /// from them. They hand the segment's own frames for all to the hosts behind them themselves.
    pub peers: Vec<IpAddr>,
}

/// What is done with frames that come out of tunnels at an end, other than to hand them on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Watch {
    /// They are handed on and no more.
    Nothing,
    /// It is noted who sent them.
    Learn,
    /// It is seen whether they may go to a segment.
    Segment,
    /// Both is done, the second first.
    Both,
}

impl Watch {
    pub(crate) fn new(learns: bool, has_segment: bool) -> Watch {
        match (learns, has_segment) {
            (false, false) => Watch::Nothing,
            (true, false) => Watch::Learn,
            (false, true) => Watch::Segment,
            (true, true) => Watch::Both,
        }
    }

    pub(crate) fn learns(self) -> bool {
        matches!(self, Watch::Learn | Watch::Both)
    }

    fn has_segment(self) -> bool {
        matches!(self, Watch::Segment | Watch::Both)
    }
}

/// What a receiver has for the ends at which frames are watched.
#[derive(Debug, Clone)]
pub(crate) struct Watcher {
    segments: Reader<Exact, Segment>,
    pub(crate) notes: Observations,
}

impl Watcher {
    pub(crate) fn new(segments: Reader<Exact, Segment>) -> Watcher {
        Watcher { segments, notes: Observations::default() }
    }

    /// Looks at a frame that came out of a tunnel of this far end: whether it may go on.
    #[inline(never)]
    pub(crate) fn admit(
        &mut self,
        watch: Watch,
        network: u32,
        remote: IpAddr,
        frame: &[u8],
    ) -> std::result::Result<(), Refusal> {
        let is_for_all = || ethernet::Header::of(frame).is_some_and(|header| header.dst().is_multicast());
        if watch.has_segment()
            && is_for_all()
            && let Some(segment) = self.segments.fib().lookup(network_key(network))
        {
            if segment.peers.contains(&remote) {
                return Err(Refusal::Drop(Reason::OverlaySplitHorizon));
            }
            if !segment.is_designated {
                return Err(Refusal::Drop(Reason::OverlayNotDesignated));
            }
        }
        Ok(())
    }
}

impl Overlay {
    /// Says which Ethernet segment is behind a network's port, or that none is: then all frames
    /// that come go on.
    ///
    /// # Errors
    /// When there is no such network, its packets are no frames, or the segment has too many
    /// endpoints.
    pub fn set_segment(&mut self, network: u32, segment: Option<Segment>) -> Result<()> {
        if self.state(network)?.network.layer != Layer::Ethernet {
            return Err(Error::NoFrames(network));
        }
        match segment {
            Some(segment) if segment.peers.len() > MAX_PEERS => return Err(Error::Peers),
            Some(segment) => drop(self.segments.insert(network_key(network), segment)?),
            None => drop(self.segments.remove(network_key(network))?),
        }
        self.watch_ends(network)
    }

    /// The Ethernet segment behind a network's port.
    pub fn segment(&self, network: u32) -> Option<&Segment> {
        self.segments.get(network_key(network))
    }

    /// What is done at ends of a network.
    pub(crate) fn watch(&self, network: u32) -> Watch {
        Watch::new(self.learned.contains_key(&network), self.segment(network).is_some())
    }
}
