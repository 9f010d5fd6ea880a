//! The models there are: [`MODELS`] is the one list of them. The command line, port
//! names, help texts and tests read it, so that a new model is a row here and a module
//! that makes a PCI function of it.

use std::io;

use crate::device::Device;
use crate::view::Trust;
use crate::wire::Cable;
use crate::{fault, i40e, ixgbe, virtio};

/// A model that this build has.
#[derive(Debug, Clone, Copy)]
pub struct Model {
    /// Its name, as users write it and as its reports have it.
    pub name: &'static str,
    /// Other names that are understood.
    pub aliases: &'static [&'static str],
    /// What it is a model of.
    pub about: &'static str,
    /// Its PCI vendor id.
    pub vendor: u16,
    /// The PCI device ids it can have; the first unless another is asked for.
    pub devices: &'static [DeviceId],
    /// Faults of the device that can be injected, by their names in a [`fault::Spec`].
    pub faults: &'static [&'static str],
    /// Whether it has a linter that says what its driver does wrong.
    pub has_linter: bool,
    /// Whether it can be served over vhost-user.
    pub has_vhost_user: bool,
    /// Whether its registers can be reached through an I/O BAR with an address and a
    /// data register.
    pub has_register_window: bool,
    /// Whether it has a firmware, of which can be said what it tells.
    pub has_firmware: bool,
    /// The most virtual functions it can have.
    pub most_vfs: usize,
    /// Makes the device.
    open: fn(&Setup, Cable) -> Opened,
}

/// A device, and its virtual functions.
type Opened = io::Result<(Device, Vec<Device>)>;

/// A PCI device id of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceId {
    /// The PCI device id.
    pub id: u16,
    /// What distinguishes the device from others of the model.
    pub about: &'static str,
}

/// What distinguishes one device from another of its model.
#[derive(Clone, Copy, Debug, Default)]
pub struct Setup {
    /// The Ethernet address of the port.
    pub mac: [u8; 6],
    /// Its PCI device id, if not the model's first.
    pub device_id: Option<u16>,
    /// How much clients are trusted not to shrink what they share.
    pub trust: Trust,
    /// Faults that are injected into the device; those of the cable are the cable's.
    pub fault: Option<fault::Spec>,
    /// How many virtual functions it has.
    pub vfs: usize,
    /// Entries of a table of tunnels beside the chip (decision 30), if it has one.
    pub encap: Option<u32>,
    /// What its firmware tells, if not the usual.
    pub firmware: Option<i40e::FirmwareSetup>,
}

