//! Payloads of packets in the making. Where a line says how long the packet was and
//! how long its payload, what is between them are options that nobody wrote down.

use wire::ip::Protocol;
use wire::{ipv4, tcp, udp};

use super::builder::PacketBuilder;

const HEADER: usize = tcp::HEADER_LEN;
const LONGEST_HEADER: usize = tcp::MAX_HEADER_LEN;

impl PacketBuilder {
    /// Where the payload begins.
    fn payload_place(&mut self) -> usize {
        if self.make_ip(0) {
            self.make_transport();
        }
        if !self.is_ip || self.network.is_none() {
            return 0;
        }
        let behind = match self.ip_protocol() {
            _ if !self.is_first_fragment() => 0,
            Protocol::TCP if self.transport_len() > tcp::offset::DATA_OFFSET => self.tcp_off().max(HEADER),
            Protocol::TCP => HEADER,
            Protocol::UDP | Protocol::UDP_LITE => udp::HEADER_LEN,
            _ => 0,
        };
        self.transport + behind
    }

    pub(super) fn inject_payload(&mut self, payload: &[u8]) {
        let at = self.payload_place();
        if payload.is_empty() {
            return;
        }
        let at = at + self.account(at, payload.len() as u32);
        self.reach(at + payload.len());
        self.put(at, payload);
    }

    pub(super) fn inject_payload_len(&mut self, length: u32) {
        let at = self.payload_place();
        self.account(at, length);
    }

    /// There are so many bytes of payload at a place; by how much headers before it
    /// must be longer than was thought.
    fn account(&mut self, at: usize, length: u32) -> usize {
        let end = (at as u32).saturating_add(length);
        if !self.is_ip || self.ip_len() == 0 && self.wanted == 0 {
            self.wanted = end;
            return 0;
        }
        let said = if self.ip_len() != 0 { self.ip_len().into() } else { self.wanted };
        let whole = match self.ip_len() {
            0 => said,
            _ => said + self.ip() as u32,
        };
        let mut left = whole.saturating_sub(end) as usize & !3;
        let mut more = 0;
        let tcp = self.ip_protocol() == Protocol::TCP && self.is_first_fragment() && self.tcp_off() == HEADER;
        if left > 0 && tcp && !self.has_tcp_hl {
            let by = left.min(LONGEST_HEADER - HEADER);
            self.insert(self.transport + HEADER, by);
            self.set_tcp_off(HEADER + by, false);
            (left, more) = (left - by, more + by);
        }
        if left > 0 && !self.has_ip_hl && ipv4::header_len(self.ip_byte(ipv4::offset::VERSION)) == HEADER {
            let by = left.min(LONGEST_HEADER - HEADER);
            self.insert(self.ip() + HEADER, by);
            self.transport += by;
            self.put_ip_header_len(HEADER + by);
            more += by;
        }
        more
    }

    fn insert(&mut self, at: usize, by: usize) {
        self.reach(at);
        self.bytes.splice(at..at, std::iter::repeat_n(0, by));
    }
}
