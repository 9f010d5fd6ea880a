//! Automatic receive steering: which queue pair a flow's packets go to.
//!
//! virtio 1.3, section 5.1.6.5.6: packets of a flow are received on the pair it
//! last sent on. A flow that never sent is spread by a hash of its addresses and
//! ports, the same in both directions. With RSS the driver's table says it all
//! (section 5.1.6.5.7).

use wire::flow::Flow;
use wire::ip::{Addresses, Ports};

use super::data_valid::{PLAIN_L4, plain};
use super::rss::{Hash, Rss};

/// Flows that are told apart.
const ENTRIES: usize = 1024;

/// The table of flows.
#[derive(Debug)]
pub(super) struct Steer {
    /// Pairs in use that can receive.
    pairs: Vec<u16>,
    /// The pair a flow last sent on, plus one; 0: none.
    sent_on: Box<[u16; ENTRIES]>,
    /// Hashes that are reported, and what RSS spreads by.
    pub rss: Option<Rss>,
}

impl Steer {
    pub fn new() -> Steer {
        Steer { pairs: Vec::new(), sent_on: Box::new([0; ENTRIES]), rss: None }
    }

    /// The pairs to spread to from now on.
    pub fn set_pairs(&mut self, pairs: Vec<u16>) {
        if pairs != self.pairs {
            self.pairs = pairs;
            self.sent_on.fill(0);
        }
    }

    pub fn pairs(&self) -> &[u16] {
        &self.pairs
    }

    #[inline(always)]
    pub fn learns(&self) -> bool {
        self.pairs.len() > 1 && !self.rss.as_ref().is_some_and(Rss::spreads)
    }

    /// The hash that is reported of a frame.
    #[inline(always)]
    pub fn reported(&self, frame: &[u8]) -> Hash {
        self.rss.as_ref().map_or_else(Hash::default, |rss| rss.hash(frame))
    }

    /// The pair for a frame that came; `None` without any.
    #[inline(always)]
    pub fn pair(&self, frame: &[u8]) -> Option<u16> {
        if let Some(rss) = self.rss.as_ref().filter(|rss| rss.spreads()) {
            return Some(rss.pair(rss.hash(frame)));
        }
        if let [pair] = self.pairs[..] {
            return Some(pair);
        }
        let hash = hash(frame);
        match self.sent_on[hash as usize % ENTRIES] {
            0 => {
                let at = (u64::from(hash) * self.pairs.len() as u64) >> 32;
                self.pairs.get(at as usize).copied()
            }
            pair => Some(pair - 1),
        }
    }

    /// A frame was sent on `pair`. Only pairs that receive are remembered.
    #[inline]
    pub fn learn(&mut self, frame: &[u8], pair: u16) {
        if self.pairs.contains(&pair) {
            self.sent_on[hash(frame) as usize % ENTRIES] = pair + 1;
        }
    }
}

/// The same for both directions of a flow.
#[inline]
fn hash(frame: &[u8]) -> u32 {
    let ports = || Ports::of(frame.get(PLAIN_L4..)?);
    let (addresses, ports) = match plain(frame).zip(ports()) {
        Some((header, ports)) => {
            let addresses = (header.src().to_bits() ^ header.dst().to_bits()).to_be();
            (u64::from(addresses), (ports.src() ^ ports.dst()).to_be())
        }
        None => of_any(frame),
    };
    let mixed = (addresses ^ u64::from(ports) << 40).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 32) as u32
}

#[cold]
fn of_any(frame: &[u8]) -> (u64, u16) {
    let Ok(flow) = Flow::of(frame) else { return (0, 0) };
    let addresses = match flow.addresses {
        Addresses::V4 { src, dst } => (src.to_bits() ^ dst.to_bits()).to_be().into(),
        Addresses::V6 { src, dst } => {
            let both = src.to_bits() ^ dst.to_bits();
            (both >> 64) as u64 ^ both as u64
        }
    };
    (addresses, flow.ports.map_or(0, |(from, to)| (from ^ to).to_be()))
}
