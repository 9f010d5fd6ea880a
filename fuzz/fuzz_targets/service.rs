//! Bytes of a client of the cache and of the server of files: they are answered the same
//! wherever they are cut and however little room there is, what a session keeps is bounded,
//! and the cache is empty of what is gone. Bytes of a server to a load, likewise.
//!
//! The first byte chooses the protocol, the second how the bytes are cut, and the third how
//! much room there is. At a byte that is [`LATER`] some seconds pass.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use service::http::Files;
use service::load::{self, Came, Mix, Workload};
use service::memcached::Limits;
use service::{Buffer, Http, Memcached, Output, Protocol};

/// In front of this byte, which no text of the protocols has, time passes.
const LATER: u8 = 0xF7;
/// How much time that is, in nanoseconds: items expire, and flushes that wait are due.
const LATER_NS: i64 = 7_000_000_000;
/// Bytes that a session keeps at most: half a request and its answers' rest, or a line that asks for
/// keys, in memory that doubles.
const HELD: [usize; 2] = [16_384, 2 << 20];

fuzz_target!(|bytes: &[u8]| {
    let [kind, piece, room, rest @ ..] = bytes else { return };
    let (piece, room) = (usize::from(*piece).max(1), usize::from(*room).max(1));
    match kind % 4 {
        0 => same(|| memcached(64 << 20), rest, piece, room),
        // Items make room for others, for those as well whose value is never whole.
        1 => drop(served(&mut memcached(3000), rest, piece, room)),
        2 => same(http, rest, piece, room),
        _ => {
            reads(&mut load::Http::new("a", "/", None), &(), rest, piece);
            let mut keys = load::Memcached::new(Mix::Usr, 3, 0.5);
            let mut request = vec![];
            let expected = keys.request(0, &mut load::Random(room as u64), &mut request);
            reads(&mut keys, &expected, rest, piece);
        }
    }
});

fn memcached(memory: usize) -> Memcached {
    Memcached::servers(Limits { memory, value: 600, threads: 1 }, 1_700_000_000).pop().expect("a thread")
}

fn http() -> Http {
    Http::new(Arc::new(Files::fixed(vec![b'x'; 300], 1_700_000_000)), 1_700_000_000)
}

/// The answers to all bytes at once, and to pieces of them.
fn same<P: Protocol>(protocol: fn() -> P, bytes: &[u8], piece: usize, room: usize) {
    let whole = served(&mut protocol(), bytes, usize::MAX, usize::MAX);
    let pieces = served(&mut protocol(), bytes, piece, room);
    assert_eq!(String::from_utf8_lossy(&whole.0), String::from_utf8_lossy(&pieces.0));
    assert_eq!(whole.1, pieces.1);
}

/// What a client is answered; the next one is served.
fn served<P: Protocol>(server: &mut P, bytes: &[u8], piece: usize, room: usize) -> (Vec<u8>, bool) {
    let answered = answers(server, bytes, piece, room);
    let next = answers(server, b"flush_all\r\nset a 0 0 1\r\nx\r\nget a\r\n\r\n", usize::MAX, usize::MAX);
    let said = [b"OK\r\nSTORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n".as_slice(), b"HTTP/1.1 400"];
    assert!(said.iter().any(|said| next.0.starts_with(said)), "{:?}", String::from_utf8_lossy(&next.0));
    answered
}

/// What a client is answered, and whether its connection ends.
fn answers<P: Protocol>(server: &mut P, bytes: &[u8], piece: usize, room: usize) -> (Vec<u8>, bool) {
    let (mut session, mut output) = (P::Session::default(), Buffer::default());
    let mut ends = false;
    let asks_for_keys = bytes.windows(3).any(|three| matches!(three, b"get" | b"gat"));
    let pieces = bytes.chunk_by(|_, next| *next != LATER);
    for piece in pieces.flat_map(|part| part.chunks(piece)) {
        if piece.first() == Some(&LATER) {
            output.now_ns += LATER_NS;
        }
        let mut rest = piece;
        while !ends {
            output.room = room;
            let taken = server.take(&mut session, rest, &mut output);
            rest = &rest[taken.used..];
            ends = taken.ends;
            assert!(server.held(&session) <= HELD[usize::from(asks_for_keys)]);
            if rest.is_empty() && !server.is_answering(&session) && !output.is_full() {
                break;
            }
        }
    }
    server.forget(session);
    (output.bytes, ends)
}

/// Bytes of an answer are read the same at once and in pieces, and to their end.
fn reads<W: Workload>(workload: &mut W, expected: &W::Expected, bytes: &[u8], piece: usize) {
    let mut outcome = |piece: usize| {
        let (mut reader, mut came, mut all) = (W::Reader::default(), vec![], 0);
        for part in bytes.chunks(piece) {
            let mut rest = part;
            while !rest.is_empty() {
                let (used, what) = workload.answer(&mut reader, expected, rest);
                assert!(used > 0 || what == Came::Wrong, "it goes on");
                (rest, all) = (&rest[used..], all + used);
                match what {
                    Came::Part => assert!(rest.is_empty()),
                    Came::Wrong => return (came, true),
                    right => came.push((right, all)),
                }
            }
        }
        (came, false)
    };
    assert_eq!(outcome(usize::MAX), outcome(piece));
}
