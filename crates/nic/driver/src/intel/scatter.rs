//! Frames in several buffers (82599 datasheet 7.1.10), frames with a timestamp behind them
//! (X550 datasheet 7.1.6.2) or kept by the device, and descriptors that are wrong: what the receive loop does not see
//! on its plain path.

use std::sync::Arc;

use memory::{DATA_ROOM, Packet, Pool};
use port::Options;
use regs::ixgbe::descriptor::TIMESTAMP_LEN;

use super::chip::Losses;
use super::clock::Clock;
use super::layout::RxLayout;

/// The segments of a frame whose end has not come yet.
pub(super) struct Scatter {
    chain: Option<Packet>,
    segments: usize,
    /// Drop everything up to the frame's end.
    spoiled: bool,
    /// The most segments a frame may have.
    limit: usize,
    /// What timestamps are told by, in a port that was opened for them.
    clock: Option<Clock>,
    takes_all: bool,
    /// Frames that were dropped.
    pub(super) losses: Arc<Losses>,
}

impl Scatter {
    pub(super) fn new(options: &Options, clock: Option<Clock>, losses: Arc<Losses>) -> Scatter {
        let limit = if scatters(options) { longest(options).div_ceil(DATA_ROOM) } else { 1 };
        let clock = clock.filter(|_| options.timestamps);
        let takes_all = clock.is_some();
        Scatter { chain: None, segments: 0, spoiled: false, limit, clock, takes_all, losses }
    }

    /// Whether the next buffer is to be seen here, whatever it is: it continues a frame, or frames
    /// have their times beside them.
    #[inline(always)]
    pub(super) fn takes_all(&self) -> bool {
        self.takes_all
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
        self.takes_all = true;
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
        let mut chain = self.chain.take();
        let spoiled = std::mem::take(&mut self.spoiled);
        self.segments = 0;
        self.takes_all = self.clock.is_some();
        let stamped = status & L::TIMESTAMP != 0;
        // That of a frame that is dropped, too: its place is to be given free.
        let kept = self.clock.as_mut().and_then(|clock| clock.kept(L::latch(status)));
        if !spoiled && chain.as_mut().is_some_and(|frame| self.take_timestamp(frame, stamped, kept)) {
            return chain;
        }
        chain.into_iter().for_each(|chain| pool.free(chain));
        self.losses.add(1);
        None
    }

    /// Takes the timestamp off the end of a frame that has one, into the annotations of a port
    /// that was opened for them, or one that the device kept; `false` when there is no frame in front
    /// of it.
    fn take_timestamp(&mut self, frame: &mut Packet, stamped: bool, kept: Option<u64>) -> bool {
        let mut stamp = kept;
        if stamped {
            let len = frame.total_len().checked_sub(TIMESTAMP_LEN).filter(|len| *len > 0);
            let Some(len) = len else { return false };
            stamp = Some(u64::from_le_bytes(bytes_at(frame, len)));
            frame.truncate(len);
        }
        if let Some(clock) = &mut self.clock {
            // Without one, too: the buffer has the time of the packet before.
            frame.annotations_mut().timestamp_ns = stamp.map_or(0, |stamp| clock.system_ns(stamp));
        }
        true
    }
}

/// The bytes of a frame from `at` on, zero behind its end, whatever buffers they are in.
fn bytes_at<const N: usize>(frame: &Packet, at: usize) -> [u8; N] {
    let (mut bytes, mut before) = ([0; N], 0);
    for segment in frame.segments() {
        for (n, byte) in bytes.iter_mut().enumerate() {
            let found = (at + n).checked_sub(before).and_then(|place| segment.get(place));
            *byte = found.copied().unwrap_or(*byte);
        }
        before += segment.len();
    }
    bytes
}

/// Whether a frame may need more than one buffer.
pub(crate) fn scatters(options: &Options) -> bool {
    longest(options) > DATA_ROOM
}

/// The most bytes that the device writes of a frame. The CRC is stripped; a VLAN tag or two may
/// stay, and a timestamp may be behind it.
fn longest(options: &Options) -> usize {
    options.max_frame + 8 + if options.timestamps { TIMESTAMP_LEN } else { 0 }
}

#[cfg(test)]
mod tests {
    use memory::Dma;
    use regs::ixgbe::descriptor::rx_high;

    use super::*;
    use crate::intel::layout::Rx82599;

    /// What becomes of buffers of these lengths that hold one stamped frame, with what was lost.
    fn of(lens: &[usize], max_frame: usize) -> (Option<usize>, u64) {
        let dma = Dma::new(memory::Options::default());
        let mut pool = Pool::new(&dma, 64).expect("memory");
        let options = Options { max_frame, timestamps: true, ..Options::default() };
        let losses = Arc::new(Losses::default());
        let mut scatter = Scatter::new(&options, None, losses.clone());
        let mut frame = None;
        for (n, len) in lens.iter().enumerate() {
            let last = if n + 1 == lens.len() { rx_high::EOP | rx_high::TSIP } else { 0 };
            let words = [0, rx_high::DD | last | (*len as u64) << rx_high::LENGTH_SHIFT];
            let packet = pool.alloc().expect("a buffer");
            frame = scatter.add::<Rx82599>(packet, words, &mut pool);
            assert_eq!(scatter.takes_all(), n + 1 < lens.len());
        }
        let len = frame.as_ref().map(Packet::total_len);
        frame.into_iter().for_each(|frame| pool.free(frame));
        assert_eq!(pool.available(), pool.capacity(), "all that a timestamp alone was in, too");
        (len, losses.read())
    }

    #[test]
    fn a_timestamp_alone_is_no_frame() {
        for len in 1..=TIMESTAMP_LEN {
            assert_eq!(of(&[len], 1514), (None, 1), "{len}");
        }
        assert_eq!(of(&[TIMESTAMP_LEN + 1], 1514), (Some(1), 0));
        assert_eq!(of(&[3, 5], 9000), (None, 1));
    }

    #[test]
    fn buffers_that_have_a_timestamp_alone_are_not_the_frames() {
        assert_eq!(of(&[DATA_ROOM, 8], 9000), (Some(DATA_ROOM), 0));
        assert_eq!(of(&[DATA_ROOM, 3], 9000), (Some(DATA_ROOM - 5), 0));
        assert_eq!(of(&[DATA_ROOM, 9], 9000), (Some(DATA_ROOM + 1), 0));
        assert_eq!(of(&[DATA_ROOM, 8], 2040), (Some(DATA_ROOM), 0), "one more than without");
    }
}
