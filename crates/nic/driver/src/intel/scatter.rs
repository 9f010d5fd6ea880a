//! Frames in several buffers (82599 datasheet 7.1.10), and descriptors that are wrong:
//! what the receive loop does not see on its plain path.

use std::sync::Arc;

use memory::{DATA_ROOM, Packet, Pool};
use port::Options;

use super::chip::Losses;
use super::layout::RxLayout;

/// The segments of a frame whose end has not come yet.
pub(super) struct Scatter {
    chain: Option<Packet>,
    segments: usize,
    /// Drop everything up to the frame's end.
    spoiled: bool,
    /// The most segments a frame may have.
    limit: usize,
    /// Frames that were dropped.
    pub(super) losses: Arc<Losses>,
}

impl Scatter {
    pub(super) fn new(options: &Options, losses: Arc<Losses>) -> Scatter {
        let limit = if scatters(options) { (options.max_frame + 8).div_ceil(DATA_ROOM) } else { 1 };
        Scatter { chain: None, segments: 0, spoiled: false, limit, losses }
    }

    /// Whether the next buffer continues a frame.
    #[inline(always)]
    pub(super) fn is_open(&self) -> bool {
        self.segments > 0
    }

    /// Takes a buffer that is not a whole good frame by itself, with the words of
    /// its descriptor; the frame that it completes, if it does.
    #[cold]
    pub(super) fn add<L: RxLayout>(
        &mut self,
        mut packet: Packet,
        words: [u64; 2],
        pool: &mut Pool,
    ) -> Option<Packet> {
        let status = words[1];
        if status & L::NO_FRAME != 0 {
            pool.free(packet);
            return None;
        }
        let len = usize::from(L::len(status));
        let [low, high] = L::any(words);
        packet.set_received(low, high);
        self.segments += 1;
        self.spoiled |= len == 0 || len > DATA_ROOM || status & L::ERROR != 0 || self.segments > self.limit;
        if self.spoiled {
            pool.free(packet);
        } else {
            match self.chain.take() {
                None => self.chain = Some(packet),
                Some(mut chain) => {
                    // The verdicts stand in the last descriptor (7.1.6.2).
                    chain.adopt_rx_words(&packet);
                    chain.append(packet);
                    self.chain = Some(chain);
                }
            }
        }
        if status & L::EOP == 0 {
            return None;
        }
        let chain = self.chain.take();
        let spoiled = std::mem::take(&mut self.spoiled);
        self.segments = 0;
        match chain {
            Some(chain) if !spoiled => Some(chain),
            rest => {
                rest.into_iter().for_each(|chain| pool.free(chain));
                self.losses.add(1);
                None
            }
        }
    }
}

/// Whether a frame may need more than one buffer. The CRC is stripped; a VLAN tag
/// or two may stay.
pub(crate) fn scatters(options: &Options) -> bool {
    options.max_frame + 8 > DATA_ROOM
}