/// All models there are, in the order of help texts.
pub const MODELS: &[Model] = &[
    Model {
        name: "82599",
        aliases: &["ixgbe"],
        about: "Intel's 82599, 10 Gbit/s",
        vendor: regs::ixgbe::VENDOR_INTEL,
        devices: &[
            DeviceId { id: ixgbe::DEVICE_SFP, about: "SFP+" },
            DeviceId { id: ixgbe::DEVICE_KX4, about: "backplane, KX4" },
            DeviceId { id: ixgbe::DEVICE_X550, about: "X550, timestamps" },
        ],
        faults: fault::dma::NAMES,
        has_linter: true,
        has_vhost_user: false,
        has_register_window: true,
        has_firmware: false,
        most_vfs: ixgbe::MOST_VFS,
        open: |setup, cable| {
            let Setup { fault, trust, encap, .. } = *setup;
            let mut options = ixgbe::Options { fault, trust, encap, ..ixgbe::Options::with_mac(setup.mac) };
            setup.device_id.into_iter().for_each(|id| options.set_device_id(id));
            ixgbe::open_with_vfs(&options, cable, setup.vfs)
        },
    },
    Model {
        name: "virtio-net",
        aliases: &["virtio"],
        about: "the network device of virtio 1.3",
        vendor: regs::virtio::device::VENDOR,
        devices: &[DeviceId { id: regs::virtio::device::NET_MODERN, about: "modern" }],
        faults: fault::rings::NAMES,
        has_linter: true,
        has_vhost_user: true,
        has_register_window: false,
        has_firmware: false,
        most_vfs: 0,
        open: |setup, cable| {
            let Setup { fault, trust, encap, .. } = *setup;
            let options = virtio::Options { fault, trust, encap, ..virtio::Options::with_mac(setup.mac) };
            Ok((virtio::open(&options, cable), Vec::new()))
        },
    },
    Model {
        name: "xl710",
        aliases: &["i40e"],
        about: "Intel's XL710, 40 Gbit/s",
        vendor: regs::i40e::VENDOR_INTEL,
        devices: &[
            DeviceId { id: i40e::DEVICE_QSFP, about: "QSFP+" },
            DeviceId { id: i40e::DEVICE_SFP, about: "X710, SFP+" },
            DeviceId { id: i40e::DEVICE_X722, about: "X722, SFP+" },
        ],
        faults: fault::dma::NAMES,
        has_linter: true,
        has_vhost_user: false,
        has_register_window: false,
        has_firmware: true,
        most_vfs: i40e::MOST_VFS,
        open: |setup, cable| {
            let Setup { mac, trust, device_id, fault, vfs, encap, firmware } = *setup;
            let firmware = firmware.unwrap_or_default();
            let device_id = device_id.unwrap_or(i40e::DEVICE_QSFP);
            let options =
                i40e::Options { device_id, trust, fault, encap, firmware, ..i40e::Options::with_mac(mac) };
            i40e::open_with_vfs(&options, cable, vfs)
        },
    },
];

/// Why there is no such device.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// No model has this name.
    #[error("there is no model of {name:?}")]
    Unknown {
        /// What was written.
        name: String,
    },
    /// The model has a single device id, so that none can be chosen.
    #[error("{} has one device id", model.name)]
    OneDeviceId {
        /// The model that was asked for.
        model: &'static Model,
    },
    /// The model has several device ids, but not this one.
    #[error("{} has no device id {id:04x}", model.name)]
    NoDeviceId {
        /// The model that was asked for.
        model: &'static Model,
        /// The PCI device id that it does not have.
        id: u16,
    },
    /// The model has not so many virtual functions.
    #[error("{} has {} virtual functions, not {vfs}", model.name, model.most_vfs)]
    TooManyVfs {
        /// The model that was asked for.
        model: &'static Model,
        /// How many were asked for.
        vfs: usize,
    },
    /// The model has no firmware.
    #[error("{} has no firmware", model.name)]
    NoFirmware {
        /// The model that was asked for it.
        model: &'static Model,
    },
    /// None of the device faults asked for can be injected into this model.
    #[error("{} has no such faults", model.name)]
    NoSuchFaults {
        /// The model that was asked for.
        model: &'static Model,
    },
    /// The pages that a driver maps could not be made.
    #[error("cannot make a model's pages: {0}")]
    Pages(#[from] io::Error),
}

impl ModelError {
    /// What to do about it, where that is known.
    pub fn fix(&self) -> Option<String> {
        match self {
            ModelError::Unknown { .. } => Some(format!("use {}", names("or"))),
            ModelError::OneDeviceId { .. } => Some("leave --device-id out".to_owned()),
            ModelError::NoDeviceId { model, .. } => {
                let ids: Vec<_> = model.devices.iter().map(|device| format!("{:04x}", device.id)).collect();
                Some(format!("write {}", list(&ids, "or")))
            }
            ModelError::TooManyVfs { model, .. } if model.most_vfs == 0 => {
                let able = MODELS.iter().filter(|model| model.most_vfs > 0).map(|model| model.name);
                Some(format!("leave --vfs out, or use {}", list(&able.collect::<Vec<_>>(), "or")))
            }
            ModelError::TooManyVfs { model, .. } => Some(format!("write --vfs {} or fewer", model.most_vfs)),
            ModelError::NoFirmware { .. } => Some("leave --firmware out".to_owned()),
            ModelError::NoSuchFaults { model } => {
                Some(format!("its faults are {}; others go to the wire", list(model.faults, "and")))
            }
            ModelError::Pages(_) => None,
        }
    }
}

