//! A table that several threads share: changes take a lock, and packets to next hops that
//! are known do not.

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use wire::MacAddress;

use crate::resolver::{Address, Resolution, Resolver};
use crate::table::Table;

/// The most addresses that a thread keeps for itself.
const MOST: usize = 65_536;

/// A [`Table`] behind a lock, for threads that each have a [`Cache`] of it.
#[derive(Debug)]
pub struct SyncTable<A> {
    table: Mutex<Table<A>>,
    /// The table's version, so that caches see that it changed.
    version: AtomicU64,
}

impl<A: Address> SyncTable<A> {
    /// Shares a table.
    pub fn new(table: Table<A>) -> SyncTable<A> {
        SyncTable { version: AtomicU64::new(table.version()), table: Mutex::new(table) }
    }

    /// The table, for this thread alone.
    pub fn lock(&self) -> Locked<'_, A> {
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        Locked { table, version: &self.version }
    }
}

/// A table for one thread alone. Caches see its changes once it is dropped.
#[derive(Debug)]
pub struct Locked<'a, A: Address> {
    table: MutexGuard<'a, Table<A>>,
    version: &'a AtomicU64,
}

impl<A: Address> Deref for Locked<'_, A> {
    type Target = Table<A>;

    fn deref(&self) -> &Table<A> {
        &self.table
    }
}

impl<A: Address> DerefMut for Locked<'_, A> {
    fn deref_mut(&mut self) -> &mut Table<A> {
        &mut self.table
    }
}

impl<A: Address> Drop for Locked<'_, A> {
    fn drop(&mut self) {
        // Release: who sees the version, and asks for the lock, finds the change. The lock
        // is still held, so that versions do not go back.
        self.version.store(self.table.version(), Ordering::Release);
    }
}

/// Who has an address, until it is to be looked up again.
#[derive(Debug, Clone, Copy)]
struct Known {
    mac: MacAddress,
    until_ns: i64,
}

/// What one thread remembers of a [`SyncTable`].
#[derive(Debug, Clone)]
pub struct Cache<A> {
    version: u64,
    /// The address that was looked up last: most packets go where the one before went.
    last: Option<(A, Known)>,
    known: HashMap<A, Known>,
}

impl<A: Address> Default for Cache<A> {
    fn default() -> Cache<A> {
        Cache { version: 0, last: None, known: HashMap::new() }
    }
}

impl<A: Address> Cache<A> {
    /// What is known of a next hop, as [`Resolver::lookup`] says it. The table is always the
    /// same one. It is locked when the address is not remembered, or it is time to look at
    /// its age.
    #[inline]
    pub fn lookup(
        &mut self,
        table: &SyncTable<A>,
        resolver: &Resolver<A>,
        next_hop: A,
        now_ns: i64,
    ) -> Resolution {
        // Acquire: with the store of who changed the table.
        let version = table.version.load(Ordering::Acquire);
        if version != self.version {
            self.last = None;
            self.known.clear();
            self.version = version;
        }
        match self.last {
            Some((address, known)) if address == next_hop && now_ns < known.until_ns => {
                Resolution::Known(known.mac)
            }
            _ => self.lookup_among_all(table, resolver, next_hop, now_ns),
        }
    }

    /// As [`Cache::lookup`], of an address that was not the last.
    fn lookup_among_all(
        &mut self,
        table: &SyncTable<A>,
        resolver: &Resolver<A>,
        next_hop: A,
        now_ns: i64,
    ) -> Resolution {
        match self.known.get(&next_hop) {
            Some(known) if now_ns < known.until_ns => {
                self.last = Some((next_hop, *known));
                Resolution::Known(known.mac)
            }
            _ => self.lookup_locked(table, resolver, next_hop, now_ns),
        }
    }

    #[cold]
    fn lookup_locked(
        &mut self,
        table: &SyncTable<A>,
        resolver: &Resolver<A>,
        next_hop: A,
        now_ns: i64,
    ) -> Resolution {
        let mut table = table.lock();
        let found = resolver.lookup(&mut table, next_hop, now_ns);
        let until_ns = match found {
            Resolution::Known(_) | Resolution::Refresh(_) => {
                let is_group = || next_hop.group_mac().is_some() && resolver.broadcast != Some(next_hop);
                table
                    .fresh_until(next_hop, now_ns, resolver.poll_ns)
                    .or_else(|| is_group().then_some(i64::MAX))
            }
            Resolution::Unspecified | Resolution::Unknown => None,
        };
        if let (Resolution::Known(mac) | Resolution::Refresh(mac), Some(until_ns)) = (found, until_ns) {
            if self.known.len() >= MOST {
                self.known.clear();
            }
            self.known.insert(next_hop, Known { mac, until_ns });
        }
        found
    }
}
