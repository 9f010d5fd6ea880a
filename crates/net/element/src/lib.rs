//! The elements of Click's language: one element a file, each with its class, which
//! is its documentation as well.
//!
//! Where to look: [`standard`] sources, sinks, queues, schedulers, switches;
//! [`control`] scripts, information and control; [`classify`] classifiers;
//! [`ethernet`], [`ip`], [`icmp`], [`tcpudp`] the protocols; [`rewriter`] address
//! translation; [`tunnel`] virtual networks in tunnels; [`io`] ports; [`wifi`] frames of Wi-Fi; [`testing`] what tests
//! of routers are made of. Printing, capture files and summaries are the crate
//! `analysis`. [`registry`] has these by name. `Strip` (`standard/strip.rs`) is a short one to read first, `Queue`
//! a long one.
// Elements are reached by their classes' names; `See [`CLASS`]` is for who reads the source.
#![allow(rustdoc::private_intra_doc_links)]
#![forbid(unsafe_code)]

pub mod classify;
pub mod control;
pub mod ethernet;
pub mod fixture;
pub mod icmp;
pub mod io;
pub mod ip;
pub mod kernels;
pub mod rewriter;
pub mod standard;
pub mod tcpudp;
pub mod testing;
pub mod trial;
pub mod tunnel;
mod wanted;
pub mod wifi;

use graph::{Class, Registry};

/// A folder of classes, and other names for some of them.
type Folder = (&'static [&'static Class], &'static [(&'static str, &'static str)]);

const FOLDERS: &[Folder] = &[
    (classify::CLASSES, classify::ALIASES),
    (control::CLASSES, control::ALIASES),
    (ethernet::CLASSES, ethernet::ALIASES),
    (icmp::CLASSES, icmp::ALIASES),
    (io::CLASSES, io::ALIASES),
    (ip::CLASSES, ip::ALIASES),
    (rewriter::CLASSES, rewriter::ALIASES),
    (standard::CLASSES, standard::ALIASES),
    (tcpudp::CLASSES, tcpudp::ALIASES),
    (testing::CLASSES, testing::ALIASES),
    (tunnel::CLASSES, tunnel::ALIASES),
    (wifi::CLASSES, wifi::ALIASES),
];

/// All classes of this crate.
pub fn registry() -> Registry {
    let classes: Vec<_> = FOLDERS.iter().flat_map(|(classes, _)| classes.iter().copied()).collect();
    let aliases: Vec<_> = FOLDERS.iter().flat_map(|(_, aliases)| aliases.iter().copied()).collect();
    Registry::new(&classes, &aliases).with_chains(ip::CHAINS)
}
