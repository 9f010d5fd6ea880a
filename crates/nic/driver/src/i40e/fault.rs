//! What the firmware of an XL710 did wrong, or refused, by name.

/// Why an XL710 cannot be driven.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The firmware refused a command.
    #[error(
        "{device}: the firmware refused {command} ({opcode:#06x}): {error}, {meaning}; a newer NVM image may help, and a reset of the device if another driver had it"
    )]
    Refused {
        /// The device's name.
        device: String,
        /// The command.
        command: &'static str,
        /// Its opcode.
        opcode: u16,
        /// The firmware's error.
        error: &'static str,
        /// What it means.
        meaning: &'static str,
    },
    /// The firmware did not answer a command.
    #[error(
        "{device}: the firmware did not answer {command} ({opcode:#06x}) within {waited_ms} ms: it hangs, and needs a reset or a power cycle"
    )]
    NoAnswer {
        /// The device's name.
        device: String,
        /// The command.
        command: &'static str,
        /// Its opcode.
        opcode: u16,
        /// How long was waited.
        waited_ms: u64,
    },
    /// A command before was not answered, so that no other can be sent.
    #[error("{device}: {command} was not sent, for the firmware never answered a command before it")]
    Stuck {
        /// The device's name.
        device: String,
        /// The command.
        command: &'static str,
    },
    /// An answer is not what the command asked for.
    #[error("{device}: the answer to {command} makes no sense: {why}")]
    Nonsense {
        /// The device's name.
        device: String,
        /// The command.
        command: &'static str,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The device did not take a descriptor that programs a filter for a flow.
    #[error(
        "{device}: the device did not take a filter for a flow within {waited_ms} ms: no other can be added until the port is opened again"
    )]
    FilterNotTaken {
        /// The device's name.
        device: String,
        /// How long was waited.
        waited_ms: u64,
    },
    /// The device did not do with a filter for a flow as it was told before.
    #[error(
        "{device}: no filter for a flow can be added or removed, for it is not known which ones the device has since it did not do as it was told: open the port again"
    )]
    FiltersUnknown {
        /// The device's name.
        device: String,
    },
    /// The device has stopped a transmit queue.
    #[error(
        "{device}: the device stopped a transmit queue, for it takes what it was given for malicious (PF_MDET_TX): open the port again"
    )]
    Malicious {
        /// The device's name.
        device: String,
    },
    /// The function has fewer queues than were asked for.
    #[error("{device}: the function has {has} queues, and {wanted} are asked for: open fewer")]
    FewQueues {
        /// The device's name.
        device: String,
        /// How many it has.
        has: usize,
        /// How many were asked for.
        wanted: usize,
    },
}
