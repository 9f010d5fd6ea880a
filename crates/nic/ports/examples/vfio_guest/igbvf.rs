//! Looks at the igbvf driver on a virtual function of each of two 82576s, which Linux's igb hosts and
//! trusts, and gave the addresses of [`ADDRESSES`].

use driver::igbvf::Igbvf;
use memory::TxOffload;
use port::{Filters as _, Options, Port as _};

use super::frames::{self, Sums};
use super::{ADDRESSES, Bench, STRANGERS, bytes, everywhere, filters, say};

pub fn features(names: &[String]) {
    everywhere::<Igbvf>(names);
    vlans(names);
    modes(filters(names));
}

/// Frames come of VLANs that were chosen alone; the host has the tag taken out.
fn vlans(names: &[String]) {
    let mut bench = Bench::<Igbvf>::new(names, &Options::default());
    let frame = frames::udp4(&frames::payload(100), Sums::Full);
    let insert = TxOffload { flags: TxOffload::VLAN, vlan: 0x2042, l2_len: 14, ..TxOffload::default() };
    bench.send(0, &frame, insert);
    say("VLAN filtered", bench.none(1), ());
    bench.sides[1].port.set_vlan(0x42, true).unwrap();
    let came = bench.one(&frame, insert).map(|packet| (packet.vlan(), bytes(&packet) == frame));
    say("VLAN let through, its tag told", came == Some((Some(0x2042), true)), came);
    let came = bench.one(&frame, TxOffload::default()).map(|packet| packet.vlan());
    say("no tag, none told", came == Some(None), came);
    bench.sides[1].port.set_vlan(0x42, false).unwrap();
    bench.send(0, &frame, insert);
    say("VLAN filtered again", bench.none(1), ());
}

/// Linux's host gives all multicast frames, which QEMU's device does not do then, and refuses all
/// unicast ones.
fn modes(mut bench: Bench<Igbvf>) {
    let [_, group] = STRANGERS;
    let port = &mut bench.sides[1].port;
    say("address", port.mac() == ADDRESSES[1], port.mac());
    let given = port.set_all_multicast(true);
    say("all multicast is given", given.is_ok(), given);
    let refused = port.set_promiscuous(true).map_err(|error| error.to_string());
    let named = refused.as_ref().is_err_and(|error| error.contains("does not offer receiving frames"));
    say("all unicast is refused by name", named, refused);
    let given = port.set_all_multicast(false).and_then(|()| port.add_mac(group));
    say("no mode, and a group again", given.is_ok(), given);
}
