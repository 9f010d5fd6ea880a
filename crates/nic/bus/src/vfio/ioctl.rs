//! VFIO's ioctls, one function each, with the structures of `linux/vfio.h`.
//! Each function's argument is the structure its number stands for, which is
//! what makes the calls sound.

use std::ffi::{CString, c_void};
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

use rustix::io::Errno;
use vfio_bindings::bindings::vfio::{
    VFIO_BASE, VFIO_GROUP_FLAGS_VIABLE, VFIO_TYPE, vfio_device_info, vfio_group_status,
    vfio_iommu_type1_dma_map, vfio_iommu_type1_dma_unmap, vfio_irq_info, vfio_irq_set,
};

type Result<T> = std::result::Result<T, Errno>;

/// `_IO(VFIO_TYPE, VFIO_BASE + number)`: no direction, no size.
const fn request(number: u32) -> u32 {
    (VFIO_TYPE as u32) << 8 | (VFIO_BASE + number)
}

const GET_API_VERSION: u32 = request(0);
const CHECK_EXTENSION: u32 = request(1);
const SET_IOMMU: u32 = request(2);
const GROUP_GET_STATUS: u32 = request(3);
const GROUP_SET_CONTAINER: u32 = request(4);
const GROUP_GET_DEVICE_FD: u32 = request(6);
const DEVICE_GET_INFO: u32 = request(7);
const DEVICE_GET_REGION_INFO: u32 = request(8);
const DEVICE_GET_IRQ_INFO: u32 = request(9);
const DEVICE_SET_IRQS: u32 = request(10);
const DEVICE_RESET: u32 = request(11);
const IOMMU_GET_INFO: u32 = request(12);
const IOMMU_MAP_DMA: u32 = request(13);
const IOMMU_UNMAP_DMA: u32 = request(14);

