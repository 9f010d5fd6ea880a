//! Mistakes in what the driver does for an X722 alone: key and table of the hash by commands of the
//! firmware, registers of the receive side without them, and what it has in another number.

use super::{Blind, Bug, Reports, edit};

const HASH: &str = "i40e_x722::hash";
const VF_HASH: &str = "i40e_x722::virtual_functions_hash";
const TABLE: &str = "i40e_x722::an_entry_of_the_table_is_changed_while_packets_come";

pub(super) const BUGS: &[Bug] = &[
    Bug {
        name: "x722-key-in-registers",
        about: "The key of the hash is written to the registers that an XL710 has for it.",
        linter: Reports("RssWithoutKey", "7"),
        test: HASH,
        demo: false,
        edits: &[edit(
            "i40e/hash.rs",
            "if self.generation.hash_by_commands {
            return self.with_hash(opcode::SET_RSS_KEY, owner, &whole);
        }",
            "",
        )],
    },
    Bug {
        name: "x722-key-read-not-set",
        about: "The command that sets the key is the one that reads it.",
        linter: Reports("RssWithoutKey", "7"),
        test: HASH,
        demo: false,
        edits: &[edit(
            "i40e/hash.rs",
            "self.with_hash(opcode::SET_RSS_KEY, owner, &whole)",
            "self.with_hash(opcode::GET_RSS_KEY, owner, &whole)",
        )],
    },
    Bug {
        name: "x722-key-too-short",
        about: "The key has the 40 bytes of RSS, not the firmware's 52.",
        linter: Reports("AdminArgumentInvalid", "7"),
        test: HASH,
        demo: false,
        edits: &[edit(
            "i40e/hash.rs",
            "self.with_hash(opcode::SET_RSS_KEY, owner, &whole)",
            "self.with_hash(opcode::SET_RSS_KEY, owner, &whole[..key.len()])",
        )],
    },
    Bug {
        name: "x722-table-too-short",
        about: "The command that sets a table has half of it.",
        linter: Reports("AdminArgumentInvalid", "7"),
        test: HASH,
        demo: false,
        edits: &[edit(
            "i40e/hash.rs",
            "self.with_hash(opcode::SET_RSS_LUT, owner, table)",
            "self.with_hash(opcode::SET_RSS_LUT, owner, &table[..table.len() / 2])",
        )],
    },
    Bug {
        name: "x722-table-beyond-queues",
        about: "The entries of a table name queues behind those of the VSI: the X722's have a bit more.",
        linter: Reports("RssQueueInvalid", "7"),
        test: HASH,
        demo: false,
        edits: &[edit(
            "i40e/hash.rs",
            "self.with_hash(opcode::SET_RSS_LUT, owner, table)",
            "self.with_hash(opcode::SET_RSS_LUT, owner, &table.iter().map(|queue| queue | 0x40).collect::<Vec<_>>())",
        )],
    },
    Bug {
        name: "x722-table-of-vf-in-registers",
        about: "The table of a hash is written to registers, which virtual functions of an X722 do not have.",
        linter: Blind(
            "the registers keep what is written, as in Intel's headers: that nothing is led by them is not told",
        ),
        test: VF_HASH,
        demo: false,
        edits: &[edit(
            "i40e/hash.rs",
            "if self.generation.hash_by_commands {
            return self.with_hash(opcode::SET_RSS_LUT, owner, table);
        }",
            "",
        )],
    },
    Bug {
        name: "x722-hash-without-vsi",
        about: "A command about the hash does not say that it names a VSI (bit 15).",
        linter: Reports("AdminArgumentInvalid", "7"),
        test: HASH,
        demo: false,
        edits: &[edit(
            "i40e/hash.rs",
            "&(vsi & hash::VSI_MASK | hash::VSI_VALID)",
            "&(vsi & hash::VSI_MASK)",
        )],
    },
    Bug {
        name: "x722-hash-vsi-misplaced",
        about: "A command about the hash has the VSI where the address of its buffer stands.",
        linter: Reports("AdminArgumentInvalid", "7"),
        test: HASH,
        demo: false,
        edits: &[edit(
            "i40e/hash.rs",
            "command.set_param(hash::VSI, &(vsi & hash::VSI_MASK | hash::VSI_VALID).to_le_bytes());",
            "command.set_param(8, &(vsi & hash::VSI_MASK | hash::VSI_VALID).to_le_bytes());",
        )],
    },
    Bug {
        name: "x722-hash-by-seid",
        about: "A command about the hash names the VSI by its SEID, not by its number.",
        linter: Reports("AdminArgumentInvalid", "7"),
        test: HASH,
        demo: false,
        edits: &[edit(
            "i40e/hash.rs",
            "(self.state().vsi.number, hash::TABLE_PF)",
            "(self.state().vsi.seid, hash::TABLE_PF)",
        )],
    },
    Bug {
        name: "x722-table-as-a-vsis",
        about: "The function's table of 512 entries is set as that of its VSI, which has 64.",
        linter: Reports("AdminArgumentInvalid", "7"),
        test: HASH,
        demo: false,
        edits: &[edit(
            "i40e/hash.rs",
            "(self.state().vsi.number, hash::TABLE_PF)",
            "(self.state().vsi.number, 0)",
        )],
    },
    Bug {
        name: "x722-table-flags-at-the-vsi",
        about: "The flags of a table are written over the number of the VSI.",
        linter: Reports("AdminArgumentInvalid", "7"),
        test: HASH,
        demo: false,
        edits: &[edit(
            "i40e/hash.rs",
            "command.set_param(hash::FLAGS, &kind.to_le_bytes());",
            "command.set_param(hash::VSI, &kind.to_le_bytes());",
        )],
    },
    Bug {
        name: "x722-table-flags-for-keys",
        about: "Commands about keys say whose the table is, those about tables do not.",
        linter: Reports("AdminArgumentInvalid", "7"),
        test: HASH,
        demo: false,
        edits: &[edit(
            "i40e/hash.rs",
            "if opcode == opcode::SET_RSS_LUT {
            command.set_param(hash::FLAGS, &kind.to_le_bytes());
        }",
            "if opcode != opcode::SET_RSS_LUT {
            command.set_param(hash::FLAGS, &kind.to_le_bytes());
        }",
        )],
    },
    Bug {
        name: "x722-hash-data-not-flagged",
        about: "The commands that set key and table do not say that the firmware reads their buffers (RD).",
        linter: Reports("AdminFlagsWrong", "7"),
        test: HASH,
        demo: false,
        edits: &[edit(
            "i40e/hash.rs",
            "self.with_admin(|admin| admin.write(command, bytes)).map(drop)",
            "self.with_admin(|admin| admin.read(command, bytes.len())).map(drop)",
        )],
    },
    Bug {
        name: "x722-vf-table-as-the-functions",
        about: "The table of a virtual function is set as that of the physical one.",
        linter: Reports("AdminArgumentInvalid", "7"),
        test: VF_HASH,
        demo: false,
        edits: &[edit("i40e/hash.rs", "(vsi, 0)", "(vsi, hash::TABLE_PF)")],
    },
    Bug {
        name: "x722-vf-hash-of-no-vsi",
        about: "Key and table of a virtual function are set for a VSI that is not there.",
        linter: Reports("AdminArgumentInvalid", "7"),
        test: VF_HASH,
        demo: false,
        edits: &[edit("i40e/hash.rs", "(vsi, 0)", "(vsi + 0x100, 0)")],
    },
    Bug {
        name: "x722-table-changed-as-a-vsis",
        about: "A table that is changed while packets come is set as a VSI's own.",
        linter: Reports("AdminArgumentInvalid", "7"),
        test: TABLE,
        demo: false,
        edits: &[edit(
            "i40e/hash.rs",
            "let command = self.hash_command(opcode::SET_RSS_LUT, Owner::Function);",
            "let command = self.hash_command(opcode::SET_RSS_LUT, Owner::Vf { n: 0, vsi: self.state().vsi.number });",
        )],
    },
    Bug {
        name: "x722-table-changed-by-reading",
        about: "The command that changes the table while packets come is the one that reads it.",
        linter: Reports("AdminFlagsWrong", "7"),
        test: TABLE,
        demo: false,
        edits: &[edit(
            "i40e/hash.rs",
            "admin.write(command, table).map(drop)",
            "admin.read(command, table.len()).map(drop)",
        )],
    },
    Bug {
        name: "x722-registers-by-commands",
        about: "Registers of the receive side are written by the commands that an XL710's firmware has.",
        linter: Reports("AdminUnknownCommand", "7"),
        test: HASH,
        demo: false,
        edits: &[edit(
            "i40e/init.rs",
            "self.generation.receive_by_commands && self.firmware().api >= version::RX_CTL_SINCE",
            "self.firmware().api >= version::RX_CTL_SINCE",
        )],
    },
    Bug {
        name: "x722-key-of-no-vsi",
        about: "The function's key is set as that of a virtual function's VSI which is not there.",
        linter: Reports("AdminArgumentInvalid", "7"),
        test: HASH,
        demo: false,
        edits: &[edit(
            "i40e/hash.rs",
            "self.set_key(Owner::Function, &rss.key)?;",
            "self.set_key(Owner::Vf { n: 0, vsi: hash::VSI_MASK }, &rss.key)?;",
        )],
    },
    Bug {
        name: "x722-table-of-64",
        about: "The function's table has as many entries as one of a VSI's own.",
        linter: Reports("AdminArgumentInvalid", "7"),
        test: HASH,
        demo: false,
        edits: &[edit(
            "i40e/hash.rs",
            "self.set_table(Owner::Function, &table)?;",
            "self.set_table(Owner::Function, &table[..hash::VSI_TABLE])?;",
        )],
    },
];
