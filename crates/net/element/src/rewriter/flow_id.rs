//! The identity of a flow: addresses and ports. And the order in which Click's
//! tables list their flows, which people's scripts and tests compare.

use std::fmt;
use std::net::Ipv4Addr;

/// A flow's addresses and ports. What a rewriter does not look at is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct FlowId {
    pub src: u32,
    pub src_port: u16,
    pub dst: u32,
    pub dst_port: u16,
}

impl FlowId {
    /// Of the packets that come back.
    pub(crate) fn reversed(self) -> FlowId {
        FlowId { src: self.dst, src_port: self.dst_port, dst: self.src, dst_port: self.src_port }
    }

    /// The number by which Click puts it into a bucket.
    fn number(self) -> u32 {
        let (src, dst) = (self.src.swap_bytes(), self.dst.swap_bytes());
        let ports = u32::from(self.dst_port) << 16 | u32::from(self.src_port);
        let turn = |port: u16| u32::from(port % 16);
        src.rotate_left(turn(self.src_port) + 1) ^ dst.rotate_left(31 - turn(self.dst_port)) ^ ports
    }
}

impl fmt::Display for FlowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [src, dst] = [self.src, self.dst].map(Ipv4Addr::from_bits);
        write!(f, "({src}, {}, {dst}, {})", self.src_port, self.dst_port)
    }
}

/// How the table of a map grew: what its order depends on, in which Click lists the
/// entries. A table never shrinks.
#[derive(Debug, Clone)]
pub(crate) struct Growth {
    buckets: usize,
    /// From which entry on there were so many buckets.
    steps: Vec<(u64, usize)>,
}

impl Default for Growth {
    fn default() -> Growth {
        Growth { buckets: 1, steps: vec![] }
    }
}

impl Growth {
    /// There are so many entries, the newest of them this one.
    pub(crate) fn note(&mut self, entries: usize, newest: u64) {
        if entries > 2 * self.buckets {
            self.buckets = (self.buckets + 1) * 2 - 1;
            self.steps.push((newest, self.buckets));
        }
    }

    /// Puts entries into Click's order: in buckets, the newest first, until more
    /// buckets turn them round. They come in the order of their numbers.
    pub(crate) fn in_order<T>(&self, entries: impl Iterator<Item = (u64, FlowId, T)>) -> Vec<T> {
        let mut buckets: Vec<Vec<(u32, T)>> = vec![vec![]];
        let mut steps = self.steps.iter().peekable();
        for (number, id, entry) in entries {
            while let Some((_, count)) = steps.next_if(|(newest, _)| *newest < number) {
                buckets = spread(buckets, *count);
            }
            let place = id.number() as usize % buckets.len();
            buckets[place].push((id.number(), entry));
        }
        for (_, count) in steps {
            buckets = spread(buckets, *count);
        }
        buckets.into_iter().flat_map(|bucket| bucket.into_iter().rev()).map(|(_, entry)| entry).collect()
    }
}

fn spread<T>(buckets: Vec<Vec<(u32, T)>>, count: usize) -> Vec<Vec<(u32, T)>> {
    let mut more: Vec<Vec<(u32, T)>> = (0..count).map(|_| vec![]).collect();
    for (number, entry) in buckets.into_iter().flat_map(|bucket| bucket.into_iter().rev()) {
        more[number as usize % count].push((number, entry));
    }
    more
}
