//! Packets that connections keep: those that were sent and not acknowledged, and those that
//! came before what stands in front of them. All connections of a stack have their lists in
//! one array, so that a connection that keeps none has no memory for any, and nothing is
//! allocated once the array has grown.

use memory::{Packet, Pool};

use crate::sequence::Sequence;

/// The number of no node.
pub const NONE: u32 = u32::MAX;

/// What became of a part of the sent data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// It has not been sent.
    Not,
    /// It is on its way, as far as is known.
    InFlight,
    /// It is taken for lost, and to be sent again.
    Lost,
    /// The receiver has it, but not all in front of it (RFC 2018).
    Sacked,
}

/// A packet of a list: of sent data, with a SYN or a FIN as a number of its own, or of
/// received data. Half of a cache line, and all that acknowledging it takes: its packet has been
/// out of the cache for long then.
#[derive(Debug)]
#[repr(align(32))]
pub struct Node {
    /// The bytes, in one buffer; none of a SYN, and of a FIN that goes alone.
    packet: Option<Packet>,
    /// When it was sent last.
    pub sent_ns: i64,
    /// The number of the first byte.
    pub sequence: Sequence,
    /// The next node of the list.
    pub next: u32,
    /// How many bytes there are.
    bytes: u16,
    /// What became of it, if it is data to be sent.
    pub sent: Sent,
    /// Whether it was sent more than once.
    pub is_resent: bool,
    /// Whether it is a SYN or has a FIN behind its bytes, if it has any.
    pub is_control: bool,
    /// Whether what follows shares no segment with it.
    pub is_record_end: bool,
    /// Whether more bytes were announced behind it.
    pub is_more: bool,
}

const _: () = assert!(size_of::<Node>() == 32);

impl Node {
    /// The bytes, if there are any.
    #[inline]
    pub fn packet(&self) -> Option<&Packet> {
        self.packet.as_ref()
    }

    /// Takes the bytes of a node that is in no list.
    pub fn take(&mut self) -> Option<Packet> {
        self.packet.take()
    }

    /// Changes the bytes, if there are any; what `change` gives.
    #[inline]
    pub fn change<R>(&mut self, change: impl FnOnce(&mut Packet) -> R) -> Option<R> {
        let packet = self.packet.as_mut()?;
        let result = change(packet);
        self.bytes = packet.len() as u16;
        Some(result)
    }

    /// Sequence numbers that it takes.
    #[inline]
    pub fn len(&self) -> u32 {
        u32::from(self.bytes) + u32::from(self.is_control)
    }

    /// Bytes of it.
    #[inline]
    pub fn payload_len(&self) -> u32 {
        self.bytes.into()
    }

    /// The number behind its last one.
    #[inline]
    pub fn end(&self) -> Sequence {
        self.sequence.plus(self.len())
    }

    /// A packet of received data.
    pub fn received(packet: Packet, sequence: Sequence) -> Node {
        Node::new(Some(packet), sequence)
    }

    /// Data to be sent, or a SYN or a FIN where there is no packet.
    pub fn to_send(packet: Option<Packet>, sequence: Sequence) -> Node {
        Node { is_control: packet.is_none(), ..Node::new(packet, sequence) }
    }

    #[inline]
    fn new(packet: Option<Packet>, sequence: Sequence) -> Node {
        debug_assert!(packet.as_ref().is_none_or(|packet| packet.next().is_none()), "one buffer");
        Node {
            bytes: packet.as_ref().map_or(0, |packet| packet.len() as u16),
            packet,
            sent_ns: 0,
            sequence,
            next: NONE,
            sent: Sent::Not,
            is_resent: false,
            is_control: false,
            is_record_end: false,
            is_more: false,
        }
    }
}

/// A list of nodes, in the order of their numbers.
#[derive(Debug, Clone, Copy)]
pub struct List {
    /// The first node.
    pub head: u32,
    /// The last node.
    pub tail: u32,
    /// How many nodes there are.
    pub len: u32,
}

impl Default for List {
    fn default() -> List {
        List { head: NONE, tail: NONE, len: 0 }
    }
}

