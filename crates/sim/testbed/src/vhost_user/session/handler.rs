//! The messages, one by one, in the order of the protocol's numbers.

use std::fs::File;

use regs::virtio::feature::RING_PACKED;
use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight,
    VhostUserLog, VhostUserMemoryRegion, VhostUserProtocolFeatures, VhostUserShMemConfig, VhostUserSharedMsg,
    VhostUserSingleMemoryRegion, VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{Error, GpuBackend, Result, VhostUserBackendReqHandlerMut};

use super::{Session, refuse, rings};
use crate::vhost_user::memory::{MAX_REGIONS, Region};

fn region(told: &VhostUserMemoryRegion) -> Region {
    Region {
        guest: told.guest_phys_addr,
        len: told.memory_size,
        user: told.user_addr,
        offset: told.mmap_offset,
    }
}

/// Nothing else than eventfds is taken: a write to another file might wait.
fn check_event(event: Option<&File>) -> Result<()> {
    event.map_or(Ok(()), |event| bus::eventfd::check(event).map_err(|_| refuse("a file that is no eventfd")))
}

/// For messages of protocol features that we do not offer.
fn not_offered<T>() -> Result<T> {
    Err(refuse("a message of a protocol feature that was not offered"))
}

impl VhostUserBackendReqHandlerMut for Session {
    fn get_features(&mut self) -> Result<u64> {
        Ok(self.offered)
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        if features & !self.offered != 0 {
            return Err(refuse("features that were not offered"));
        }
        if features == self.features {
            return Ok(());
        }
        if self.rings.iter().any(|ring| ring.running.is_some()) {
            return Err(refuse("features changed while a ring runs"));
        }
        let of_rings = features & !bus::vhost_user::message::F_PROTOCOL_FEATURES;
        self.change(|_, device| {
            rings(device)?.set_features(of_rings);
            Ok(())
        })?;
        self.features = features;
        // "Ring states": without protocol features rings begin enabled.
        if !self.speaks_protocol_features() {
            self.rings.iter_mut().for_each(|ring| ring.enabled = true);
        }
        Ok(())
    }

    fn set_owner(&mut self) -> Result<()> {
        Ok(())
    }

    fn reset_owner(&mut self) -> Result<()> {
        self.reset_device()
    }

    fn set_mem_table(
        &mut self,
        told: &[VhostUserMemoryRegion],
        files: Vec<File>,
        _postcopy: Option<bool>,
    ) -> Result<Option<Vec<u64>>> {
        self.change(|session, device| {
            session.memory.clear(device.view());
            for (told, file) in told.iter().zip(files) {
                let added = session.memory.add(device.view(), region(told), file);
                added.map_err(Error::ReqHandlerError)?;
            }
            session.follow_memory(device)
        })?;
        Ok(None)
    }

    fn set_vring_num(&mut self, index: u32, num: u32) -> Result<()> {
        let ring = self.ring(index)?;
        if ring.running.is_some() {
            return Err(refuse("a ring's size changed while it runs"));
        }
        ring.size = num.try_into().map_err(|_| refuse("a ring of more than 65535 descriptors"))?;
        Ok(())
    }

    fn set_vring_addr(
        &mut self,
        index: u32,
        flags: VhostUserVringAddrFlags,
        descriptor: u64,
        used: u64,
        available: u64,
        _log: u64,
    ) -> Result<()> {
        if !flags.is_empty() {
            return not_offered();
        }
        self.change(|session, device| {
            session.halt(device, index)?;
            session.ring(index)?.addresses = Some([descriptor, available, used]);
            session.start_if_ready(device, index)
        })
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        let packed = self.features & RING_PACKED != 0;
        let ring = self.ring(index)?;
        if ring.running.is_some() {
            return Err(refuse("a ring's base changed while it runs"));
        }
        // A packed ring's base has the used position in its upper half. DPDK's
        // virtio-user leaves it zero, and its vhost takes the available one: a
        // ring that is stopped has no buffer between the two, nor has ours.
        ring.base = if packed { base & 0xFFFF | base << 16 } else { base };
        Ok(())
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        let base = self.change(|session, device| session.halt(device, index))?;
        self.ring(index)?.kicked = false;
        Ok(VhostUserVringState::new(index, base))
    }

