//! The binary protocol of the cache. Requests and answers are put together by hand here: a
//! second witness to the header.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use service::memcached::{Limits, Session};
use service::{Buffer, Memcached, Output, Protocol};

/// The bytes of a request with this opcode.
fn request(opcode: u8, extras: &[u8], key: &str, value: &[u8], cas: u64) -> Vec<u8> {
    message(0x80, opcode, extras, key, value, 0, cas)
}

/// What is answered.
fn answer(opcode: u8, status: u16, extras: &[u8], key: &str, value: &[u8], cas: u64) -> Vec<u8> {
    message(0x81, opcode, extras, key, value, status, cas)
}

fn message(magic: u8, opcode: u8, extras: &[u8], key: &str, value: &[u8], status: u16, cas: u64) -> Vec<u8> {
    let body_len = (extras.len() + key.len() + value.len()) as u32;
    let mut bytes = vec![magic, opcode];
    bytes.extend((key.len() as u16).to_be_bytes());
    bytes.extend([extras.len() as u8, 0]);
    bytes.extend(status.to_be_bytes());
    bytes.extend(body_len.to_be_bytes());
    bytes.extend(0xDEAD_BEEF_u32.to_be_bytes());
    bytes.extend(cas.to_be_bytes());
    [&bytes[..], extras, key.as_bytes(), value].concat()
}

/// What a new cache answers, in pieces of so many bytes with so much room, and whether the
/// connection ended.
fn ask(requests: &[Vec<u8>], piece: usize, room: usize) -> (Vec<u8>, bool) {
    let mut server =
        Memcached::servers(Limits { value: 5000, ..Limits::default() }, 1_700_000_000).pop().unwrap();
    let (mut session, mut output, mut ends) = (Session::default(), Buffer::default(), false);
    for part in requests.concat().chunks(piece) {
        let mut rest = part;
        while !ends {
            output.room = room;
            let taken = server.take(&mut session, rest, &mut output);
            rest = &rest[taken.used..];
            ends = taken.ends;
            if rest.is_empty() && !server.is_answering(&session) && !output.is_full() {
                break;
            }
        }
    }
    (output.bytes, ends)
}

/// All requests are answered so, however they are cut.
fn dialogue(lines: &[(Vec<u8>, Vec<u8>)], ends: bool) {
    let requests: Vec<Vec<u8>> = lines.iter().map(|(request, _)| request.clone()).collect();
    let expected: Vec<Vec<u8>> = lines.iter().map(|(_, answer)| answer.clone()).collect();
    for (piece, room) in [(usize::MAX, usize::MAX), (1, usize::MAX), (7, 30)] {
        assert_eq!(ask(&requests, piece, room), (expected.concat(), ends), "in pieces of {piece}");
    }
}

const SET: &[u8] = &[0xDE, 0xAD, 0xBE, 0xEF, 0, 0, 0, 0];
const FLAGS: &[u8] = &[0xDE, 0xAD, 0xBE, 0xEF];
const NOTHING: Vec<u8> = vec![];

#[test]
fn items_are_stored_and_fetched() {
    dialogue(
        &[
            (request(0x00, b"", "Hello", b"", 0), answer(0x00, 1, b"", "", b"Not found", 0)),
            (request(0x09, b"", "Hello", b"", 0), NOTHING),
            (request(0x0C, b"", "Hello", b"", 0), answer(0x0C, 1, b"", "Hello", b"", 0)),
            (request(0x03, SET, "Hello", b"x", 0), answer(0x03, 1, b"", "", b"Not found", 0)),
            (request(0x0E, b"", "Hello", b"x", 0), answer(0x0E, 5, b"", "", b"Not stored.", 0)),
            (request(0x02, SET, "Hello", b"World", 0), answer(0x02, 0, b"", "", b"", 1)),
            (request(0x02, SET, "Hello", b"x", 0), answer(0x02, 2, b"", "", b"Data exists for key.", 0)),
            (request(0x00, b"", "Hello", b"", 0), answer(0x00, 0, FLAGS, "", b"World", 1)),
            (request(0x0D, b"", "Hello", b"", 0), answer(0x0D, 0, FLAGS, "Hello", b"World", 1)),
            (request(0x0E, b"", "Hello", b"!", 0), answer(0x0E, 0, b"", "", b"", 2)),
            (request(0x1A, b"", "Hello", b"_", 0), NOTHING),
            (request(0x00, b"", "Hello", b"", 0), answer(0x00, 0, FLAGS, "", b"_World!", 3)),
            (request(0x01, SET, "Hello", b"", 9), answer(0x01, 2, b"", "", b"Data exists for key.", 0)),
            (request(0x01, SET, "Hello", b"", 3), answer(0x01, 0, b"", "", b"", 4)),
            (request(0x11, SET, "k", &[7; 3000], 0), NOTHING),
            (request(0x00, b"", "k", b"", 0), answer(0x00, 0, FLAGS, "", &[7; 3000], 5)),
            (request(0x01, SET, "k", &[7; 6000], 0), answer(0x01, 3, b"", "", b"Too large.", 0)),
            (request(0x00, b"", "k", b"", 0), answer(0x00, 1, b"", "", b"Not found", 0)),
            (request(0x04, b"", "Hello", b"", 0), answer(0x04, 0, b"", "", b"", 0)),
            (request(0x14, b"", "Hello", b"", 0), answer(0x14, 1, b"", "", b"Not found", 0)),
        ],
        false,
    );
}

