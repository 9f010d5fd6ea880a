//! Longest-prefix match: which of the routes that cover an address is the longest.
//!
//! [`Table4`] and [`Table6`] give each route a number, such as the index of a next hop.
//! Both are in two parts. The *routes*, a sorted map, are what was asked for; only
//! changes read them. The *lookup part* is made from them, piece by piece, and is as
//! small as can be: a lookup is a few reads from memory that is too large for the nearest
//! caches, so what counts is how few those are and how many are in flight together.
//! Hence [`Table4::lookup_batch`]: one step of many lookups, then the next step of all.
//!
//! # IPv4
//!
//! ```text
//!  address   18 bits            6 bits                    8 bits
//!              │                  │                         │
//!              ▼                  ▼                         ▼
//!  blocks ┌─────────┐   runs: ...0100100...        Sub ┌──────────┐
//!  2^18   │ runs    │──► bits set up to it = n         │ 256 bits │──► its own values
//!         │ slots ──┼──► [v0][v1]..[vn]..              │ own      │
//!         │ cover   │            │ └─ flagged ────────►└──────────┘
//!         └─────────┘            ├─ a value: done
//!                                └─ 0: the block's cover
//! ```
//!
//! A block (16 bytes) is the 64 /24s of a /18. `runs` has a bit for each /24 whose value
//! differs from the one before; the values of the runs stand side by side elsewhere. A
//! /24 with longer routes has a `Sub`, the same again for its 256 addresses. Routes of
//! at most 18 bits are no values: they are the `cover` of each block, so that a /8 that
//! comes or goes writes 1,024 words and moves nothing. Two reads settle all but the
//! addresses in a /24 with longer routes, which need four.
//!
//! # IPv6
//!
//! ```text
//!  address   18 bits      6 bits  ...as many as no     6 bits
//!              │            │        way parts in        │
//!              ▼            ▼                            ▼
//!  roots   ┌───────┐   ┌────────┐                   ┌────────┐
//!  2^18    │ node ─┼──►│ kids   │──► children ─────►│ start  │ bits that must agree
//!          │ cover │   │ runs   │                   │ cover  │ the parent's word
//!          └───────┘   │ inline │──► 4 values here  │  ...   │
//!                      │ leaves │──► or elsewhere   └────────┘
//!                      └────────┘
//! ```
//!
//! Below a table of 18 bits there are nodes (one cache line) of six, as in a poptrie:
//! `kids` tells which of the 64 ways have a node of their own, `runs` where the values
//! of the others change. A node stands only where routes end or ways part, so no route
//! needs more than two, however long. A node's values are those of the routes that end in its
//! six bits; `cover` is the parent's word on it, and a lookup keeps the last one it met.
//! So a route touches one node and its children.
//!
//! # What it costs
//!
//! A lookup part takes 4 MiB (IPv4) or 2 MiB (IPv6) when it is empty, and at most 256 or
//! 384 bytes for each route; those of a full table take some 7 and 50 each. A lookup reads
//! two to four places in memory for IPv4. For IPv6 it reads the root, a node for each six
//! bits on the way in which routes end or part, 19 at most, and a value.
//!
//! A change is one search in the routes and a new row of values for one block or node:
//! microseconds. Only short routes take longer, 0.0.0.0/0 the longest, as it covers all
//! blocks; and now and then, when half of the values' memory is unused, those in use are
//! copied together in milliseconds. Both are bounded by the tables' limits, which bound
//! the memory too. Figures, and why these structures: `docs/decisions/0013-lpm.md`.
//!
//! # Sources
//!
//! Runs of equal values coded by a bitmap: Degermark, Brodnik, Carlsson and Pink, *Small
//! Forwarding Tables for Fast Routing Lookups* (SIGCOMM 1997). A trie of 64-way nodes with
//! two bitmaps: Asai and Ohara, *Poptrie* (SIGCOMM 2015). Nodes that skip bits in which
//! nothing parts: Morrison, *PATRICIA* (Journal of the ACM 15, 1968). DIR-24-8, which these
//! are compared with: Gupta, Lin and McKeown, *Routing Lookups in Hardware at Memory Access
//! Speeds* (INFOCOM 1998).

mod arena;
mod bits;
mod lookup4;
mod lookup6;
#[cfg(test)]
pub(crate) mod model;
mod routes;
mod table;
mod trie;

use lookup4::Lookup4;
use lookup6::Lookup6;
pub use table::{Address, Prefixes, Table, Table4, Table6};

/// A route: all addresses that begin with the first `len` bits of `prefix`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Route<A> {
    /// The first bits (host byte order); those behind `len` are 0.
    pub prefix: A,
    /// How many bits count.
    pub len: u8,
    /// What a lookup gives, such as the index of a next hop; at most
    /// [`MAX_VALUE`](crate::MAX_VALUE).
    pub value: u32,
}
