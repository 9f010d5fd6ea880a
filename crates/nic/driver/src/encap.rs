//! The driver of the table of tunnels' headers that a device model may have beside its chip
//! (decision 30): found by a vendor's capability of the PCI configuration space, whatever chip it is.
//!
//! The device is not trusted: its numbers are bounded, the count of commands that it has done must
//! be one more each time, and an answer that there is not is an error.

use bus::{Bar, Pci};
use port::{Counter, EncapHeaders, EncapLayer, EncapLimits, EncapNetwork, EncapOffload, EncapPatch, Reason};
use regs::encap::{self as reg, capability, command, counter, mode, patch, status};

use crate::intel::vf::stats::read_wide;
use crate::{Error, Result, capability as chain};

/// What a device is taken to have, at most.
const MOST: EncapLimits = EncapLimits { networks: 1 << 12, places: 1 << 22, entries: 1 << 22 };

/// The table of a device.
#[derive(Debug, Clone)]
pub(crate) struct Encap {
    device: String,
    bar: Bar,
    /// Where the registers begin in it.
    base: u32,
}

impl Encap {
    /// The table of a device, if it has one.
    pub(crate) fn find(pci: &Pci) -> Option<Encap> {
        let mut found = None;
        chain::find(pci, |id, at| {
            if id == capability::ID && found.is_none() {
                found = Encap::read(pci, at);
            }
            found.is_some()
        });
        found
    }

    /// The table that a capability names; `None` when it is another capability, or names what the
    /// BAR does not have.
    fn read(pci: &Pci, at: u16) -> Option<Encap> {
        let mut bytes = [0; capability::BYTES as usize];
        pci.read_config(at, &mut bytes).ok()?;
        let byte = |field: u16| bytes[usize::from(field)];
        let word = |field: u16| {
            bytes[usize::from(field)..].first_chunk().map_or(0, |word| u32::from_le_bytes(*word))
        };
        let is_one = u16::from(byte(capability::LEN)) >= capability::BYTES
            && byte(capability::KIND) == capability::IS_KIND
            && byte(capability::VERSION) == capability::IS_VERSION
            && bytes[usize::from(capability::SIGNATURE)..].starts_with(&capability::IS_SIGNATURE);
        if !is_one || byte(capability::BAR) > 5 {
            return None;
        }
        let bar = pci.bar(byte(capability::BAR).into()).ok()?;
        let (base, length) = (word(capability::OFFSET), word(capability::LENGTH));
        let fits = base.checked_add(reg::LEN).is_some_and(|end| end <= bar.len());
        let encap = (fits && length >= reg::LEN && base.is_multiple_of(4)).then(|| Encap {
            device: pci.name(),
            bar,
            base,
        })?;
        let signature = u32::from_le_bytes(capability::IS_SIGNATURE);
        (encap.get(reg::SIGNATURE) == signature).then_some(encap)
    }

    fn get(&self, register: u32) -> u32 {
        self.bar.read32(self.base + register)
    }

    fn set(&self, register: u32, value: u32) {
        self.bar.write32(self.base + register, value);
    }

    /// What the table counted.
    pub(crate) fn counters(&self) -> Vec<Counter> {
        let value = |n: usize| {
            let at = reg::COUNTERS + reg::COUNTER_STRIDE * n as u32;
            read_wide(|register| self.get(register), at, at + 4)
        };
        let sent = Counter::of("encap_sent", value(counter::SENT), "packets that the NIC put into tunnels");
        let what = "packets that the NIC's table of tunnels gave back";
        let given_back = Counter::of("encap_given_back", value(counter::GIVEN_BACK), what);
        let losses = [
            (counter::UNKNOWN, Reason::OverlayUnknownKey),
            (counter::NOT_GIVEN_BACK, Reason::EncapNotGivenBack),
            (counter::MALFORMED, Reason::EncapMalformed),
            (counter::FOREIGN, Reason::EncapForeign),
        ];
        let losses = losses.map(|(n, reason)| Counter::of_loss(reason, value(n)));
        [sent, given_back].into_iter().chain(losses).collect()
    }

    /// The table, for the one who changes it.
    pub(crate) fn table(&self) -> Box<dyn EncapOffload> {
        let believed = |register: u32, most: usize| (self.get(register) as usize).min(most);
        let limits = EncapLimits {
            networks: believed(reg::NETWORKS, MOST.networks),
            places: believed(reg::HEADERS, MOST.places),
            entries: believed(reg::ENTRIES, MOST.entries),
        };
        Box::new(Table { encap: self.clone(), limits })
    }

    fn violated(&self, what: &'static str, value: u32) -> Error {
        Error::Encap { device: self.device.clone(), what, value }
    }
}

/// A table that somebody changes.
struct Table {
    encap: Encap,
    limits: EncapLimits,
}

impl Table {
    /// Writes arguments and does a command: how it ended.
    fn command(&self, arguments: &[(u32, u32)], command: u32) -> Result<u32> {
        let encap = &self.encap;
        for (register, value) in arguments {
            encap.set(*register, *value);
        }
        // A reset counts anew.
        let before = if command == command::RESET { 0 } else { encap.get(reg::COMMANDS) };
        encap.set(reg::COMMAND, command);
        match (encap.get(reg::COMMANDS), encap.get(reg::STATUS)) {
            (after, status @ status::OK..=status::MISSING) if after == before.wrapping_add(1) => Ok(status),
            (after, status) if after == before.wrapping_add(1) => {
                Err(encap.violated("it answered with a status that there is not", status))
            }
            (after, _) => Err(encap.violated("it did not do a command; so many it counts", after)),
        }
    }

