//! Frames in several buffers (82599 datasheet 7.1.10), and descriptors that are wrong:
//! what the receive loop does not see on its plain path.

use memory::{Batch, DATA_ROOM, Packet, Pool};

use super::layout::{RX_EOP, RX_ERROR};
use super::options::Options;
use super::rx::RxQueue;

/// The segments of a frame whose end has not come yet.
#[derive(Default)]
pub(super) struct Scatter {
    chain: Option<Packet>,
    segments: usize,
    /// Drop everything up to the frame's end.
    spoiled: bool,
    /// The most segments a frame may have.
    limit: usize,
}

impl Scatter {
    pub(super) fn new(options: &Options) -> Scatter {
        let limit = if options.scatters() { (options.max_frame + 8).div_ceil(DATA_ROOM) } else { 1 };
        Scatter { limit, ..Scatter::default() }
    }

    /// Whether the next buffer continues a frame.
    #[inline(always)]
    pub(super) fn is_open(&self) -> bool {
        self.segments > 0
    }
}

impl RxQueue {
    /// Takes a buffer that is not a whole good frame by itself. Returns the
    /// bytes of the frame that it completed, if it did.
    #[cold]
    pub(super) fn recv_special(
        &mut self,
        mut packet: Packet,
        words: [u64; 2],
        pool: &mut Pool,
        batch: &mut Batch,
    ) -> u64 {
        let [low, high] = (self.shared.facts.rx_words)(words);
        packet.set_received(low, high);
        let scatter = &mut self.scatter;
        let len = usize::from((high >> 32) as u16);
        let last = high & RX_EOP != 0;
        scatter.segments += 1;
        scatter.spoiled |=
            len == 0 || len > DATA_ROOM || high & RX_ERROR != 0 || scatter.segments > scatter.limit;
        if scatter.spoiled {
            pool.free(packet);
        } else {
            match scatter.chain.take() {
                None => scatter.chain = Some(packet),
                Some(mut chain) => {
                    // The verdicts stand in the last descriptor (7.1.6.2).
                    chain.adopt_rx_words(&packet);
                    chain.append(packet);
                    scatter.chain = Some(chain);
                }
            }
        }
        if !last {
            return 0;
        }
        let chain = scatter.chain.take();
        let spoiled = std::mem::take(&mut scatter.spoiled);
        scatter.segments = 0;
        match chain {
            Some(chain) if !spoiled => {
                let bytes = chain.total_len() as u64;
                batch.push(chain);
                bytes
            }
            rest => {
                self.stats.bad_descriptor += 1;
                rest.into_iter().for_each(|chain| pool.free(chain));
                0
            }
        }
    }
}
