//! A vhost-user back end of crate `vhost` that writes down what it is told.
#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::io::Error as IoError;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use bus::vhost_user::Frontend;
use vhost::vhost_user::message::*;
use vhost::vhost_user::{BackendReqHandler, Error, GpuBackend, Result, VhostUserBackendReqHandlerMut};

#[derive(Default)]
pub struct Recorder {
    /// Offers memory slots.
    pub slots: bool,
    /// Refuses ring sizes.
    pub refuse: bool,
    /// Takes so many regions one by one.
    pub most: Option<usize>,
    pub features: u64,
    /// Guest physical address, length, user address, offset.
    pub regions: Vec<(u64, u64, u64, u64)>,
    pub size: u32,
    pub base: u32,
    /// Ring, descriptors, used, available.
    pub addresses: Option<(u32, u64, u64, u64)>,
    pub enabled: Option<(u32, bool)>,
    pub kick: Option<File>,
    pub call: Option<File>,
    pub error: Option<File>,
}

/// Serves a recorder in a thread of its own, until the front end goes.
pub fn serve(recorder: Recorder) -> (Frontend, Arc<Mutex<Recorder>>) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let recorder = Arc::new(Mutex::new(recorder));
    let mut handler = BackendReqHandler::from_stream(theirs, recorder.clone());
    thread::spawn(move || {
        loop {
            match handler.handle_request() {
                Ok(()) | Err(Error::ReqHandlerError(_)) => {}
                Err(_) => return,
            }
        }
    });
    let frontend = Frontend::over(ours, "vhost-user:test".to_owned(), Duration::from_secs(5)).unwrap();
    (frontend, recorder)
}

fn other<T>() -> Result<T> {
    Err(Error::ReqHandlerError(IoError::other("not here")))
}

impl VhostUserBackendReqHandlerMut for Recorder {
    fn set_owner(&mut self) -> Result<()> {
        Ok(())
    }
    fn reset_owner(&mut self) -> Result<()> {
        other()
    }
    fn reset_device(&mut self) -> Result<()> {
        Ok(())
    }
    fn get_features(&mut self) -> Result<u64> {
        Ok(1 << 30 | 1 << 32 | 1 << 34)
    }
    fn set_features(&mut self, features: u64) -> Result<()> {
        self.features = features;
        Ok(())
    }
    fn set_mem_table(
        &mut self,
        regions: &[VhostUserMemoryRegion],
        files: Vec<File>,
        _: Option<bool>,
    ) -> Result<Option<Vec<u64>>> {
        assert_eq!(regions.len(), files.len());
        let region =
            |r: &VhostUserMemoryRegion| (r.guest_phys_addr, r.memory_size, r.user_addr, r.mmap_offset);
        self.regions = regions.iter().map(region).collect();
        Ok(None)
    }
    fn set_vring_num(&mut self, _: u32, num: u32) -> Result<()> {
        self.size = num;
        if self.refuse { other() } else { Ok(()) }
    }
    fn set_vring_addr(
        &mut self,
        index: u32,
        _: VhostUserVringAddrFlags,
        descriptor: u64,
        used: u64,
        available: u64,
        _: u64,
    ) -> Result<()> {
        self.addresses = Some((index, descriptor, used, available));
        Ok(())
    }
    fn set_vring_base(&mut self, _: u32, base: u32) -> Result<()> {
        self.base = base;
        Ok(())
    }
    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        Ok(VhostUserVringState::new(index, 0x8007_8009))
    }
    fn set_vring_kick(&mut self, _: u8, fd: Option<File>) -> Result<()> {
        self.kick = fd;
        Ok(())
    }
    fn set_vring_call(&mut self, _: u8, fd: Option<File>) -> Result<()> {
        self.call = fd;
        Ok(())
    }
    fn set_vring_err(&mut self, _: u8, fd: Option<File>) -> Result<()> {
        self.error = fd;
        Ok(())
    }
    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        let mut features = VhostUserProtocolFeatures::MQ | VhostUserProtocolFeatures::REPLY_ACK;
        features.set(VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS, self.slots);
        Ok(features)
    }
    fn set_protocol_features(&mut self, _: u64) -> Result<()> {
        Ok(())
    }
    fn get_queue_num(&mut self) -> Result<u64> {
        Ok(2)
    }
    fn set_vring_enable(&mut self, index: u32, enable: bool) -> Result<()> {
        self.enabled = Some((index, enable));
        Ok(())
    }
    fn get_config(&mut self, _: u32, _: u32, _: VhostUserConfigFlags) -> Result<Vec<u8>> {
        other()
    }
    fn set_config(&mut self, _: u32, _: &[u8], _: VhostUserConfigFlags) -> Result<()> {
        other()
    }
    fn set_gpu_socket(&mut self, _: GpuBackend) -> Result<()> {
        other()
    }
    fn get_shared_object(&mut self, _: VhostUserSharedMsg) -> Result<File> {
        other()
    }
    fn get_inflight_fd(&mut self, _: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
        other()
    }
    fn set_inflight_fd(&mut self, _: &VhostUserInflight, _: File) -> Result<()> {
        other()
    }
    fn get_max_mem_slots(&mut self) -> Result<u64> {
        Ok(8)
    }
    fn add_mem_region(
        &mut self,
        r: &VhostUserSingleMemoryRegion,
        _: File,
        _: Option<bool>,
    ) -> Result<Option<u64>> {
        if self.most.is_some_and(|most| self.regions.len() >= most) {
            return other();
        }
        self.regions.push((r.guest_phys_addr, r.memory_size, r.user_addr, r.mmap_offset));
        Ok(None)
    }
    fn remove_mem_region(&mut self, r: &VhostUserSingleMemoryRegion) -> Result<()> {
        let iova = r.guest_phys_addr;
        self.regions.retain(|region| region.0 != iova);
        Ok(())
    }
    fn set_device_state_fd(
        &mut self,
        _: VhostTransferStateDirection,
        _: VhostTransferStatePhase,
        _: File,
    ) -> Result<Option<File>> {
        other()
    }
    fn check_device_state(&mut self) -> Result<()> {
        other()
    }
    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        other()
    }
    fn set_log_base(&mut self, _: &VhostUserLog, _: File) -> Result<()> {
        other()
    }
}
