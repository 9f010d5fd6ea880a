//! The device's configuration (virtio 1.3, 2.5 and 5.1.4): read whole, or again
//! if it changed meanwhile.

use regs::virtio::net::config;

use super::fault::VirtioFault;
use super::transport::Transport;
use crate::Result;

/// How often a configuration is read that keeps changing.
const TRIES: u32 = 100;

/// Reads `N` bytes at `offset`, all of the same generation (2.5.1). Without
/// generations two readings must agree.
pub(super) fn read<const N: usize>(transport: &dyn Transport, offset: u32) -> Result<[u8; N]> {
    let mut last = None;
    for _ in 0..TRIES {
        let mut data = [0; N];
        let before = transport.generation();
        transport.read_config(offset, &mut data);
        if before == transport.generation() && (!transport.is_legacy() || last == Some(data)) {
            return Ok(data);
        }
        last = Some(data);
    }
    Err(VirtioFault::ConfigUnstable { device: transport.pci().name(), tries: TRIES }.into())
}

/// Reads a 16-bit field.
pub(super) fn read16(transport: &dyn Transport, offset: u32) -> Result<u16> {
    Ok(u16::from_le_bytes(read(transport, offset)?))
}

/// The device's own address.
pub(super) fn mac(transport: &dyn Transport) -> Result<[u8; 6]> {
    read(transport, config::MAC)
}