    /// As [`command`](Self::command), of one that must succeed.
    fn done(&self, arguments: &[(u32, u32)], command: u32) -> Result<()> {
        match self.command(arguments, command)? {
            status::OK => Ok(()),
            other => Err(self.encap.violated("it refused a command; its status is", other)),
        }
    }
}

/// The registers of an identifier.
fn key(network: u16, identifier: u128) -> [(u32, u32); 5] {
    let word = |n: u32| (reg::KEY + 4 * n, (identifier >> (32 * n)) as u32);
    [(reg::NETWORK, network.into()), word(0), word(1), word(2), word(3)]
}

/// The bits of a patch.
fn bits(patch: &EncapPatch) -> u32 {
    let (kind, at, value) = match *patch {
        EncapPatch::Length { at, more } => (patch::LENGTH, at, more),
        EncapPatch::Number { at } => (patch::NUMBER, at, 0),
        EncapPatch::Class { at, mask } => (patch::CLASS, at, mask.into()),
        EncapPatch::ClassV6 { at, mask } => (patch::CLASS_V6, at, mask.into()),
        EncapPatch::Port { at } => (patch::PORT, at, 0),
        EncapPatch::Label { at } => (patch::LABEL, at, 0),
        EncapPatch::Checksum { at, from, count } => (patch::CHECKSUM, at, u16::from_le_bytes([from, count])),
        EncapPatch::UdpChecksum { at, pseudo } => (patch::UDP_CHECKSUM, at, pseudo),
    };
    u32::from(kind) | u32::from(at) << patch::AT_SHIFT | u32::from(value) << patch::VALUE_SHIFT
}

impl EncapOffload for Table {
    fn limits(&self) -> EncapLimits {
        self.limits
    }

    fn generation(&self) -> port::Result<u32> {
        // A device that is gone reads as all ones.
        match self.encap.get(reg::SIGNATURE) == u32::from_le_bytes(capability::IS_SIGNATURE) {
            true => Ok(self.encap.get(reg::GENERATION)),
            false => Err(self.encap.violated("its table is gone; there it reads", u32::MAX).into()),
        }
    }

    fn reset(&mut self) -> port::Result<()> {
        Ok(self.done(&[], command::RESET)?)
    }

    fn set_network(&mut self, place: u16, network: Option<&EncapNetwork>) -> port::Result<()> {
        let place = (reg::NETWORK, place.into());
        let Some(network) = network else {
            // One that is not there is gone, too.
            self.command(&[place], command::CLEAR_NETWORK)?;
            return Ok(());
        };
        let layer = match network.layer {
            EncapLayer::Ethernet => mode::FRAMES,
            EncapLayer::Ip => mode::IP,
            EncapLayer::Service => mode::SERVICE,
        };
        let extractor = u32::from(network.offset) | u32::from(network.bits) << reg::extractor::BITS_SHIFT;
        let mode = layer | if network.drops_unknown { mode::DROP } else { 0 };
        Ok(self.done(&[place, (reg::EXTRACTOR, extractor), (reg::MODE, mode)], command::SET_NETWORK)?)
    }

    fn set_headers(&mut self, place: u32, is_v6: bool, headers: &EncapHeaders) -> port::Result<()> {
        let EncapHeaders { bytes, patches, max_len } = headers;
        if bytes.len() > reg::MOST_BYTES || patches.len() > reg::MOST_PATCHES {
            return Err(self
                .encap
                .violated("headers are longer than it has room for", bytes.len() as u32)
                .into());
        }
        let mut arguments = vec![
            (reg::PLACE, place),
            (reg::WHICH, is_v6.into()),
            (reg::MAX_LEN, u32::from(*max_len)),
            (reg::HEADERS_LEN, bytes.len() as u32),
        ];
        for (n, part) in bytes.chunks(size_of::<u32>()).enumerate() {
            let mut word = [0; size_of::<u32>()];
            word[..part.len()].copy_from_slice(part);
            arguments.push((reg::BYTES + 4 * n as u32, u32::from_le_bytes(word)));
        }
        for n in 0..reg::MOST_PATCHES {
            arguments.push((reg::PATCHES + 4 * n as u32, patches.get(n).map_or(0, bits)));
        }
        Ok(self.done(&arguments, command::SET_HEADERS)?)
    }

    fn insert(&mut self, network: u16, identifier: u128, place: u32) -> port::Result<()> {
        let arguments = [&key(network, identifier)[..], &[(reg::PLACE, place)]].concat();
        match self.command(&arguments, command::INSERT)? {
            status::OK => Ok(()),
            status::FULL => {
                let (device, capacity) = (self.encap.device.clone(), self.limits.entries);
                Err(Error::TableFull { device, table: "the table of tunnels", capacity }.into())
            }
            other => Err(self.encap.violated("it refused an entry; its status is", other).into()),
        }
    }

    fn remove(&mut self, network: u16, identifier: u128) -> port::Result<bool> {
        Ok(self.command(&key(network, identifier), command::REMOVE)? == status::OK)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
