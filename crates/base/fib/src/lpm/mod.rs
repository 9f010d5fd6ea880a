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
//!  address   16 bits          8 bits                      8 bits
//!              │                │                           │
//!              ▼                ▼                           ▼
//!  tops    ┌───────┐   group ┌──────────┐    row    Sub ┌──────────┐
//!  2^16    │ group ┼────────►│ 256 codes│ ┌───────┐     │ 256 bits │──► its own values
//!          │ cover │         │ one byte │ │ slots │ ┌──►│ own      │
//!          └───────┘         │ or two   │ │ v0 v1 ┼─┘   └──────────┘
//!                            └─┬────────┘ └───▲───┘
//!                              ├─ 0: the cover│
//!                              ├─ elsewhere ──┘
//!                              └─ a value: done
//! ```
//!
//! A /16 with routes longer than itself has a group: a code for each of its /24s, which is
//! the value where that is narrow enough. Codes are of one byte as long as nearly all values
//! are below 254, then of two bytes, which values below 32,766 fit. What does not fit, and a /24
//! with longer routes, stands in a row beside the codes; such a /24 has a `Sub`, a bitmap of where
//! the value changes among its 256 addresses. Routes of at most 16 bits are no codes: they are the
//! `cover` of each /16, so that a /8 that comes or goes writes 256 words and moves nothing.
//! So a lookup reads a word of a table of 256 KiB, and one code.
//!
//! # IPv6
//!
//! ```text
//!  address   18 bits      30 bits, compared sixteen at a time          6 bits ...
//!              │            │                                            │
//!              ▼            ▼                                            ▼
//!  roots   ┌───────┐   ┌──────────┐     ┌──────────┐              ┌────────┐
//!  2^18    │ tree ─┼──►│ 16 begins├────►│ 16 begins│  a /48 with  │ kids   │──► children
//!          │ cover │   │ 16 nodes │ ... │ 16 values├─ longer ────►│ runs   │
//!          └───────┘   └──────────┘     └──────────┘   routes     │ inline │──► values
//!                                                                 └────────┘
//! ```
//!
//! Routes of 19 to 48 bits divide what follows a root into ranges with one value each. Where they
//! begin stands in a tree like a B-tree's, sixteen to a cache line and their values in the next;
//! ranges with no such route have the value 0, for the root's `cover`. All lanes of a batch
//! take a step of their trees together. A /48 with longer routes has a trie of its own: nodes of
//! six bits, as in a poptrie, that stand only where routes end or ways part, so that no route
//! needs more than two, however long.
//!
//! # What it costs
//!
//! A lookup part takes 0.5 MiB (IPv4) or 2 MiB (IPv6) when it is empty, and at most 2 or 1 KiB
//! for each route; those of a full table take some 20 and 31 bytes each. A lookup reads two places
//! in memory for IPv4, seven at most. For IPv6 it reads the root, two cache lines for each level,
//! of which there are one to four, and for a route of more than 48 bits a node for each six bits
//! in which routes end or part, 14 at most, and a value.
//!
//! A change is a few searches in the routes and a new row of codes, or new ranges from where the
//! route begins to where it ends: microseconds. An IPv6 route of 19 to 48 bits takes time in
//! proportion to the routes inside it, which on average over all routes is how many routes nest:
//! one or two. Short routes, 0.0.0.0/0 the longest, write a word for each /16 they
//! cover. Now and then, when half of the memory of rows or ranges is unused, what is in use is
//! copied together in milliseconds, and codes become wider once. All is bounded by the tables'
//! limits, which bound the memory too. Figures, and why these structures:
//! `docs/decisions/0024-lpm-codes-ranges.md`.
//!
//! # Sources
//!
//! A code for each /24: Gupta, Lin and McKeown, *Routing Lookups in Hardware at Memory Access
//! Speeds* (INFOCOM 1998), whose DIR-24-8 these are compared with. Searches for ranges by the
//! cache line: Lampson, Srinivasan and Varghese, *IP Lookups using Multiway and Multicolumn Search*
//! (INFOCOM 1998). Runs of equal values coded by a bitmap: Degermark, Brodnik, Carlsson and Pink,
//! *Small Forwarding Tables for Fast Routing Lookups* (SIGCOMM 1997). A trie of 64-way nodes with
//! two bitmaps: Asai and Ohara, *Poptrie* (SIGCOMM 2015). Nodes that skip bits in which nothing
//! parts: Morrison, *PATRICIA* (Journal of the ACM 15, 1968).

mod arena;
mod bits;
mod codes;
mod group;
mod lookup4;
mod lookup6;
#[cfg(test)]
pub(crate) mod model;
mod painted;
mod ranges;
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
