//! What the firmware of an XL710 did wrong, or refused, by name.

use std::sync::Arc;

use super::Firmware;

/// Why an XL710 cannot be driven.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum I40eFault {
    /// The firmware refused a command.
    #[error(
        "{device}: its {firmware} refused {command} ({opcode:#06x}): {error}, {meaning}; {}",
        advice(error)
    )]
    Refused {
        /// The device's name.
        device: String,
        /// The name of the command.
        command: &'static str,
        /// The command's opcode.
        opcode: u16,
        /// The firmware's error.
        error: &'static str,
        /// What it means.
        meaning: &'static str,
        /// What is known of the firmware.
        firmware: Arc<Firmware>,
    },
    /// The firmware did not answer a command.
    #[error(
        "{device}: its {firmware} did not answer {command} ({opcode:#06x}) within {waited_ms} ms: it hangs, and needs a reset or a power cycle"
    )]
    NoAnswer {
        /// The device's name.
        device: String,
        /// The name of the command.
        command: &'static str,
        /// The command's opcode.
        opcode: u16,
        /// How long was waited.
        waited_ms: u64,
        /// What is known of the firmware.
        firmware: Arc<Firmware>,
    },
    /// The firmware has other commands than this driver knows.
    #[error(
        "{device}: its {firmware} has another interface than this driver, which speaks {speaks}.x: write an NVM image of the card's vendor with firmware that has it"
    )]
    Interface {
        /// The device's name.
        device: String,
        /// What is known of the firmware.
        firmware: Arc<Firmware>,
        /// The version of the interface that the driver speaks.
        speaks: u16,
    },
    /// A command before was not answered, so that no other can be sent.
    #[error("{device}: {command} was not sent, for the firmware never answered a command before it")]
    Stuck {
        /// The device's name.
        device: String,
        /// The name of the command.
        command: &'static str,
    },
    /// An answer is not what the command asked for.
    #[error("{device}: the answer of its {firmware} to {command} makes no sense: {why}")]
    Nonsense {
        /// The device's name.
        device: String,
        /// The name of the command.
        command: &'static str,
        /// What is wrong with it.
        why: &'static str,
        /// What is known of the firmware.
        firmware: Arc<Firmware>,
    },
    /// The device did not take a descriptor that programs a filter for a flow.
    #[error(
        "{device}: the device, with {firmware}, did not take a filter for a flow within {waited_ms} ms: no other can be added until the port is opened again"
    )]
    FilterNotTaken {
        /// The device's name.
        device: String,
        /// How long was waited.
        waited_ms: u64,
        /// What is known of the firmware, whose profiles may tell packets apart in another way.
        firmware: Arc<Firmware>,
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

/// What can be done about an error of the firmware's.
fn advice(error: &str) -> &'static str {
    match error {
        "ESRCH" | "ENOSYS" => "the firmware is too old for it: write a newer NVM image",
        "EPERM" | "EACCES" | "EMODE" => {
            "another function of the card, or the firmware's own set-up, does not let this one: look at what else drives the card, and at the firmware's menu at boot"
        }
        "EBUSY" | "EAGAIN" | "EINTR" => "another function of the card is at it: try again",
        "ENOMEM" | "ENOSPC" => {
            "the card's functions have it all: ask for fewer queues, addresses or VLANs, or close other ports of it"
        }
        _ => "a newer NVM image may help, and a reset of the device if another driver had it",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_firmware_and_what_to_do() {
        let said = |error| {
            let (device, firmware) = ("x".to_owned(), Arc::default());
            let fault = I40eFault::Refused {
                device,
                command: "ADD_VSI",
                opcode: 0x0210,
                error,
                meaning: "so",
                firmware,
            };
            fault.to_string()
        };
        let old = "x: its firmware refused ADD_VSI (0x0210): ESRCH, so; the firmware is too old for it: write a newer NVM image";
        assert_eq!(said("ESRCH"), old);
        assert!(said("ENOSPC").ends_with("close other ports of it"));
        assert!(said("EINVAL").contains("if another driver had it"));
    }
}
