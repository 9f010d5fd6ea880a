//! Which receive queue a flow comes to: the hash key and the indirection table that an
//! open port uses. A protocol stack asks before it gives a connection to a thread, or
//! chooses a port number so that answers come to the thread that asks.

use wire::toeplitz::Toeplitz;

use crate::{OptionError, Rss};

impl Rss {
    /// The indirection table, with `entries` entries of at most 128, for so many queues.
    pub fn entries(&self, entries: usize, queues: usize) -> impl Iterator<Item = usize> {
        (0..entries).map(move |n| match &self.table {
            Some(table) => usize::from(table[n % table.len()]) % queues.max(1),
            None => n % queues.max(1),
        })
    }
}

/// How an open port spreads flows over its receive queues, as long as all of them are held:
/// some drivers give the share of a queue that is dropped to the others.
#[derive(Clone)]
pub struct FlowTable {
    hash: Toeplitz,
    ports: bool,
    queues: Box<[u16]>,
}

impl FlowTable {
    /// What a port does that was opened with these options, has a table of so many entries
    /// (a power of two) and hashes the ports of TCP and UDP or does not.
    pub fn new(rss: &Rss, entries: usize, queues: usize, ports: bool) -> FlowTable {
        let queues = rss.entries(entries.max(1), queues).map(|queue| queue as u16).collect();
        FlowTable { hash: Toeplitz::new(&rss.key), ports, queues }
    }

    /// The queue of a hash, such as a received packet has.
    pub fn queue(&self, hash: u32) -> usize {
        self.queues[self.entry(hash)].into()
    }

    /// The entry of the table that names the queue of a hash.
    pub fn entry(&self, hash: u32) -> usize {
        hash as usize % self.queues.len()
    }

    /// The queues that the entries name.
    pub fn queues(&self) -> &[u16] {
        &self.queues
    }

    /// The table with other queues in some entries, each given with its queue, of a port that
    /// spreads flows over so many queues.
    ///
    /// # Errors
    /// When there is no such entry, or no such queue.
    pub fn changed(&self, changes: &[(usize, usize)], queues: usize) -> Result<FlowTable, OptionError> {
        let mut table = self.clone();
        for &(entry, queue) in changes {
            let refusal = |option, value, limit| OptionError { option, value, limit };
            let place = table.queues.get_mut(entry);
            let place = place.ok_or_else(|| refusal("entry of the RSS table", entry, "it has fewer"))?;
            if queue >= queues {
                return Err(refusal("queue of the RSS table", queue, "flows are spread over fewer"));
            }
            *place = queue as u16;
        }
        Ok(table)
    }

    /// The hash of a received packet with these addresses, from and to whom, and ports: four
    /// or sixteen bytes each, and two each, as they stand in the headers. A packet without
    /// ports, such as a fragment, is hashed over its addresses alone.
    pub fn hash(&self, src: &[u8], dst: &[u8], ports: Option<[[u8; 2]; 2]>) -> u32 {
        let mut input = [0; wire::toeplitz::MAX_INPUT];
        let ports = ports.filter(|_| self.ports);
        let parts = [src, dst].into_iter().chain(ports.iter().flatten().map(<[u8; 2]>::as_slice));
        let mut len = 0;
        for byte in parts.flatten().take(input.len()) {
            input[len] = *byte;
            len += 1;
        }
        self.hash.hash(&input[..len])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SRC: [u8; 4] = [66, 9, 149, 187];
    const DST: [u8; 4] = [161, 142, 100, 80];
    const PORTS: [[u8; 2]; 2] = [[0x0A, 0xEA], [0x06, 0xE6]];

    #[test]
    fn hashes_are_the_published_ones() {
        let table = FlowTable::new(&Rss::default(), 128, 4, true);
        assert_eq!(table.hash(&SRC, &DST, Some(PORTS)), 0x51CC_C178);
        assert_eq!(table.hash(&SRC, &DST, None), 0x323E_8FC2);
        let without = FlowTable::new(&Rss::default(), 128, 4, false);
        assert_eq!(without.hash(&SRC, &DST, Some(PORTS)), 0x323E_8FC2);
    }

    #[test]
    fn the_low_bits_of_a_hash_name_the_entry_and_it_the_queue() {
        let table = FlowTable::new(&Rss::default(), 128, 3, true);
        assert_eq!([0, 1, 2, 3, 127, 128, u32::MAX].map(|hash| table.queue(hash)), [0, 1, 2, 0, 1, 0, 1]);
        let mut entries = [0; 128];
        entries[5] = 7;
        let rss = Rss { table: Some(Box::new(entries)), ..Rss::default() };
        let own = FlowTable::new(&rss, 128, 4, true);
        assert_eq!([4, 5, 6].map(|hash| own.queue(hash)), [0, 3, 0], "modulo the queues there are");
        assert_eq!(own.queue(0xFFFF_FF85), 3, "bits beyond the table do not count");
        assert_eq!(FlowTable::new(&rss, 128, 0, true).queue(5), 0);
    }

    #[test]
    fn entries_are_changed_all_or_none() {
        let table = FlowTable::new(&Rss::default(), 128, 2, true);
        let changed = table.changed(&[(0, 1), (3, 0)], 2).expect("both are there");
        assert_eq!([0, 1, 2, 3, 128].map(|hash| changed.queue(hash)), [1, 1, 0, 0, 1]);
        for wrong in [(128, 0), (0, 2)] {
            let error = table.changed(&[(1, 0), wrong], 2).err().expect("it is refused");
            assert_eq!(error.value, wrong.0.max(wrong.1));
        }
    }
}