/// The nodes of all lists.
#[derive(Debug, Default)]
pub struct Nodes {
    nodes: Vec<Node>,
    /// The first free node.
    free: Option<u32>,
    /// Nodes in lists.
    used: usize,
    /// Those of them that have packets.
    packets: usize,
}

impl Nodes {
    /// The node at an index of the array, if there is one.
    #[inline]
    pub fn get(&self, at: u32) -> Option<&Node> {
        self.nodes.get(at as usize)
    }

    /// A node, to change it.
    #[inline]
    pub fn get_mut(&mut self, at: u32) -> Option<&mut Node> {
        self.nodes.get_mut(at as usize)
    }

    /// Brings a node towards the cache.
    #[inline]
    pub fn prefetch(&self, at: u32) {
        self.get(at).into_iter().for_each(memory::prefetch);
    }

    /// Nodes in lists.
    #[cfg(debug_assertions)]
    pub fn used(&self) -> usize {
        self.used
    }

    /// Packets in lists.
    #[inline]
    pub fn packets(&self) -> usize {
        self.packets
    }

    /// The nodes of a list with their numbers.
    pub fn iter(&self, list: List) -> impl Iterator<Item = (u32, &Node)> {
        let mut at = list.head;
        std::iter::from_fn(move || {
            let node = self.get(at)?;
            let here = std::mem::replace(&mut at, node.next);
            Some((here, node))
        })
    }

    fn take(&mut self, node: Node) -> u32 {
        self.used += 1;
        self.packets += usize::from(node.packet.is_some());
        let Some(at) = self.free else {
            self.nodes.push(node);
            return self.nodes.len() as u32 - 1;
        };
        let next = self.nodes[at as usize].next;
        self.free = (next != NONE).then_some(next);
        self.nodes[at as usize] = node;
        at
    }

    fn release(&mut self, at: u32) -> Option<Packet> {
        let node = &mut self.nodes[at as usize];
        node.next = self.free.unwrap_or(NONE);
        node.bytes = 0;
        self.free = Some(at);
        self.used -= 1;
        self.packets -= usize::from(node.packet.is_some());
        node.packet.take()
    }

    /// Appends a node; its number.
    pub fn push_back(&mut self, list: &mut List, node: Node) -> u32 {
        if list.len > 0 {
            return self.insert_after(list, list.tail, node);
        }
        let at = self.take(node);
        *list = List { head: at, tail: at, len: 1 };
        at
    }

    /// Inserts a node behind another, or at the front behind [`NONE`]; its number.
    pub fn insert_after(&mut self, list: &mut List, after: u32, mut node: Node) -> u32 {
        let next = self.get(after).map_or(list.head, |after| after.next);
        node.next = next;
        let at = self.take(node);
        match self.get_mut(after) {
            Some(after) => after.next = at,
            None => list.head = at,
        }
        if next == NONE {
            list.tail = at;
        }
        list.len += 1;
        at
    }

    /// Takes the first node off a list, with what it held.
    pub fn pop_front(&mut self, list: &mut List) -> Option<Option<Packet>> {
        let head = list.head;
        list.head = self.get(head)?.next;
        if list.head == NONE {
            list.tail = NONE;
        }
        list.len -= 1;
        Some(self.release(head))
    }

    /// Takes the first node off a list, whole.
    pub fn unlink_front(&mut self, list: &mut List) -> Option<Node> {
        let node = self.get_mut(list.head)?;
        let taken = Node { packet: node.packet.take(), next: NONE, ..*node };
        self.packets -= usize::from(taken.packet.is_some());
        self.pop_front(list)?;
        Some(taken)
    }

    /// Takes the node behind another off a list, or the first behind [`NONE`].
    pub fn remove_after(&mut self, list: &mut List, after: u32) -> Option<Packet> {
        let Some(node) = self.get(after) else { return self.pop_front(list).flatten() };
        let removed = node.next;
        let next = self.get(removed)?.next;
        if let Some(node) = self.get_mut(after) {
            node.next = next;
        }
        if next == NONE {
            list.tail = after;
        }
        list.len -= 1;
        self.release(removed)
    }

    /// Empties a list.
    pub fn clear(&mut self, list: &mut List, pool: &mut Pool) {
        while let Some(packet) = self.pop_front(list) {
            packet.into_iter().for_each(|packet| pool.free_segment(packet));
        }
    }
}
