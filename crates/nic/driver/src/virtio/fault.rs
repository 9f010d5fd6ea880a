//! What a virtio device did wrong, by name. Set-up returns these; on the packet
//! path the first one stops the queue and is told by
//! [`Virtio::health`](super::Virtio::health).

/// Why a virtio device cannot be driven, or not any longer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VirtioFault {
    /// A structure of the modern interface is missing.
    #[error(
        "{device}: no usable {structure} among its PCI capabilities: the device or its server is not virtio 1.x"
    )]
    NoStructure {
        /// The device's name.
        device: String,
        /// The name of the structure.
        structure: &'static str,
    },
    /// The way to the device translates addresses, and the device ignores it.
    #[error(
        "{device}: the device bypasses the IOMMU (no ACCESS_PLATFORM), so it would write to wrong memory: start it with iommu_platform=on, or unbind it from vfio-pci"
    )]
    Untranslated {
        /// The device's name.
        device: String,
    },
    /// Features that the driver cannot do without.
    #[error("{device}: lacks the features {missing:#x}, needed because {why}")]
    Lacks {
        /// The device's name.
        device: String,
        /// The missing bits.
        missing: u64,
        /// What they are for.
        why: &'static str,
    },
    /// The device did not keep FEATURES_OK.
    #[error("{device}: refused the features {features:#x}, all of which it had offered")]
    FeaturesRefused {
        /// The device's name.
        device: String,
        /// What the driver took.
        features: u64,
    },
    /// A queue is missing or has a size that cannot be.
    #[error("{device}: queue {queue} has {size} entries; a power of two up to 32768 is needed")]
    QueueSize {
        /// The device's name.
        device: String,
        /// The queue's number at the device.
        queue: u16,
        /// What the device says.
        size: u16,
    },
    /// A queue is too small for what it is used for.
    #[error(
        "{device}: queue {queue} has {size} entries, and {needed} are needed; choose a smaller frame or give the device longer queues"
    )]
    QueueTooSmall {
        /// The device's name.
        device: String,
        /// The queue's number at the device.
        queue: u16,
        /// What the device says.
        size: u16,
        /// Entries of the largest buffer or packet.
        needed: u16,
    },
    /// The device did not take a queue.
    #[error("{device}: did not take queue {queue}")]
    QueueRefused {
        /// The device's name.
        device: String,
        /// The queue's number at the device.
        queue: u16,
    },
    /// The device has no room for an interrupt vector.
    #[error("{device}: did not take interrupt vector {vector} for queue {queue}; open it without interrupts")]
    VectorRefused {
        /// The device's name.
        device: String,
        /// The queue's number at the device.
        queue: u16,
        /// The vector's number.
        vector: u16,
    },
    /// The place to notify a queue lies outside of the notification structure.
    #[error("{device}: queue {queue} is notified at {offset:#x}, outside of the structure's {length} bytes")]
    NotifyOutside {
        /// The device's name.
        device: String,
        /// The queue's number at the device.
        queue: u16,
        /// Where the queue would be notified, in bytes from the structure's start.
        offset: u64,
        /// How long the structure is.
        length: u32,
    },
    /// A legacy device reaches 2^44 bytes of memory only.
    #[error("{device}: a ring at {address:#x} is out of a legacy device's reach")]
    RingOutOfReach {
        /// The device's name.
        device: String,
        /// Where the ring lies.
        address: u64,
    },
    /// The configuration never came to rest.
    #[error("{device}: its configuration changed during each of {tries} readings")]
    ConfigUnstable {
        /// The device's name.
        device: String,
        /// How often it was read.
        tries: u32,
    },
    /// The used index ran ahead of what the device was given.
    #[error(
        "{device}: queue {queue}: the used index jumped to {index}, {ahead} ahead with {outstanding} buffers outstanding"
    )]
    UsedIndex {
        /// The device's name.
        device: String,
        /// The queue's number at the device.
        queue: u16,
        /// The index read.
        index: u16,
        /// How far it is from the last.
        ahead: u16,
        /// Buffers the device had.
        outstanding: u32,
    },
    /// A used buffer that the device did not have.
    #[error("{device}: queue {queue}: returned buffer {id}, which it does not have")]
    BufferId {
        /// The device's name.
        device: String,
        /// The queue's number at the device.
        queue: u16,
        /// The id it gave.
        id: u32,
    },
    /// A packed descriptor is neither the driver's of this lap nor used.
    #[error("{device}: queue {queue}: descriptor {place} has the flags of another lap ({flags:#06x})")]
    Lap {
        /// The device's name.
        device: String,
        /// The queue's number at the device.
        queue: u16,
        /// The descriptor's place in the ring.
        place: u16,
        /// The flags that the device wrote.
        flags: u16,
    },
    /// The device asked for a reset.
    #[error("{device}: asks for a reset (status {status:#04x}): it met an error; restart the port")]
    NeedsReset {
        /// The device's name.
        device: String,
        /// The value of the status register.
        status: u8,
    },
    /// The device was reset by somebody else.
    #[error("{device}: was reset behind the driver's back (status {status:#04x}); restart the port")]
    WasReset {
        /// The device's name.
        device: String,
        /// The value of the status register.
        status: u8,
    },
    /// A command was not answered.
    #[error("{device}: no answer to {command} on the control queue within {waited_ms} ms")]
    NoAnswer {
        /// The device's name.
        device: String,
        /// The command, in words.
        command: &'static str,
        /// How long was waited.
        waited_ms: u64,
    },
    /// An earlier command was not answered.
    #[error("{device}: {command} was not tried: an earlier command is still not answered; restart the port")]
    Unanswered {
        /// The device's name.
        device: String,
        /// The command, in words.
        command: &'static str,
    },
    /// A command with more data than there is memory for.
    #[error("{device}: {command} takes {bytes} bytes, and {most} fit: give fewer addresses")]
    CommandTooLong {
        /// The device's name.
        device: String,
        /// The command, in words.
        command: &'static str,
        /// Bytes of its data.
        bytes: usize,
        /// Bytes that fit.
        most: usize,
    },
    /// A command was refused.
    #[error("{device}: refused {command} (answer {answer})")]
    Refused {
        /// The device's name.
        device: String,
        /// The command, in words.
        command: &'static str,
        /// The answer; 0xFF: none was written.
        answer: u8,
    },
    /// The device offers no such command.
    #[error("{device}: has no {command}: {feature} is not among its features")]
    NoCommand {
        /// The device's name.
        device: String,
        /// The command, in words.
        command: &'static str,
        /// What would allow it.
        feature: &'static str,
    },
    /// More queue pairs than the device has.
    #[error("{device}: {wanted} queue pairs are wanted, but the device has {pairs}")]
    QueuePairs {
        /// The device's name.
        device: String,
        /// What was asked for.
        wanted: usize,
        /// How many pairs the device has.
        pairs: u16,
    },
}
