//! Options of sockets that this host remembers: they change nothing that its calls show, and none
//! but those of IP headers what its packets say. They are told again when asked for.

use std::collections::BTreeMap;

/// `IPV6_FREEBIND`, `IPV6_TRANSPARENT` and options of TCP that the `libc` crate does not name on
/// every system.
const IPV6_TRANSPARENT: i32 = 75;
const IPV6_FREEBIND: i32 = 78;
const TCP_TX_DELAY: i32 = 37;
const TCP_SAVE_SYN: i32 = 27;
const TCP_FASTOPEN_NO_COOKIE: i32 = 34;
/// Options of the level `SOL_SOCKET`, likewise.
const SO_MAX_PACING_RATE: i32 = 47;
const SO_TXTIME: i32 = 61;

/// Levels and names, with what a new socket has.
const OPTIONS: [(i32, i32, i32); 39] = [
    (libc::SOL_SOCKET, libc::SO_REUSEADDR, 0),
    (libc::SOL_SOCKET, libc::SO_REUSEPORT, 0),
    (libc::SOL_SOCKET, libc::SO_MARK, 0),
    (libc::SOL_SOCKET, libc::SO_PRIORITY, 0),
    (libc::SOL_SOCKET, libc::SO_DEBUG, 0),
    (libc::SOL_SOCKET, libc::SO_DONTROUTE, 0),
    (libc::SOL_SOCKET, libc::SO_BROADCAST, 0),
    (libc::SOL_SOCKET, libc::SO_TIMESTAMP, 0),
    (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 0),
    (libc::SOL_SOCKET, libc::SO_BUSY_POLL, 0),
    (libc::SOL_SOCKET, SO_MAX_PACING_RATE, -1),
    (libc::SOL_SOCKET, SO_TXTIME, 0),
    (libc::IPPROTO_IP, libc::IP_TOS, 0),
    (libc::IPPROTO_IP, libc::IP_TTL, 64),
    (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_WANT),
    (libc::IPPROTO_IP, libc::IP_RECVERR, 0),
    (libc::IPPROTO_IP, libc::IP_FREEBIND, 0),
    (libc::IPPROTO_IP, libc::IP_TRANSPARENT, 0),
    (libc::IPPROTO_IP, libc::IP_RECVTOS, 0),
    (libc::IPPROTO_IP, libc::IP_RECVTTL, 0),
    (libc::IPPROTO_IP, libc::IP_PKTINFO, 0),
    (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, 0),
    (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, 64),
    (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IP_PMTUDISC_WANT),
    (libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 0),
    (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 0),
    (libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 0),
    (libc::IPPROTO_IPV6, IPV6_FREEBIND, 0),
    (libc::IPPROTO_IPV6, IPV6_TRANSPARENT, 0),
    (libc::IPPROTO_TCP, libc::TCP_LINGER2, 60),
    (libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, 0),
    (libc::IPPROTO_TCP, libc::TCP_THIN_LINEAR_TIMEOUTS, 0),
    (libc::IPPROTO_TCP, libc::TCP_THIN_DUPACK, 0),
    (libc::IPPROTO_TCP, TCP_SAVE_SYN, 0),
    (libc::IPPROTO_TCP, TCP_TX_DELAY, 0),
    (libc::IPPROTO_TCP, TCP_FASTOPEN_NO_COOKIE, 0),
    (libc::SOL_SOCKET, libc::SO_INCOMING_CPU, 0),
    (libc::SOL_SOCKET, libc::SO_SELECT_ERR_QUEUE, 0),
    (libc::SOL_SOCKET, libc::SO_PREFER_BUSY_POLL, 0),
];

/// What was set of them.
#[derive(Debug, Clone, Default)]
pub struct Remembered {
    values: BTreeMap<(i32, i32), i32>,
}

/// Whether an option is one of these.
pub fn is_one(level: i32, name: i32) -> bool {
    OPTIONS.iter().any(|option| (option.0, option.1) == (level, name))
}

impl Remembered {
    /// Remembers a value.
    pub fn set(&mut self, level: i32, name: i32, value: i32) {
        self.values.insert((level, name), value);
    }

    /// A value as it was set, or what a new socket has; `None` of other options.
    pub fn value(&self, level: i32, name: i32) -> Option<i32> {
        let option = OPTIONS.iter().find(|option| (option.0, option.1) == (level, name))?;
        Some(self.values.get(&(level, name)).copied().unwrap_or(option.2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_told_as_they_were_set() {
        let mut remembered = Remembered::default();
        assert_eq!(remembered.value(libc::IPPROTO_IP, libc::IP_TTL), Some(64));
        remembered.set(libc::IPPROTO_IP, libc::IP_TTL, 9);
        assert_eq!(remembered.value(libc::IPPROTO_IP, libc::IP_TTL), Some(9));
        assert!(remembered.value(libc::IPPROTO_TCP, libc::TCP_INFO).is_none());
    }
}
