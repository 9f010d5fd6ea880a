//! How a model of one of Intel's chips becomes PCI functions: one with a cable in its port, and
//! its virtual functions, each a device of its own. What differs from chip to chip, identity,
//! BARs and the model itself, a [`Family`] says.

use std::io;

use model::chip::WriteBackFormat;

use crate::device::{BoxedChip, Device, Edge, FaultHandle, Parts, PolledPages, Shape, Vectors};
use crate::fault;
use crate::fault::dma::{self, FaultyDma};
use crate::view::{BarPages, Trust, View};
use crate::wire::{self, Cable};

/// Where the capability of the table of tunnels is in the configuration space.
const ENCAP_AT: usize = 0x50;

/// Part of a BAR that drivers poll: where it begins, and its bytes.
type Area = (u32, u32);

/// What distinguishes the functions of one chip from those of others.
pub(crate) trait Family {
    /// What the chip shares with one of its virtual functions.
    type Slot: Default;

    /// Virtual functions that it has at most.
    const MOST_VFS: usize;
    /// Bytes of BAR 0, of the function and of a virtual function.
    const BAR0: [u32; 2];
    /// What drivers poll in it, of the function and of a virtual function.
    const POLLED: [&[Area]; 2];
    /// A BAR that is free for the registers of the table of tunnels.
    const ENCAP_BAR: usize;
    /// How it writes descriptors back.
    const WRITE_BACK: WriteBackFormat;

    /// How much clients are trusted.
    fn trust(&self) -> Trust;

    /// Faults of the device; those of the cable are its own.
    fn fault(&self) -> Option<fault::Spec>;

    /// Entries of its table of tunnels, if it has one.
    fn encap(&self) -> Option<u32>;

    /// The function's identity and BARs.
    fn shape(&self) -> Shape;

    /// Those of a virtual function.
    fn vf_shape(&self) -> Shape;

    /// The model of the chip, whose interrupts are `vectors`.
    fn chip(&self, dma: Memory, pages: BarPages, vfs: &[Self::Slot], vectors: Vectors) -> BoxedChip;

    /// The model of a virtual function.
    fn vf(dma: Memory, pages: BarPages, slot: Self::Slot, vectors: Vectors) -> BoxedChip;
}

/// What each chip sees of its host's memory. One type, with and without faults: models are
/// generic over it, and compiled once for each.
pub(crate) type Memory = FaultyDma<View>;

/// The function, with `cable` in its port, and the virtual functions that are joined to it by
/// `vfs`.
pub(crate) fn open<F: Family>(options: &F, cable: Cable, vfs: &[F::Slot]) -> io::Result<Device> {
    let view = View::new(options.trust());
    let pages = BarPages::new(F::BAR0[0])?;
    let vectors = Vectors::default();
    let (dma, shared) = (view.clone(), pages.clone());
    let (dma, faults): (_, Option<Box<dyn FaultHandle>>) = match options.fault() {
        Some(spec) if spec.has_any(dma::NAMES) => {
            let (dma, handle) = FaultyDma::new(dma, spec, F::WRITE_BACK);
            (dma, Some(Box::new(handle)))
        }
        _ => (FaultyDma::without_faults(dma), None),
    };
    let chip = options.chip(dma, shared, vfs, vectors.clone());
    let polled = Some(PolledPages { pages, areas: F::POLLED[0].to_vec() });
    let shape = match options.encap() {
        Some(_) => options.shape().with_encap(F::ENCAP_BAR, ENCAP_AT),
        None => options.shape(),
    };
    let edge = Edge::new(cable, options.encap());
    Ok(Device::new(Parts { chip, shape, view, polled, vectors, edge, faults }))
}

/// The function with so many virtual functions, [`Family::MOST_VFS`] at most.
pub(crate) fn open_with_vfs<F>(options: &F, cable: Cable, vfs: usize) -> io::Result<(Device, Vec<Device>)>
where
    F: Family<Slot: Clone>,
{
    let slots: Vec<F::Slot> = (0..vfs.min(F::MOST_VFS)).map(|_| F::Slot::default()).collect();
    let physical = open(options, cable, &slots)?;
    let devices = slots.into_iter().map(|slot| open_vf(options, slot)).collect::<io::Result<_>>()?;
    Ok((physical, devices))
}

/// A virtual function. It has no port of its own: its cable ends nowhere.
fn open_vf<F: Family>(options: &F, slot: F::Slot) -> io::Result<Device> {
    let view = View::new(options.trust());
    let pages = BarPages::new(F::BAR0[1])?;
    let vectors = Vectors::default();
    let chip = F::vf(Memory::without_faults(view.clone()), pages.clone(), slot, vectors.clone());
    let polled = Some(PolledPages { pages, areas: F::POLLED[1].to_vec() });
    let (shape, edge) = (options.vf_shape(), Edge::new(wire::nowhere()?, None));
    Ok(Device::new(Parts { chip, shape, view, polled, vectors, edge, faults: None }))
}
