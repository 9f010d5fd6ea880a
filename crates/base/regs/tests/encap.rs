//! The registers of the table of tunnels, written down a second time from decision 30.

use regs::encap::*;

#[test]
fn registers_are_where_the_decision_has_them() {
    let head = [SIGNATURE, VERSION, NETWORKS, HEADERS, ENTRIES, GENERATION, USED];
    assert_eq!(head, [0x000, 0x004, 0x008, 0x00C, 0x010, 0x014, 0x018]);
    assert_eq!([COMMAND, STATUS, COMMANDS, COUNTERS, COUNTER_STRIDE], [0x020, 0x024, 0x028, 0x040, 8]);
    assert_eq!([NETWORK, EXTRACTOR, MODE, KEY], [0x100, 0x104, 0x108, 0x110]);
    assert_eq!([PLACE, WHICH, MAX_LEN, HEADERS_LEN], [0x120, 0x124, 0x128, 0x12C]);
    assert_eq!([PATCHES, BYTES, LEN], [0x140, 0x180, 0x1000]);
    assert_eq!((MOST_PATCHES, MOST_BYTES, MOST_BITS), (8, 128, 128));
}

#[test]
fn the_capability_is_as_the_decision_has_it() {
    use capability::*;
    assert_eq!((ID, IS_KIND, IS_SIGNATURE, IS_VERSION), (0x09, 0x45, *b"IXOE", 1));
    assert_eq!([LEN, KIND, SIGNATURE, BAR, VERSION], [2, 3, 4, 8, 9]);
    assert_eq!([OFFSET, LENGTH, BYTES], [12, 16, 20]);
}

#[test]
fn numbers_are_those_of_the_decision() {
    use command::*;
    assert_eq!([RESET, SET_NETWORK, CLEAR_NETWORK, SET_HEADERS, INSERT, REMOVE], [1, 2, 3, 4, 5, 6]);
    assert_eq!([status::OK, status::FULL, status::INVALID, status::MISSING], [0, 1, 2, 3]);
    assert_eq!([mode::FRAMES, mode::IP, mode::SERVICE, mode::LAYER, mode::DROP], [0, 1, 2, 3, 0x100]);
    assert_eq!([extractor::OFFSET, extractor::BITS_SHIFT], [0xFFFF, 16]);
    let kinds = [
        patch::NONE,
        patch::LENGTH,
        patch::NUMBER,
        patch::CLASS,
        patch::CLASS_V6,
        patch::PORT,
        patch::LABEL,
        patch::CHECKSUM,
        patch::UDP_CHECKSUM,
    ];
    assert_eq!((kinds, patch::AT_SHIFT, patch::VALUE_SHIFT), ([0, 1, 2, 3, 4, 5, 6, 7, 8], 8, 16));
    let counters = [
        counter::SENT,
        counter::GIVEN_BACK,
        counter::UNKNOWN,
        counter::NOT_GIVEN_BACK,
        counter::MALFORMED,
        counter::FOREIGN,
    ];
    assert_eq!((counters, counter::COUNT), ([0, 1, 2, 3, 4, 5], 6));
}
