//! Linux's side of a ping, which needs no program for it.

use std::net::{IpAddr, UdpSocket};

use rustix::net::{self, AddressFamily, SocketType, ipproto};
use wire::{icmpv4, icmpv6, ipv4};

use super::LIMIT;

/// Has a request for an echo with these bytes answered.
pub fn ping(to: IpAddr, data: &[u8], back: &mut [u8]) {
    let (family, protocol, kinds, front) = match to {
        IpAddr::V4(_) => {
            let kinds = [icmpv4::ECHO_REQUEST, icmpv4::ECHO_REPLY];
            (AddressFamily::INET, ipproto::ICMP, kinds, ipv4::HEADER_LEN)
        }
        IpAddr::V6(_) => {
            let kinds = [icmpv6::ECHO_REQUEST, icmpv6::ECHO_REPLY];
            (AddressFamily::INET6, ipproto::ICMPV6, kinds, 0)
        }
    };
    // A raw socket is asked and read as one of UDP is.
    let socket = UdpSocket::from(net::socket(family, SocketType::RAW, Some(protocol)).unwrap());
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    let mut message = [&[kinds[0], 0, 0, 0, 0x12, 0x34, 0, 1][..], data].concat();
    if to.is_ipv4() {
        icmpv4::fill_checksum(&mut message); // Linux fills in that of IPv6
    }
    socket.send_to(&message, (to, 0)).unwrap();
    loop {
        let got = socket.recv(back).unwrap();
        let answer = &back[front..got];
        if answer[0] == kinds[1] {
            assert!(answer[4..] == message[4..], "{} of {} bytes, or others", answer.len(), message.len());
            return;
        }
    }
}
