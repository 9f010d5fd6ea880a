//! The elements of Ethernet, IP, ICMP, TCP and UDP: what they do to packets, byte by
//! byte.

mod as_click;
mod bench;
mod click;
mod copies;
mod ethernet;
mod forwarding;
mod icmp;
mod ip;
mod ip6;
mod lookup;
mod sources;
mod translation;
mod wifi;