impl Model {
    /// The model of this name.
    ///
    /// # Errors
    /// [`ModelError::Unknown`] when there is none.
    pub fn named(name: &str) -> Result<&'static Model, ModelError> {
        let known = |model: &&Model| model.name == name || model.aliases.contains(&name);
        MODELS.iter().find(known).ok_or_else(|| ModelError::Unknown { name: name.to_owned() })
    }

    /// A device with `cable` in its port.
    ///
    /// # Errors
    /// When the model cannot be set up so, or when its shared pages cannot be made.
    pub fn open(&'static self, setup: &Setup, cable: Cable) -> Result<Device, ModelError> {
        Ok(self.open_with_vfs(&Setup { vfs: 0, ..*setup }, cable)?.0)
    }

    /// A device with `cable` in its port, and its virtual functions.
    ///
    /// # Errors
    /// As [`Model::open`], and when it has not so many.
    pub fn open_with_vfs(
        &'static self,
        setup: &Setup,
        cable: Cable,
    ) -> Result<(Device, Vec<Device>), ModelError> {
        if setup.vfs > self.most_vfs {
            return Err(ModelError::TooManyVfs { model: self, vfs: setup.vfs });
        }
        match (setup.device_id, self.devices) {
            (Some(_), [_]) => return Err(ModelError::OneDeviceId { model: self }),
            (Some(id), devices) if devices.iter().all(|device| device.id != id) => {
                return Err(ModelError::NoDeviceId { model: self, id });
            }
            _ => {}
        }
        if setup.firmware.is_some() && !self.has_firmware {
            return Err(ModelError::NoFirmware { model: self });
        }
        let faults = setup.fault.map(|spec| spec.device_faults()).unwrap_or_default();
        if !faults.is_empty() && !faults.iter().any(|fault| self.faults.contains(fault)) {
            return Err(ModelError::NoSuchFaults { model: self });
        }
        Ok((self.open)(setup, cable)?)
    }

    /// What it has, in words: `linter, vhost-user, …`.
    pub fn capabilities(&self) -> Vec<&'static str> {
        let all = [
            (self.has_linter, "linter"),
            (self.has_vhost_user, "vhost-user"),
            (!self.faults.is_empty(), "faults"),
            (self.has_register_window, "register window"),
            (self.has_firmware, "firmware"),
            (self.most_vfs > 0, "virtual functions"),
        ];
        all.into_iter().filter(|(has, _)| *has).map(|(_, name)| name).collect()
    }
}

/// The names of all models, joined by commas and a last `word`.
pub fn names(word: &str) -> String {
    list(&MODELS.iter().map(|model| model.name).collect::<Vec<_>>(), word)
}

/// The names of the models that can be served over vhost-user.
pub fn vhost_user_names() -> String {
    let served = MODELS.iter().filter(|model| model.has_vhost_user);
    list(&served.map(|model| model.name).collect::<Vec<_>>(), "or")
}

/// The device ids that can be chosen, in hexadecimal, with what they stand for.
pub fn device_ids() -> String {
    let several = MODELS.iter().filter(|model| model.devices.len() > 1);
    let ids = several.flat_map(|model| model.devices);
    list(&ids.map(|device| format!("{:04x} ({})", device.id, device.about)).collect::<Vec<_>>(), "or")
}

fn list(words: &[impl AsRef<str>], last: &str) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    match words.split_last() {
        Some((end, [])) => (*end).to_owned(),
        Some((end, first)) => format!("{} {last} {end}", first.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests;
