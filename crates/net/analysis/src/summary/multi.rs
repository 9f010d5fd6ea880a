//! One packet that stands for several: what `MULTIPACKET` makes of it. All have the
//! same length but the last, which has what is left; times lie evenly between the
//! first and the last.

use wire::ip::Protocol;
use wire::{ipv4, udp};

use super::builder::PacketBuilder;

/// The first of the packets that `builder` stands for; the others stay in `rest`.
pub(super) fn first(builder: PacketBuilder, rest: &mut Option<PacketBuilder>) -> PacketBuilder {
    if builder.extra_packets == 0 {
        return builder;
    }
    let count = builder.extra_packets + 1;
    let here = builder.bytes.len() as u32;
    let whole = here.saturating_add(builder.extra_length);
    let mut one = builder;
    if one.each.is_none() {
        one.each = Some((whole / count).max(here));
        (one.last_ns, one.step_ns) = (one.timestamp_ns, 0);
        if one.first_ns != 0 {
            one.step_ns = one.timestamp_ns.saturating_sub(one.first_ns) / i64::from(count - 1);
            one.timestamp_ns = one.first_ns;
        }
    }
    let each = one.each.unwrap_or(here);
    let mut others = one.clone();
    others.timestamp_ns = if count == 2 { one.last_ns } else { one.timestamp_ns.saturating_add(one.step_ns) };
    one.extra_packets = 0;
    others.extra_packets = count - 2;
    others.extra_length = whole.saturating_sub(each).max(here) - here;
    if others.extra_packets == 0 {
        others.set_length(here + others.extra_length);
    }
    one.extra_length = each - here;
    one.set_length(each);
    *rest = Some(others);
    one
}

impl PacketBuilder {
    /// Says in the headers how long the packet is.
    fn set_length(&mut self, length: u32) {
        if self.network.is_none() || !self.is_ip {
            return;
        }
        let ip = self.ip();
        let length = length.saturating_sub(ip as u32).min(u16::MAX.into()) as u16;
        self.put(ip + ipv4::offset::TOTAL_LEN, &length.to_be_bytes());
        if self.ip_protocol() == Protocol::UDP && self.is_first_fragment() {
            let header = (self.transport - ip) as u16;
            self.put(self.transport + udp::offset::LEN, &length.saturating_sub(header).to_be_bytes());
        }
    }
}
