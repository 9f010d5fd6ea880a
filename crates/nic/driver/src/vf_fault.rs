//! What the physical function behind a virtual one did wrong, or refused, by name.

/// Why a virtual function cannot be driven.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VfFault {
    /// No driver of the physical function lets this one work.
    #[error(
        "{device}: the virtual function is not active ({register} {state:#x}) after {waited_ms} ms: its physical function needs a driver that hosts it (ixora pf, or Linux's {driver})"
    )]
    NoHost {
        /// The device's name.
        device: String,
        /// The register that tells so.
        register: &'static str,
        /// What it told last.
        state: u32,
        /// Linux's driver of the physical function.
        driver: &'static str,
        /// How long was waited.
        waited_ms: u64,
    },
    /// The physical function refused a message.
    #[error("{device}: the physical function refused {message} ({opcode}): {status}, {meaning}")]
    Refused {
        /// The device's name.
        device: String,
        /// The name of the message.
        message: &'static str,
        /// The number of its kind.
        opcode: u32,
        /// The name of the status in the answer.
        status: &'static str,
        /// What it means.
        meaning: &'static str,
    },
    /// The physical function did not answer a message.
    #[error(
        "{device}: the physical function did not answer {message} ({opcode}) within {waited_ms} ms: its driver may have gone"
    )]
    NoAnswer {
        /// The device's name.
        device: String,
        /// The name of the message.
        message: &'static str,
        /// The number of its kind.
        opcode: u32,
        /// How long was waited.
        waited_ms: u64,
    },
    /// An answer is not what the message asked for.
    #[error("{device}: the physical function's answer to {message} makes no sense: {why}")]
    Nonsense {
        /// The device's name.
        device: String,
        /// The name of the message.
        message: &'static str,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The physical function has reset the virtual one, or its driver has gone.
    #[error("{device}: the physical function has reset this one: open the port again")]
    Reset {
        /// The device's name.
        device: String,
    },
    /// The virtual function has fewer queues than were asked for.
    #[error("{device}: the virtual function has {has} queues, and {wanted} are asked for: open fewer")]
    FewQueues {
        /// The device's name.
        device: String,
        /// How many it has.
        has: usize,
        /// How many were asked for.
        wanted: usize,
    },
    /// The physical function does not offer what is asked for.
    #[error("{device}: the physical function does not offer {what}: {fix}")]
    NotOffered {
        /// The device's name.
        device: String,
        /// What is asked for.
        what: &'static str,
        /// What to do about it.
        fix: &'static str,
    },
}