/// # Safety
/// `argument` must be what `request` takes: a pointer to its structure, all
/// `argsz` bytes of it writable, or a number.
unsafe fn call(file: &File, request: u32, argument: *mut c_void) -> Result<i32> {
    // SAFETY: the caller's promise; the file is open.
    let outcome = unsafe { libc::ioctl(file.as_raw_fd(), request as _, argument) };
    match outcome {
        0.. => Ok(outcome),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}

fn number(value: u32) -> *mut c_void {
    ptr::without_provenance_mut(value as usize)
}

pub(super) fn api_version(container: &File) -> Result<i32> {
    // SAFETY: takes nothing.
    unsafe { call(container, GET_API_VERSION, number(0)) }
}

pub(super) fn has_extension(container: &File, extension: u32) -> Result<bool> {
    // SAFETY: takes a number.
    unsafe { call(container, CHECK_EXTENSION, number(extension)) }.map(|has| has == 1)
}

pub(super) fn set_iommu(container: &File, kind: u32) -> Result<()> {
    // SAFETY: takes a number.
    unsafe { call(container, SET_IOMMU, number(kind)) }.map(drop)
}

/// Whether all devices of the group are in VFIO's hands.
pub(super) fn is_viable(group: &File) -> Result<bool> {
    let mut status = vfio_group_status { argsz: size_of::<vfio_group_status>() as u32, flags: 0 };
    // SAFETY: the structure of this number.
    unsafe { call(group, GROUP_GET_STATUS, ptr::from_mut(&mut status).cast()) }?;
    Ok(status.flags & VFIO_GROUP_FLAGS_VIABLE != 0)
}

pub(super) fn set_container(group: &File, container: &File) -> Result<()> {
    let mut fd = container.as_raw_fd();
    // SAFETY: takes a pointer to a file descriptor.
    unsafe { call(group, GROUP_SET_CONTAINER, ptr::from_mut(&mut fd).cast()) }.map(drop)
}

pub(super) fn open_device(group: &File, name: &str) -> Result<File> {
    let name = CString::new(name).map_err(|_| Errno::INVAL)?;
    // SAFETY: takes a C string, which it only reads.
    let fd = unsafe { call(group, GROUP_GET_DEVICE_FD, name.as_ptr().cast_mut().cast()) }?;
    // SAFETY: a new file descriptor, ours alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) }.into())
}

pub(super) fn device_info(device: &File) -> Result<vfio_device_info> {
    let mut info = vfio_device_info { argsz: size_of::<vfio_device_info>() as u32, ..Default::default() };
    // SAFETY: the structure of this number.
    unsafe { call(device, DEVICE_GET_INFO, ptr::from_mut(&mut info).cast()) }?;
    Ok(info)
}

/// `body` is a `vfio_region_info` and the room behind it, `argsz` and `index`
/// filled in.
pub(super) fn region_info(device: &File, body: &mut [u8]) -> Result<()> {
    sized(device, DEVICE_GET_REGION_INFO, body)
}

/// `body` is a `vfio_iommu_type1_info` and the room behind it.
pub(super) fn iommu_info(container: &File, body: &mut [u8]) -> Result<()> {
    sized(container, IOMMU_GET_INFO, body)
}

/// A structure that begins with its size, `argsz`.
fn sized(file: &File, request: u32, body: &mut [u8]) -> Result<()> {
    let Some(size) = body.first_chunk().copied().map(u32::from_ne_bytes) else { return Err(Errno::INVAL) };
    if size as usize > body.len() {
        return Err(Errno::INVAL);
    }
    // SAFETY: the kernel copies at most `argsz` bytes either way, checked above.
    unsafe { call(file, request, body.as_mut_ptr().cast()) }.map(drop)
}

pub(super) fn irq_info(device: &File, index: u32) -> Result<vfio_irq_info> {
    let mut info = vfio_irq_info { argsz: size_of::<vfio_irq_info>() as u32, index, ..Default::default() };
    // SAFETY: the structure of this number.
    unsafe { call(device, DEVICE_GET_IRQ_INFO, ptr::from_mut(&mut info).cast()) }?;
    Ok(info)
}

/// Wires interrupts from `start` on to `fds`; -1 unwires.
pub(super) fn set_irqs(device: &File, flags: u32, index: u32, start: u32, fds: &[i32]) -> Result<()> {
    let argsz = (size_of::<vfio_irq_set>() + size_of_val(fds)) as u32;
    let head = [argsz, flags, index, start, fds.len() as u32];
    let words = head.iter().flat_map(|word| word.to_ne_bytes());
    let mut body: Vec<u8> = words.chain(fds.iter().flat_map(|fd| fd.to_ne_bytes())).collect();
    sized(device, DEVICE_SET_IRQS, &mut body)
}

pub(super) fn reset(device: &File) -> Result<()> {
    // SAFETY: takes nothing.
    unsafe { call(device, DEVICE_RESET, number(0)) }.map(drop)
}

/// Pins `size` bytes at `vaddr` and lets devices reach them at `iova`. The
/// kernel checks that the memory is there; that nobody minds the device
/// writing it is what a [`DmaRange`](crate::DmaRange) vouches for.
pub(super) fn map_dma(container: &File, flags: u32, vaddr: u64, iova: u64, size: u64) -> Result<()> {
    let argsz = size_of::<vfio_iommu_type1_dma_map>() as u32;
    let mut map = vfio_iommu_type1_dma_map { argsz, flags, vaddr, iova, size };
    // SAFETY: the structure of this number.
    unsafe { call(container, IOMMU_MAP_DMA, ptr::from_mut(&mut map).cast()) }.map(drop)
}

pub(super) fn unmap_dma(container: &File, iova: u64, size: u64) -> Result<()> {
    let argsz = size_of::<vfio_iommu_type1_dma_unmap>() as u32;
    let mut unmap = vfio_iommu_type1_dma_unmap { argsz, iova, size, ..Default::default() };
    // SAFETY: the structure of this number, without a bitmap.
    unsafe { call(container, IOMMU_UNMAP_DMA, ptr::from_mut(&mut unmap).cast()) }.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_header() {
        assert_eq!((GET_API_VERSION, DEVICE_GET_INFO, IOMMU_UNMAP_DMA), (0x3B64, 0x3B6B, 0x3B72));
    }

    #[test]
    fn a_file_that_is_no_vfio_file_is_an_error() {
        let file = File::open("/dev/null").unwrap();
        assert_eq!(api_version(&file), Err(Errno::NOTTY));
        assert_eq!(sized(&file, DEVICE_GET_REGION_INFO, &mut [0xFF; 32]), Err(Errno::INVAL));
        assert_eq!(sized(&file, DEVICE_GET_REGION_INFO, &mut []), Err(Errno::INVAL));
    }
}
