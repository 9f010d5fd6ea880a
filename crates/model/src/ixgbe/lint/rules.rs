//! The rules of the linter with their words: what the datasheet forbids, and
//! what real hardware would do.
//!
//! 82599 datasheet rev. 3.4; the sections are its own. A rule states a fact
//! about the chip, never about a driver; who breaks it is the finding's part.

use crate::lint::rules;

rules! {
    ReadOnlyWritten, Warning, "8.2.2",
        "A register that software may only read was written.",
        "The write is ignored and the driver believes something that is not so.";
    ReservedBitsWritten, Warning, "8.1",
        "Reserved bits were changed from the value they must keep.",
        "What they do is undefined and may differ between steppings and successors of the chip.";
    UnknownRegister, Warning, "8.1",
        "An offset that belongs to no register was accessed.",
        "A read returns an undefined value and a write may reach something not meant for software.";
    WriteOnlyRead, Warning, "8.2.2",
        "A register that software may only write was read.",
        "The value returned is undefined.";
    UnalignedAccess, Error, "8.1",
        "A register was accessed at an address that is no multiple of four.",
        "The access is split or completed with an error, and no register takes it as meant.";
    NarrowAccess, Error, "8.1",
        "A register was accessed with 8 or 16 bits.",
        "The missing bytes are not kept: a partial write of a register has undefined results.";
    TailBeforeEnable, Error, "4.6.7",
        "A tail was moved before its queue reported being enabled.",
        "The descriptors announced are not fetched; the queue stalls or loses its place once it is enabled.";
    TailOutOfRange, Error, "7.1.9",
        "A tail was set to an index outside its ring.",
        "The device fetches descriptors from memory beyond the ring and overwrites what lies there.";
    RingBaseUnaligned, Error, "8.2.3.8.1, 8.2.3.9.5",
        "A ring's base address is not aligned to 128 bytes.",
        "The low bits are dropped and the device works on a ring that starts earlier.";
    RingLengthInvalid, Error, "8.2.3.8.3, 8.2.3.9.7",
        "A ring's length is zero, no multiple of 128 bytes or above the limit.",
        "The device wraps at a place of its own and the two sides lose step.";
    RingBaseChangedWhileEnabled, Error, "4.6.7",
        "A ring's base or length was changed while its queue was enabled.",
        "Descriptors already fetched belong to the old ring and are written back into the new one.";
    HeadWrittenWhileEnabled, Error, "7.1.9",
        "A ring's head was written while its queue was enabled.",
        "Head and internal fetch pointers disagree, and descriptors are lost or repeated.";
    DescriptorReusedWhileOwned, Error, "7.1.9",
        "A descriptor between head and tail was changed while the device owned it.",
        "The device may have fetched the old contents already: a packet goes to or comes from the wrong memory.";
    ZeroLengthDescriptor, Error, "7.2.3.2",
        "A transmit descriptor has a buffer of length zero.",
        "Transmission may hang: a data descriptor must carry at least one byte.";
    BufferAddressUnmapped, Error, "7.1.5",
        "A descriptor holds an address that is not mapped for the device.",
        "With an IOMMU the access faults; without one it lands in foreign memory.";
    RingUnmapped, Error, "8.2.3.8.1, 8.2.3.9.5",
        "A ring lies wholly or partly in memory not mapped for the device.",
        "With an IOMMU every fetch faults; without one foreign memory is taken for descriptors.";
    FilterChangedWhileReceiving, Warning, "8.2.3.7.1",
        "FCTRL or another receive filter control was changed while RXCTRL.RXEN was set.",
        "Packets in flight are filtered by a mixture of both settings.";
    UnsupportedDescriptorType, Error, "7.2.3.2",
        "A transmit descriptor has a type the device does not define.",
        "The descriptor is taken for another kind and transmission may hang.";
    UnsupportedRxDescriptorType, Error, "8.2.3.8.7",
        "SRRCTL.DESCTYPE selects a receive descriptor type that is reserved.",
        "What the device writes back is undefined.";
    ContextMissing, Error, "7.2.3.2.3",
        "A packet asks for an offload from a context that was never loaded.",
        "Stale header lengths are used and the packet leaves corrupted.";
    ContextLengthsInvalid, Error, "7.2.3.2.3",
        "A context descriptor gives header lengths outside what the device accepts.",
        "Checksums are put at a wrong place and the packet leaves corrupted.";
    TsoBadMss, Error, "7.2.4",
        "A segmentation context gives a maximum segment size of zero or below the limit.",
        "The device divides by it: the queue may hang.";
    TsoHeaderSplit, Error, "7.2.4",
        "The headers of a segmented packet span more than the first buffers allowed.",
        "The replicated header is incomplete and every segment is malformed.";
    TxTooLong, Error, "7.2.1",
        "A packet is longer than DTXMXSZRQ, MAXFRS or the transmit buffer allows.",
        "The packet is not sent, and the queue may hang waiting for room.";
    TxTooShort, Warning, "7.2.1",
        "A packet shorter than 17 bytes was sent with the pad bit off.",
        "The device cannot build a legal frame from it; transmission may hang.";
    ChainWithoutEop, Error, "7.2.1",
        "A chain of transmit descriptors exceeds 40 buffers or ends without EOP.",
        "The packet is never sent and blocks its queue.";
    EopFieldsInconsistent, Warning, "7.2.3.2.4",
        "Descriptors of one packet disagree on fields that must be equal in all of them.",
        "The device takes them from the first or the last as it likes.";
    TxReportStatusMissing, Warning, "7.2.3.5",
        "A whole ring of packets was queued without one report-status bit.",
        "No descriptor is ever marked done, and a driver waiting for it stops.";
    EnableBeforeGlobal, Warning, "4.6.7",
        "RXCTRL.RXEN was set before any receive queue was enabled.",
        "Packets arrive at queues that are not ready and are dropped.";
    TxEnableBeforeDma, Error, "4.6.8",
        "TXDCTL.ENABLE was set before DMATXCTL.TE.",
        "The queue does not become enabled and the driver's wait times out.";
    RegisterNeedsRxDisabled, Warning, "4.6.7",
        "A register that may change only with receive off was written with RXCTRL.RXEN set.",
        "Packets inside the device are handled half one way and half the other.";
    ArbiterNotDisabled, Warning, "8.2.3.9.15",
        "DTXMXSZRQ, MTQC or TXPBSIZE was written with RTTDCS.ARBDIS clear.",
        "The arbiter uses old and new limits together and may starve a queue.";
    PacketBufferOverbooked, Error, "8.2.3.8.9",
        "The packet buffers add up to more than the device has.",
        "Buffers overlap and packets overwrite each other.";
    SemaphoreNotHeld, Warning, "10.5.4",
        "A shared resource was used or changed without holding its semaphore.",
        "Firmware or the other port may use it at the same time.";
    EepromWithoutGrant, Error, "8.2.3.2.1",
        "The EEPROM pins were moved without EE_REQ set and EE_GNT seen.",
        "The bits do not reach the memory and what is read back is meaningless.";
    InterruptsBeforeReset, Warning, "4.6.3.1",
        "Something was enabled after a reset before EIMC masked all interrupts.",
        "An interrupt may come before its handler is ready.";
    ResetNotWaited, Error, "4.6.3.2",
        "A register was accessed before the reset had finished and the EEPROM was loaded.",
        "The value read is undefined and the value written is overwritten by the load.";
    ResetWithoutMasterDisable, Warning, "5.2.5.3.2",
        "CTRL.RST was written without first disabling bus mastering and waiting.",
        "A request under way is cut off and may hang the bus interface.";
    DrxWithoutCrcAgreement, Error, "8.2.3.8.8",
        "RDRXCTL.CRCSTRIP and HLREG0.RXCRCSTRP differ.",
        "The lengths reported are off by four bytes or packets are cut.";
    WthreshWithHeadWriteBack, Error, "7.2.3.5.2",
        "TXDCTL.WTHRESH is not zero while head write-back is on.",
        "Head write-back values are wrong.";
    HeadWriteBackUnaligned, Error, "8.2.3.9.11",
        "The address for head write-back is not aligned to four bytes.",
        "The low address bits are taken for something else and the value lands elsewhere.";
    SrrctlBufferInvalid, Error, "8.2.3.8.7",
        "SRRCTL gives a packet buffer of zero or above 16 KB, or a header buffer outside 64 to 1024.",
        "Packets are cut or written past the end of the buffer.";
    BufferBelowSrrctl, Error, "8.2.3.8.7",
        "A packet needed more buffers than the ring can ever hold.",
        "The packet can never be delivered and the queue is stuck.";
    RssWithoutKey, Warning, "7.1.2.8",
        "RSS was turned on with a key of zeroes.",
        "Every packet hashes to zero and one queue takes all.";
    RedirectionToDisabledQueue, Error, "7.1.2.8",
        "A packet was directed to a queue that is not enabled.",
        "The packet is dropped, and with dropping off it blocks the whole receive path.";
}