#[test]
fn numbers_times_and_the_rest() {
    let count = |by: u64, initial: u64, time: u32| {
        [&by.to_be_bytes()[..], &initial.to_be_bytes(), &time.to_be_bytes()].concat()
    };
    let version = concat!("1.6.18-ixora-", env!("CARGO_PKG_VERSION")).as_bytes();
    let text = b"Non-numeric server-side value for incr or decr";
    dialogue(
        &[
            (request(0x05, &count(1, 0, u32::MAX), "n", b"", 0), answer(0x05, 1, b"", "", b"Not found", 0)),
            (
                request(0x05, &count(1, 40, 0), "n", b"", 0),
                answer(0x05, 0, b"", "", &40_u64.to_be_bytes(), 1),
            ),
            (request(0x05, &count(2, 0, 0), "n", b"", 0), answer(0x05, 0, b"", "", &42_u64.to_be_bytes(), 2)),
            (request(0x16, &count(50, 0, 0), "n", b"", 0), NOTHING),
            (request(0x1D, &[0, 0, 0, 9], "n", b"", 0), answer(0x1D, 0, &[0; 4], "", b"0 ", 3)),
            (request(0x1C, &[0, 0, 0, 9], "x", b"", 0), answer(0x1C, 1, b"", "", b"Not found", 0)),
            (request(0x11, SET, "t", b"text", 0), NOTHING),
            (request(0x05, &count(1, 0, 0), "t", b"", 0), answer(0x05, 6, b"", "", text, 0)),
            (request(0x0B, b"", "", b"", 0), answer(0x0B, 0, b"", "", version, 0)),
            (request(0x18, b"", "", b"", 0), NOTHING),
            (request(0x0A, b"", "", b"", 0), answer(0x0A, 0, b"", "", b"", 0)),
            (request(0x09, b"", "t", b"", 0), NOTHING),
            (request(0x55, b"", "", b"", 0), answer(0x55, 0x81, b"", "", b"Unknown command", 0)),
            (b"mn\r\n".to_vec(), b"MN\r\n".to_vec()),
            (request(0x07, b"", "", b"", 0), answer(0x07, 0, b"", "", b"", 0)),
        ],
        true,
    );
}

#[test]
fn lengths_that_no_request_has_end_the_connection() {
    let invalid = |opcode| answer(opcode, 4, b"", "", b"Invalid arguments", 0);
    let long = "k".repeat(251);
    let mut short = request(0, b"", "abc", b"", 0);
    short[11] = 2; // shorter than its key
    dialogue(&[(request(0x00, b"", &long, b"", 0), invalid(0))], true);
    dialogue(&[(short, invalid(0))], true);
    dialogue(&[(request(0x01, &[0; 21], "k", b"", 0), invalid(1))], true);
}

/// Who sends such a request may have something else behind it than its lengths tell, which would be
/// taken for requests.
#[test]
fn a_request_that_is_not_sound_ends_the_connection() {
    let invalid = |opcode| answer(opcode, 4, b"", "", b"Invalid arguments", 0);
    let unsound = [
        (0x00, request(0x00, b"", "", b"", 0)),
        (0x00, request(0x00, b"", "a", b"value", 0)),
        (0x01, request(0x01, b"", "a", b"value", 0)),
        (0x0A, request(0x0A, b"", "a", b"", 0)),
        (0x1C, request(0x1C, b"", "a", b"", 0)),
    ];
    for (opcode, bytes) in unsound {
        let set = request(0x11, SET, "a", b"x", 0);
        dialogue(
            &[(set, NOTHING), (bytes, invalid(opcode)), (request(0x0A, b"", "", b"", 0), NOTHING)],
            true,
        );
    }
}

#[test]
fn touching_tells_the_flags() {
    dialogue(
        &[
            (request(0x11, SET, "a", b"x", 0), NOTHING),
            (request(0x1C, &[0, 0, 0, 9], "a", b"", 0), answer(0x1C, 0, FLAGS, "", b"", 1)),
            (request(0x1C, &[0, 0, 0, 9], "b", b"", 0), answer(0x1C, 1, b"", "", b"Not found", 0)),
        ],
        false,
    );
}

