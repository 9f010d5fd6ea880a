//! What the firmware tells when it is not the usual one on the usual card: an older or newer interface,
//! a profile of dynamic device personalization (DDP) that is loaded, a cage without a module or with one
//! that it does not take. A profile is told and changes nothing: packets of its protocols have no types of
//! their own here.

use std::str::FromStr;

use regs::i40e::admin::{Descriptor, profile, version};

use super::firmware::Answer;
use super::{I40e, family};
use crate::{Dma, Pages};

/// The firmware, and what is in the cage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FirmwareSetup {
    /// The version of its interface, if not the usual one.
    pub api: Option<(u16, u16)>,
    /// Whether a profile is loaded: that of GTP.
    pub profile: bool,
    /// What is in the cage.
    pub module: Module,
}

/// What is in the cage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Module {
    /// A module that the firmware takes.
    #[default]
    Qualified,
    /// One that it does not take: there is no link.
    Unqualified,
    /// Nothing at all.
    None,
}

/// How one is written.
pub const FIRMWARE_WORDS: &str = "api=MAJOR.MINOR, ddp, module=none or module=unqualified, joined by commas";

impl FromStr for FirmwareSetup {
    type Err = String;

    fn from_str(text: &str) -> Result<FirmwareSetup, String> {
        let mut setup = FirmwareSetup::default();
        for word in text.split(',') {
            let wrong = || format!("{word:?} is nothing that a firmware tells: write {FIRMWARE_WORDS}");
            match word.split_once('=') {
                None if word == "ddp" => setup.profile = true,
                Some(("module", "none")) => setup.module = Module::None,
                Some(("module", "unqualified")) => setup.module = Module::Unqualified,
                Some(("api", api)) => {
                    let numbers = api
                        .split_once('.')
                        .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
                    setup.api = Some(numbers.ok_or_else(wrong)?);
                }
                _ => return Err(wrong()),
            }
        }
        Ok(setup)
    }
}

/// The profile that there can be, as Intel publishes it: number, version, name.
const PROFILE: (u32, [u8; 4], &str) = (0x8000_0008, [1, 0, 3, 0], "GTPv1-C/U IPv4/IPv6 payload");

impl<D: Dma, P: Pages> I40e<D, P> {
    /// Has the firmware tell this from now on.
    pub fn set_firmware(&mut self, setup: FirmwareSetup) {
        self.firmware = setup;
        self.link.set_module(setup.module);
    }

    /// The version of the firmware's interface.
    pub(super) fn api(&self) -> (u16, u16) {
        let [_, _, major, minor] = family::port(self.family).firmware;
        self.firmware.api.unwrap_or((major, minor))
    }

    pub(super) fn version(&self, command: &mut Descriptor) {
        let [major, minor, ..] = family::port(self.family).firmware;
        command.set_param(0, &0u32.to_le_bytes());
        command.set_param(version::BUILD, &BUILD.to_le_bytes());
        for (at, (major, minor)) in [(version::FIRMWARE, (major, minor)), (version::API, self.api())] {
            command.set_param(at, &major.to_le_bytes());
            command.set_param(at + 2, &minor.to_le_bytes());
        }
    }

    /// The list of profiles.
    pub(super) fn profiles(&mut self, command: &mut Descriptor) -> Answer {
        let mut list = u32::from(self.firmware.profile).to_le_bytes().to_vec();
        if self.firmware.profile {
            let (track_id, version, name) = PROFILE;
            let mut entry = [0; profile::LEN];
            entry[profile::TRACK_ID..][..4].copy_from_slice(&track_id.to_le_bytes());
            entry[profile::VERSION..][..4].copy_from_slice(&version);
            entry[profile::NAME..][..name.len()].copy_from_slice(name.as_bytes());
            list.extend(entry);
        }
        self.answer(command, &list)
    }
}

/// The build that the firmware tells beside its versions.
const BUILD: u32 = 48_442;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_firmware_tells_is_read_word_by_word() {
        let of = |text: &str| text.parse::<FirmwareSetup>();
        let all = FirmwareSetup { api: Some((1, 4)), profile: true, module: Module::Unqualified };
        assert_eq!(of("api=1.4,ddp,module=unqualified"), Ok(all));
        assert_eq!(of("module=none").map(|setup| setup.module), Ok(Module::None));
        for wrong in ["", "ddp=1", "api=1", "api=1.x", "api=65536.0", "module=qsfp", "ddp,,"] {
            assert!(of(wrong).is_err_and(|error| error.contains("api=MAJOR.MINOR")), "{wrong}");
        }
    }
}
