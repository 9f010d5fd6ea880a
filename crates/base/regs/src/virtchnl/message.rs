//! The bytes of messages. `encode` gives what is sent, `decode` takes what came and gives `None`
//! for a length that does not fit: lists have as many elements as their count says. Senders of
//! the first version counted the first element of a list twice, which all have kept since:
//! both lengths are taken, and the longer is sent.

/// Little-endian numbers of a message, one after the other.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    fn half(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    fn word(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn long(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }
}

macro_rules! join {
    ($($value:expr),* $(,)?) => {{
        let mut bytes: Vec<u8> = Vec::new();
        $(bytes.extend_from_slice(&$value.to_le_bytes());)*
        bytes
    }};
}

/// Adds to a list's bytes what senders have added since the first version.
fn padded(mut bytes: Vec<u8>, more: usize) -> Vec<u8> {
    bytes.resize(bytes.len() + more, 0);
    bytes
}

/// Whether a list's length is as its count says: `more` bytes may follow.
fn fits(len: usize, head: usize, count: usize, element: usize, more: usize) -> bool {
    let packed = head + count * element;
    count > 0 && (len == packed || len == packed + more)
}

/// Major and minor, both ways, of [`super::op::VERSION`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// The major number: both sides must have the same.
    pub major: u32,
    /// The minor number.
    pub minor: u32,
}

impl Version {
    /// Bytes of the message.
    pub const LEN: usize = 8;

    /// The bytes that are sent.
    pub fn encode(self) -> Vec<u8> {
        join!(self.major, self.minor)
    }

    /// The version in a message, or `None` if the length does not fit.
    pub fn decode(bytes: &[u8]) -> Option<Version> {
        let mut from = Reader(bytes);
        let version = Version { major: from.word()?, minor: from.word()? };
        from.0.is_empty().then_some(version)
    }
}

/// The answer to [`super::op::GET_VF_RESOURCES`], with one VSI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resources {
    /// Queues of each kind.
    pub queues: u16,
    /// Interrupt vectors, the mailbox's with them.
    pub vectors: u16,
    /// The longest payload of a frame; zero where that is not told.
    pub max_mtu: u16,
    /// Bits of [`super::capability`].
    pub capabilities: u32,
    /// Bytes of the hash's key and entries of its table.
    pub key_size: u32,
    /// Entries of the hash's table.
    pub lut_size: u32,
    /// The VSI, as messages name it.
    pub vsi: u16,
    /// The queue set of its transmit queues.
    pub queue_set: u16,
    /// The address of the virtual function; zero for none.
    pub mac: [u8; 6],
}

impl Resources {
    /// Bytes of the message.
    pub const LEN: usize = 36;

    /// The bytes that are sent.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = join!(
            1u16,
            self.queues,
            self.vectors,
            self.max_mtu,
            self.capabilities,
            self.key_size,
            self.lut_size,
            self.vsi,
            self.queues,
            super::VSI_SRIOV,
            self.queue_set,
        );
        bytes.extend(self.mac);
        bytes
    }

    /// What came: the first VSI, of which there must be one.
    pub fn decode(bytes: &[u8]) -> Option<Resources> {
        let mut from = Reader(bytes);
        let vsis = from.half()?;
        let (queues, vectors, max_mtu) = (from.half()?, from.half()?, from.half()?);
        let (capabilities, key_size, lut_size) = (from.word()?, from.word()?, from.word()?);
        let (vsi, _queues, kind, queue_set) = (from.half()?, from.half()?, from.word()?, from.half()?);
        let mac = from.take()?;
        let known = vsis >= 1 && kind == super::VSI_SRIOV;
        let of =
            Resources { queues, vectors, max_mtu, capabilities, key_size, lut_size, vsi, queue_set, mac };
        known.then_some(of)
    }
}