/// A time has no sign: one that begins with ones is late in this century or in the next.
#[test]
fn times_are_unsigned() {
    let set = |time: u32| [FLAGS, &time.to_be_bytes()].concat();
    let count = |time: u32| [&[0; 8][..], &7_u64.to_be_bytes(), &time.to_be_bytes()].concat();
    let late = [0x80, 0, 0, 0];
    dialogue(
        &[
            (request(0x11, &set(0x8000_0000), "a", b"x", 0), NOTHING),
            (request(0x00, b"", "a", b"", 0), answer(0x00, 0, FLAGS, "", b"x", 1)),
            (request(0x11, &set(u32::MAX), "a", b"y", 0), NOTHING),
            (request(0x1C, &late, "a", b"", 0), answer(0x1C, 0, FLAGS, "", b"", 2)),
            (request(0x1D, &late, "a", b"", 0), answer(0x1D, 0, FLAGS, "", b"y", 2)),
            (request(0x15, &count(0xFFFF_FFFE), "n", b"", 0), NOTHING),
            (request(0x00, b"", "n", b"", 0), answer(0x00, 0, &[0; 4], "", b"7", 3)),
            (request(0x18, &late, "", b"", 0), NOTHING),
            (request(0x00, b"", "a", b"", 0), answer(0x00, 0, FLAGS, "", b"y", 2)),
        ],
        false,
    );
}

/// A request to add or replace that gives a number stores if the item has it, as one to set.
#[test]
fn a_number_makes_any_request_to_store_conditional() {
    let exists = b"Data exists for key.";
    dialogue(
        &[
            (request(0x11, SET, "a", b"x", 0), NOTHING),
            (request(0x02, SET, "a", b"y", 9), answer(0x02, 2, b"", "", exists, 0)),
            (request(0x02, SET, "a", b"y", 1), answer(0x02, 0, b"", "", b"", 2)),
            (request(0x03, SET, "a", b"z", 2), answer(0x03, 0, b"", "", b"", 3)),
            (request(0x00, b"", "a", b"", 0), answer(0x00, 0, FLAGS, "", b"z", 3)),
            (request(0x02, SET, "b", b"y", 9), answer(0x02, 1, b"", "", b"Not found", 0)),
            (request(0x03, SET, "b", b"y", 9), answer(0x03, 1, b"", "", b"Not found", 0)),
        ],
        false,
    );
}

#[test]
fn statistics_end_with_an_empty_answer() {
    let (bytes, _) = ask(&[request(0x10, b"", "", b"", 0)], usize::MAX, usize::MAX);
    assert!(bytes.ends_with(&answer(0x10, 0, b"", "", b"", 0)) && bytes.len() > 1000);
    let pid = answer(0x10, 0, b"", "pid", std::process::id().to_string().as_bytes(), 0);
    assert!(bytes.starts_with(&pid));
}

#[test]
fn statistics_of_a_kind_are_asked_for_as_from_memcached() {
    let stat = |kind| request(0x10, b"", kind, b"", 0);
    let end = answer(0x10, 0, b"", "", b"", 0);
    for kind in ["reset", "resets", "detail on", "detail off", "detail dump"] {
        dialogue(&[(stat(kind), end.clone())], false);
    }
    for kind in ["detail", "detail x", "nonsense", "itemsx"] {
        dialogue(&[(stat(kind), answer(0x10, 1, b"", "", b"Not found", 0))], false);
    }
    let settings = ask(&[stat("settings")], usize::MAX, usize::MAX);
    assert!(settings.0.len() > 500);
    assert_eq!(ask(&[stat("settingsx")], usize::MAX, usize::MAX), settings);
}

proptest! {
    #[test]
    fn any_bytes_are_answered_the_same_wherever_they_are_cut(
        parts in prop::collection::vec((0..40_u8, 0..24_usize, "[ab]{0,3}", 0..60_usize), 1..10),
        rest in prop::collection::vec(any::<u8>(), 0..60),
        piece in 1..100_usize,
        room in 1..200_usize,
    ) {
        let extras = [0; 24];
        let part = |(opcode, len, key, value): &(u8, usize, String, usize)| {
            request(*opcode, &extras[..*len], key, &vec![b'1'; *value], 0)
        };
        let mut requests: Vec<Vec<u8>> = parts.iter().map(part).collect();
        requests.push([&[0x80][..], &rest].concat());
        prop_assert_eq!(ask(&requests, piece, room), ask(&requests, usize::MAX, usize::MAX));
    }
}
