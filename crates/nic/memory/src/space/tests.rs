//! Memory of devices that see physical addresses, at addresses made up here: scattered
//! over the machine, none next to another, as an old machine's hugepages are.

use std::os::fd::AsRawFd;

use bus::{Backend, BarLayout};

use super::*;
use crate::{Backing, DATA_ROOM, HEADROOM, Packet, Pool};

const HUGE: u64 = HUGE_PAGE as u64;

/// A mapping that a device was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mapped {
    iova: u64,
    addr: usize,
    len: usize,
    /// The file's descriptor, and where in it the mapping begins.
    file: (i32, u64),
}

/// A device that only remembers what it may reach.
#[derive(Debug)]
struct Device {
    addressing: Addressing,
    mapped: Mutex<Vec<Mapped>>,
    /// How many mappings it takes before it refuses.
    most: usize,
}

impl Device {
    fn new(addressing: Addressing, most: usize) -> (Pci, Arc<Device>) {
        let device = Arc::new(Device { addressing, mapped: Mutex::default(), most });
        (Pci::new(device.clone()), device)
    }

    fn physical() -> (Pci, Arc<Device>) {
        Device::new(Addressing::Physical, usize::MAX)
    }

    fn mapped(&self) -> Vec<Mapped> {
        self.mapped.lock().expect("no panic").clone()
    }

    /// Where this process sees `len` bytes at an address of the device's, all of which
    /// must lie in one mapping.
    fn reach(&self, iova: u64, len: usize) -> *mut u8 {
        let inside = |m: &Mapped| (m.iova..m.iova + m.len as u64).contains(&iova);
        let mapped = self.mapped().into_iter().find(inside).expect("mapped");
        assert!(iova + len as u64 <= mapped.iova + mapped.len as u64, "it goes on beyond the mapping");
        std::ptr::with_exposed_provenance_mut(mapped.addr + (iova - mapped.iova) as usize)
    }
}

impl Backend for Device {
    fn name(&self) -> String {
        "device".to_owned()
    }
    fn read_config(&self, _: u16, _: &mut [u8]) -> bus::Result<()> {
        Ok(())
    }
    fn write_config(&self, _: u16, _: &[u8]) -> bus::Result<()> {
        Ok(())
    }
    fn bar_layout(&self, index: usize) -> bus::Result<BarLayout> {
        Err(bus::Error::NoBar { device: self.name(), index })
    }
    fn read_bar(&self, _: usize, _: u32, _: &mut [u8]) -> bus::Result<()> {
        Ok(())
    }
    fn write_bar(&self, _: usize, _: u32, _: &[u8]) -> bus::Result<()> {
        Ok(())
    }
    fn addressing(&self) -> Addressing {
        self.addressing
    }
    fn map_dma(&self, range: &DmaRange<'_>) -> bus::Result<()> {
        let mut mapped = self.mapped.lock().expect("no panic");
        let (iova, len) = (range.iova(), range.len());
        assert!(mapped.iter().all(|m| m.iova + m.len as u64 <= iova || iova + len as u64 <= m.iova));
        if mapped.len() == self.most {
            return Err(bus::Error::HungUp { peer: self.name() });
        }
        let file = (range.fd().expect("a file").as_raw_fd(), range.fd_offset());
        mapped.push(Mapped { iova, addr: range.addr().expose_provenance(), len, file });
        Ok(())
    }
    fn unmap_dma(&self, iova: u64, len: usize) -> bus::Result<()> {
        let mut mapped = self.mapped.lock().expect("no panic");
        let place = mapped.iter().position(|m| (m.iova, m.len) == (iova, len));
        let place = place.ok_or_else(|| bus::Error::HungUp { peer: self.name() })?;
        mapped.remove(place);
        Ok(())
    }
    fn reset(&self) -> bus::Result<()> {
        Ok(())
    }
}

