//! Our driver of the 82599's virtual functions on our model of them, behind our driver of the 82599 as
//! their host, on our model: bring-up, frames between them and the wire, spreading, filters, VLANs,
//! spoofed senders, resets, interrupts, and what the host refuses.

use crate::common::frames::{self, Sums, payload, tagged};
use crate::common::ixgbe_vf::{Card, VfSide, models};
use crate::common::limit::until;
use crate::common::vf::{expect, options, receive, send, to};
use driver::ixgbe::host::{Host, Policy};
use driver::ixgbevf::{Ixgbevf, VfFault};
use memory::{Dma, TxOffload};
use port::{Filters as _, Options, Port as _, RxQueue as _};
use testbed::inprocess::while_stepping;
use testbed::ixgbe;

const NONE: fn() -> TxOffload = TxOffload::default;

#[test]
fn frames_go_between_virtual_functions_and_the_wire() {
    let mut card = Card::open(&[Policy::default(); 2]);
    let mut a = card.open_vf(0, &options());
    let mut b = card.open_vf(1, &options());
    let (mac_a, mac_b, peer) = (a.device.mac(), b.device.mac(), ixgbe::mac(1));
    assert_eq!([Some(mac_a), Some(mac_b)], [0, 1].map(|n| card.host(|host| host.mac(n))));
    assert_eq!(a.device.link(), port::Link::up(10_000));

    // From one to the other: it does not leave the port.
    let frame = to(mac_b, mac_a, b"a to b");
    send(&mut a.tx[0], &mut card.pool, &frame, NONE());
    assert_eq!(expect(&mut b.rx, &mut card.pool, 1), [(0, frame)]);
    // To the wire and back; the one before did not go there.
    card.works_on(&mut b);
    let frame = to(mac_b, peer, b"wire to b");
    card.give(&frame);
    assert_eq!(expect(&mut b.rx, &mut card.pool, 1), [(0, frame)]);
    // What is for nobody here comes to nobody: the frame behind it is the next.
    card.give(&to([2, 0xEE, 0, 0, 0, 9], peer, b"another's"));
    let frame = to([0xFF; 6], peer, b"to all");
    card.give(&frame);
    for vf in [&mut a, &mut b] {
        assert_eq!(expect(&mut vf.rx, &mut card.pool, 1), [(0, frame.clone())]);
    }
    // A broadcast of one comes to the other, and to the wire, and not back.
    let frame = to([0xFF; 6], mac_a, b"to all");
    send(&mut a.tx[0], &mut card.pool, &frame, NONE());
    assert_eq!(expect(&mut b.rx, &mut card.pool, 1), [(0, frame.clone())]);
    let (side, pool) = card.peer();
    assert_eq!(expect(&mut side.rx, pool, 1), [(0, frame)]);
    assert!(receive(&mut a.rx, &mut card.pool).is_empty(), "it does not come back");

    until("counters", || a.device.stats().tx_packets == 2);
    until("counters", || b.device.stats().rx_packets == 4);
    card.finish(vec![a, b], &[]);
}

#[test]
fn flows_are_spread_by_the_ports_key_over_the_queues_that_the_driver_names() {
    let rss = port::Rss { key: std::array::from_fn(|n| (7 * n + 3) as u8), ..Default::default() };
    let mut card = Card::with(&[Policy::default()], Options { rss, ..Options::default() });
    for queues in [4, 2, 1] {
        let mut vf = card.open_vf(0, &Options { rx_queues: queues, tx_queues: queues, ..options() });
        let flows = vf.device.flows().expect("it spreads flows");
        let (mac, mut used) = (vf.device.mac(), vec![0; queues]);
        for n in 0..64u8 {
            let mut frame = frames::udp4(&payload(64), Sums::Full);
            frame[..6].copy_from_slice(&mac);
            (frame[29], frame[35]) = (n, n ^ 0x55); // address and port
            card.give(&frame);
            let ports = Some([[frame[34], frame[35]], [frame[36], frame[37]]]);
            let hash = flows.hash(&frame[26..30], &frame[30..34], ports);
            let [(queue, _)] = expect(&mut vf.rx, &mut card.pool, 1)[..] else { panic!("one frame") };
            assert_eq!(queue, flows.queue(hash), "{n} of {queues}");
            used[queue] += 1;
        }
        assert!(used.iter().all(|count| *count > 5), "{used:?}");
        // Each transmit queue sends.
        for (n, queue) in vf.tx.iter_mut().enumerate() {
            send(queue, &mut card.pool, &to(ixgbe::mac(1), mac, &[n as u8]), NONE());
        }
        let (side, pool) = card.peer();
        expect(&mut side.rx, pool, queues);
    }
    for (rx_queues, what) in [(3, "NotOffered"), (5, "Option")] {
        let asked = Options { rx_queues, ..options() };
        let error = Ixgbevf::open(card.vfs[0].clone(), &card.dma, asked).err().unwrap();
        assert!(format!("{error:?}").contains(what), "{error:?}");
    }
    card.finish(Vec::new(), &[]);
}

