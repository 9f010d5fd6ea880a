//! How a port is written, and how it is found.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bus::vhost_user::Frontend;
use bus::{Pci, Trust, VfToken};
use driver::virtio::Virtio;
use driver::virtio::transport::{Transport, VhostUser};
use interface::Medium;
use memory::Dma;
use port::{Options, Port, Result};

/// A form of a port's name.
#[derive(Debug, Clone, Copy)]
pub struct Form {
    /// What stands before the first colon; a form without is tried when no other has the name's.
    pub prefix: Option<&'static str>,
    /// What is written behind that.
    operand: &'static str,
    /// What ports of this form are, for help texts.
    pub about: &'static str,
    /// Reads what is written behind the prefix and its colon, which is not empty.
    parse: fn(&str) -> Option<Name>,
}

impl Form {
    /// What is written: `tap:NAME[,gso]`.
    pub fn syntax(&self) -> String {
        self.prefix.map_or_else(|| self.operand.to_owned(), |prefix| format!("{prefix}:{}", self.operand))
    }
}

/// All forms that a port's name can have.
pub const FORMS: &[Form] = &[
    Form {
        prefix: None,
        operand: "0000:03:00.0[,vf_token=UUID]",
        about: "a PCI address: VFIO when the device is bound to vfio-pci, else sysfs",
        parse: pci,
    },
    Form {
        prefix: Some("vfio-user"),
        operand: "/path.sock[,allow-unsealed]",
        about: "a PCI device served by another process",
        parse: |rest| socket(rest).map(|(path, trust)| Name::VfioUser(path, trust)),
    },
    Form {
        prefix: Some("vhost-user"),
        operand: "/path.sock[,allow-unsealed]",
        about: "a virtio device served by another process",
        parse: |rest| socket(rest).map(|(path, trust)| Name::VhostUser(path, trust)),
    },
    Form {
        prefix: Some(Medium::AfXdp.prefix()),
        operand: "NAME[,generic][,copy]",
        about: "an interface of Linux's, past its network stack",
        parse: |interface| Some(Name::Interface(Medium::AfXdp, interface.to_owned())),
    },
    Form {
        prefix: Some(Medium::AfPacket.prefix()),
        operand: "NAME",
        about: "an interface of Linux's, beside its network stack",
        parse: |interface| Some(Name::Interface(Medium::AfPacket, interface.to_owned())),
    },
    Form {
        prefix: Some(Medium::Tap.prefix()),
        operand: "NAME[,gso]",
        about: "a TAP interface: Linux's network stack is the peer, with long segments where `gso` says so",
        parse: |interface| Some(Name::Interface(Medium::Tap, interface.to_owned())),
    },
];

/// A port's name, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Name {
    /// A PCI device of this machine, and the token that its physical or virtual functions open with.
    Pci(bus::Address, Option<VfToken>),
    /// A socket of a vfio-user server, and how far that is trusted.
    VfioUser(PathBuf, Trust),
    /// A socket of a vhost-user back end, likewise.
    VhostUser(PathBuf, Trust),
    /// An interface of Linux's, and the way to it.
    Interface(Medium, String),
}

/// A name that is no port's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no port")]
pub struct NameError(pub String);

impl std::str::FromStr for Name {
    type Err = NameError;

    fn from_str(name: &str) -> std::result::Result<Name, NameError> {
        let split = name.split_once(':').map_or((None, name), |(prefix, rest)| (Some(prefix), rest));
        let of = |prefix, rest| FORMS.iter().find(|form| form.prefix == prefix).map(|form| (form, rest));
        let found = match split {
            (_, "") => None,
            (Some(prefix), rest) => of(Some(prefix), rest).or_else(|| of(None, name)),
            (None, _) => of(None, name),
        };
        let parsed = found.and_then(|(form, rest)| (form.parse)(rest));
        parsed.ok_or_else(|| NameError(name.to_owned()))
    }
}

/// A PCI address, and the token behind it, if there is one.
fn pci(text: &str) -> Option<Name> {
    let (address, token) = match text.split_once(",vf_token=") {
        Some((address, token)) => (address, Some(token.parse().ok()?)),
        None => (text, None),
    };
    address.parse().ok().map(|address| Name::Pci(address, token))
}

/// A socket's path, and whether memory that cannot be sealed is allowed behind it.
fn socket(rest: &str) -> Option<(PathBuf, Trust)> {
    let (path, trust) = match rest.strip_suffix(",allow-unsealed") {
        Some(path) => (path, Trust::Peer),
        None => (rest, Trust::Hostile),
    };
    (!path.is_empty()).then(|| (path.into(), trust))
}

impl Name {
    /// Finds the device and takes it, without touching what it does. Waiting for a
    /// server ends when `stop` is set.
    ///
    /// # Errors
    /// When it is not there or may not be used.
    pub fn find(self, stop: &Arc<AtomicBool>) -> Result<Found> {
        let failed = |error| port::Error::from(driver::Error::from(error));
        Ok(match self {
            Name::Pci(address, token) => Found::Pci(Pci::open_with_token(address, token).map_err(failed)?),
            Name::VfioUser(path, trust) => {
                Found::Pci(Pci::connect_until(&path, trust, stop).map_err(failed)?)
            }
            Name::VhostUser(path, trust) => Found::VhostUser(vhost_user(&path, trust)?),
            Name::Interface(medium, interface) => Found::Interface(medium, interface),
        })
    }