/// Plain memory, and an address for each 2 MiB of it: downwards where the memory goes
/// upwards, every other one left out. No two pieces of memory have the same.
fn scattered(_: Options, len: usize) -> Result<(Mapping, Vec<u64>)> {
    let mut mapping = Mapping::new(plain(), len.next_multiple_of(HUGE_PAGE), false, Pages::Now)?;
    mapping.huge = true; // as far as anybody is told
    let first = mapping.ptr.as_ptr() as u64 / HUGE;
    let pages =
        (0..(mapping.len / HUGE_PAGE) as u64).map(|n| (1 << 40) - 2 * HUGE * ((first + n) % (1 << 18)));
    Ok((mapping, pages.collect()))
}

fn plain() -> Options {
    Options { backing: Backing::Memfd, numa_node: None }
}

fn dma() -> Dma {
    Dma::over(plain(), scattered)
}

#[test]
fn a_region_of_several_hugepages_has_the_address_of_each() {
    let dma = dma();
    let (pci, device) = Device::physical();
    let _attachment = dma.attach(&pci).expect("nothing is there yet");
    let region = dma.alloc(2 * HUGE_PAGE + 4096).expect("memory");
    let mapped = device.mapped();
    assert_eq!(mapped.len(), 3, "{mapped:?}");
    assert!(region.is_huge());
    let file = mapped[0].file.0;
    for (n, piece) in mapped.iter().enumerate() {
        assert_eq!((piece.len, piece.file), (HUGE_PAGE, (file, n as u64 * HUGE)));
        assert_eq!(piece.addr, region.ptr().addr().get() + n * HUGE_PAGE);
        assert_eq!(region.iova(n * HUGE_PAGE), piece.iova);
    }
    assert_eq!(region.iova(HUGE_PAGE - 1), mapped[0].iova + HUGE - 1);
    assert_eq!(region.iova(HUGE_PAGE + 77), mapped[1].iova + 77);
    assert_eq!(region.iova(region.len() - 1), mapped[2].iova + 4095);
    assert!(mapped.windows(2).all(|two| two[0].iova + HUGE != two[1].iova), "scattered");
    drop(region);
    assert_eq!(device.mapped(), [], "taken back with the region");
}

#[test]
fn small_regions_lie_in_one_hugepage_each() {
    let dma = dma();
    let (pci, device) = Device::physical();
    let _attachment = dma.attach(&pci).expect("nothing is there yet");
    let mut regions = Vec::new();
    for n in 1..=40 {
        let region = dma.alloc(n * 10_000).expect("memory");
        let last = region.len() - 1;
        assert_eq!(region.iova(last), region.iova(0) + last as u64, "contiguous for the device");
        assert_eq!(region.iova(0) % 4096, 0, "on a page of its own");
        // What the device writes is what the region holds.
        // SAFETY: memory of a region that lives, which nobody else touches.
        unsafe { device.reach(region.iova(0), region.len()).add(last).write(n as u8) };
        // SAFETY: as above.
        assert_eq!(unsafe { region.ptr().add(last).read() }, n as u8);
        regions.push(region);
    }
    let mut places: Vec<(u64, u64)> =
        regions.iter().map(|region| (region.iova(0), region.iova(0) + region.len() as u64)).collect();
    places.sort_unstable();
    assert!(places.windows(2).all(|two| two[0].1 <= two[1].0), "none overlaps another");
    assert!((4..=6).contains(&device.mapped().len()), "8.2 MB, cut out of few hugepages");
    drop(regions);
    assert_eq!(device.mapped(), []);
    // One that fits to the byte, and one byte more.
    let whole = dma.alloc(HUGE_PAGE).expect("memory");
    assert_eq!((device.mapped().len(), whole.iova(HUGE_PAGE - 1)), (1, whole.iova(0) + HUGE - 1));
    let more = dma.alloc(HUGE_PAGE + 1).expect("memory");
    assert_eq!(device.mapped().len(), 3);
    drop((whole, more));
}

#[test]
fn a_small_region_may_fill_its_hugepage_to_the_end() {
    let dma = dma();
    let (pci, device) = Device::physical();
    let _attachment = dma.attach(&pci).expect("nothing is there yet");
    let first = dma.alloc(HUGE_PAGE - 4096).expect("memory");
    let second = dma.alloc(4096).expect("memory");
    assert_eq!(second.iova(0), first.iova(0) + HUGE - 4096, "what is left of the hugepage");
    assert_eq!(device.mapped().len(), 1);
    let third = dma.alloc(1).expect("memory");
    assert_eq!(device.mapped().len(), 2, "and then another");
    assert_eq!((first.len(), second.len(), third.len()), (HUGE_PAGE - 4096, 4096, 1));
}

