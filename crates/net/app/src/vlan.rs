//! VLAN tags beside frames: a device can take a tag off a received frame
//! (`--vlan-strip`) and put one into a frame that is sent. What one device took off,
//! another puts back; where it cannot, it is put back into the bytes here.

use std::os::fd::BorrowedFd;

use memory::{Batch, Packet, Pool, TxOffload};
use port::{RxQueue, RxStats, TxQueue, TxStats};

/// A receive queue whose device takes tags off: each packet asks for its tag again
/// when it is sent, or has it in its bytes.
pub struct Restore {
    /// The queue that packets come from.
    pub rx: Box<dyn RxQueue>,
    /// All ports that the packets may be sent on insert tags themselves.
    pub by_device: bool,
}

impl RxQueue for Restore {
    fn recv(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        let before = batch.len();
        let received = self.rx.recv(pool, batch);
        for packet in batch.iter_mut().skip(before) {
            if let Some(tag) = packet.vlan() {
                insert(packet, tag, self.by_device);
            }
        }
        received
    }

    fn stats(&self) -> RxStats {
        self.rx.stats()
    }

    fn arm(&mut self) -> Option<BorrowedFd<'_>> {
        self.rx.arm()
    }

    fn disarm(&mut self) {
        self.rx.disarm();
    }
}

/// A transmit queue that tags each packet. What it refuses is tagged already, and is
/// not to be sent again.
pub struct Tagging {
    /// The queue that packets are given to.
    pub tx: Box<dyn TxQueue>,
    /// The tag control information.
    pub tag: u16,
    /// The device inserts it.
    pub by_device: bool,
}

impl TxQueue for Tagging {
    fn send(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        for packet in batch.iter_mut() {
            insert(packet, self.tag, self.by_device);
        }
        self.tx.send(pool, batch)
    }

    fn clean(&mut self, pool: &mut Pool) -> usize {
        self.tx.clean(pool)
    }

    fn stats(&self) -> TxStats {
        self.tx.stats()
    }
}

/// Has the device insert a tag, or puts it into the bytes.
fn insert(packet: &mut Packet, tag: u16, by_device: bool) {
    if by_device {
        let offload = packet.tx_offload();
        packet.set_tx_offload(TxOffload { flags: offload.flags | TxOffload::VLAN, vlan: tag, ..offload });
        return;
    }
    // Fresh buffers have the room; what is no frame stays as it is.
    if packet.push_front(wire::vlan::HEADER_LEN).is_ok() && !wire::vlan::insert(packet, tag) {
        let restored = packet.pull_front(wire::vlan::HEADER_LEN);
        debug_assert!(restored.is_ok(), "it was just pushed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memory::{Backing, Dma};

    #[test]
    fn a_tag_stands_behind_the_addresses_or_is_asked_for() {
        let dma = Dma::new(memory::Options { backing: Backing::Memfd, numa_node: None });
        let mut pool = Pool::new(&dma, 64).expect("memory");
        let frame: Vec<u8> = (0..60).collect();
        let mut packet = pool.alloc().expect("a buffer");
        packet.copy_from(&frame).expect("it fits");
        insert(&mut packet, 0x2007, true);
        assert_eq!((&packet[..], packet.tx_offload().vlan), (&frame[..], 0x2007));
        assert_eq!(packet.tx_offload().flags, TxOffload::VLAN);
        let mut packet = pool.alloc().expect("a buffer");
        packet.copy_from(&frame).expect("it fits");
        insert(&mut packet, 0x2007, false);
        assert_eq!(packet[..], [&frame[..12], &[0x81, 0, 0x20, 7], &frame[12..]].concat());
        assert!(packet.tx_offload().is_empty());
    }
}