/// The rings of a receive and a transmit queue of one number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueuePair {
    /// Which queues of the VSI.
    pub queue: u16,
    /// Descriptors of the transmit ring; zero for no such queue.
    pub tx_len: u16,
    /// The transmit ring's address.
    pub tx_ring: u64,
    /// Where the transmit ring's head is written to, if it is.
    pub tx_head: Option<u64>,
    /// Descriptors of the receive ring; zero for no such queue.
    pub rx_len: u32,
    /// The receive ring's address.
    pub rx_ring: u64,
    /// Bytes of a receive buffer.
    pub rx_buffer: u32,
    /// The longest frame, CRC included.
    pub rx_max: u32,
}

/// What [`super::op::CONFIG_VSI_QUEUES`] tells of a VSI and its queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queues {
    /// Number of the VSI whose queues are set up.
    pub vsi: u16,
    /// The pairs of queues, each with its rings.
    pub pairs: Vec<QueuePair>,
}

impl Queues {
    const HEAD: usize = 8;
    const PAIR: usize = 64;

    /// The bytes that are sent.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = join!(self.vsi, self.pairs.len() as u16, 0u32);
        for pair in &self.pairs {
            let (head, at) = (u16::from(pair.tx_head.is_some()), pair.tx_head.unwrap_or(0));
            bytes.extend(join!(self.vsi, pair.queue, pair.tx_len, head, pair.tx_ring, at));
            bytes.extend(join!(self.vsi, pair.queue, pair.rx_len, 0u16, 0u16, pair.rx_buffer));
            bytes.extend(join!(pair.rx_max, 0u32, pair.rx_ring, 0u32, 0u32));
        }
        padded(bytes, Queues::PAIR)
    }

    /// What came; `None`, too, where a queue is another VSI's or a pair has two numbers.
    pub fn decode(bytes: &[u8]) -> Option<Queues> {
        let mut from = Reader(bytes);
        let (vsi, count) = (from.half()?, usize::from(from.half()?));
        from.word()?;
        if !fits(bytes.len(), Queues::HEAD, count, Queues::PAIR, Queues::PAIR) {
            return None;
        }
        let mut pairs = Vec::with_capacity(count);
        for _ in 0..count {
            let (tx_vsi, queue, tx_len, head) = (from.half()?, from.half()?, from.half()?, from.half()?);
            let (tx_ring, at) = (from.long()?, from.long()?);
            let (rx_vsi, rx_queue, rx_len) = (from.half()?, from.half()?, from.word()?);
            from.word()?;
            let (rx_buffer, rx_max) = (from.word()?, from.word()?);
            from.word()?;
            let rx_ring = from.long()?;
            from.long()?;
            if (tx_vsi, rx_vsi, rx_queue) != (vsi, vsi, queue) {
                return None;
            }
            let tx_head = (head != 0).then_some(at);
            pairs.push(QueuePair { queue, tx_len, tx_ring, tx_head, rx_len, rx_ring, rx_buffer, rx_max });
        }
        Some(Queues { vsi, pairs })
    }
}

/// A vector and its queues, a bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vector {
    /// The vector; the mailbox has 0.
    pub vector: u16,
    /// Its receive queues.
    pub rx: u16,
    /// Its transmit queues.
    pub tx: u16,
    /// Which of its times receive queues have.
    pub rx_itr: u16,
    /// Which of its times transmit queues have.
    pub tx_itr: u16,
}

/// Which causes lead to which vectors: [`super::op::CONFIG_IRQ_MAP`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vectors {
    /// Number of the VSI that the vectors belong to.
    pub vsi: u16,
    /// The vectors, each with the queues that lead to it.
    pub vectors: Vec<Vector>,
}

impl Vectors {
    const HEAD: usize = 2;
    const VECTOR: usize = 12;

