//! The chips there are models of, by the names users write.

use std::str::FromStr;

use testbed::wire::Cable;
use testbed::{Device, fault, ixgbe, virtio};

use crate::Failure;

/// A chip to model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chip {
    /// Intel's 82599.
    Ixgbe,
    /// The network device of virtio.
    Virtio,
}

impl FromStr for Chip {
    type Err = Failure;

    fn from_str(name: &str) -> Result<Chip, Failure> {
        match name {
            "82599" => Ok(Chip::Ixgbe),
            "virtio-net" => Ok(Chip::Virtio),
            _ => Err(Failure::usage(format!("there is no model of {name:?}")).fix("use 82599 or virtio-net")),
        }
    }
}

/// What distinguishes one device from another.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traits {
    /// Its address.
    pub mac: [u8; 6],
    /// Its PCI device id, where the chip has several.
    pub device_id: Option<u16>,
    /// What it does wrong.
    pub fault: Option<fault::Spec>,
}

impl Chip {
    /// A device with `cable` in its port.
    pub fn device(self, traits: Traits, cable: Cable) -> Result<Device, Failure> {
        let Traits { mac, device_id, fault } = traits;
        let device = match self {
            Chip::Ixgbe => {
                let mut options = ixgbe::Options { fault, ..ixgbe::Options::with_mac(mac) };
                device_id.into_iter().for_each(|id| options.set_device_id(id));
                ixgbe::open(&options, cable)
            }
            Chip::Virtio if device_id.is_some() => {
                return Err(Failure::usage("virtio-net has one device id").fix("leave --device-id out"));
            }
            Chip::Virtio if fault.is_some_and(|spec| spec.has_dma() && !spec.has_rings()) => {
                return Err(Failure::usage("virtio-net has no such faults").fix(
                    "its faults are jump, foreign, twice, lap, length and garbage; others go to the wire",
                ));
            }
            Chip::Virtio => {
                Ok(virtio::open(&virtio::Options { fault, ..virtio::Options::with_mac(mac) }, cable))
            }
        };
        device.map_err(|error| Failure::new(format!("cannot make a model's pages: {error}")))
    }
}
