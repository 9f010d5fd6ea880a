//! Requests of all kinds, and any bytes, however they are cut.

use proptest::prelude::*;
use service::Protocol as _;
use service::memcached::Limits;

use super::client::Client;

/// Requests of all kinds, with values that look like requests.
fn request() -> impl Strategy<Value = Vec<u8>> {
    let key = prop::sample::select(vec!["a", "b", "key3", "d"]);
    let value = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        Just(b"get a\r\nEND\r\n".to_vec()),
        Just(b"17".to_vec()),
        Just(vec![b'x'; 3000]),
    ];
    let store = prop::sample::select(vec!["set", "add", "replace", "append", "prepend"]);
    let line = prop::sample::select(vec![
        "get a b key3",
        "gets a a a",
        "gat 5 a b",
        "incr a 3",
        "decr b 9",
        "delete key3",
        "touch a 9",
        "version",
        "nonsense",
        "",
        "verbosity 1",
        "flush_all",
        "get",
        "set a 0 0",
        "delete a noreply",
    ]);
    prop_oneof![
        (store, key, 0..9_u32, value).prop_map(|(store, key, flags, value)| {
            let head = format!("{store} {key} {flags} 0 {}\r\n", value.len());
            [head.as_bytes(), &value, b"\r\n"].concat()
        }),
        line.prop_map(|line| format!("{line}\r\n").into_bytes()),
    ]
}

proptest! {
    #[test]
    fn answers_are_the_same_wherever_requests_are_cut(
        requests in prop::collection::vec(request(), 1..20),
        piece in 1..200_usize,
        room in 1..3000_usize,
    ) {
        let all = requests.concat();
        let whole = Client::new().ask_in(&all, usize::MAX, usize::MAX);
        prop_assert_eq!(&Client::new().ask_in(&all, 1, usize::MAX), &whole);
        prop_assert_eq!(&Client::new().ask_in(&all, piece, room), &whole);
        let one_by_one: Vec<u8> = {
            let mut client = Client::new();
            requests.iter().flat_map(|request| client.ask_in(request, usize::MAX, room)).collect()
        };
        prop_assert_eq!(&one_by_one, &whole);
    }

    #[test]
    fn any_bytes_are_answered_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..500), piece in 1..50_usize) {
        let mut client = Client::with(Limits { memory: 50_000, value: 1000, threads: 1 });
        client.ask_in(&bytes, piece, 100);
        prop_assert!(client.server.held(&client.session) <= 4096);
    }
}