    /// The bytes that are sent.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = join!(self.vectors.len() as u16);
        for one in &self.vectors {
            bytes.extend(join!(self.vsi, one.vector, one.rx, one.tx, one.rx_itr, one.tx_itr));
        }
        padded(bytes, Vectors::VECTOR)
    }

    /// What came; `None`, too, where vectors are of several VSIs.
    pub fn decode(bytes: &[u8]) -> Option<Vectors> {
        let mut from = Reader(bytes);
        let count = usize::from(from.half()?);
        if !fits(bytes.len(), Vectors::HEAD, count, Vectors::VECTOR, Vectors::VECTOR) {
            return None;
        }
        let (mut vsi, mut vectors) = (None, Vec::with_capacity(count));
        for _ in 0..count {
            let of = from.half()?;
            if *vsi.get_or_insert(of) != of {
                return None;
            }
            let (vector, rx, tx) = (from.half()?, from.half()?, from.half()?);
            vectors.push(Vector { vector, rx, tx, rx_itr: from.half()?, tx_itr: from.half()? });
        }
        Some(Vectors { vsi: vsi?, vectors })
    }
}

/// Queues, a bit each: [`super::op::ENABLE_QUEUES`], [`super::op::DISABLE_QUEUES`]; of
/// [`super::op::GET_STATS`] the VSI alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Select {
    /// Number of the VSI whose queues are meant.
    pub vsi: u16,
    /// Receive queues, bit n for queue n.
    pub rx: u32,
    /// Transmit queues, bit n for queue n.
    pub tx: u32,
}

impl Select {
    /// The bytes that are sent.
    pub fn encode(self) -> Vec<u8> {
        join!(self.vsi, 0u16, self.rx, self.tx)
    }

    /// The selection in a message, or `None` if the length does not fit.
    pub fn decode(bytes: &[u8]) -> Option<Select> {
        let mut from = Reader(bytes);
        let vsi = from.half()?;
        from.half()?;
        let select = Select { vsi, rx: from.word()?, tx: from.word()? };
        from.0.is_empty().then_some(select)
    }
}

/// [`super::op::ADD_ETH_ADDR`] and [`super::op::DEL_ETH_ADDR`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addresses {
    /// Number of the VSI that receives by these addresses.
    pub vsi: u16,
    /// The MAC addresses that are added or removed.
    pub addresses: Vec<[u8; 6]>,
}

impl Addresses {
    const HEAD: usize = 4;
    const ADDRESS: usize = 8;

    /// The bytes that are sent.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = join!(self.vsi, self.addresses.len() as u16);
        for address in &self.addresses {
            bytes.extend(address);
            bytes.extend([0, 0]);
        }
        padded(bytes, Addresses::ADDRESS)
    }

    /// The addresses in a message, or `None` if its length does not fit their count.
    pub fn decode(bytes: &[u8]) -> Option<Addresses> {
        let mut from = Reader(bytes);
        let (vsi, count) = (from.half()?, usize::from(from.half()?));
        if !fits(bytes.len(), Addresses::HEAD, count, Addresses::ADDRESS, Addresses::ADDRESS) {
            return None;
        }
        let mut addresses = Vec::with_capacity(count);
        for _ in 0..count {
            addresses.push(from.take()?);
            from.half()?;
        }
        Some(Addresses { vsi, addresses })
    }
}

/// [`super::op::ADD_VLAN`] and [`super::op::DEL_VLAN`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vlans {
    /// Number of the VSI that receives these VLANs.
    pub vsi: u16,
    /// Numbers of the VLANs that are added or removed.
    pub vlans: Vec<u16>,
}

impl Vlans {
    const HEAD: usize = 4;
    const VLAN: usize = 2;

    /// The bytes that are sent.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = join!(self.vsi, self.vlans.len() as u16);
        self.vlans.iter().for_each(|vlan| bytes.extend(vlan.to_le_bytes()));
        padded(bytes, Vlans::VLAN)
    }

    /// The VLANs in a message, or `None` if its length does not fit their count.
    pub fn decode(bytes: &[u8]) -> Option<Vlans> {
        let mut from = Reader(bytes);
        let (vsi, count) = (from.half()?, usize::from(from.half()?));
        if !fits(bytes.len(), Vlans::HEAD, count, Vlans::VLAN, Vlans::VLAN) {
            return None;
        }
        let vlans = (0..count).map(|_| from.half()).collect::<Option<_>>()?;
        Some(Vlans { vsi, vlans })
    }
}

