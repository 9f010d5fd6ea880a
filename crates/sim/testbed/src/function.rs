//! How a model of one of Intel's chips becomes PCI functions: one with a cable in its port, and
//! its virtual functions, each a device of its own. What differs from chip to chip, identity,
//! BARs and the model itself, a [`Family`] says.

use std::io;

use model::Dma;
use model::chip::WriteBackFormat;

use crate::device::{BoxedChip, Device, FaultHandle, Parts, PolledPages, Shape, Vectors};
use crate::fault;
use crate::fault::dma::{self, FaultyDma};
use crate::view::{BarPages, Trust, View};
use crate::wire::{self, Cable};

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
    /// How it writes descriptors back.
    const WRITE_BACK: WriteBackFormat;

    /// How much clients are trusted.
    fn trust(&self) -> Trust;

    /// Faults of the device; those of the cable are its own.
    fn fault(&self) -> Option<fault::Spec>;

    /// The function's identity and BARs.
    fn shape(&self) -> Shape;

    /// Those of a virtual function.
    fn vf_shape(&self) -> Shape;

    /// The model of the chip, whose interrupts are `vectors`.
    fn chip<D>(&self, dma: D, pages: BarPages, vfs: &[Self::Slot], vectors: Vectors) -> BoxedChip
    where
        D: Dma<Window: Send> + Send + 'static;

    /// The model of a virtual function.
    fn vf(view: View, pages: BarPages, slot: Self::Slot, vectors: Vectors) -> BoxedChip;
}

/// The function, with `cable` in its port, and the virtual functions that are joined to it by
/// `vfs`.
pub(crate) fn open<F: Family>(options: &F, cable: Cable, vfs: &[F::Slot]) -> io::Result<Device> {
    let view = View::new(options.trust());
    let pages = BarPages::new(F::BAR0[0])?;
    let vectors = Vectors::default();
    let (dma, shared) = (view.clone(), pages.clone());
    let (chip, faults): (_, Option<Box<dyn FaultHandle>>) = match options.fault() {
        Some(spec) if spec.has_any(dma::NAMES) => {
            let (dma, handle) = FaultyDma::new(dma, spec, F::WRITE_BACK);
            (options.chip(dma, shared, vfs, vectors.clone()), Some(Box::new(handle)))
        }
        _ => (options.chip(dma, shared, vfs, vectors.clone()), None),
    };
    let polled = Some(PolledPages { pages, areas: F::POLLED[0].to_vec() });
    Ok(Device::new(Parts { chip, shape: options.shape(), view, polled, vectors, cable, faults }))
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
    let chip = F::vf(view.clone(), pages.clone(), slot, vectors.clone());
    let polled = Some(PolledPages { pages, areas: F::POLLED[1].to_vec() });
    let (shape, cable) = (options.vf_shape(), wire::nowhere()?);
    Ok(Device::new(Parts { chip, shape, view, polled, vectors, cable, faults: None }))
}
