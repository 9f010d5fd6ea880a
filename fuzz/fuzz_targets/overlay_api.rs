//! Bytes of a client of the overlay's API: each is part of a request, or refused once; answers
//! are JSON, and the table is what is wanted after each.
#![no_main]

use control::Program;
use control::api::http::{self, Parsed};
use control::api::{Controlled, answer};
use libfuzzer_sys::fuzz_target;
use overlay::Overlay;
use serde_json::Value;

fuzz_target!(|bytes: &[u8]| {
    requests(bytes, true);
    requests(bytes, false);
});

fn requests(bytes: &[u8], is_tcp: bool) {
    let (mut program, mut overlay) = (Program::new(), Overlay::new());
    let mut rest = bytes;
    while let Parsed::Whole(request, length) = http::parse(rest, is_tcp) {
        assert!(length > 0 && request.body.len() < length, "a request has a head");
        let status = Value::Null;
        let on = &mut Controlled { program: &mut program, overlay: &mut overlay, now_ns: 0, status };
        let response = answer(&request, on);
        assert!(response.body.is_empty() == (response.status == 204 || response.status == 201));
        if !response.body.is_empty() {
            serde_json::from_str::<Value>(&response.body).expect("answers are JSON");
        }
        assert!(program.compare_table(&overlay).is_empty(), "what is refused leaves nothing");
        rest = &rest[length..];
    }
}