/// Which frames of others a VSI wants: [`super::op::CONFIG_PROMISCUOUS_MODE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Promiscuous {
    /// Number of the VSI whose reception changes.
    pub vsi: u16,
    /// Bits of [`super::promiscuous`].
    pub modes: u16,
}

impl Promiscuous {
    /// The bytes that are sent.
    pub fn encode(self) -> Vec<u8> {
        join!(self.vsi, self.modes)
    }

    /// The modes in a message, or `None` if the length does not fit.
    pub fn decode(bytes: &[u8]) -> Option<Promiscuous> {
        let mut from = Reader(bytes);
        let of = Promiscuous { vsi: from.half()?, modes: from.half()? };
        from.0.is_empty().then_some(of)
    }
}

/// Key or table of the hash: [`super::op::CONFIG_RSS_KEY`], [`super::op::CONFIG_RSS_LUT`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rss {
    /// Number of the VSI that hashes.
    pub vsi: u16,
    /// The key's bytes, or the queue of each entry.
    pub bytes: Vec<u8>,
}

impl Rss {
    const HEAD: usize = 4;

    /// The bytes that are sent.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = join!(self.vsi, self.bytes.len() as u16);
        bytes.extend(&self.bytes);
        padded(bytes, 1)
    }

    /// The key or table in a message, or `None` if its length does not fit its count.
    pub fn decode(bytes: &[u8]) -> Option<Rss> {
        let mut from = Reader(bytes);
        let (vsi, count) = (from.half()?, usize::from(from.half()?));
        fits(bytes.len(), Rss::HEAD, count, 1, 1).then(|| Rss { vsi, bytes: from.0[..count].to_vec() })
    }
}

/// The packet classes of [`super::op::SET_RSS_HENA`] and of the answer to
/// [`super::op::GET_RSS_HENA_CAPS`], a bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Classes(pub u64);

impl Classes {
    /// The bytes that are sent.
    pub fn encode(self) -> Vec<u8> {
        join!(self.0)
    }

    /// The classes in a message, or `None` if the length does not fit.
    pub fn decode(bytes: &[u8]) -> Option<Classes> {
        Some(Classes(u64::from_le_bytes(bytes.try_into().ok()?)))
    }
}

/// The counters of [`super::op::GET_STATS`], in the order of [`Counters::NAMES`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters(pub [u64; Counters::NAMES.len()]);

impl Counters {
    /// What they count, by the names of the device's registers.
    pub const NAMES: [&'static str; 12] =
        ["GORC", "UPRC", "MPRC", "BPRC", "RDPC", "RUPP", "GOTC", "UPTC", "MPTC", "BPTC", "TDPC", "TEPC"];
    /// Bytes of the message.
    pub const LEN: usize = 8 * Counters::NAMES.len();

    /// The bytes that are sent.
    pub fn encode(self) -> Vec<u8> {
        self.0.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    /// The counters in a message, or `None` if the length does not fit.
    pub fn decode(bytes: &[u8]) -> Option<Counters> {
        let mut from = Reader(bytes);
        let mut counters = Counters::default();
        for value in &mut counters.0 {
            *value = from.long()?;
        }
        from.0.is_empty().then_some(counters)
    }
}

/// What the physical function tells without being asked: [`super::op::EVENT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// One of [`super::event`].
    pub event: u32,
    /// The link's speed, one of [`super::SPEEDS`], and whether it is up.
    pub link: (u32, bool),
    /// How much is lost.
    pub severity: i32,
}

impl Event {
    /// Bytes of the message.
    pub const LEN: usize = 16;

    /// The bytes that are sent.
    pub fn encode(self) -> Vec<u8> {
        join!(self.event, self.link.0, u32::from(self.link.1), self.severity)
    }

    /// The event in a message, or `None` if the length does not fit.
    pub fn decode(bytes: &[u8]) -> Option<Event> {
        let mut from = Reader(bytes);
        let (event, speed, up) = (from.word()?, from.word()?, from.word()?);
        // One byte says whether it is up; the three behind it are anything.
        Some(Event { event, link: (speed, up & 0xFF != 0), severity: from.word()? as i32 })
    }
}

#[cfg(test)]
mod tests;
