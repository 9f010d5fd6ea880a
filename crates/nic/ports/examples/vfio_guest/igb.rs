//! Looks at the igb driver on two 82576s, as QEMU has them.

use driver::igb::Igb;
use memory::TxOffload;
use port::{Filters as _, Options, Port as _, Rss};

use super::frames::{self, Sums};
use super::{Bench, STRANGERS, bytes, everywhere, filters, passes, say};

pub fn features(names: &[String]) {
    everywhere::<Igb>(names);
    stops(names);
    vlans(names);
    modes(filters(names));
    flows(names);
}

fn stops(names: &[String]) {
    let mut bench = Bench::<Igb>::new(names, &Options::default());
    bench.sides[1].port.stop().unwrap();
    bench.send(0, &frames::payload(60), TxOffload::default());
    say("stopped", bench.none(1), ());
    bench.sides[1].port.start().unwrap();
    say("started again", bench.one(&frames::payload(60), TxOffload::default()).is_some(), ());
}

fn vlans(names: &[String]) {
    let frame = frames::udp4(&frames::payload(100), Sums::Full);
    let mut bench = Bench::<Igb>::new(names, &Options { vlan_strip: true, ..Options::default() });
    let insert = TxOffload { flags: TxOffload::VLAN, vlan: 0x2042, l2_len: 14, ..TxOffload::default() };
    let came = bench.one(&frame, insert).unwrap();
    say("tag inserted and stripped", came.vlan() == Some(0x2042) && bytes(&came) == frame, came.vlan());
    let came = bench.one(&frame, TxOffload::default()).unwrap();
    say("no tag, none told", came.vlan().is_none(), came.vlan());
    let port = &mut bench.sides[1].port;
    port.set_vlan_filter(true).unwrap();
    bench.send(0, &frame, insert);
    say("VLAN filtered", bench.none(1), ());
    bench.sides[1].port.set_vlan(0x42, true).unwrap();
    say("VLAN let through", bench.one(&frame, insert).is_some(), ());
    drop(bench);
    let mut bench = Bench::<Igb>::new(names, &Options::default());
    let came = bench.one(&frame, insert).unwrap();
    say("tag stays where nobody strips it", bytes(&came) == frames::tagged(&frame, 0x2042), bytes(&came));
}

fn modes(mut bench: Bench<Igb>) {
    let [other, group] = STRANGERS;
    bench.sides[1].port.set_all_multicast(true).unwrap();
    say("all multicast", passes(&mut bench, group) && !passes(&mut bench, other), ());
    bench.sides[1].port.set_promiscuous(true).unwrap();
    say("promiscuous", passes(&mut bench, other), ());
}

fn flows(names: &[String]) {
    let queues = 8;
    let mut bench =
        Bench::<Igb>::new(names, &Options { rx_queues: queues, tx_queues: 2, ..Options::default() });
    let toeplitz = wire::toeplitz::Toeplitz::new(&Rss::KEY);
    let (mut seen, mut wrong) = ([0; 8], Vec::new());
    for port in 0..64u16 {
        let mut frame = frames::udp4(&frames::payload(40), Sums::Full);
        frame[34..36].copy_from_slice(&(1_000 + port * 7).to_be_bytes());
        bench.send(0, &frame, TxOffload::default());
        let came = bench.recv(1, 1);
        let expected = toeplitz.hash(&frame[26..38]);
        let Some((queue, packet)) = came.first() else { continue };
        seen[*queue] += 1;
        if packet.hash() != Some(expected) || *queue != (expected & 127) as usize % queues {
            wrong.push((*queue, packet.hash(), expected));
        }
    }
    say("flows spread, hash and queue right", wrong.is_empty() && seen.iter().all(|n| *n > 0), (seen, wrong));
    // A queue that goes leaves its flows to the others.
    bench.sides[1].rx.truncate(4);
    let mut came = 0;
    for port in 0..64u16 {
        let mut frame = frames::udp4(&frames::payload(40), Sums::Full);
        frame[34..36].copy_from_slice(&(1_000 + port * 7).to_be_bytes());
        bench.send(0, &frame, TxOffload::default());
        came += bench.recv(1, 1).len();
    }
    say("flows of queues that went", came == 64, came);
}
