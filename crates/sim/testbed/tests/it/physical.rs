//! Hardware without an IOMMU: our driver on a device that sees physical addresses, in
//! real hugepages. Needs root, for the page map and to reserve hugepages.

use port::{Options, RxQueue as _, TxQueue as _};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};

use crate::common::between::{Between, in_front_of};
use crate::common::limit::Limit;
use crate::common::{Bench, Side, devices};
use bus::{Addressing, DmaRange, Pci, Result};
use driver::ixgbe::Ixgbe;
use memory::{Backing, Batch, Dma, Pool};
use testbed::inprocess::{Handle, while_stepping};

const HUGE: usize = 2 << 20;
/// Far more than the tests take: others on the machine may take some.
const WANTED: u64 = 96;
const TOTAL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";
const SURPLUS: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/surplus_hugepages";
const FREE: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";

/// Hugepages that are reserved for the tests of this file, one at a time; the machine
/// has as many as before when it is dropped.
struct Reserved {
    added: u64,
    _turn: std::sync::MutexGuard<'static, ()>,
}

fn number(path: &str) -> u64 {
    fs::read_to_string(path).unwrap().trim().parse().unwrap()
}

/// Hugepages that the machine keeps. A surplus is in use by somebody and goes with him.
fn kept() -> u64 {
    number(TOTAL) - number(SURPLUS)
}

impl Reserved {
    /// `None`, and said so, for who is not root, unless all must run (`CI=true`).
    fn new() -> Option<Reserved> {
        static TURN: Mutex<()> = Mutex::new(());
        let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let must = std::env::var("CI").is_ok_and(|ci| ci == "true");
        if !rustix::process::geteuid().is_root() {
            assert!(!must, "CI=true, but physical addresses and hugepages need root");
            println!("passed over: physical addresses and hugepages need root");
            return None;
        }
        let added = WANTED.saturating_sub(number(FREE));
        if let Err(error) = fs::write(TOTAL, (kept() + added).to_string()) {
            // Root of a container that has no say over the machine.
            assert!(!must, "CI=true, but no hugepages can be reserved: {TOTAL}: {error}");
            println!("passed over: no hugepages can be reserved: {TOTAL}: {error}");
            return None;
        }
        let reserved = Reserved { added, _turn };
        assert!(number(FREE) >= WANTED / 2, "{} hugepages are free, {WANTED} were asked for", number(FREE));
        Some(reserved)
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let _ = fs::write(TOTAL, kept().saturating_sub(self.added).to_string());
    }
}

/// Where the page at an address of this process is in the machine's memory; read here by
/// itself, after Linux's admin-guide/mm/pagemap.
fn physical(address: usize) -> u64 {
    let mut entry = [0; 8];
    let pagemap = File::open("/proc/self/pagemap").unwrap();
    pagemap.read_exact_at(&mut entry, (address / 4096 * 8) as u64).unwrap();
    let entry = u64::from_le_bytes(entry);
    assert_eq!(entry >> 63, 1, "{address:#x} is in memory");
    let frame = entry & ((1 << 55) - 1);
    assert_ne!(frame, 0, "the kernel shows frame numbers");
    frame * 4096
}

/// In front of a model: it sees physical addresses, as hardware without an IOMMU does.
#[derive(Debug, Default)]
struct Physical {
    mapped: Mutex<Vec<(u64, usize)>>,
}

impl Between for Physical {
    fn addressing(&self, _: &Pci) -> Addressing {
        Addressing::Physical
    }

    fn map_dma(&self, inner: &Pci, range: &DmaRange<'_>) -> Result<()> {
        // Each piece is one hugepage, and stands where the machine has it.
        assert_eq!((range.len(), range.iova() % HUGE as u64), (HUGE, 0));
        for page in (0..HUGE).step_by(4096) {
            assert_eq!(physical(range.addr().addr() + page), range.iova() + page as u64);
        }
        self.mapped.lock().unwrap().push((range.iova(), range.len()));
        inner.map_dma(range)
    }

    fn unmap_dma(&self, inner: &Pci, iova: u64, len: usize) -> Result<()> {
        let mut mapped = self.mapped.lock().unwrap();
        let place = mapped.iter().position(|piece| *piece == (iova, len)).expect("it was mapped");
        mapped.swap_remove(place);
        inner.unmap_dma(iova, len)
    }
}

