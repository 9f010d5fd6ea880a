//! What the firmware tells of itself: its version, that of its interface and that of the image it was
//! loaded from; and profiles of dynamic device personalization (DDP) that were loaded into it, by which
//! the chip takes packets apart in another way. Errors name all of it, since another image helps against
//! many of them. Another driver loads profiles, before or beside this one; here they are told only.

use std::fmt;
use std::sync::Arc;

use regs::i40e::admin::{BUFFER, Descriptor, opcode, profile, version};

use super::I40eFault;
use super::device::Chip;
use crate::{Error, Result};

/// The version of the interface that this driver speaks: others have other commands.
const MAJOR: u16 = 1;

/// What is known of a firmware; nothing of that behind a virtual function's mailbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Firmware {
    /// Its version and its build; the build of one that was not asked is zero.
    version: (u16, u16),
    build: u32,
    /// The version of its interface.
    pub(crate) api: (u16, u16),
    /// The word with the image's version, if the NVM could be read.
    nvm: Option<u16>,
    /// The profiles that are loaded; `None` if it does not tell.
    profiles: Option<Vec<Profile>>,
}

/// A profile that is loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Profile {
    /// Intel's number for it.
    track_id: u32,
    version: [u8; 4],
    name: String,
}

impl Firmware {
    /// From the answer to GET_VERSION.
    fn of(answer: &Descriptor) -> Firmware {
        let pair = |at: usize| (answer.param16(at), answer.param16(at + 2));
        let build = answer.param32(version::BUILD);
        let (version, api) = (pair(version::FIRMWARE), pair(version::API));
        Firmware { version, build, api, ..Firmware::default() }
    }

    /// The first number of its version.
    pub(super) fn major(&self) -> u16 {
        self.version.0
    }

    /// All of it by name, as a port tells it.
    pub fn rows(&self) -> Vec<(&'static str, String)> {
        let version = format!("{}.{}.{}", self.version.0, self.version.1, self.build);
        let api = format!("{}.{}", self.api.0, self.api.1);
        let mut rows = vec![("firmware", version), ("interface", api)];
        rows.extend(self.nvm.map(|nvm| ("nvm", image(nvm))));
        rows.extend(self.profiles().map(|profiles| ("ddp", profiles)));
        rows
    }

    /// The profiles in words, if it tells of them.
    fn profiles(&self) -> Option<String> {
        let profiles = self.profiles.as_ref()?;
        let each: Vec<String> = profiles.iter().map(ToString::to_string).collect();
        Some(if each.is_empty() { "no profile".to_owned() } else { each.join(", ") })
    }

    /// Whether packets may be told apart in another way than the datasheet says.
    fn has_profiles(&self) -> bool {
        self.profiles.as_ref().is_some_and(|profiles| !profiles.is_empty())
    }
}

/// An image's version, as Intel writes it: 6.01.
fn image(nvm: u16) -> String {
    format!("{:x}.{:02x}", nvm >> 12, nvm & 0xFF)
}

impl fmt::Display for Firmware {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Firmware::default() {
            return f.write_str("firmware");
        }
        let ((major, minor), (api, of)) = (self.version, self.api);
        write!(f, "firmware {major}.{minor} (interface {api}.{of}")?;
        self.nvm.map_or(Ok(()), |nvm| write!(f, ", NVM {}", image(nvm)))?;
        self.profiles().map_or(Ok(()), |profiles| write!(f, ", DDP: {profiles}"))?;
        f.write_str(")")
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Profile { track_id, version: [major, minor, update, draft], name } = self;
        write!(f, "{name} {major}.{minor}.{update}.{draft} ({track_id:#010x})")
    }
}

/// What an answer tells of profiles; more than it can hold are ignored.
fn profiles(data: &[u8]) -> Option<Vec<Profile>> {
    let (count, list) = data.split_first_chunk::<{ profile::COUNT_LEN }>()?;
    let count = u32::from_le_bytes(*count) as usize;
    let each = list.chunks_exact(profile::LEN).take(count);
    let profiles: Vec<Profile> = each.map(profile_of).collect();
    (profiles.len() == count && count <= profile::MOST).then_some(profiles)
}

fn profile_of(entry: &[u8]) -> Profile {
    let word = |at: usize| entry[at..].first_chunk::<4>().copied().unwrap_or_default();
    let name = &entry[profile::NAME..][..profile::NAME_LEN];
    // Up to the first zero, and nothing in it that commands a terminal.
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    let name = String::from_utf8_lossy(name).chars().filter(|one| !one.is_control()).collect();
    Profile { track_id: u32::from_le_bytes(word(profile::TRACK_ID)), version: word(profile::VERSION), name }
}

