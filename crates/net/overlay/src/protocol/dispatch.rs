//! Which protocols a received packet can be, by what carries it.

use super::{COUNT, Carrier, PROTOCOLS};

/// The protocols that have this carrier, a bit for each number. Where the IP header names the
/// payload it may be a way of segments as well.
#[inline]
pub(crate) fn candidates(carrier: Carrier) -> u32 {
    const TUNNELS: u32 = mask(0);
    const PAYLOADS: u32 = mask(1);
    const SEGMENTS: u32 = mask(2);
    match carrier {
        Carrier::Udp(0) => 0,
        Carrier::Udp(port) => UDP_PORTS.iter().position(|other| *other == port).map_or(0, |n| 1 << n),
        Carrier::Ip(_) => TUNNELS,
        Carrier::Payload => PAYLOADS | SEGMENTS,
        Carrier::Segments => SEGMENTS,
    }
}

// Each row has its own number, and one that is mistaken for another knows that of it as well.
const _: () = {
    let mut n = 0;
    while n < COUNT {
        let protocol = &PROTOCOLS[n];
        assert!(protocol.number as usize == n);
        if let Some(other) = protocol.mistaken_for {
            assert!(matches!(PROTOCOLS[other as usize].mistaken_for, Some(back) if back as usize == n));
        }
        n += 1;
    }
};

/// The UDP port of each protocol, 0 where it has none.
const UDP_PORTS: [u16; COUNT] = {
    let (mut ports, mut n) = ([0; COUNT], 0);
    while n < COUNT {
        if let Carrier::Udp(port) = PROTOCOLS[n].carrier {
            ports[n] = port;
        }
        n += 1;
    }
    ports
};

/// The protocols with a carrier of this kind: an IP header that names the tunnel, or the
/// payload, or segments.
const fn mask(kind: u8) -> u32 {
    let (mut mask, mut n) = (0, 0);
    while n < COUNT {
        let is_it = match PROTOCOLS[n].carrier {
            Carrier::Udp(_) => false,
            Carrier::Ip(_) => kind == 0,
            Carrier::Payload => kind == 1,
            Carrier::Segments => kind == 2,
        };
        if is_it {
            mask |= 1 << n;
        }
        n += 1;
    }
    mask
}