/// Models that see physical addresses, one for each wire.
fn physical_devices(wires: &[&str]) -> (Vec<Pci>, Vec<Arc<Physical>>, Vec<Handle>) {
    let (pcis, handles) = devices(wires);
    let physical: Vec<Arc<Physical>> = wires.iter().map(|_| Arc::default()).collect();
    let pcis = pcis.into_iter().zip(&physical).map(|(pci, physical)| in_front_of(pci, physical.clone()));
    (pcis.collect(), physical, handles)
}

#[test]
fn a_region_has_the_addresses_of_the_page_map() {
    let Some(_reserved) = Reserved::new() else { return };
    for backing in [Backing::Auto, Backing::MemfdHuge] {
        let (pcis, physicals, handles) = physical_devices(&["sink"]);
        let dma = Dma::new(memory::Options { backing, numa_node: None });
        let _attachment = dma.attach(&pcis[0]).unwrap();
        let region = dma.alloc(10 * HUGE + 5000).unwrap();
        assert!(region.is_huge());
        for offset in (0..region.len()).step_by(4096) {
            let address = region.ptr().addr().get() + offset;
            assert_eq!(region.iova(offset), physical(address), "{backing:?}: byte {offset}");
            assert_eq!(region.iova(offset + 4), region.iova(offset) + 4);
        }
        assert_eq!(physicals[0].mapped.lock().unwrap().len(), 11, "the last in part, mapped as a whole");
        assert_eq!(handles[0].report().mapped, (11, 11 * HUGE as u64));
        drop(region);
        assert_eq!(handles[0].report().mapped, (0, 0));
    }
}

#[test]
fn frames_are_forwarded_whole_where_there_is_no_iommu() {
    let Some(_reserved) = Reserved::new() else { return };
    let wire = "gen:count=20000,flows=16,size=64-1518+sink:check";
    let (pcis, physicals, handles) = physical_devices(&[wire, wire]);
    let dma = Dma::new(memory::Options::default());
    let open = |pci: &Pci| {
        let (device, rx, tx) = Ixgbe::open(pci.clone(), &dma, Options::default()).unwrap().split();
        Side { device, rx, tx }
    };
    let sides: Vec<Side> = while_stepping(&handles, || pcis.iter().map(open).collect()).unwrap();
    // Rings were cut out of one hugepage; the pool takes 9 more.
    let mut pool = Pool::new(&dma, 8192).unwrap();
    assert!(physicals.iter().all(|physical| physical.mapped.lock().unwrap().len() >= 10));
    // All buffers are used before any is used again: each hugepage has its turn.
    let all: Vec<_> = std::iter::from_fn(|| pool.alloc()).collect();
    assert_eq!(all.len(), 8192);
    for packet in &all {
        assert_eq!(packet.iova(), physical(packet.as_ptr().addr()) + packet.iova() % 4096);
        let (first, last) = (packet.iova(), packet.iova() + memory::DATA_ROOM as u64 - 1);
        assert_eq!(first / HUGE as u64, last / HUGE as u64, "a buffer lies in one hugepage");
    }
    // Given back in an order that mixes hugepages.
    let mut mixed: Vec<Vec<_>> = (0..64).map(|_| Vec::new()).collect();
    all.into_iter().enumerate().for_each(|(n, packet)| mixed[n % 64].push(packet));
    mixed.into_iter().flatten().for_each(|packet| pool.free(packet));
    let mut bench = Bench { pcis, sides, handles, dma, pool };
    forward_all(&mut bench);
    for report in bench.finish() {
        let check = report.wire.check.as_ref().unwrap();
        assert_eq!((check.received, check.corrupt, check.reordered, check.foreign), (20_000, 0, 0, 0));
    }
    assert!(physicals.iter().all(|physical| physical.mapped.lock().unwrap().is_empty()));
}

/// Forwards between both ports until nothing moves any more.
fn forward_all(bench: &mut Bench) {
    let mut limit = Limit::rounds(100_000, "40,000 frames to be forwarded, and nothing more to move");
    let mut idle = 0;
    while idle < 100 {
        limit.check();
        let mut moved: usize = bench.handles.iter().map(Handle::step_now).sum();
        for from in 0..2 {
            let mut batch = Batch::default();
            moved += bench.sides[from].rx[0].recv(&mut bench.pool, &mut batch);
            bench.sides[1 - from].tx[0].send(&mut bench.pool, &mut batch);
            bench.pool.free_batch(&mut batch);
        }
        idle = if moved > 0 { 0 } else { idle + 1 };
    }
}