#[test]
fn addresses_and_vlans_are_asked_for_and_go_again() {
    let mut card = Card::open(&[Policy::default()]);
    let mut vf = card.open_vf(0, &Options { vlan_strip: true, ..options() });
    let peer = ixgbe::mac(1);
    let (more, group) = ([2, 0, 0x5E, 0, 0, 7], [1, 0, 0x5E, 1, 2, 3]);
    let end = to([0xFF; 6], peer, b"the last");
    let comes = |card: &mut Card, vf: &mut VfSide, frame: &[u8], wanted: bool| {
        card.give(frame);
        card.give(&end);
        let got = expect(&mut vf.rx, &mut card.pool, 1 + usize::from(wanted));
        assert_eq!(got.last().map(|(_, frame)| frame), Some(&end));
    };
    for wanted in [false, true, false] {
        if wanted {
            vf.device.add_mac(more).unwrap();
            vf.device.add_mac(group).unwrap();
            vf.device.set_vlan(7, true).unwrap();
        }
        for mac in [more, group] {
            comes(&mut card, &mut vf, &to(mac, peer, b"more"), wanted);
        }
        let frame = tagged(&to(vf.device.mac(), peer, b"tagged"), 7);
        comes(&mut card, &mut vf, &frame, wanted);
        if wanted {
            assert!(vf.device.remove_mac(more).unwrap() && vf.device.remove_mac(group).unwrap());
            vf.device.set_vlan(7, false).unwrap();
        }
    }
    // One without trust has few addresses, and none of another's.
    let error = (0..8u8).find_map(|n| vf.device.add_mac([2, 0, 0x5E, 0, 1, n]).err()).unwrap();
    assert!(error.to_string().contains("refused SET_MACVLAN"), "{error}");
    assert!(vf.device.set_promiscuous(true).unwrap_err().to_string().contains("UPDATE_XCAST_MODE"));
    let error = vf.device.set_all_multicast(true).unwrap_err();
    assert!(error.to_string().contains("trust it"), "{error}");
    assert_eq!(card.host(|host| host.counters(0).not_trusted), 1, "it is told so, and does not have it");
    comes(&mut card, &mut vf, &to(group, peer, b"group"), false);
    // Opened in a mode that is refused, it has others; who asks for it again is refused again.
    drop(vf);
    let mut vf = card.open_vf(0, &Options { promiscuous: true, ..options() });
    vf.device.set_promiscuous(false).unwrap();
    assert!(vf.device.set_promiscuous(true).is_err());
    card.finish(vec![vf], &[]);
}

#[test]
fn an_address_of_others_is_for_one_with_trust_alone() {
    let mut card = Card::open(&[Policy::default(), Policy { trust: true, ..Policy::default() }]);
    let mut open = [0, 1].map(|n| card.open_vf(n, &options()));
    let others = [ixgbe::mac(0), open[0].device.mac(), open[1].device.mac()];
    assert!(open[0].device.add_mac(others[0]).is_err(), "the port's");
    assert!(open[0].device.add_mac(others[2]).is_err(), "another's");
    open[1].device.add_mac(others[0]).unwrap();
    open[1].device.add_mac(others[1]).unwrap();
    let frame = to(others[1], ixgbe::mac(1), b"to both, as a bond has it");
    card.give(&frame);
    for vf in &mut open {
        assert_eq!(expect(&mut vf.rx, &mut card.pool, 1), [(0, frame.clone())]);
    }
    card.finish(open.into(), &[]);
}

