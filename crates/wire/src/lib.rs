//! Packet formats from Ethernet to TCP, as views over bytes in place
#![forbid(unsafe_code)]
