//! The rules of the linter with their words: what the datasheet forbids, and what a real
//! device would do. Sections are chapters of datasheet 332464, and of document 331954 (AVF).

use crate::lint::rules;

rules! {
    // Registers.
    UnknownRegister, Notice, "10",
        "An offset was accessed at which the model has no register.",
        "A real device may have a register there; the model reads zero and ignores writes.";
    WriteToReadOnly, Warning, "10",
        "A register was written that can only be read.",
        "The write is ignored.";
    ReservedBitsWritten, Warning, "10",
        "Reserved bits of a register were written as one.",
        "What they do nobody has promised: another stepping or firmware may take them for something.";
    OddAccess, Error, "10",
        "A register was accessed by another width than 32 bits, or across registers.",
        "A narrower write is ignored; other accesses are undefined.";
    BusMasterOff, Error, "11",
        "A queue was used while Bus Master Enable was clear.",
        "The device accesses no memory: nothing is received and nothing is sent.";
    // Reset.
    ResetWithQueuesEnabled, Warning, "4",
        "The function was reset while queues were enabled.",
        "Packets on their way are lost, and the device may write to memory until the reset is done.";
    ResetNotAwaited, Error, "4",
        "An admin queue was enabled before PFSWR of PFGEN_CTRL was read as clear behind a reset of the function.",
        "The reset may still be under way, and take the queue away again.";
    DeviceNotReady, Warning, "4",
        "An admin queue was enabled, and GLGEN_RSTAT and GLNVM_ULD did not tell before that the device is ready.",
        "A reset of the whole device may be under way, or its configuration not be loaded: commands are not answered.";

    FunctionResetNotAwaited, Error, "4",
        "A mailbox was enabled behind RESET_VF before VFGEN_RSTAT or the mailbox's length told of the reset.",
        "The reset is still to come, and takes the mailbox away again.";
    FunctionNotActive, Error, "4",
        "A mailbox was enabled, and VFGEN_RSTAT did not tell before that the virtual function may work.",
        "The physical function has not given it anything yet, or is not there: nobody answers.";
    ResetUnnoticed, Error, "4",
        "A message was put to a mailbox that a reset had taken away ten seconds before, and nothing that tells of resets was read since.",
        "Nobody answers, nothing is received or sent, and the driver does not learn why.";

    // Admin queue.
    AdminQueueOff, Error, "7",
        "The tail of an admin queue was moved while the queue was not enabled.",
        "The firmware does not look: the command is never answered.";
    AdminQueueInvalid, Error, "7",
        "An admin queue was enabled whose length is zero or whose base is not aligned to 64 bytes.",
        "The queue does not work, or the firmware reads memory that is not the ring.";
    AdminTailOutOfRange, Error, "7",
        "The tail of an admin queue is not below the queue's length.",
        "The firmware reads memory behind the ring as commands.";
    AdminRingUnmapped, Error, "7",
        "A descriptor of an admin queue lies in memory that the device cannot reach.",
        "The firmware sets the queue's critical error bit and stops it.";
    AdminBufferUnmapped, Error, "7",
        "The buffer of a command lies in memory that the device cannot reach.",
        "The command fails with BAD_ADDR, or memory of somebody else is overwritten.";
    AdminFlagsWrong, Warning, "7",
        "The flags of a command do not fit its buffer: BUF, RD or LB is missing.",
        "The firmware may read no data, or refuse the command.";
    AdminUnknownCommand, Warning, "7",
        "The model's firmware has no such command.",
        "It answers ESRCH; a real device may have the command.";
    AdminArgumentInvalid, Error, "7",
        "A command has an argument that makes no sense, such as an element that does not exist.",
        "The firmware refuses the command.";

    MessageLost, Error, "7",
        "A message between a physical and a virtual function found no buffer that holds it.",
        "The message is lost, and the other side waits for an answer in vain.";

    // Messages of virtual functions.
    MessageUnknown, Warning, "AVF 6",
        "A message of a virtual function has a kind that it does not send, or a status, which only answers have.",
        "The physical function refuses it, or takes it for another one.";
    MessageLengthInvalid, Error, "AVF 6",
        "A message has more or fewer bytes than its kind, or the count in it, asks for.",
        "The physical function refuses it.";
    MessageTooEarly, Error, "AVF 6",
        "A message was sent before VERSION and GET_VF_RESOURCES were answered, or ENABLE_QUEUES before CONFIG_VSI_QUEUES told of the queues.",
        "The physical function refuses it.";
    MessageArgumentInvalid, Error, "AVF 6",
        "A message has an argument that is not of what GET_VF_RESOURCES told, such as another VSI, or that makes no sense.",
        "The physical function refuses it.";
    MessageNotOffered, Error, "AVF 6",
        "A message asks for what GET_VF_RESOURCES did not offer.",
        "The physical function refuses it.";
    AnswerNotAwaited, Error, "AVF 6",
        "A message was sent before CONFIG_VSI_QUEUES, CONFIG_IRQ_MAP, ENABLE_QUEUES or DISABLE_QUEUES was answered.",
        "What follows relies on queues that the physical function may have refused to start or to stop.";
    VectorUnmapped, Error, "AVF 6",
        "A vector was enabled, while queues run, to which CONFIG_IRQ_MAP gave no queue.",
        "Its interrupt never comes.";

    PromiscuousOfSent, Warning, "7",
        "All unicast frames are asked for without RX_ONLY.",
        "The VSI receives what other functions of the card send, too.";

    // Host memory cache.
    SegmentInvalid, Error, "7",
        "A segment descriptor was written whose count of pages is zero or above 512.",
        "The descriptor is ignored, or the cache reads memory that was not meant.";
    SegmentUnmapped, Error, "7",
        "A segment's backing memory is not memory that the device can reach.",
        "Contexts in it cannot be read: queues do not start and an HMC error is raised.";
    ContextUnreachable, Error, "7",
        "A queue was enabled whose context is in no valid segment, or beyond the objects counted.",
        "The queue does not start, and an HMC error is raised.";
    RingBaseInvalid, Error, "8",
        "The context of a queue has no base address for the ring.",
        "Descriptors are read from address zero.";
    RingBaseUnaligned, Error, "8",
        "A ring does not begin at a multiple of 128 bytes.",
        "The context has no lower bits: descriptors are read from another address.";
    RingLengthInvalid, Error, "8",
        "The length of a ring is zero, above 8160 or no multiple of 32.",
        "The queue does not work as the driver thinks; descriptors are lost.";
    RingUnmapped, Error, "8",
        "A ring lies in memory that the device cannot reach.",
        "Descriptors cannot be read or written: the queue stops.";
    RingFreedWhileEnabled, Error, "8",
        "The memory of a ring was taken away while its queue was enabled.",
        "The device reads and writes memory that belongs to somebody else.";
    BufferSizeInvalid, Error, "8",
        "The buffer size of a receive queue is below 1024 bytes.",
        "Frames are cut into more pieces than the device can chain.";
    RxMaxInvalid, Error, "8",
        "The longest frame of a receive queue is below 64, above 9728, or does not fit five buffers.",
        "Longer frames are lost, or written over more buffers than are chained.";
    InnerTagStripped, Warning, "8",
        "The receive context has SHOWIV set: tags in the inner frames of tunnels are stripped.",
        "The tag is lost, for no descriptor tells it.";
    QueueOwnerUnset, Error, "8",
        "A transmit queue was enabled without being assigned to this function in QTX_CTL.",
        "The device drops what is sent as malicious.";
    QueueSetWrong, Error, "8",
        "The ready list in a transmit context is not the queue set handle of the VSI.",
        "The scheduler never serves the queue.";

    // Flow Director.
    FilterQueueNotEnabled, Error, "8",
        "A descriptor that programs a filter came on a transmit queue whose context has not FD_ENA.",
        "The filter is not programmed.";
    FilterDisabled, Error, "7",
        "A descriptor that programs a filter came while FD_ENA of PFQF_CTL_0 was clear.",
        "The filter is not programmed.";
    FilterCommandInvalid, Error, "8",
        "A descriptor that programs a filter has a command that neither adds nor removes, or no destination.",
        "The filter is not programmed.";
    FilterClassInvalid, Error, "7",
        "A descriptor that programs a filter has a packet class that the chip does not have.",
        "The filter is not programmed, or never matches.";
    FilterVsiInvalid, Error, "7",
        "A descriptor that programs a filter has the number of a VSI that is not the function's own.",
        "The filter is not programmed, or leads packets to somebody else.";
    FilterQueueInvalid, Error, "7",
        "A descriptor that programs a filter has a queue beyond those of its VSI.",
        "The filter is not programmed, or what it matches is lost.";
    FilterPacketUnfit, Error, "7",
        "The packet that has a filter's fields is none of the filter's packet class, or is too short.",
        "The filter compares other bytes than the driver thinks, and never matches.";
    FilterWithoutPacket, Error, "8",
        "A descriptor that programs a filter does not stand directly before the packet with its fields.",
        "The filter is not programmed, or with the fields of another packet.";
    FilterInsidePacket, Error, "8",
        "A descriptor that programs a filter stands between the buffers of a packet.",
        "The device reports a malicious driver and stops the queue.";
    DummyWithoutFilter, Warning, "8",
        "A packet is marked as one that is not sent, and no filter is programmed with it.",
        "The packet is not sent.";
    FilterFieldsChanged, Warning, "7",
        "The words that a packet class compares were changed while there are filters of that class.",
        "These filters match no more, and are not found when they shall be removed.";

    RssQueueInvalid, Warning, "7",
        "The table of the hash names a queue that is not in the VSI's queue map.",
        "Frames come to another queue than the driver thinks, or to none.";

    // The clock, and times of received messages.
    ClockUpperHalfFirst, Error, "10",
        "The upper half of PRTTSYN_TIME or PRTTSYN_INC was read or written before the lower half.",
        "The halves are of different times, or the clock does not take over what was written.";
    ClockStands, Error, "10",
        "The time of a received message was kept while PRTTSYN_INC is zero.",
        "The clock stands still: all messages have the same time.";
    ReceiveTimeNotKept, Error, "10",
        "PRTTSYN_RXTIME_L was read of a place that keeps no time: none came, or PRTTSYN_RXTIME_H was read before.",
        "What is read is of another message: the upper half gives the place free.";
    ReceiveTimesNotRead, Warning, "10",
        "Messages found all four places for times taken for ten seconds.",
        "No message has a time until PRTTSYN_RXTIME_H of a place is read.";

    // Interrupts.
    InterruptListBroken, Error, "7",
        "A vector was enabled that a queue raises which is not in the vector's list, or whose list does not end.",
        "The queue's interrupts do not come, or the device follows the list for ever.";
    IntervalInvalid, Warning, "7",
        "A time between interrupts is beyond its 12 bits of 2 microseconds.",
        "The device takes the lower bits: another time than the driver thinks.";

    // Queues.
    TxEnableUnannounced, Error, "8",
        "A transmit queue was enabled before GLLAN_TXPRE_QDIS was told so.",
        "The queue may stay disabled inside.";
    TxDisableUnannounced, Warning, "8",
        "A transmit queue was disabled before GLLAN_TXPRE_QDIS was told so.",
        "Packets that were already fetched are lost.";
    ContextNotOfVsi, Warning, "7",
        "A receive queue was enabled that is not in the VSI's queue map.",
        "No frame ever comes to the queue.";
    RssWithoutKey, Warning, "7",
        "Frames are spread over queues with a key that is zero.",
        "Every hash is zero: all frames come to one queue.";
    TailOutOfRange, Error, "8",
        "A tail is not below the length of its ring.",
        "The device reads memory behind the ring as descriptors.";
    TailPassedHead, Error, "8",
        "A tail went backwards or passed the head.",
        "The device takes descriptors that it has used already as new ones.";
    TxTailBeforeEnable, Error, "8",
        "The tail of a transmit queue was moved before QENA_STAT of QTX_ENA was read as set, or before ENABLE_QUEUES was answered.",
        "The queue may not run yet, and never look at the descriptors.";
    RxTailRests, Error, "8",
        "Frames found no descriptor for a second, while the driver had filled half of the ring behind the tail.",
        "The device does not know of them: nothing is received until the tail is moved.";
    ReportsTooRare, Error, "8",
        "As many descriptors as a ring can hold were given, and none of them asked for a report.",
        "The driver never learns that they were sent: the ring stays full.";
    DisableNotAwaited, Error, "8",
        "A ring's memory was taken away, or QUEUE_SHUTDOWN sent, before QENA_STAT of its queue was read as clear, or before DISABLE_QUEUES was answered.",
        "The queue may not have stopped yet, and access memory that belongs to somebody else.";

    // Descriptors.
    BufferUnmapped, Error, "8",
        "A buffer lies in memory that the device cannot reach.",
        "The transaction fails; a packet is lost, or memory of somebody else is overwritten.";
    ZeroLengthDescriptor, Error, "8",
        "A transmit descriptor has a buffer of no bytes.",
        "The device reports a malicious driver and stops the queue.";
    UnsupportedDescriptor, Error, "8",
        "A transmit descriptor has a type that is none, or is marked as done already.",
        "The device reports a malicious driver and stops the queue.";
    ReportWithoutEnd, Error, "8",
        "A transmit descriptor asks for a report and does not end its packet.",
        "The device reports a malicious driver and stops the queue.";
    ContextInsidePacket, Error, "8",
        "A context descriptor stands between the buffers of a packet.",
        "The device reports a malicious driver and stops the queue.";
    TooManyBuffers, Error, "8",
        "A frame that is sent is made of more than eight buffers.",
        "The device reports a malicious driver and stops the queue.";
    TxLengthInvalid, Error, "8",
        "A packet that is sent whole is shorter than 17 bytes or longer than 9724, CRC not included.",
        "The device reports a malicious driver and stops the queue.";
    TransportLengthWrong, Error, "8",
        "A transport checksum is asked for, and L4LEN is less than the header of that transport.",
        "The device may report a malicious driver and stop the queue, or send a wrong checksum.";
    HeaderLengthsWrong, Error, "8",
        "The header lengths in a transmit descriptor are not those of the packet.",
        "Checksums are computed over the wrong bytes and put at the wrong place.";
    PseudoHeaderWrong, Error, "8",
        "The checksum field of a packet does not hold the pseudo header's sum.",
        "The checksum that is sent is wrong, and the receiver drops the packet.";
    TsoInvalid, Error, "8",
        "A packet to be cut has a segment size outside of 64 to 9674, or a length that is not its payload's.",
        "The device reports a malicious driver and stops the queue.";
}