    /// Whether it is there; nothing is opened or taken. What is made when it is opened counts
    /// as there.
    ///
    /// # Errors
    /// What is missing, as [`find`](Name::find) and opening say it.
    pub fn look_for(&self) -> Result<()> {
        match self {
            Name::Pci(address, _) => {
                Pci::look_for(*address).map_err(|error| port::Error::from(driver::Error::from(error)))
            }
            Name::VfioUser(path, _) => served("vfio-user", path),
            Name::VhostUser(path, _) => served("vhost-user", path),
            Name::Interface(medium, interface) => medium.look_for(interface),
        }
    }

    /// The most queues that it can be opened with, as far as that is known before.
    pub fn most_queues(&self) -> Option<usize> {
        match self {
            Name::Interface(medium, interface) => Some(medium.most_queues(interface)),
            _ => None,
        }
    }
}

/// Whether there is a socket to connect to.
fn served(prefix: &str, path: &Path) -> Result<()> {
    match path.exists() {
        true => Ok(()),
        false => {
            let (port, what) = (format!("{prefix}:{}", path.display()), "there is no such socket".to_owned());
            Err(port::Error::setup(&port, what, "start the process that serves it first"))
        }
    }
}

fn vhost_user(path: &Path, trust: Trust) -> Result<Arc<VhostUser>> {
    let frontend = Frontend::connect(path).map_err(driver::Error::from)?;
    Ok(Arc::new(VhostUser::over(frontend.trusting(trust), None)))
}

/// A device that was found and is not opened yet.
pub enum Found {
    /// On PCI, or as if it were.
    Pci(Pci),
    /// Another process is the device.
    VhostUser(Arc<VhostUser>),
    /// Linux has an interface of this name.
    Interface(Medium, String),
}

impl Found {
    /// The device; an interface of Linux's is none of ours.
    pub fn pci(&self) -> Option<&Pci> {
        match self {
            Found::Pci(pci) => Some(pci),
            Found::VhostUser(transport) => Some(transport.pci()),
            Found::Interface(..) => None,
        }
    }

    /// Opens the port.
    ///
    /// # Errors
    /// As its driver says.
    pub fn open(self, dma: &Dma, options: &Options) -> Result<Box<dyn Port>> {
        match self {
            Found::Pci(pci) => crate::open(pci, dma, options.clone()),
            Found::VhostUser(transport) => Ok(Box::new(Virtio::open_on(transport, dma, options.clone())?)),
            Found::Interface(medium, name) => medium.open(&name, dma, options),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart_and_nonsense_is_refused() {
        let parse = |name: &str| name.parse::<Name>();
        assert_eq!(parse("vfio-user:/a:b"), Ok(Name::VfioUser("/a:b".into(), Trust::Hostile)));
        assert_eq!(parse("vhost-user:x"), Ok(Name::VhostUser("x".into(), Trust::Hostile)));
        assert_eq!(parse("vfio-user:a,allow-unsealed"), Ok(Name::VfioUser("a".into(), Trust::Peer)));
        assert_eq!(parse("vhost-user:a,allow-unsealed"), Ok(Name::VhostUser("a".into(), Trust::Peer)));
        assert_eq!(parse("tap:t0"), Ok(Name::Interface(Medium::Tap, "t0".into())));
        assert_eq!(parse("af_xdp:v0,copy"), Ok(Name::Interface(Medium::AfXdp, "v0,copy".into())));
        let (address, token) = ("0000:03:00.0", "14d63f20-8445-11ea-8900-1f9ce7d5650d");
        let at: bus::Address = address.parse().expect("an address");
        assert_eq!(parse(address), Ok(Name::Pci(at, None)));
        assert_eq!(parse("03:00.0"), parse(address));
        let with_token = parse(&format!("03:00.0,vf_token={token}"));
        assert_eq!(with_token, Ok(Name::Pci(at, token.parse().ok())));
        for wrong in [
            "",
            "tap:",
            "vfio-user:",
            "vfio-user:,allow-unsealed",
            "af_xdp",
            "model:82599",
            "eth0",
            "0000:03:00",
            "03:00.0,vf_token=",
            "03:00.0,vf_token=1",
            "03:00.0,token=14d63f20-8445-11ea-8900-1f9ce7d5650d",
        ] {
            assert_eq!(parse(wrong), Err(NameError(wrong.into())));
        }
    }

    #[test]
    fn each_form_is_understood_and_each_way_to_an_interface_has_one() {
        for form in FORMS.iter().filter(|form| form.prefix.is_some()) {
            let written = form.syntax();
            let name = written.split('[').next().expect("a name");
            assert!(name.parse::<Name>().is_ok(), "{name}");
        }
        let ways: Vec<Medium> = FORMS
            .iter()
            .filter_map(|form| match format!("{}:x", form.prefix?).parse() {
                Ok(Name::Interface(medium, _)) => Some(medium),
                _ => None,
            })
            .collect();
        assert_eq!(ways, Medium::ALL);
    }
}