#[test]
fn one_that_poses_as_another_sends_nothing() {
    let mut card = Card::open(&[Policy::default(), Policy { vlan: Some(77), ..Policy::default() }]);
    let mut a = card.open_vf(0, &options());
    let mut b = card.open_vf(1, &options());
    let (mac_a, mac_b, peer) = (a.device.mac(), b.device.mac(), ixgbe::mac(1));
    // A foreign address, and a VLAN that it does not have, in which the other thinks itself alone.
    send(&mut a.tx[0], &mut card.pool, &to(peer, mac_b, b"as b"), NONE());
    send(&mut a.tx[0], &mut card.pool, &tagged(&to(mac_b, mac_a, b"into 77"), 77), NONE());
    card.works_on(&mut a);
    until("the counts", || card.handles[0].report().drops.get("tx_spoofed") == Some(&2));
    // What has a VLAN of its own gets it outside, and is received from it alone.
    let frame = to(peer, mac_b, b"tagged by the port");
    send(&mut b.tx[0], &mut card.pool, &frame, NONE());
    let (side, pool) = card.peer();
    assert_eq!(expect(&mut side.rx, pool, 1), [(0, tagged(&frame, 77))]);
    card.give(&to(mac_b, peer, b"untagged"));
    let inside = to(mac_b, peer, b"inside");
    card.give(&tagged(&inside, 77));
    assert_eq!(expect(&mut b.rx, &mut card.pool, 1), [(0, inside)], "the tag is nothing to it");
    assert!(b.device.set_vlan(78, true).is_err());
    // A tag that is a priority alone is as none.
    let priority = |frame: &[u8]| tagged(frame, 5 << 13);
    send(&mut a.tx[0], &mut card.pool, &priority(&to(peer, mac_a, b"first")), NONE());
    let (side, pool) = card.peer();
    assert_eq!(expect(&mut side.rx, pool, 1), [(0, priority(&to(peer, mac_a, b"first")))]);
    let frame = priority(&to(mac_a, peer, b"first"));
    card.give(&frame);
    assert_eq!(expect(&mut a.rx, &mut card.pool, 1), [(0, frame)]);
    card.finish(vec![a, b], &[]);
}

#[test]
fn a_vlan_that_a_policy_gives_has_a_place_whatever_the_others_ask_for() {
    let given = Policy { vlan: Some(77), ..Policy::default() };
    let others = [Policy::default(); 4];
    let mut card = Card::open(&[&[given], &others[..]].concat());
    let mut open: Vec<VfSide> = (1..5).map(|n| card.open_vf(n, &options())).collect();
    let all: Vec<(usize, u16)> =
        (0..4).flat_map(|n| (0..16).map(move |id| (n, 100 * n as u16 + id + 1))).collect();
    let joined = all.iter().filter(|(n, vlan)| open[*n].device.set_vlan(*vlan, true).is_ok()).count();
    assert_eq!(joined, 62, "the table has one place less for them");
    for _ in 0..2 {
        let mut vf = card.open_vf(0, &options());
        let before = card.host(|host| host.counters(0).resets);
        let inside = to(vf.device.mac(), ixgbe::mac(1), b"inside");
        card.give(&tagged(&inside, 77));
        assert_eq!(expect(&mut vf.rx, &mut card.pool, 1), [(0, inside)]);
        drop(vf);
        // Its place is not free while nobody drives it.
        until("the reset", || card.host(|host| host.counters(0).resets) > before);
        assert!(open[3].device.set_vlan(316, true).is_err());
    }
    open.clear();
    card.finish(Vec::new(), &[]);
}

