//! How many packets and bytes went into each tunnel.

use crate::hop::TunnelId;

/// Packets and their bytes, without the tunnel's headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Packets that were sent.
    pub packets: u64,
    /// Bytes of the packets inside.
    pub bytes: u64,
}

/// What one thread sent into each tunnel.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts(Vec<(TunnelId, Count)>);

impl Counts {
    /// Counts a packet of `bytes` bytes.
    #[inline]
    pub(crate) fn add(&mut self, id: TunnelId, bytes: usize) {
        match self.0.get_mut(id.number as usize) {
            Some((counted, count)) if *counted == id => {
                count.packets += 1;
                count.bytes += bytes as u64;
            }
            _ => self.begin(id, bytes),
        }
    }

    /// Counts the first packet of a tunnel: room is made once for each number.
    #[cold]
    fn begin(&mut self, id: TunnelId, bytes: usize) {
        let at = id.number as usize;
        if self.0.len() <= at {
            self.0.resize(at + 1, (TunnelId::default(), Count::default()));
        }
        self.0[at] = (id, Count { packets: 1, bytes: bytes as u64 });
    }

    /// What went into a tunnel.
    pub(crate) fn of(&self, id: TunnelId) -> Count {
        let count = self.0.get(id.number as usize).filter(|(counted, _)| *counted == id);
        count.map_or(Count::default(), |(_, count)| *count)
    }
}
