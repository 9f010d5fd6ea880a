//! The rules of the linter with their words: what virtio forbids, and what a
//! real device would do. Sections are those of virtio 1.3.

use crate::lint::rules;

rules! {
    // Life of the device.
    StatusBitCleared, Error, "2.1.1",
        "A bit of the device status was cleared by other means than a reset.",
        "Status only grows: the device may take it for anything, and goes on as before.";
    StatusOutOfOrder, Warning, "3.1.1",
        "The status bits were not set in the order ACKNOWLEDGE, DRIVER, FEATURES_OK, DRIVER_OK.",
        "A device may refuse to leave an earlier state.";
    FeatureNotOffered, Error, "2.2.1",
        "A feature was accepted that the device does not offer.",
        "The device does not keep FEATURES_OK.";
    FeatureLacksAnother, Error, "2.2.1, 5.1.3.1",
        "A feature was accepted without another one that it requires.",
        "The device does not keep FEATURES_OK.";
    Version1NotAccepted, Error, "6.1",
        "VERSION_1 is offered and was not accepted through the modern interface.",
        "The device may refuse to work: the driver expects another layout.";
    AccessPlatformNotAccepted, Error, "6.1",
        "ACCESS_PLATFORM is offered and was not accepted.",
        "The device may refuse to work: it cannot reach memory as the driver thinks.";
    FeaturesAfterFeaturesOk, Error, "3.1.1",
        "Features were written after FEATURES_OK.",
        "The write is ignored, and the driver believes in features that are not in use.";
    DriverOkWithoutFeaturesOk, Error, "3.1.1",
        "DRIVER_OK was set without FEATURES_OK.",
        "The device has agreed to nothing and may not move a packet.";
    NotResetFirst, Warning, "3.1.1",
        "The device was initialized without a reset before.",
        "What a driver before left behind stays in use.";
    ResetNotAwaited, Warning, "4.1.4.3.2",
        "After a reset the device was initialized before its status was read back as zero.",
        "The reset may still be under way and undo what was written.";
    UsedAfterNeedsReset, Warning, "2.1.2",
        "The driver went on with a queue after the device asked for a reset.",
        "Nothing that is made available there is ever used.";

    // Registers.
    UnknownRegister, Warning, "4.1.4.3",
        "An offset that belongs to no field was accessed.",
        "A read returns an undefined value, and a write may reach anything.";
    WrongWidth, Error, "4.1.3.1",
        "A field was accessed with another width or alignment than its own.",
        "The device may split the access, or answer nothing.";
    ReadOnlyWritten, Error, "4.1.4.3.2",
        "A field that a driver must not write was written.",
        "The write is ignored, and the driver believes something that is not so.";
    ConfigWritten, Warning, "5.1.4.2",
        "The device's configuration was written.",
        "All of its fields are read only in the modern interface.";
    QueueSelectOutOfRange, Notice, "4.1.4.3",
        "A queue was selected that the device does not have, and then set up.",
        "Its size reads as zero; all else that is written is lost.";
    QueueSizeInvalid, Error, "4.1.4.3.2, 2.7",
        "A queue size was written that is zero, above the device's or, for split queues, no power of two.",
        "Indices wrap at another place than the driver thinks, or the queue stays off.";
    QueueMisaligned, Error, "2.7, 2.8.10.1",
        "An area of a queue is not aligned: 16, 2 and 4 bytes for split, 16, 4 and 4 for packed ones.",
        "The device may round the address down and work on other memory.";
    QueueChangedWhileEnabled, Error, "4.1.4.3.2",
        "Size or address of a queue was written while it was enabled.",
        "The device goes on with what it was given first.";
    QueueEnableZeroWritten, Error, "4.1.4.3.2",
        "Zero was written to queue_enable.",
        "That does not stop a queue: the device goes on to use its memory.";
    QueueEnabledBeforeFeaturesOk, Error, "3.1.1",
        "A queue was enabled before FEATURES_OK.",
        "Its layout is not agreed upon yet.";
    VectorOutOfRange, Error, "4.1.5.1.2.1",
        "An MSI-X vector was given that the device does not have.",
        "The field reads as NO_VECTOR and no interrupt ever comes.";
    ConfigWrongWidth, Notice, "4.1.3.1",
        "A field of the device configuration was read by an access of another width than its own.",
        "A device that changes it meanwhile may show half of the old and half of the new.";
    NotifyBeforeDriverOk, Error, "3.1.1",
        "A queue was notified before DRIVER_OK.",
        "The device ignores it, and may never look at the queue.";
    NotifyWrongQueue, Error, "4.1.5.2",
        "A notification names another queue than the one whose address was written.",
        "The device looks at the wrong queue, or at none.";
    NotifyDisabledQueue, Error, "4.1.5.2",
        "A queue was notified that is not enabled.",
        "Nothing happens; buffers made available there wait for ever.";

    // Rings.
    RingUnmapped, Error, "2.7, 2.8",
        "A queue lies wholly or partly in memory not mapped for the device.",
        "With an IOMMU every access faults; without one foreign memory is taken for descriptors.";
    AvailableIndexJumped, Error, "2.7.13.3",
        "The available index ran ahead by more than the queue has entries, or back.",
        "Buffers are used twice or that never were made available: the device stops the queue.";
    HeadOutOfRange, Error, "2.7.6",
        "The available ring names a descriptor that the table does not have.",
        "Memory behind the table would be taken for a descriptor: the device stops the queue.";
    NextOutOfRange, Error, "2.7.5",
        "A descriptor's next field points out of its table.",
        "Memory behind the table would be taken for a descriptor: the device stops the queue.";
    ChainLoops, Error, "2.7.5.2",
        "A chain of descriptors loops, or is longer than the queue has entries.",
        "A device would follow it for ever; this one stops the queue.";
    IndirectNotNegotiated, Error, "2.7.5.3.1, 2.8.19",
        "A descriptor refers to a table, and INDIRECT_DESC was not negotiated.",
        "The table would be taken for a packet's content: the device stops the queue.";
    IndirectWithNext, Error, "2.7.5.3.1, 2.8.19",
        "A descriptor that refers to a table is part of a chain.",
        "Which of both goes on is undefined: the device stops the queue.";
    IndirectNested, Error, "2.7.5.3.1, 2.8.19",
        "A descriptor within a table refers to a table.",
        "A device could be sent in circles: it stops the queue.";
    IndirectTableSize, Error, "2.7.5.3.1, 2.8.19",
        "A table of descriptors is empty, no multiple of 16 bytes or longer than the queue.",
        "Its last entry is cut off, or its chain too long: the device stops the queue.";
    IndirectTableUnmapped, Error, "2.7.5.3",
        "A table of descriptors lies in memory not mapped for the device.",
        "With an IOMMU the access faults: the device stops the queue.";
    BufferUnmapped, Error, "2.7.5",
        "A buffer lies in memory not mapped for the device.",
        "With an IOMMU the access faults; without one it lands in foreign memory.";
    BufferEmpty, Notice, "2.7.5",
        "A descriptor has a buffer of length zero.",
        "It holds nothing; some devices stop the queue at it.";
    ReadableAfterWritable, Error, "2.7.4.2",
        "A chain has a readable buffer behind a writable one.",
        "The device takes the chain for shorter than it is.";
    WritableInTransmit, Error, "5.1.6.2",
        "A transmit buffer has a part for the device to write.",
        "The device has nothing to write there; the packet is lost.";
    ReadableInReceive, Error, "5.1.6.3",
        "A receive buffer has a part for the device to read.",
        "The device has nothing to read there; it uses the rest.";

    // Packets.
    RxBufferTooSmall, Error, "5.1.6.3.1",
        "A receive buffer is smaller than the header in front of each packet.",
        "Not even the header fits: the device returns it empty.";
    RxBufferShort, Warning, "5.1.6.3.1",
        "A packet did not fit a receive buffer, and MRG_RXBUF was not negotiated.",
        "The packet is lost: buffers have to hold a header and the longest frame.";
    TxTooShort, Error, "5.1.6.2",
        "A transmit buffer holds no header, or no Ethernet header behind it.",
        "No frame can be made of it.";
    TxTooLong, Error, "5.1.6.2",
        "A packet is longer than the device can send.",
        "The packet is lost as a whole.";
    TxFlagsUnknown, Warning, "5.1.6.2.1",
        "The header of a packet to be sent has flags other than NEEDS_CSUM.",
        "They are the device's to set; a later device may take them for something.";
    TxNumBuffersSet, Notice, "5.1.6.2.1",
        "The header of a packet to be sent has num_buffers other than zero.",
        "The field is ignored.";
    ChecksumNotNegotiated, Error, "5.1.6.2.1",
        "A packet asks for a checksum, and CSUM was not negotiated.",
        "The packet leaves without one, and whoever gets it drops it.";
    ChecksumOutside, Error, "5.1.6.2.1",
        "A packet asks for a checksum at a place that lies outside of it.",
        "No checksum can be put there; the packet is lost.";
    SegmentationNotNegotiated, Error, "5.1.6.2.1",
        "A packet asks to be cut in a way that was not negotiated.",
        "It is longer than the wire takes, and lost.";
    SegmentationInvalid, Error, "5.1.6.2.1",
        "A packet to be cut has no size for the pieces, no checksum to be filled in, or headers that do not fit it.",
        "It cannot be cut, and is lost.";

    // Commands.
    CommandMalformed, Error, "5.1.6.5",
        "A command has no class, no room for an answer, or data of a wrong length.",
        "It is refused, if there is room to say so.";
    CommandUnknown, Warning, "5.1.6.5",
        "A command was given that the device does not know, or whose feature was not negotiated.",
        "It is refused and changes nothing.";
    QueuePairsInvalid, Error, "5.1.6.5.5",
        "The driver asked for no queue pair, or for more than the device has.",
        "The command is refused and the number in use stays.";
}