#[test]
fn buffers_of_a_pool_over_hugepages_far_apart_are_reached_where_they_say() {
    let dma = dma();
    let (pci, device) = Device::physical();
    let _attachment = dma.attach(&pci).expect("nothing is there yet");
    let mut pool = Pool::new(&dma, 4000).expect("memory");
    assert_eq!(device.mapped().len(), 5, "936 buffers in a hugepage");
    let mut packets: Vec<Packet> = std::iter::from_fn(|| pool.alloc()).collect();
    assert_eq!(packets.len(), 4000);
    for (n, packet) in packets.iter_mut().enumerate() {
        assert_eq!(packet.iova(), packet.rx_iova());
        // The buffer with its headroom lies in one mapping, or `reach` fails.
        let base = device.reach(packet.rx_iova() - HEADROOM as u64, HEADROOM + DATA_ROOM);
        // SAFETY: a buffer of a pool that lives; nobody else touches it meanwhile.
        unsafe { base.add(HEADROOM).cast::<[u8; 4]>().write((n as u32).to_le_bytes()) };
        packet.set_len(4).expect("fits");
    }
    for (n, packet) in packets.iter().enumerate() {
        assert_eq!(packet[..], (n as u32).to_le_bytes(), "what the device wrote to {:#x}", packet.iova());
    }
    drop(pool);
    assert_eq!(device.mapped().len(), 5, "packets are out");
    drop(packets);
    assert_eq!(device.mapped(), []);
}

#[test]
fn each_device_of_a_space_is_given_every_piece_and_loses_it_when_it_leaves() {
    let dma = dma();
    let (first, seen_by_first) = Device::physical();
    let (second, seen_by_second) = Device::physical();
    let (third, seen_by_third) = Device::new(Addressing::Virtual, usize::MAX);
    let attachment = dma.attach(&first).expect("nothing is there yet");
    let region = dma.alloc(3 * HUGE_PAGE).expect("memory");
    let pieces = seen_by_first.mapped();
    assert_eq!(pieces.len(), 3);
    let second = dma.attach(&second).expect("the space is physical");
    let third = dma.attach(&third).expect("it takes any address");
    assert_eq!((seen_by_second.mapped(), seen_by_third.mapped()), (pieces.clone(), pieces.clone()));
    let more = dma.alloc(HUGE_PAGE).expect("memory");
    assert!([&seen_by_first, &seen_by_second, &seen_by_third].iter().all(|seen| seen.mapped().len() == 4));
    drop(attachment);
    assert_eq!(seen_by_first.mapped(), [], "it left");
    drop(more);
    assert_eq!((seen_by_second.mapped(), seen_by_third.mapped()), (pieces.clone(), pieces));
    drop(third);
    assert_eq!((seen_by_second.mapped().len(), seen_by_third.mapped()), (3, vec![]), "each leaves by itself");
    drop(second);
    assert_eq!(seen_by_second.mapped(), []);
    drop(region);
}

#[test]
fn a_device_that_sees_physical_memory_cannot_join_addresses_of_our_choice() {
    let dma = dma();
    let (chosen, seen) = Device::new(Addressing::Virtual, usize::MAX);
    let attachment = dma.attach(&chosen).expect("nothing is there yet");
    let region = dma.alloc(3 * HUGE_PAGE).expect("memory");
    assert_eq!(seen.mapped().len(), 1, "contiguous: one piece");
    assert_eq!(region.iova(3 * HUGE_PAGE - 1), region.iova(0) + 3 * HUGE - 1);
    let (another, seen_by_another) = Device::new(Addressing::Virtual, usize::MAX);
    let another = dma.attach(&another).expect("it sees what we choose");
    assert_eq!(seen_by_another.mapped(), seen.mapped());
    drop(another);
    let (pci, device) = Device::physical();
    let error = dma.attach(&pci).expect_err("it would not see that memory");
    assert!(matches!(&error, Error::MixedAddressing { device } if device == "device"), "{error}");
    assert_eq!(device.mapped(), []);
    // Once that memory is gone it may.
    drop((region, attachment));
    let _attachment = dma.attach(&pci).expect("nothing is left");
    let region = dma.alloc(2 * HUGE_PAGE).expect("memory");
    assert_eq!(device.mapped().len(), 2);
    drop(region);
}

