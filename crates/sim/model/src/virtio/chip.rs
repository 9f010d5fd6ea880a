//! The network device as a [`Chip`], by its modern PCI transport; and its rings for
//! vhost-user, whose back end has no other transport.

use regs::virtio::feature::{ACCESS_PLATFORM, NOTIFICATION_DATA, RING_RESET, net};

use super::RingAddresses;
use super::pci::Function;
use crate::chip::{FaultInjection, RingSetup, Rings};
use crate::lint::Broken;
use crate::{Chip, Dma, Wire};

impl<D, W> Chip<W> for Function<D>
where
    D: Dma<Window: Send> + Send,
    W: Wire,
{
    fn name(&self) -> &'static str {
        "virtio-net"
    }

    fn read(&mut self, offset: u32) -> u32 {
        let mut data = [0; 4];
        Function::read(self, offset, &mut data);
        u32::from_le_bytes(data)
    }

    fn write(&mut self, offset: u32, value: u32) {
        Function::write(self, offset, &value.to_le_bytes());
    }

    fn read_bytes(&mut self, offset: u32, data: &mut [u8]) -> bool {
        Function::read(self, offset, data);
        true
    }

    fn write_bytes(&mut self, offset: u32, data: &[u8]) -> bool {
        Function::write(self, offset, data);
        true
    }

    #[inline]
    fn step(&mut self, wire: &mut W, now_ns: u64) -> usize {
        Function::step(self, wire, now_ns)
    }

    fn reset(&mut self) {
        Function::reset(self);
    }

    fn counters(&mut self) -> Vec<(&'static str, u64)> {
        let waiting = ("rx_waiting", self.net().waiting() as u64);
        self.net().totals().iter().chain([waiting]).collect()
    }

    fn drops(&self) -> Vec<(&'static str, u64)> {
        self.net().drops().iter().collect()
    }

    fn findings(&self) -> Vec<Broken> {
        self.net().lint().broken()
    }

    fn rings(&mut self) -> Option<&mut dyn Rings> {
        Some(self)
    }

    fn fault_injection(&mut self) -> Option<&mut dyn FaultInjection> {
        Some(self)
    }
}

/// Features that stay with a front end, which has the control queue and the
/// configuration; and translation, which it does itself.
const FRONT_END: u64 = ACCESS_PLATFORM
    | net::CTRL_VQ
    | net::CTRL_RX
    | net::CTRL_VLAN
    | net::CTRL_RX_EXTRA
    | net::CTRL_MAC_ADDR
    | net::CTRL_GUEST_OFFLOADS
    | net::MAC
    | net::MTU
    | net::STATUS
    | net::RSS
    | net::HASH_REPORT
    | net::SPEED_DUPLEX
    | RING_RESET
    | NOTIFICATION_DATA;

impl<D: Dma> Rings for Function<D> {
    fn features(&self) -> u64 {
        self.net().offered() & !FRONT_END
    }

    fn set_features(&mut self, features: u64) {
        let net = self.net_mut();
        net.set_features_of_front_end(features);
        let pairs = net.pairs();
        net.use_pairs(pairs);
        net.run(true);
    }

    fn pairs(&self) -> u16 {
        self.net().pairs()
    }

    fn start(&mut self, index: u16, ring: &RingSetup) -> bool {
        let RingSetup { size, descriptors, driver, device, base } = *ring;
        let net = self.net_mut();
        net.set_vector(index, Some(index));
        net.set_up(index, RingAddresses { size, descriptors, driver, device }, Some(base))
    }

    fn enable(&mut self, index: u16, on: bool) {
        self.net_mut().enable(index, on);
    }

    fn stop(&mut self, index: u16) -> u32 {
        self.net_mut().take_down(index)
    }

    fn is_broken(&self, index: u16) -> bool {
        self.net().is_broken(index)
    }
}
