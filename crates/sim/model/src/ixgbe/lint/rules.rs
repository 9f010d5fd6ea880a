//! The rules of the linter with their words: what the datasheet forbids, and
//! what real hardware would do.
//!
//! 82599 datasheet rev. 3.4; the sections are its own, unless they say X550 (333369-009). A rule
//! states a fact about the chip, never about a driver; who breaks it is the finding's part.

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
        "A transmit descriptor has a buffer of length zero, and is no legacy one with EOP between packets.",
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
        "As many descriptors as the ring can hold were sent without one report-status bit.",
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
        "DTXMXSZRQ, MTQC or TXPBSIZE was changed with RTTDCS.ARBDIS clear.",
        "The arbiter uses old and new limits together and may starve a queue.";
    PacketBufferOverbooked, Error, "8.2.3.8.9, 8.2.3.9.13",
        "The packet buffers add up to more than the device has.",
        "Buffers overlap and packets overwrite each other.";
    MailboxNotHeld, Error, "7.10.2.9",
        "The mailbox's memory was written by a side that did not hold it (VFU, PFU).",
        "The other side's message is overwritten while it is written or read.";
    SemaphoreNotHeld, Warning, "10.5.4",
        "A shared resource was used or changed without holding its semaphore.",
        "Firmware or the other port may use it at the same time.";
    EepromWithoutGrant, Error, "8.2.3.2.1",
        "The EEPROM pins were moved without EE_REQ set and EE_GNT seen.",
        "The bits do not reach the memory and what is read back is meaningless.";
    InterruptsBeforeReset, Warning, "4.6.3.1",
        "Something was enabled after a reset before EIMC masked all interrupts.",
        "An interrupt may come before its handler is ready.";
    EepromNotAwaited, Warning, "4.6.3.2",
        "Receive was enabled before EEC.AUTO_RD was seen set after the reset.",
        "The load of the EEPROM overwrites what the driver has written meanwhile.";
    DmaInitNotAwaited, Warning, "4.6.3.2",
        "Receive was enabled before RDRXCTL.DMAIDONE was seen set after the reset.",
        "The receive DMA unit may not have initialised, and what it does is undefined.";
    CountersNotCleared, Notice, "4.6.5",
        "Receive was enabled without the statistics registers having been read since the reset.",
        "They clear when they are read: until then they hold what was counted before.";
    ResetNotWaited, Error, "4.6.3.2",
        "A register was accessed before the reset had finished and the EEPROM was loaded.",
        "The value read is undefined and the value written is overwritten by the load.";
    ResetWithoutMasterDisable, Warning, "5.2.5.3.2",
        "CTRL.RST was written without first disabling bus mastering and waiting.",
        "A request under way is cut off and may hang the bus interface.";
    BusMasterOff, Error, "9.3.3.3",
        "A queue is enabled while Bus Master Enable is clear in the PCI command register.",
        "The device may not access memory: no descriptor is fetched and no packet moves.";
    RingFreedWhileEnabled, Error, "4.6.7.1.2, 4.6.8.1.2",
        "The memory of a ring was taken away while its queue was enabled.",
        "The device goes on using the address, whoever owns the memory then.";
    DisableNotAwaited, Error, "4.6.7.1.2, 4.6.8.1.2",
        "The memory of a ring was taken away before ENABLE was read as zero.",
        "The device clears the bit only after its last access, which comes too late.";
    RingsOverlap, Error, "8.2.3.8.1, 8.2.3.9.5",
        "Two enabled queues of one direction share memory for their rings.",
        "Each takes the other's descriptors for its own.";
    RxTailRests, Error, "7.1.9",
        "Frames find no descriptor though the driver has filled half of the ring and not moved the tail.",
        "The device owns nothing between head and tail: the queue receives no more.";
    TailPassedHead, Error, "7.1.9, 7.2.3.3",
        "A tail was moved back, or over descriptors that the device still owned.",
        "The device takes a part of the ring for empty, or takes old descriptors for new ones.";
    DoneBitInRxDescriptor, Warning, "7.1.6.1",
        "A receive descriptor was given to the device with its done bit set.",
        "The driver takes it for a packet before the device has written one.";
    DoneBitInTxDescriptor, Error, "7.2.3.2.4",
        "A transmit descriptor was given to the device with its done bit set.",
        "It is an old one that was not written anew: an old packet is sent again from memory now used otherwise.";
    DcaRxctrlBitSet, Warning, "4.6.7.1, 8.2.3.11.1",
        "Bit 12 of DCA_RXCTRL is set while its receive queue is enabled.",
        "The bit resets to one and must be cleared; what it does when set is undefined.";
    NoSnoopLeftOn, Warning, "4.6.7",
        "CTRL_EXT.NS_DIS is clear while the device receives.",
        "Writes that do not snoop caches can leave the host with stale data.";
    RxPathNotHalted, Warning, "4.6.7",
        "RXCTRL.RXEN was set without SECRXCTRL.RX_DIS set and SECRXSTAT.SECRX_RDY seen set.",
        "A frame that is just arriving is taken in the middle.";
    RscFirstSizeNotZero, Warning, "4.6.7, 4.6.7.2",
        "RDRXCTL.RSCFRSTSIZE is not zero when receive is enabled.",
        "The hardware's default is not the value that the datasheet wants there.";
    MulticastTableNotCleared, Warning, "4.6.7, 8.2.3.7.7",
        "Receive was enabled with words of MTA not written since the reset.",
        "The table's contents are undefined: frames to foreign multicast addresses pass.";
    VlanTableNotCleared, Warning, "4.6.7, 8.2.3.7.11",
        "Receive was enabled with words of VFTA not written since the reset.",
        "The table's contents are undefined: frames of foreign VLANs pass, or wanted ones do not.";
    ReceiveAddressNotValid, Warning, "8.2.3.7.9",
        "A receive address was written without RAH.AV.",
        "The filter does not look at the entry, and frames to the address are dropped.";
    JumboNotEnabled, Warning, "8.2.3.22.8, 8.2.3.22.13",
        "MAXFRS is above 1,522 bytes when receive is enabled, and HLREG0.JUMBOEN is clear.",
        "MAXFRS has no effect: frames above 1,518 bytes are dropped.";
    PacketBufferMissing, Error, "8.2.3.8.9, 8.2.3.9.13",
        "The first packet buffer, which all traffic uses without DCB, has no memory.",
        "No frame fits: nothing is received, or sent.";
    DrxWithoutCrcAgreement, Error, "8.2.3.8.8",
        "RDRXCTL.CRCSTRIP and HLREG0.RXCRCSTRP differ.",
        "The lengths reported are off by four bytes or packets are cut.";
    ReportStatusBelowWthresh, Error, "7.2.3.5.1",
        "TXDCTL.WTHRESH is not zero, and a packet's last descriptor has no report-status bit.",
        "Reports are held back until enough of them are there, which may be never.";
    ArbiterLeftDisabled, Error, "4.6.8",
        "A transmit queue was enabled with RTTDCS.ARBDIS set.",
        "The arbiter serves no queue: nothing is sent.";
    FrameWithoutCrc, Error, "7.2.3.2.4",
        "A packet has IFCS clear and does not end in its own CRC.",
        "The frame leaves with a wrong CRC, and whoever receives it drops it.";
    TransmitCrcOff, Error, "8.2.3.22.8",
        "HLREG0.TXCRCEN is clear, and a packet does not end in its own CRC.",
        "The frame leaves with a wrong CRC, and whoever receives it drops it.";
    TxRunt, Warning, "8.2.3.22.8",
        "A frame shorter than 64 bytes with its CRC was sent with HLREG0.TXPADEN clear.",
        "The frame is illegal, and whoever receives it drops it.";
    TxAboveMaxFrame, Notice, "8.2.3.22.13",
        "A frame was sent that is longer than this port receives (MAXFRS, or 1,518 bytes without JUMBOEN).",
        "A port at the other end that is set up alike drops it.";
    PaylenWrong, Error, "7.2.3.2.4",
        "PAYLEN is not the packet's length, or with segmentation not that of what is behind the headers.",
        "The device counts another length than the buffers hold: the packet is cut or the queue hangs.";
    ContextNotOfPacket, Error, "7.2.3.2.3",
        "A packet's headers are not those that its context descriptor describes.",
        "Checksums are computed over, and put at, the wrong place.";
    PseudoHeaderWrong, Error, "7.2.5",
        "A packet asks for a transport checksum and does not hold the pseudo header's sum in its field.",
        "The device adds what is there: the frame leaves with a wrong checksum.";
    EitrOutOfRange, Warning, "8.2.3.5.12",
        "EITR was written with bits set that are outside of its fields.",
        "The interval is cut to nine bits of 2 us, and vectors fire far more often or more seldom.";
    IvarEntryInvalid, Warning, "8.2.3.5.14",
        "An IVAR entry names a vector and has its valid bit clear.",
        "The entry is passed over, and the queue never interrupts.";
    InterruptWithoutVector, Warning, "8.2.3.5.14, 8.2.3.5.15",
        "An interrupt was unmasked to which no valid IVAR entry leads.",
        "It never comes, and whoever waits for it does so for ever.";
    AutoMaskWithoutMsix, Warning, "8.2.3.5.18",
        "GPIE has EIAME or PBA_SUPPORT set and Multiple_MSIX clear.",
        "The device stays in the mode of one interrupt, and vectors above 0 never fire.";
    CauseNotCleared, Warning, "8.2.3.5.1, 8.2.3.5.5",
        "A vector was unmasked whose cause was delivered and neither cleared by EIAC nor in EICR.",
        "The interrupt fires again at once and without end.";
    WthreshWithHeadWriteBack, Error, "7.2.3.5.2",
        "TXDCTL.WTHRESH is not zero while head write-back is on.",
        "Head write-back values are wrong.";
    HeadWriteBackUnaligned, Error, "8.2.3.9.11",
        "The address for head write-back is not aligned to four bytes.",
        "The low address bits are taken for something else and the value lands elsewhere.";
    SrrctlBufferInvalid, Error, "8.2.3.8.7",
        "SRRCTL gives a packet buffer of zero or above 16 KB, or a header buffer outside 64 to 1024.",
        "Packets are cut or written past the end of the buffer.";
    RxBuffersOverlap, Error, "8.2.3.8.7",
        "Buffers of two receive descriptors overlap, by the size that SRRCTL gives them.",
        "A packet overwrites another that was received before it.";
    LegacyDescriptorWithRss, Warning, "7.1.2.8, 8.2.3.8.7",
        "A receive queue uses legacy descriptors while RSS is on.",
        "They have no place for hash and type, and a driver that reads advanced ones sees nonsense.";
    BufferBelowSrrctl, Error, "8.2.3.8.7",
        "A packet needed more buffers than the ring can ever hold.",
        "The packet can never be delivered and the queue is stuck.";
    RssWithoutKey, Warning, "7.1.2.8",
        "RSS was turned on with a key of zeroes.",
        "Every packet hashes to zero and one queue takes all.";
    RssKeyIncomplete, Warning, "8.2.3.7.14",
        "RSS is on when receive is enabled, and words of its key were not written since the reset.",
        "What they hold is undefined: flows spread otherwise than software computes.";
    RedirectionIncomplete, Warning, "8.2.3.7.15",
        "RSS is on when receive is enabled, and words of RETA were not written since the reset.",
        "What they hold is undefined: packets go to queues that nobody chose.";
    RssHashNotReported, Notice, "8.2.3.7.5",
        "RSS is on when receive is enabled, and RXCSUM.PCSD is clear.",
        "The descriptor's field holds a fragment's checksum instead of the hash.";
    TimestampBehindCrc, Error, "X550 7.1.1.2",
        "TSYNCRXCTL has timestamps put behind frames (TSIP), and HLREG0.RXCRCSTRP is clear.",
        "What is behind the frame is not where it is looked for: a CRC is taken for a time.";
    TimestampWithoutClock, Warning, "X550 7.1.6.2",
        "TSYNCRXCTL has timestamps put behind frames (TSIP), and TSAUXC.DISABLE_SYSTIME is set.",
        "No frame gets a timestamp, and its driver has no time for it.";
    TimestampNotEnabled, Warning, "X550 8.2.2.21.3",
        "TSYNCRXCTL has timestamps put behind frames (TSIP), and its EN is clear.",
        "No frame gets one: nothing takes the time.";
    TimestampTypeReserved, Warning, "X550 8.2.2.21.3",
        "TSYNCRXCTL.TYPE has a value that is reserved.",
        "Which frames get a timestamp is undefined.";
    SystemTimeSecondsFirst, Warning, "X550 7.7.4",
        "SYSTIMH was accessed before SYSTIML, which holds both halves for each other.",
        "The halves are of different times: when a second ends in between, the clock is wrong by one.";
    RedirectionToDisabledQueue, Error, "7.1.2.8",
        "A packet was directed to a queue that is not enabled.",
        "The packet is dropped, and with dropping off it blocks the whole receive path.";
}
