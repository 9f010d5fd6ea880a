//! The configuration that the driver reads, and its changes.
//!
//! virtio 1.3, sections 2.5 and 5.1.4.

use regs::virtio::feature::net;
use regs::virtio::net::config;

use super::{Net, rss};
use crate::Dma;

impl<D: Dma> Net<D> {
    /// The configuration as the driver reads it (5.1.4), from `offset` on.
    /// Fields of features that are not offered are zero.
    pub fn read_config(&self, offset: u32, data: &mut [u8]) {
        let offered = |feature| self.options.features & feature != 0;
        let mut bytes = [0; config::BYTES as usize];
        let mut put = |at: u32, field: &[u8]| {
            bytes[at as usize..][..field.len()].copy_from_slice(field);
        };
        put(config::MAC, &self.mac);
        if offered(net::STATUS) {
            let status = if self.rx.link_up { config::LINK_UP } else { 0 };
            put(config::STATUS, &status.to_le_bytes());
        }
        if offered(net::MQ | net::RSS) {
            put(config::MAX_VIRTQUEUE_PAIRS, &self.options.pairs.to_le_bytes());
        }
        if offered(net::MTU) {
            put(config::MTU, &self.options.mtu.to_le_bytes());
        }
        if offered(net::SPEED_DUPLEX) {
            put(config::SPEED, &self.options.speed.to_le_bytes());
            put(config::DUPLEX, &[1]);
        }
        if offered(net::RSS | net::HASH_REPORT) {
            put(config::RSS_MAX_KEY_SIZE, &[rss::LONGEST_KEY]);
            put(config::RSS_MAX_INDIRECTION_TABLE_LENGTH, &rss::LONGEST_TABLE.to_le_bytes());
            put(config::SUPPORTED_HASH_TYPES, &rss::TYPES.to_le_bytes());
        }
        self.config_fault.cover(&mut bytes);
        for (at, byte) in (offset as usize..).zip(data) {
            *byte = bytes.get(at).copied().unwrap_or(0);
        }
    }

    /// Changes whenever the configuration does (2.5).
    pub fn config_generation(&self) -> u8 {
        self.config_generation
    }

    #[cold]
    pub(super) fn follow_link(&mut self, up: bool) {
        if up != self.rx.link_up {
            self.rx.link_up = up;
            self.config_changed();
        }
    }

    /// The configuration changed: tells the driver, once it is ready.
    pub(super) fn config_changed(&mut self) {
        self.config_generation = self.config_generation.wrapping_add(1);
        if self.is_running {
            self.host.interrupt_config();
        }
    }
}