#[test]
fn a_reset_by_the_host_is_told_and_the_port_opens_again() {
    let mut card = Card::open(&[Policy::default(); 2]);
    let mut a = card.open_vf(0, &options());
    let mut b = card.open_vf(1, &options());
    card.works_on(&mut a);
    card.host(|host| host.reset(0)).unwrap();
    until("the reset to be told", || a.device.health().is_err());
    let error = a.device.health().unwrap_err();
    assert!(error.to_string().contains("has reset this one"), "{error}");
    assert_eq!(a.device.link(), port::Link::DOWN);
    assert!(a.device.add_mac([2, 0, 0, 0, 0, 1]).is_err());
    // Its opening was one, too.
    assert_eq!([0, 1].map(|n| card.host(|host| host.counters(n).resets)), [2, 1]);
    // Nothing of it goes on: the frame of the other is the next.
    send(&mut a.tx[0], &mut card.pool, &to(ixgbe::mac(1), a.device.mac(), b"too late"), NONE());
    card.works_on(&mut b);
    drop(a);
    let mut a = card.open_vf(0, &options());
    card.works_on(&mut a);
    assert_eq!(card.host(|host| host.counters(1).refused), 0);
    card.finish(vec![a, b], &[]);
}

#[test]
fn without_a_host_or_a_virtual_function_the_error_says_so() {
    let (pcis, handles) = models(1);
    let dma = Dma::new(Default::default());
    while_stepping(&handles, || {
        let error = Ixgbevf::open(pcis[2].clone(), &dma, options()).err().unwrap();
        let driver::Error::Vf(VfFault::NoHost { register: "VFMAILBOX", .. }) = error else {
            panic!("{error}")
        };
        assert!(error.to_string().contains("Linux's ixgbe"), "{error}");
        let few =
            Host::open(pcis[0].clone(), &dma, Options::default(), &[Policy::default(); 2]).err().unwrap();
        assert!(few.to_string().contains("has 1 virtual functions, and 2 are asked for"), "{few}");
        let none = Host::open(pcis[1].clone(), &dma, Options::default(), &[Policy::default()]).err().unwrap();
        assert!(none.to_string().contains("has 0 virtual functions"), "{none}");
    })
    .unwrap();
}

#[test]
fn a_host_that_goes_is_told_and_one_that_does_not_answer_is_named() {
    let mut card = Card::open(&[Policy::default()]);
    let mut vf = card.open_vf(0, &options());
    card.works_on(&mut vf);
    // The host's thread stands still: nobody answers.
    let (host, vlan) = (card.polling.as_ref().unwrap().host.clone(), 5);
    let stopped = host.lock().unwrap();
    let error = vf.device.set_vlan(vlan, true).unwrap_err();
    assert!(error.to_string().contains("did not answer SET_VLAN"), "{error}");
    // Its answer comes, and is taken for no other's.
    drop(stopped);
    assert!(vf.device.set_vlan(vlan, true).unwrap_err().to_string().contains("did not answer"));
    drop(vf);
    let vf = card.open_vf(0, &options());
    drop(host);
    card.polling = None;
    until("the reset to be told", || vf.device.health().is_err());
    card.finish(vec![vf], &[]);
}

#[test]
fn a_frame_wakes_a_virtual_function_that_sleeps() {
    let mut card = Card::open(&[Policy::default()]);
    let mut vf = card.open_vf(0, &Options { interrupts: true, ..options() });
    let mac = vf.device.mac();
    let woken = |vf: &mut VfSide| {
        let event = vf.rx[0].arm().expect("opened with interrupts");
        let mut polled = [rustix::event::PollFd::new(&event, rustix::event::PollFlags::IN)];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut polled, Some(&now)).unwrap() > 0
    };
    for n in 0..3u8 {
        assert!(!woken(&mut vf));
        let frame = to(mac, ixgbe::mac(1), &[n]);
        card.give(&frame);
        until("the queue's interrupt", || woken(&mut vf));
        vf.rx[0].disarm();
        assert_eq!(expect(&mut vf.rx, &mut card.pool, 1), [(0, frame)]);
    }
    card.finish(vec![vf], &[]);
}