    fn set_vring_kick(&mut self, index: u8, event: Option<File>) -> Result<()> {
        check_event(event.as_ref())?;
        // The device polls: what comes through the event it has seen already.
        self.ring(index.into())?.kicked = true;
        self.change(|session, device| session.start_if_ready(device, index.into()))
    }

    fn set_vring_call(&mut self, index: u8, event: Option<File>) -> Result<()> {
        self.ring(index.into())?;
        check_event(event.as_ref())?;
        self.change(|_, device| {
            device.set_interrupt(index.into(), event.map(Into::into));
            Ok(())
        })
    }

    fn set_vring_err(&mut self, index: u8, event: Option<File>) -> Result<()> {
        check_event(event.as_ref())?;
        self.ring(index.into())?.error = event;
        Ok(())
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        Ok(VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::REPLY_ACK
            | VhostUserProtocolFeatures::RESET_DEVICE
            | VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS)
    }

    fn set_protocol_features(&mut self, _features: u64) -> Result<()> {
        Ok(())
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        Ok(self.rings.len() as u64 / 2)
    }

    fn set_vring_enable(&mut self, index: u32, enable: bool) -> Result<()> {
        let ring = self.ring(index)?;
        ring.enabled = enable;
        if ring.running.is_none() {
            return Ok(());
        }
        self.change(|_, device| {
            rings(device)?.enable(index as u16, enable);
            Ok(())
        })
    }

    fn get_config(&mut self, _offset: u32, _size: u32, _flags: VhostUserConfigFlags) -> Result<Vec<u8>> {
        not_offered()
    }

    fn set_config(&mut self, _offset: u32, _data: &[u8], _flags: VhostUserConfigFlags) -> Result<()> {
        not_offered()
    }

    fn set_gpu_socket(&mut self, _socket: GpuBackend) -> Result<()> {
        not_offered()
    }

    fn reset_device(&mut self) -> Result<()> {
        self.change(|session, device| {
            for index in 0..session.rings.len() as u32 {
                session.halt(device, index)?;
                let ring = session.ring(index)?;
                (ring.kicked, ring.enabled, ring.base) = (false, false, 0);
            }
            Ok(())
        })
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        Ok(MAX_REGIONS as u64)
    }

    fn add_mem_region(
        &mut self,
        told: &VhostUserSingleMemoryRegion,
        file: File,
        _postcopy: Option<bool>,
    ) -> Result<Option<u64>> {
        self.change(|session, device| {
            let added = session.memory.add(device.view(), region(told), file);
            added.map(|()| None).map_err(Error::ReqHandlerError)
        })
    }

    fn remove_mem_region(&mut self, told: &VhostUserSingleMemoryRegion) -> Result<()> {
        self.change(|session, device| {
            let removed = session.memory.remove(device.view(), region(told));
            removed.map_err(Error::ReqHandlerError)?;
            session.follow_memory(device)
        })
    }

    fn get_shared_object(&mut self, _object: VhostUserSharedMsg) -> Result<File> {
        not_offered()
    }

    fn get_inflight_fd(&mut self, _inflight: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
        not_offered()
    }

    fn set_inflight_fd(&mut self, _inflight: &VhostUserInflight, _file: File) -> Result<()> {
        not_offered()
    }

    fn set_device_state_fd(
        &mut self,
        _direction: VhostTransferStateDirection,
        _phase: VhostTransferStatePhase,
        _file: File,
    ) -> Result<Option<File>> {
        not_offered()
    }

    fn check_device_state(&mut self) -> Result<()> {
        not_offered()
    }

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        not_offered()
    }

    fn set_log_base(&mut self, _log: &VhostUserLog, _file: File) -> Result<()> {
        not_offered()
    }
}
