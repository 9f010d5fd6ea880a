//! A small served device, and a thread that serves it.
#![allow(dead_code, clippy::unwrap_used)]

pub mod files;
pub mod raw;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use bus::BarKind;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

use bus::vfio_user::server::{DmaAccess, RegionInfo, Served, Server, SharedPages};

pub const PAGE: usize = 4096;

pub fn memfd(len: usize) -> OwnedFd {
    memfd_with(MemfdFlags::ALLOW_SEALING, len)
}

/// Memory that cannot be sealed.
pub fn unsealable(len: usize) -> OwnedFd {
    memfd_with(MemfdFlags::empty(), len)
}

fn memfd_with(flags: MemfdFlags, len: usize) -> OwnedFd {
    let fd = memfd_create("test", MemfdFlags::CLOEXEC | flags).unwrap();
    ftruncate(&fd, len as u64).unwrap();
    fd
}

/// What the test looks at while the device is being served.
#[derive(Default)]
pub struct State {
    pub config: Vec<u8>,
    pub bar0: Vec<u8>,
    pub maps: Vec<(u64, u64, Option<File>, u64)>,
    pub events: Vec<Option<File>>,
    pub resets: usize,
    pub disconnects: usize,
    pub refuse_maps: bool,
    pub slow: Duration,
    pub writes: Vec<(usize, u64, Vec<u8>)>,
}

/// BAR 0: 8 KiB of memory, its second page shared. BAR 2: 16 I/O ports.
pub struct Toy {
    pub state: Arc<Mutex<State>>,
    pub shared: OwnedFd,
}

impl Toy {
    pub fn new() -> Toy {
        let mut config = vec![0; 4096];
        config[..4].copy_from_slice(&0x10FB_8086_u32.to_le_bytes());
        config[8..12].copy_from_slice(&[1, 0, 0, 2]);
        config[0x18] = 1; // BAR 2: I/O
        let state = State {
            config,
            bar0: vec![0; 2 * PAGE],
            events: (0..4).map(|_| None).collect(),
            ..State::default()
        };
        Toy { state: Arc::new(Mutex::new(state)), shared: memfd(2 * PAGE) }
    }
}

impl Served for Toy {
    fn read_config(&mut self, offset: u16, data: &mut [u8]) {
        let offset = usize::from(offset);
        data.copy_from_slice(&self.state.lock().unwrap().config[offset..][..data.len()]);
    }
    fn write_config(&mut self, offset: u16, data: &[u8]) {
        let offset = usize::from(offset);
        self.state.lock().unwrap().config[offset..][..data.len()].copy_from_slice(data);
    }
    fn regions(&self) -> Vec<RegionInfo> {
        let fd = self.shared.try_clone().unwrap();
        let page = PAGE as u64;
        let shared = Some(SharedPages { fd, fd_offset: 0, areas: vec![(page, page)] });
        vec![
            RegionInfo { bar: 0, size: 2 * page, kind: BarKind::Memory, shared },
            RegionInfo { bar: 2, size: 16, kind: BarKind::Io, shared: None },
        ]
    }
    fn read_bar(&mut self, _bar: usize, offset: u64, data: &mut [u8]) {
        std::thread::sleep(self.state.lock().unwrap().slow);
        data.copy_from_slice(&self.state.lock().unwrap().bar0[offset as usize..][..data.len()]);
    }
    fn write_bar(&mut self, bar: usize, offset: u64, data: &[u8]) {
        let mut state = self.state.lock().unwrap();
        state.bar0[offset as usize..][..data.len()].copy_from_slice(data);
        state.writes.push((bar, offset, data.to_vec()));
    }
    fn map_dma(
        &mut self,
        iova: u64,
        len: u64,
        fd: Option<OwnedFd>,
        fd_offset: u64,
        access: DmaAccess,
    ) -> io::Result<()> {
        assert!(access.read && access.write);
        let mut state = self.state.lock().unwrap();
        if state.refuse_maps {
            return Err(io::Error::from_raw_os_error(libc::ENOMEM));
        }
        state.maps.push((iova, len, fd.map(File::from), fd_offset));
        Ok(())
    }
    fn unmap_dma(&mut self, iova: u64, len: u64) -> io::Result<()> {
        self.state.lock().unwrap().maps.retain(|map| (map.0, map.1) != (iova, len));
        Ok(())
    }
    fn interrupt_vectors(&self) -> u16 {
        4
    }
    fn set_interrupt(&mut self, vector: u16, event: Option<OwnedFd>) {
        self.state.lock().unwrap().events[usize::from(vector)] = event.map(File::from);
    }
    fn reset(&mut self) {
        let mut state = self.state.lock().unwrap();
        state.resets += 1;
        state.bar0.fill(0);
    }
    fn disconnected(&mut self) {
        let mut state = self.state.lock().unwrap();
        state.disconnects += 1;
        state.maps.clear();
        state.events.fill_with(|| None);
    }
}

/// A toy served in a thread until dropped.
pub struct Serving {
    pub state: Arc<Mutex<State>>,
    pub shared: File,
    pub path: PathBuf,
    pub outcomes: Arc<Mutex<Vec<bus::Result<()>>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    _directory: tempfile::TempDir,
}

impl Serving {
    pub fn start() -> Serving {
        Serving::sharing(memfd(2 * PAGE))
    }

    /// Serves a toy with this file behind its BAR.
    pub fn sharing(shared: OwnedFd) -> Serving {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let mut toy = Toy { shared, ..Toy::new() };
        let (state, shared) = (toy.state.clone(), File::from(toy.shared.try_clone().unwrap()));
        let stop = Arc::new(AtomicBool::new(false));
        let outcomes = Arc::new(Mutex::new(Vec::new()));
        let mut server = Server::bind(&path).unwrap();
        let (stopping, results) = (stop.clone(), outcomes.clone());
        let thread = std::thread::spawn(move || {
            while !stopping.load(Ordering::Relaxed) {
                let outcome = server.serve_one(&mut toy, &stopping);
                results.lock().unwrap().push(outcome);
            }
        });
        Serving { state, shared, path, outcomes, stop, thread: Some(thread), _directory: directory }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until the device satisfies `condition`.
    pub fn until(&self, condition: impl Fn(&State) -> bool) {
        for _ in 0..500 {
            if condition(&self.state.lock().unwrap()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the device never got there");
    }

    pub fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Memory to offer: a mapped memfd.
pub struct Memory {
    pub file: File,
    pub mapping: bus::Mapping,
}

impl Memory {
    pub fn new(len: usize) -> Memory {
        Memory::of(memfd(len), len)
    }

    pub fn of(file: OwnedFd, len: usize) -> Memory {
        let file = File::from(file);
        Memory { mapping: bus::Mapping::new(&file, 0, len).unwrap(), file }
    }

    pub fn range(&self, iova: u64, with_fd: bool) -> bus::DmaRange<'_> {
        self.range_from(iova, with_fd.then_some(0))
    }

    /// A range that claims to begin at `offset` of the file, or to have none.
    pub fn range_from(&self, iova: u64, offset: Option<u64>) -> bus::DmaRange<'_> {
        let file = offset.map(|offset| (self.file.as_fd(), offset));
        // SAFETY: nobody asks for it any more when a test lets it go.
        unsafe { bus::DmaRange::new(self.mapping.base(), self.mapping.len(), iova, file) }
    }

    pub fn read(&self, offset: u64, len: usize) -> Vec<u8> {
        let mut data = vec![0; len];
        self.file.read_exact_at(&mut data, offset).unwrap();
        data
    }
}
