//! The configurations of the demo's endpoints, as a user would write them.

use overlay::{Payload, Protocol};

use super::Demo;

/// One of the demo's two endpoints.
#[derive(Clone, Copy)]
pub enum Side {
    A,
    B,
}

/// The Ethernet addresses of the hosts behind A and B.
const HOSTS: [&str; 2] = ["02:00:00:00:0a:01", "02:00:00:00:0b:01"];

/// `overlay.toml` of an endpoint.
pub fn config(demo: &Demo, model: &str, side: Side) -> String {
    let (here, there) = match side {
        Side::A => (0, 1),
        Side::B => (1, 0),
    };
    let addresses = match demo.ipv6 || demo.protocol == "srv6" {
        true => ["2001:db8::1", "2001:db8::2"],
        false => ["192.0.2.1", "192.0.2.2"],
    };
    let len = if addresses[0].contains(':') { 64 } else { 24 };
    let carries_frames = Protocol::named(&demo.protocol)
        .is_some_and(|protocol| protocol.payloads.contains(&Payload::Ethernet));
    // Frames go by their destination; packets are routed, so that the host sends its frames
    // to the port's own address, which is where a generator sends them.
    let (to, entry, edge) = match carries_frames {
        true => (format!(",dst={}", HOSTS[there]), format!("key = \"{}\"\n", HOSTS[there]), String::new()),
        false => (String::new(), String::new(), format!("peer = \"{}\"\n", HOSTS[here])),
    };
    let wire = format!("gen:size={},rate={},flows={}{to},hold+sink:check", demo.size, demo.rate, demo.flows);
    let (table, offload) = match demo.is_offloaded() {
        true => (",encap-offload=1", "offload = \"nic\"\n"),
        false => ("", ""),
    };
    format!(
        "[[underlay]]\n\
         name = \"fabric\"\n\
         port = \"model:{model}{table},wire=pair\"\n\
         {offload}\
         addresses = [\"{}/{len}\"]\n\
         mtu = 1600\n\n\
         [[network]]\n\
         number = 100\n\
         protocol = \"{}\"\n\
         inner = \"model:{model},wire={wire}\"\n\
         {edge}\n\
         [[network.entry]]\n\
         {entry}remote = \"{}\"\n",
        addresses[here], demo.protocol, addresses[there]
    )
}