#[test]
fn a_device_that_refuses_a_piece_is_left_with_none() {
    let dma = dma();
    let (first, _) = Device::physical();
    let _first = dma.attach(&first).expect("nothing is there yet");
    let region = dma.alloc(3 * HUGE_PAGE).expect("memory");
    let other = dma.alloc(HUGE_PAGE).expect("memory");
    let (pci, device) = Device::new(Addressing::Physical, 2);
    let error = dma.attach(&pci).expect_err("it takes two pieces");
    assert!(matches!(error, Error::Bus(_)), "{error}");
    assert_eq!(device.mapped(), [], "what it had taken is taken back");
    drop((region, other));
    // Likewise memory that is new to it.
    let _attachment = dma.attach(&pci).expect("nothing is there");
    assert!(matches!(dma.alloc(3 * HUGE_PAGE), Err(Error::Bus(_))));
    assert_eq!(device.mapped(), []);
    let region = dma.alloc(2 * HUGE_PAGE).expect("it takes two pieces");
    assert_eq!(device.mapped().len(), 2);
    drop(region);
}

#[test]
fn memory_that_went_is_forgotten() {
    let dma = dma();
    for _ in 0..10 {
        let region = dma.alloc(2 * HUGE_PAGE).expect("memory");
        assert!(!region.is_huge());
        assert!(dma.state().chunks.len() <= 1, "only what lives");
        drop(region);
    }
    let kept: Vec<_> = (0..3).map(|_| dma.alloc(HUGE_PAGE).expect("memory")).collect();
    assert_eq!(dma.state().chunks.len(), kept.len());
}

#[test]
#[should_panic(expected = "offset 4096 outside a region of 4096 bytes")]
fn an_offset_behind_a_region_has_no_address() {
    dma().alloc(4096).expect("memory").iova(4096);
}

/// A peer that refused the memory has its file all the same. The pages go, here because the
/// file was not sealed; the process and its accesses go on, and each device is told.
#[test]
fn memory_that_a_peer_takes_away_after_it_refused_it_is_zeros_and_every_device_is_told() {
    fn unsealed(_: Options, len: usize) -> Result<(Mapping, Vec<u64>)> {
        let len = len.next_multiple_of(HUGE_PAGE);
        let mapping = Mapping::unsealed(len);
        Ok((mapping, (1..=(len / HUGE_PAGE) as u64).map(|n| n * HUGE).collect()))
    }
    let dma = Dma::over(plain(), unsealed);
    let (pci, _) = Device::physical();
    let attachment = dma.attach(&pci).expect("nothing is there yet");
    let region = dma.alloc(HUGE_PAGE).expect("memory");
    let (refusing, _) = Device::new(Addressing::Physical, 0);
    drop(dma.attach(&refusing).expect_err("it takes no mapping"));
    attachment.health().expect("all is there");
    // SAFETY: memory of a region that lives, which nobody else touches.
    unsafe { region.ptr().write(7) };
    rustix::fs::ftruncate(region.chunk.mapping.file(), 0).expect("it is not sealed");
    // SAFETY: as above.
    let bytes = [0, HUGE_PAGE - 1].map(|at| unsafe { region.ptr().add(at).read_volatile() });
    assert_eq!(bytes, [0, 0]);
    let told = attachment.health().expect_err("pages are gone").to_string();
    assert!(told.contains("took away pages of packet memory"), "{told}");
    drop(region);
    attachment.health().expect("it is not the device's any more");
    // A space of its own has memory of its own.
    let other = super::Dma::over(plain(), scattered);
    let (pci, _) = Device::physical();
    let attachment = other.attach(&pci).expect("nothing is there yet");
    let _region = other.alloc(HUGE_PAGE).expect("memory");
    attachment.health().expect("nothing of it is gone");
}
