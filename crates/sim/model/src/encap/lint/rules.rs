//! The rules with their words. Sections are those of decision 30.

use crate::lint::rules;

rules! {
    NoRegister, Warning, "Registers",
        "There is no register at this offset.",
        "A read gives zero and a write changes nothing.";
    OddAccess, Warning, "Registers",
        "A register was accessed with another width than 32 bits.",
        "The access is not made.";
    ReadOnlyWritten, Warning, "Registers",
        "A register was written that can only be read.",
        "The write changes nothing.";
    UnknownCommand, Error, "Commands",
        "There is no command of this number.",
        "Nothing is done, and the status says so.";
    NetworkOutside, Error, "Commands",
        "The table has no place of this number for a network.",
        "The command is not done: packets of the network are given back.";
    IdentifierTooLong, Error, "Networks",
        "An identifier has more bits than the table compares.",
        "The network is not made: its packets are given back.";
    UnknownMode, Error, "Networks",
        "The mode of a network has a layer or bits that there are not.",
        "The network is not made: its packets are given back.";
    PlaceOutside, Error, "Headers",
        "The table has no such place for headers.",
        "The headers are not taken; what stood there before goes on to be used.";
    HeadersLength, Error, "Headers",
        "Headers have no bytes, or more than a place has room for.",
        "The headers are not taken; what stood there before goes on to be used.";
    PatchOutside, Error, "Headers",
        "A patch is none that there is, or touches bytes outside of the headers.",
        "The headers are not taken; what stood there before goes on to be used.";
    KeyTooLong, Error, "Entries",
        "An entry's identifier has bits that no packet's identifier of its network has.",
        "The entry is not made, as no packet would find it.";
    EntryWithoutHeaders, Error, "Entries",
        "An entry leads to a place without headers.",
        "The entry is not made: its packets are given back.";
    TagMalformed, Error, "Frames",
        "A frame with a tag ends before the packet that the tag tells of.",
        "The frame is dropped.";
}
