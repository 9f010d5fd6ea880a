//! Devices in this process that drivers are measured on.

use std::sync::Arc;

use testbed::external::ExternalDriver;
use testbed::inprocess::{Handle, InProcess};
use testbed::wire::{Cable, Plug, Spec, plug};
use testbed::{Device, i40e, ixgbe};

use crate::peers::Nic;
use crate::{Error, Result};

/// The model of the 82599, with a wire in its port.
pub fn model(wire: &str) -> Result<(bus::Pci, Handle)> {
    let cable = Cable::open(&wire.parse()?)?;
    let device = ixgbe::open(&ixgbe::Options::with_mac(ixgbe::mac(0)), cable);
    Ok(InProcess::new(device.map_err(no_pages)?))
}

/// Two models of the 82599 with a wire between them.
pub fn pair() -> Result<[(bus::Pci, Handle); 2]> {
    let spec: Spec = "pair".parse()?;
    let plugs = [0, 1].map(|n| Plug { spec: spec.clone(), mac: ixgbe::mac(n) });
    let cables = plug(&plugs, &Arc::default())?.into_iter().zip(&plugs);
    let devices = cables.map(|(cable, plug)| {
        let device = ixgbe::open(&ixgbe::Options::with_mac(plug.mac), cable);
        device.map(InProcess::new).map_err(no_pages)
    });
    let devices: Vec<(bus::Pci, Handle)> = devices.collect::<Result<_>>()?;
    devices.try_into().map_err(|_| Error::new("a wire has two ends"))
}

/// A device that gives these frames over and over.
pub fn minimal(frames: Vec<Vec<u8>>) -> Result<(bus::Pci, Handle)> {
    Ok(InProcess::new(minimal_device(0, frames)?))
}

/// As [`minimal`], for a driver of another process; it gives the same packet of `len`
/// bytes again and again.
pub fn minimal_external(nic: Nic, index: u8, len: usize) -> Result<(ExternalDriver, Handle)> {
    let frames = vec![testbed::minimal::outline(len)];
    let device = match nic {
        Nic::Ixgbe => minimal_device(index, frames),
        Nic::I40e => minimal_xl710_device(index, frames),
    };
    ExternalDriver::new(device?).map_err(no_pages)
}

/// A minimal XL710 that gives these frames over and over.
pub fn minimal_xl710(frames: Vec<Vec<u8>>) -> Result<(bus::Pci, Handle)> {
    Ok(InProcess::new(minimal_xl710_device(0, frames)?))
}

/// The model of the XL710, with a wire in its port.
pub fn xl710(wire: &str) -> Result<(bus::Pci, Handle)> {
    let cable = Cable::open(&wire.parse()?)?;
    let device = i40e::open(&i40e::Options::with_mac(ixgbe::mac(0)), cable);
    Ok(InProcess::new(device.map_err(no_pages)?))
}

/// A card with a virtual function: both devices, the card first. What the wire generates is for
/// [`vf_mac`].
pub fn card_82599(wire: &str) -> Result<[(bus::Pci, Handle); 2]> {
    let (wire, mac) = (Cable::open(&wire.parse()?)?, ixgbe::mac(1));
    card(ixgbe::open_with_vfs(&ixgbe::Options::with_mac(mac), wire, 1).map_err(no_pages)?)
}

/// A physical and a virtual function of the XL710 model, the wire in the former, as [`card_82599`]
/// makes them.
pub fn card_xl710(wire: &str) -> Result<[(bus::Pci, Handle); 2]> {
    let (wire, mac) = (Cable::open(&wire.parse()?)?, ixgbe::mac(1));
    card(i40e::open_with_vfs(&i40e::Options::with_mac(mac), wire, 1).map_err(no_pages)?)
}

/// The address of a card's virtual function, where wires send what they generate.
pub fn vf_mac() -> [u8; 6] {
    ixgbe::mac(0)
}

fn card((physical, virtuals): (Device, Vec<Device>)) -> Result<[(bus::Pci, Handle); 2]> {
    let both: Vec<_> = [physical].into_iter().chain(virtuals).map(InProcess::new).collect();
    both.try_into().map_err(|_| Error::new("a card with one virtual function is two devices"))
}

fn minimal_device(index: u8, frames: Vec<Vec<u8>>) -> Result<Device> {
    let cable = Cable::open(&"sink".parse()?)?; // nothing comes out of its port
    testbed::minimal::open(ixgbe::mac(index), frames, cable).map_err(no_pages)
}

fn minimal_xl710_device(index: u8, frames: Vec<Vec<u8>>) -> Result<Device> {
    let cable = Cable::open(&"sink".parse()?)?; // nothing comes out of its port
    testbed::minimal::xl710::open(ixgbe::mac(index), frames, cable).map_err(no_pages)
}

fn no_pages(error: std::io::Error) -> Error {
    Error::new(format!("cannot make a model's pages: {error}"))
}
