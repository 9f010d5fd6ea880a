//! The Ethernet below a host: which address a packet's next hop has, and the packets that
//! wait to know it. One for each version of IP.

use std::sync::Arc;

use memory::{Batch, Packet, Pool, TxOffload};
use neighbor::{Address, Cache, Held, Resolution, Resolver, SyncTable};
use wire::MacAddress;

/// How often addresses that did not answer are asked for again.
const RETRY_NS: i64 = crate::options::SECOND_NS;

/// Next hops of one version of IP.
pub struct Link<A: Address> {
    resolver: Resolver<A>,
    table: Arc<SyncTable<A>>,
    cache: Cache<A>,
    /// When those that wait are looked at again.
    wheel_due_ns: Option<i64>,
    /// What the table let go of.
    gone: Vec<Packet>,
    /// Packets that were let go of because nobody answered.
    pub lost: u64,
    /// Frames that were let go of because there was no room for them.
    pub unsent: u64,
}

impl<A: Address> Link<A> {
    /// A host with an Ethernet address and an address; `table` is shared by its cores.
    pub fn new(mac: MacAddress, address: A, table: Arc<SyncTable<A>>) -> Link<A> {
        let resolver = Resolver::new(mac, address);
        Link {
            resolver,
            table,
            cache: Cache::default(),
            wheel_due_ns: None,
            gone: Vec::new(),
            lost: 0,
            unsent: 0,
        }
    }

    /// Changes the host's address.
    pub fn set_address(&mut self, address: A) {
        self.resolver.address = address;
    }

    /// Puts an Ethernet header in front of an IP packet to `next_hop`, or has it wait. There
    /// must be room for two frames.
    pub fn send(
        &mut self,
        mut packet: Packet,
        next_hop: A,
        now_ns: i64,
        pool: &mut Pool,
        frames: &mut Batch,
    ) {
        let mac = match self.cache.lookup(&self.table, &self.resolver, next_hop, now_ns) {
            Resolution::Known(mac) => mac,
            Resolution::Refresh(mac) => {
                self.ask(next_hop, Some(mac), pool, frames);
                mac
            }
            Resolution::Unspecified => {
                self.lost += 1;
                return pool.free(packet);
            }
            Resolution::Unknown => return self.hold(packet, next_hop, now_ns, pool, frames),
        };
        match self.wrap(&mut packet, mac) {
            true => self.push(packet, pool, frames),
            false => {
                self.unsent += 1;
                pool.free(packet);
            }
        }
    }

    fn wrap(&self, packet: &mut Packet, mac: MacAddress) -> bool {
        let header = self.resolver.header(mac);
        let asked = packet.tx_offload();
        if asked != TxOffload::default() {
            packet.set_tx_offload(TxOffload { l2_len: header.len() as u8, ..asked });
        }
        packet.push_front(header.len()).map(|front| front.copy_from_slice(&header)).is_ok()
    }

    #[cold]
    fn hold(&mut self, packet: Packet, next_hop: A, now_ns: i64, pool: &mut Pool, frames: &mut Batch) {
        let held = self.table.lock().hold(next_hop, packet, now_ns, &mut self.gone);
        match held {
            Held::Waits { ask: true } => self.ask(next_hop, None, pool, frames),
            Held::Waits { ask: false } => {}
            Held::Refused(packet) => self.gone.push(packet),
        }
        self.wheel_due_ns.get_or_insert(now_ns + RETRY_NS);
        self.let_go(pool);
    }

    /// Asks for an address, if there is a buffer and room.
    fn ask(&mut self, next_hop: A, known: Option<MacAddress>, pool: &mut Pool, frames: &mut Batch) {
        let request = self.resolver.request(next_hop, known);
        let Some(mut packet) = pool.alloc() else { return };
        match packet.copy_from(request.as_ref()) {
            Ok(()) => self.push(packet, pool, frames),
            Err(_) => pool.free(packet),
        }
    }

    /// Learns from a frame; whether it was an answer. What waited for it is sent, or waits in
    /// `frames`, which must have room.
    pub fn learn(&mut self, frame: &[u8], now_ns: i64, pool: &mut Pool, frames: &mut Batch) -> bool {
        let Some(learned) = self.table.lock().learn(frame, now_ns, &mut self.gone) else { return false };
        for mut packet in learned.released {
            match self.wrap(&mut packet, learned.mac) {
                true => self.push(packet, pool, frames),
                false => {
                    self.unsent += 1;
                    pool.free(packet);
                }
            }
        }
        self.let_go(pool);
        true
    }

    /// Lets go of packets that waited for too long, and asks again for what others wait for.
    pub fn expire(&mut self, now_ns: i64, pool: &mut Pool, frames: &mut Batch) {
        if self.wheel_due_ns.is_none_or(|wheel_due_ns| now_ns < wheel_due_ns) {
            return;
        }
        let mut asked = Vec::new();
        let table = &self.table;
        let waits = table.lock().give_up(now_ns, &mut self.gone, |address, _| asked.push(address));
        self.wheel_due_ns = waits.then_some(now_ns + RETRY_NS);
        asked.into_iter().for_each(|address| self.ask(address, None, pool, frames));
        self.let_go(pool);
    }

    fn let_go(&mut self, pool: &mut Pool) {
        self.lost += self.gone.len() as u64;
        self.gone.drain(..).for_each(|packet| pool.free(packet));
    }

    /// Appends a frame; without room it is dropped, as a full ring would.
    fn push(&mut self, packet: Packet, pool: &mut Pool, frames: &mut Batch) {
        if let Some(packet) = frames.push(packet) {
            self.unsent += 1;
            pool.free(packet);
        }
    }

    /// When [`expire`](Link::expire) is due.
    pub fn deadline_ns(&self) -> Option<i64> {
        self.wheel_due_ns
    }
}
