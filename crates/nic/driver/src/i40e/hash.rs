//! What flows are spread by (datasheet chapter 7): key, table and classes of the hash, of the function
//! and of its virtual ones. An XL710 has key and table in registers; an X722's firmware sets them by
//! commands, for each VSI.

use port::Options;
use regs::i40e::admin::{Descriptor, hash, opcode};
use regs::i40e::*;

use super::device::Chip;
use super::info::RSS_TABLE;
use crate::Result;

/// Whose hash it is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Owner {
    /// The function's own VSI.
    Function,
    /// A virtual function, the `n`-th, and the number of its VSI.
    Vf { n: usize, vsi: u16 },
}

impl Chip {
    /// Key, table and classes of the function's hash. The table has 512 entries; what the hardware
    /// reads while frames come is written by the firmware, where that does it.
    pub(super) fn spread_flows(&self, options: &Options) -> Result<()> {
        let rss = &options.rss;
        self.write_receive_register(
            PFQF_CTL_0::AT,
            self.bar.read32(PFQF_CTL_0::AT) | PFQF_CTL_0::HASHLUTSIZE_512,
        )?;
        let table: Vec<u8> = rss.entries(RSS_TABLE, options.rx_queues).map(|queue| queue as u8).collect();
        self.set_table(Owner::Function, &table)?;
        self.state().table = table;
        self.set_key(Owner::Function, &rss.key)?;
        let mut classes = 0;
        if options.rx_queues > 1 {
            classes = self.generation.hashed();
            self.set_insets(if rss.ports { inset::SRC_PORT | inset::DST_PORT } else { 0 })?;
        }
        self.write_receive_register(PFQF_HENA::at(0), classes as u32)?;
        self.write_receive_register(PFQF_HENA::at(1), (classes >> 32) as u32)
    }

    /// Sets a key. It is longer than any packet's fields need: the rest is zero.
    pub(super) fn set_key(&self, owner: Owner, key: &[u8]) -> Result<()> {
        let mut whole = [0; hash::KEY];
        whole.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
        if self.generation.hash_by_commands {
            return self.with_hash(opcode::SET_RSS_KEY, owner, &whole);
        }
        for (at, word) in words(&whole) {
            match owner {
                Owner::Function => self.write_receive_register(PFQF_HKEY::at(at), word)?,
                Owner::Vf { n, .. } => self.bar.write32(VFQF_HKEY1::at(row(at, n)), word),
            }
        }
        Ok(())
    }

    /// Sets a table, whose entries are queues of the VSI.
    pub(super) fn set_table(&self, owner: Owner, table: &[u8]) -> Result<()> {
        if self.generation.hash_by_commands {
            return self.with_hash(opcode::SET_RSS_LUT, owner, table);
        }
        for (at, word) in words(table) {
            let register = match owner {
                Owner::Function => PFQF_HLUT::at(at),
                Owner::Vf { n, .. } => VFQF_HLUT1::at(row(at, n)),
            };
            self.bar.write32(register, word);
        }
        Ok(())
    }

    /// Changes the function's table while packets come. Nothing is changed when the firmware refuses.
    pub(super) fn change_table(&self, change: impl FnOnce(&mut [u8])) -> Result<()> {
        if self.generation.hash_by_commands {
            let command = self.hash_command(opcode::SET_RSS_LUT, Owner::Function);
            return self.with_admin(|admin| {
                let table = &mut self.state().table;
                let before = table.clone();
                change(table);
                admin.write(command, table).map(drop).inspect_err(|_| *table = before)
            });
        }
        let table = &mut self.state().table;
        let before = table.clone();
        change(table);
        for ((at, word), (_, before)) in words(table).zip(words(&before)) {
            if word != before {
                self.bar.write32(PFQF_HLUT::at(at), word);
            }
        }
        Ok(())
    }

    /// Gives a receive queue's share of the table to the others.
    pub(super) fn withdraw(&self, queue: usize) {
        let bar = &self.bar;
        let enabled = |&n: &usize| n != queue && bar.read32(QRX_ENA::at(n)) & QRX_ENA::QENA_STAT != 0;
        let others: Vec<usize> = (0..super::MOST_QUEUES).filter(enabled).collect();
        if others.is_empty() {
            return;
        }
        let changed = self.change_table(|table| {
            for (n, entry) in table.iter_mut().enumerate() {
                if usize::from(*entry) == queue {
                    *entry = others[n % others.len()] as u8;
                }
            }
        });
        if let Err(error) = changed {
            tracing::warn!(port = self.name, "flows of receive queue {queue} are lost: {error}");
        }
    }

    /// Carries out a command that sets a key or a table.
    fn with_hash(&self, opcode: u16, owner: Owner, bytes: &[u8]) -> Result<()> {
        let command = self.hash_command(opcode, owner);
        self.with_admin(|admin| admin.write(command, bytes)).map(drop)
    }

    /// A command about a hash; a table is the function's, or a virtual function's own.
    fn hash_command(&self, opcode: u16, owner: Owner) -> Descriptor {
        let (vsi, kind) = match owner {
            Owner::Function => (self.state().vsi.number, hash::TABLE_PF),
            Owner::Vf { vsi, .. } => (vsi, 0),
        };
        let mut command = Descriptor::new(opcode);
        command.set_param(hash::VSI, &(vsi & hash::VSI_MASK | hash::VSI_VALID).to_le_bytes());
        if opcode == opcode::SET_RSS_LUT {
            command.set_param(hash::FLAGS, &kind.to_le_bytes());
        }
        command
    }

    /// Says what is hashed of packets that have ports. All functions of the card have this in
    /// common, so that it is left as it is where it is right.
    ///
    /// CONTRADICTION: of an X722, Linux's driver sets this for each class by its own number, DPDK's by
    /// that for which Flow Director takes the class (GLQF_FD_PCTYPES). The latter numbers are among
    /// the former, so that all are set.
    fn set_insets(&self, ports: u64) -> Result<()> {
        for class in self.generation.with_ports() {
            let fields = self.generation.addresses(class) | ports;
            for (half, wanted) in [fields as u32, (fields >> 32) as u32].into_iter().enumerate() {
                self.set_shared(GLQF_HASH_INSET::at(2 * class as usize + half), wanted)?;
            }
        }
        if !self.state().insets.is_empty() {
            tracing::warn!(
                port = self.name,
                "what is hashed of packets is changed for all ports of the card, until this one is closed"
            );
        }
        Ok(())
    }
}

/// The words of some bytes, as registers have them, with their numbers.
fn words(bytes: &[u8]) -> impl Iterator<Item = (usize, u32)> {
    bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).enumerate()
}