impl Chip {
    /// What is known of the firmware.
    pub(super) fn firmware(&self) -> Arc<Firmware> {
        self.state().firmware.clone()
    }

    /// An answer of the firmware's that is not what a command asked for.
    pub(super) fn nonsense(&self, command: &'static str, why: &'static str) -> Error {
        I40eFault::Nonsense { device: self.name.clone(), command, why, firmware: self.firmware() }.into()
    }

    /// Errors name the version of the NVM's image, too.
    pub(super) fn know_image(&self, nvm: Option<u16>) -> Result<()> {
        self.know_firmware(Firmware { nvm, ..(*self.firmware()).clone() })
    }

    /// Errors name what is known of it now.
    fn know_firmware(&self, firmware: Firmware) -> Result<()> {
        let firmware = Arc::new(firmware);
        self.state().firmware = firmware.clone();
        self.with_admin(|admin| {
            admin.firmware = firmware;
            Ok(())
        })
    }

    /// Asks for the versions.
    ///
    /// # Errors
    /// [`I40eFault::Interface`] when it speaks another interface than this driver does.
    pub(super) fn ask_version(&self) -> Result<()> {
        let answer = self.with_admin(|admin| admin.command(Descriptor::new(opcode::GET_VERSION)))?;
        self.know_firmware(Firmware::of(&answer))?;
        let firmware = self.firmware();
        tracing::debug!(port = self.name, "{firmware}");
        match firmware.api.0 {
            MAJOR => Ok(()),
            _ => Err(I40eFault::Interface { device: self.name.clone(), firmware, speaks: MAJOR }.into()),
        }
    }

    /// Asks which profiles are loaded, where the firmware may know of them.
    pub(super) fn ask_profiles(&self) -> Result<()> {
        let known = self.firmware();
        if known.api < profile::SINCE {
            return Ok(());
        }
        let command = Descriptor::new(opcode::GET_PERSONALIZATION_PROFILE_LIST);
        let profiles = match self.with_admin(|admin| admin.read(command, BUFFER)) {
            Ok((_, data)) => profiles(&data),
            // One that has none refuses the command.
            Err(Error::I40e(I40eFault::Refused { .. })) => None,
            Err(error) => return Err(error),
        };
        self.know_firmware(Firmware { profiles, ..(*known).clone() })?;
        let firmware = self.firmware();
        if firmware.has_profiles() {
            tracing::warn!(
                port = self.name,
                "a profile of its {firmware} tells packets apart in another way: those that it has types of its own for come without a verdict on their checksums"
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(count: u32, names: &[&str]) -> Vec<u8> {
        let mut bytes = count.to_le_bytes().to_vec();
        for (n, name) in names.iter().enumerate() {
            let mut entry = [0; profile::LEN];
            entry[..8].copy_from_slice(&[n as u8, 0, 0, 0x80, 1, 0, 3, 0]);
            entry[profile::NAME..][..name.len()].copy_from_slice(name.as_bytes());
            bytes.extend(entry);
        }
        bytes
    }

    #[test]
    fn profiles_are_read_as_far_as_they_can_be_believed() {
        let told = |bytes: &[u8]| {
            let firmware = Firmware { profiles: profiles(bytes), ..Firmware::default() };
            firmware.profiles()
        };
        assert_eq!(told(&list(0, &[])).as_deref(), Some("no profile"));
        let two = told(&list(2, &["GTP\u{1b}[2J", "PPP"])).expect("two");
        assert_eq!(two, "GTP[2J 1.0.3.0 (0x80000000), PPP 1.0.3.0 (0x80000001)");
        for wrong in [vec![], vec![1, 0, 0], list(3, &["one", "two"]), list(u32::MAX, &["one"])] {
            assert_eq!(told(&wrong), None, "{wrong:?}");
        }
        assert_eq!(told(&list(17, &["x"; 17])), None, "more than there can be");
    }

    #[test]
    fn versions_are_told_as_far_as_they_are_known() {
        assert_eq!(Firmware::default().to_string(), "firmware");
        let mut firmware = Firmware { version: (6, 0), build: 7, api: (1, 4), ..Firmware::default() };
        assert_eq!(firmware.to_string(), "firmware 6.0 (interface 1.4)");
        (firmware.nvm, firmware.profiles) = (Some(0x6080), Some(vec![]));
        assert_eq!(firmware.to_string(), "firmware 6.0 (interface 1.4, NVM 6.80, DDP: no profile)");
        assert_eq!(firmware.rows()[0], ("firmware", "6.0.7".to_owned()));
    }
}
