//! Servers of DHCP and routers that mean harm, and the host that leases its addresses from them.
#![no_main]

use fuzz::leases::{Act, Host};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let acts: Vec<Act> = fuzz::acts(input, 24).take(24).collect();
    Host::default().run(&acts);
});
