//! Our vfio-user ends against the opposite ends of crate `vfio_user`, which
//! nobody here wrote.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs::File;
use std::io::{Error as IoError, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};

use bus::{Error, Pci};
use common::{Memory, PAGE, Serving, memfd};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use vfio_bindings::bindings::vfio::{vfio_region_info, vfio_region_sparse_mmap_area};
use vfio_user::{Client, DmaMapFlags, DmaUnmapFlags, IrqInfo, ServerBackend, ServerRegion, SparseArea};

#[test]
fn their_client_drives_our_server() {
    let serving = Serving::start();
    let mut client = Client::new(serving.path()).unwrap();

    let bar0 = client.region(0).unwrap();
    assert_eq!((bar0.size, bar0.flags & 0xF), (8192, 0xF));
    assert_eq!((bar0.sparse_areas[0].offset, bar0.sparse_areas[0].size), (4096, 4096));
    let file = bar0.file_offset.as_ref().unwrap();
    assert_eq!(file.start(), 0);
    file.file().write_all_at(&[1, 2, 3], 5000).unwrap();
    let mut shared = [0; 3];
    serving.shared.read_exact_at(&mut shared, 5000).unwrap();
    assert_eq!(shared, [1, 2, 3]);
    assert_eq!((client.region(1).unwrap().size, client.region(7).unwrap().size), (0, 4096));

    client.region_write(0, 0x10, &[1, 2, 3, 4]).unwrap();
    let mut data = [0; 4];
    client.region_read(0, 0x10, &mut data).unwrap();
    assert_eq!(data, [1, 2, 3, 4]);
    client.region_read(7, 0, &mut data).unwrap();
    assert_eq!(data, [0x86, 0x80, 0xFB, 0x10]);

    let memory = Memory::new(PAGE);
    client.dma_map(0, 0x4000, PAGE as u64, memory.file.as_raw_fd()).unwrap();
    serving.until(|state| state.maps.len() == 1);
    client.dma_unmap(0x4000, PAGE as u64).unwrap();
    assert!(serving.state.lock().unwrap().maps.is_empty());

    assert_eq!(client.get_irq_info(2).unwrap().count, 4);
    let event = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    client.set_irqs(2, 0x24, 1, 1, &[event.as_raw_fd()]).unwrap();
    let wired = serving.state.lock().unwrap().events[1].take();
    wired.unwrap().write_all(&1_u64.to_ne_bytes()).unwrap();
    let mut count = [0; 8];
    File::from(event).read_exact(&mut count).unwrap();
    assert_eq!(u64::from_ne_bytes(count), 1);

    client.reset().unwrap();
    client.shutdown().unwrap();
    serving.until(|state| state.resets == 1 && state.disconnects == 1);
}

#[derive(Default)]
struct Theirs {
    bytes: Vec<u8>,
    maps: Arc<Mutex<Vec<(u64, u64, File)>>>,
    irqs: Arc<Mutex<Vec<File>>>,
}

impl ServerBackend for Theirs {
    fn region_read(&mut self, region: u32, offset: u64, data: &mut [u8]) -> Result<(), IoError> {
        if region == 0 {
            data.copy_from_slice(&self.bytes[offset as usize..][..data.len()]);
        }
        Ok(())
    }
    fn region_write(&mut self, _region: u32, offset: u64, data: &[u8]) -> Result<(), IoError> {
        if offset == 0xF00 {
            return Err(IoError::other("not this one"));
        }
        self.bytes[offset as usize..][..data.len()].copy_from_slice(data);
        Ok(())
    }
    fn dma_map(
        &mut self,
        _f: DmaMapFlags,
        _o: u64,
        iova: u64,
        len: u64,
        fd: Option<File>,
    ) -> Result<(), IoError> {
        let file = fd.ok_or_else(|| IoError::other("no file"))?;
        self.maps.lock().unwrap().push((iova, len, file));
        Ok(())
    }
    fn dma_unmap(&mut self, _f: DmaUnmapFlags, iova: u64, _len: u64) -> Result<(), IoError> {
        self.maps.lock().unwrap().retain(|map| map.0 != iova);
        Ok(())
    }
    fn reset(&mut self) -> Result<(), IoError> {
        self.bytes.fill(0);
        Ok(())
    }
    fn set_irqs(&mut self, _i: u32, _f: u32, _s: u32, _c: u32, fds: Vec<File>) -> Result<(), IoError> {
        self.irqs.lock().unwrap().extend(fds);
        Ok(())
    }
}

fn their_regions(shared: &File) -> Vec<ServerRegion> {
    let region = |index: u32| ServerRegion {
        region_info: vfio_region_info { argsz: 32, index, ..Default::default() },
        sparse_areas: Vec::new(),
        mmap_fd: None,
    };
    let mut regions: Vec<ServerRegion> = (0..9).map(region).collect();
    regions[0].region_info.size = 8192;
    regions[0].region_info.flags = 7;
    regions[0].sparse_areas =
        vec![SparseArea { area: vfio_region_sparse_mmap_area { offset: 4096, size: 4096 } }];
    regions[0].mmap_fd = Some(shared.as_raw_fd());
    regions[7].region_info.size = 4096;
    regions[7].region_info.flags = 3;
    regions
}

#[test]
fn our_client_drives_their_server() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    let shared = File::from(memfd(8192));
    let irqs =
        (0..5).map(|index| IrqInfo { index, flags: 1, count: if index == 2 { 3 } else { 0 } }).collect();
    let server = vfio_user::Server::new(&path, true, irqs, their_regions(&shared)).unwrap();
    let mut theirs = Theirs { bytes: vec![0; 8192], ..Theirs::default() };
    let (maps, wired) = (theirs.maps.clone(), theirs.irqs.clone());
    let thread = std::thread::spawn(move || server.run(&mut theirs).is_ok());

    let pci = Pci::connect(&path).unwrap();
    let bar = pci.bar(0).unwrap();
    assert_eq!((bar.len(), bar.mapped().len(), pci.interrupt_vectors()), (8192, 1, 3));
    bar.write32(0x1010, 0xCAFE);
    let mut word = [0; 4];
    shared.read_exact_at(&mut word, 0x1010).unwrap();
    assert_eq!(u32::from_le_bytes(word), 0xCAFE);
    for value in 0..100 {
        bar.write32(0x10, value);
        assert_eq!(bar.read32(0x10), value);
    }
    // A refused write is no end of the connection.
    bar.write32(0xF00, 1);
    assert_eq!((bar.read32(0x10), bar.read32(0xF00)), (99, 0));
    pci.health().unwrap();

    let memory = Memory::new(PAGE);
    pci.map_dma(&memory.range(0x8000, true)).unwrap();
    maps.lock().unwrap()[0].2.write_all_at(b"hi", 10).unwrap();
    assert_eq!(memory.read(10, 2), b"hi");
    pci.unmap_dma(0x8000, PAGE).unwrap();
    assert!(maps.lock().unwrap().is_empty());
    // Their refusals carry errno 0: still an error.
    let refused = pci.map_dma(&memory.range(0x8000, false)).unwrap_err();
    assert!(matches!(refused, Error::Refused { command: "DMA_MAP", errno: Errno::IO, .. }), "{refused}");

    let event = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    pci.set_interrupt(1, Some(event.as_fd())).unwrap();
    assert_eq!(wired.lock().unwrap().len(), 1);
    pci.reset().unwrap();
    assert_eq!(bar.read32(0x10), 0);
    drop((pci, bar));
    assert!(thread.join().unwrap());
}
