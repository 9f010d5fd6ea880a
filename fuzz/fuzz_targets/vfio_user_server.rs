//! A client that says anything: the server answers, refuses or hangs up, and
//! keeps what it promises to the device behind it.
#![no_main]

use bus::vfio_user::server::feed;
use fuzz::client::Message;
use fuzz::served::Device;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let mut bytes = Vec::new();
    fuzz::acts(input, 48).for_each(|message: Message| message.encode(&mut bytes));
    let mut device = Device::default();
    feed(&mut device, &bytes);
    device.check();
});
