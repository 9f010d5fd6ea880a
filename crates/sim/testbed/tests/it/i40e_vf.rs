//! Our driver of virtual functions on our model of them, behind our XL710 driver as their host, on our
//! model: bring-up, frames between them, the physical function and the wire, spreading, filters, VLANs,
//! resets, interrupts, the link, and what the host refuses.

use std::net::Ipv4Addr;
use std::thread;

use crate::common::contents;
use crate::common::frames::{self, Sums, payload, tagged};
use crate::common::limit::{Limit, until};
use crate::common::vf::{Card, VfSide, expect, options, receive, send, to};
use driver::i40e::host::{Host, Policy};
use driver::iavf::{Iavf, VfFault};
use memory::TxOffload;
use port::{Filters as _, Flow, FlowTarget, Options, Port as _, Reason, RxQueue as _, Transport};
use regs::i40e::reset_state;
use regs::iavf::VFGEN_RSTAT;
use testbed::ixgbe;
use wire::ip::Addresses;

/// A station on the wire, of which nobody here knows.
const OTHER: [u8; 6] = [2, 0xEE, 0, 0, 0, 9];

#[test]
pub fn frames_go_between_virtual_functions_the_port_and_the_wire() {
    let mut card = Card::open(&[Policy::default(); 2]);
    let mut a = card.open_vf(0, &options());
    let mut b = card.open_vf(1, &options());
    let (mac_a, mac_b) = (a.device.mac(), b.device.mac());
    assert_eq!([Some(mac_a), Some(mac_b)], [0, 1].map(|n| card.host(|host| host.mac(n))));
    let (pf, peer) = (ixgbe::mac(0), ixgbe::mac(1));
    let none = TxOffload::default();

    // From one to the other: it does not leave the card.
    let frame = to(mac_b, mac_a, b"a to b");
    send(&mut a.tx[0], &mut card.pool, &frame, none);
    assert_eq!(expect(&mut b.rx, &mut card.pool, 1), [(0, frame)]);
    // To the port and back.
    let frame = to(pf, mac_a, b"a to pf");
    send(&mut a.tx[0], &mut card.pool, &frame, none);
    let (side, pool) = card.pf();
    assert_eq!(expect(&mut side.rx, pool, 1), [(0, frame)]);
    let frame = to(mac_a, pf, b"pf to a");
    send(&mut side.tx[0], pool, &frame, none);
    assert_eq!(expect(&mut a.rx, &mut card.pool, 1), [(0, frame)]);
    // To the wire and back. That the frames before did not go there is seen by this one's being alone.
    let frame = to(peer, mac_b, b"b to wire");
    send(&mut b.tx[0], &mut card.pool, &frame, none);
    let (side, pool) = card.peer();
    assert_eq!(expect(&mut side.rx, pool, 1), [(0, frame)]);
    let frame = to(mac_b, peer, b"wire to b");
    send(&mut side.tx[0], pool, &frame, none);
    assert_eq!(expect(&mut b.rx, &mut card.pool, 1), [(0, frame)]);
    // A broadcast of one comes to all others, and to the wire.
    let frame = to([0xFF; 6], mac_a, b"to all");
    send(&mut a.tx[0], &mut card.pool, &frame, none);
    assert_eq!(expect(&mut b.rx, &mut card.pool, 1), [(0, frame.clone())]);
    let (side, pool) = card.pf();
    assert_eq!(expect(&mut side.rx, pool, 1), [(0, frame.clone())]);
    let (side, pool) = card.peer();
    assert_eq!(expect(&mut side.rx, pool, 1), [(0, frame)]);
    assert!(receive(&mut a.rx, &mut card.pool).is_empty(), "it does not come back");

    let stats = a.device.stats();
    assert_eq!((stats.rx_packets, stats.tx_packets), (1, 3));
    assert_eq!((stats.counter("BPTC"), stats.counter("UPRC")), (1, 1));
    assert!(a.device.link().up && a.device.link() == card.pf().0.device.link());
    card.finish(vec![a, b], &[]);
}

#[test]
fn a_virtual_function_receives_without_a_start() {
    let mut card = Card::open(&[Policy::default()]);
    let mut vf = card.open_vf(0, &Options { rx_queues: 2, deferred_start: true, ..options() });
    card.works_on(&mut vf);
    vf.device.start().unwrap();
    card.works_on(&mut vf);
    card.finish(vec![vf], &[]);
}

/// Its host can only say that frames were dropped, not why: they count as without a descriptor.
#[test]
pub fn frames_that_are_too_long_for_a_virtual_function_are_counted() {
    let mut card = Card::open(&[Policy::default(); 2]);
    let mut a = card.open_vf(0, &Options { max_frame: 4000, ..options() });
    let mut b = card.open_vf(1, &options());
    let (mac_a, mac_b) = (a.device.mac(), b.device.mac());
    let [long, short] = [2000, 100].map(|len| to(mac_b, mac_a, &payload(len)));
    for frame in [&long, &short] {
        send(&mut a.tx[0], &mut card.pool, frame, TxOffload::default());
    }
    assert_eq!(expect(&mut b.rx, &mut card.pool, 1), [(0, short)]);
    let stats = b.device.stats();
    assert_eq!((stats.lost(Reason::RxNoDescriptor), stats.rx_packets), (1, 1), "{stats:?}");
    assert_eq!(a.device.stats().losses().count(), 0);
    card.finish(vec![a, b], &[]);
}

/// Both hang on one bridge, and have queues of the function's beside each other's.
#[test]
pub fn a_port_that_hosts_leads_flows_too() {
    let mut card = Card::open(&[Policy::default()]);
    let mut vf = card.open_vf(0, &Options { tx_queues: 4, rx_queues: 4, ..options() });
    let [src, dst] = [1, 2].map(|n| Ipv4Addr::new(10, 0, 0, n));
    let flow = Flow { addresses: Addresses::V4 { src, dst }, transport: Transport::Udp { src: 1, dst: 2 } };
    card.pf().0.device.add_flow(&flow, FlowTarget::Drop).unwrap();
    let (mac, peer, none) = (vf.device.mac(), ixgbe::mac(1), TxOffload::default());
    for (n, queue) in vf.tx.iter_mut().enumerate() {
        send(queue, &mut card.pool, &to(peer, mac, &[n as u8]), none);
    }
    let (side, pool) = card.peer();
    expect(&mut side.rx, pool, 4);
    let frame = to(mac, ixgbe::mac(0), b"pf to vf");
    let (side, pool) = card.pf();
    send(&mut side.tx[0], pool, &frame, none);
    assert_eq!(expect(&mut vf.rx, &mut card.pool, 1), [(0, frame)]);
    assert!(card.pf().0.device.remove_flow(&flow).unwrap());
    card.finish(vec![vf], &[]);
}

#[test]
pub fn flows_are_spread_over_the_queues_that_the_port_names() {
    let mut card = Card::open(&[Policy::default()]);
    let mut vf = card.open_vf(0, &Options { rx_queues: 4, tx_queues: 4, ..options() });
    let flows = vf.device.flows().expect("it spreads flows");
    let (mac, none) = (vf.device.mac(), TxOffload::default());
    let mut used = [0; 4];
    for n in 0..64u8 {
        let mut frame = frames::udp4(&payload(64), Sums::Full);
        frame[..6].copy_from_slice(&mac);
        (frame[29], frame[35]) = (n, n ^ 0x55); // address and port
        let (side, pool) = card.peer();
        send(&mut side.tx[0], pool, &frame, none);
        let ports = Some([[frame[34], frame[35]], [frame[36], frame[37]]]);
        let hash = flows.hash(&frame[26..30], &frame[30..34], ports);
        let [(queue, _)] = expect(&mut vf.rx, &mut card.pool, 1)[..] else { panic!("one frame") };
        assert_eq!(queue, flows.queue(hash), "{n}");
        used[queue] += 1;
    }
    assert!(used.iter().all(|count| *count > 5), "{used:?}");
    // Each transmit queue sends.
    let (other, pool) = (ixgbe::mac(1), &mut card.pool);
    for (n, queue) in vf.tx.iter_mut().enumerate() {
        send(queue, pool, &to(other, mac, &[n as u8]), none);
    }
    let (side, pool) = card.peer();
    expect(&mut side.rx, pool, 4);
    // Opened again with one queue, all flows come to that: nothing of the table before stays.
    drop(vf);
    let mut vf = card.open_vf(0, &options());
    for n in 0..64u8 {
        let mut frame = frames::udp4(&payload(64), Sums::Full);
        frame[..6].copy_from_slice(&mac);
        (frame[29], frame[35]) = (n, n ^ 0x55);
        let (side, pool) = card.peer();
        send(&mut side.tx[0], pool, &frame, none);
        expect(&mut vf.rx, &mut card.pool, 1);
    }
    card.finish(vec![vf], &[]);
}

#[test]
pub fn what_is_sent_from_a_foreign_address_is_dropped_and_counted() {
    let honest = Policy::default();
    let mut card = Card::open(&[honest, Policy { spoof_check: false, ..honest }]);
    let mut checked = card.open_vf(0, &options());
    let mut free = card.open_vf(1, &options());
    let (peer, none) = (ixgbe::mac(1), TxOffload::default());
    let (bad, good) = (to(peer, OTHER, b"foreign"), to(peer, checked.device.mac(), b"own"));
    send(&mut checked.tx[0], &mut card.pool, &bad, none);
    send(&mut checked.tx[0], &mut card.pool, &good, none);
    let (side, pool) = card.peer();
    assert_eq!(expect(&mut side.rx, pool, 1), [(0, good)], "the foreign one before it is lost");
    send(&mut free.tx[0], &mut card.pool, &bad, none);
    let (side, pool) = card.peer();
    assert_eq!(expect(&mut side.rx, pool, 1), [(0, bad)], "nobody checks this one");
    let lost = |vf: &mut VfSide| vf.device.stats().lost(port::Reason::TxSpoofed);
    assert_eq!((lost(&mut checked), lost(&mut free)), (1, 0));
    assert_eq!(card.handles[0].report().drops["tx_spoofed"], 1);
    card.finish(vec![checked, free], &[]);
}

#[test]
pub fn filters_and_modes_are_those_that_the_policy_lets_have() {
    let mac = [2, 0x11, 0, 0, 0, 1];
    let trusted = Policy { trust: true, ..Policy::default() };
    let mut card = Card::open(&[Policy { mac: Some(mac), ..Policy::default() }, trusted]);
    let mut plain = card.open_vf(0, &Options { promiscuous: true, ..options() });
    let mut free = card.open_vf(1, &options());
    assert_eq!(plain.device.mac(), mac);
    let (group, none) = ([1, 0, 0x5E, 0, 0, 7], TxOffload::default());
    // Without trust: groups, no other address, and no promiscuous mode whatever it was told.
    plain.device.add_mac(group).unwrap();
    let refused = plain.device.add_mac(OTHER).unwrap_err();
    assert!(refused.to_string().contains("ADD_ETH_ADDR (10): ERR_PARAM"), "{refused}");
    free.device.add_mac(OTHER).unwrap();
    for (destination, is_plain) in [(OTHER, false), (group, true)] {
        let frame = to(destination, ixgbe::mac(1), b"filtered");
        let (side, pool) = card.peer();
        send(&mut side.tx[0], pool, &frame, none);
        let vf = if is_plain { &mut plain } else { &mut free };
        assert_eq!(expect(&mut vf.rx, &mut card.pool, 1), [(0, frame)]);
        let other = if is_plain { &mut free } else { &mut plain };
        assert!(receive(&mut other.rx, &mut card.pool).is_empty());
    }
    assert!(free.device.remove_mac(OTHER).unwrap());
    free.device.set_promiscuous(true).unwrap();
    let frame = to([2, 9, 9, 9, 9, 9], ixgbe::mac(1), b"anybody's");
    let (side, pool) = card.peer();
    send(&mut side.tx[0], pool, &frame, none);
    assert_eq!(expect(&mut free.rx, &mut card.pool, 1), [(0, frame)]);
    assert!(receive(&mut plain.rx, &mut card.pool).is_empty());
    assert_eq!(card.host(|host| host.counters(0).not_trusted), 1);
    card.finish(vec![plain, free], &[]);
}

#[test]
pub fn vlans_are_chosen_stripped_or_hidden() {
    let none = TxOffload::default();
    let mut card = Card::open(&[Policy::default(), Policy { vlan: Some(77), ..Policy::default() }]);
    let mut own = card.open_vf(0, &Options { vlan_filter: true, vlan_strip: true, ..options() });
    let mut hidden = card.open_vf(1, &options());
    own.device.set_vlan(5, true).unwrap();
    let frame = to(own.device.mac(), ixgbe::mac(1), b"tagged");
    for bytes in [tagged(&frame, 6), tagged(&frame, 5)] {
        let (side, pool) = card.peer();
        send(&mut side.tx[0], pool, &bytes, none);
    }
    let mut limit = Limit::time("the frame of VLAN 5");
    let mut got = Vec::new();
    while got.is_empty() {
        limit.check();
        got = receive(&mut own.rx, &mut card.pool);
        thread::yield_now();
    }
    let told: Vec<_> = got.iter().map(|(_, packet)| (contents(packet), packet.vlan())).collect();
    assert_eq!(told, [(frame, Some(5))], "without its tag, and no other");
    drop(got);

    // The tag of a VLAN that the host gave is outside only.
    let frame = to(ixgbe::mac(1), hidden.device.mac(), b"hidden");
    send(&mut hidden.tx[0], &mut card.pool, &frame, none);
    let (side, pool) = card.peer();
    assert_eq!(expect(&mut side.rx, pool, 1), [(0, tagged(&frame, 77))]);
    let frame = to(hidden.device.mac(), ixgbe::mac(1), b"hidden");
    send(&mut side.tx[0], pool, &frame, none);
    send(&mut side.tx[0], pool, &tagged(&frame, 77), none);
    assert_eq!(expect(&mut hidden.rx, &mut card.pool, 1), [(0, frame)]);
    drop(hidden);
    let refused = Iavf::open(card.vfs[1].clone(), &card.dma, Options { vlan_strip: true, ..options() });
    let refused = refused.err().expect("it has no tags").to_string();
    assert!(refused.contains("does not offer stripping"), "{refused}");
    card.finish(vec![own], &[]);
}

#[test]
pub fn a_reset_by_the_host_is_told_and_the_port_opens_again() {
    let mut card = Card::open(&[Policy::default(); 2]);
    let mut vf = card.open_vf(0, &options());
    let mut other = card.open_vf(1, &options());
    let (mac, peer, none) = (vf.device.mac(), ixgbe::mac(1), TxOffload::default());
    for round in 0..3u8 {
        // Frames are under way in both directions.
        for n in 0..32 {
            send(&mut vf.tx[0], &mut card.pool, &to(peer, mac, &[round, n]), none);
            let (side, pool) = card.peer();
            send(&mut side.tx[0], pool, &to(mac, peer, &[round, n]), none);
        }
        assert!(vf.device.health().is_ok());
        card.host(|host| host.reset(0)).unwrap();
        let health = vf.device.health().unwrap_err().to_string();
        assert!(health.contains("has reset this one: open the port again"), "{health}");
        assert!(!vf.device.link().up);
        let error = vf.device.add_mac([1, 0, 0x5E, 0, 0, 1]).unwrap_err().to_string();
        assert!(error.contains("has reset this one"), "{error}");
        drop(vf);
        vf = card.open_vf(0, &options());
        let (side, pool) = card.peer();
        receive(&mut side.rx, pool);
        let frame = to(mac, peer, b"after the reset");
        send(&mut side.tx[0], pool, &frame, none);
        let got = expect(&mut vf.rx, &mut card.pool, 1);
        assert_eq!(got, [(0, frame)], "nothing of before comes");
        // The other has noticed nothing.
        assert!(other.device.health().is_ok());
        send(&mut other.tx[0], &mut card.pool, &to(mac, other.device.mac(), b"still here"), none);
        expect(&mut vf.rx, &mut card.pool, 1);
    }
    // Each opening and closing is a reset, too.
    assert!(card.host(|host| host.counters(0).resets) >= 3 + 4);
    other.rx.clear();
    card.finish(vec![vf, other], &[]);
}

#[test]
pub fn a_queue_wakes_who_sleeps_on_it() {
    let mut card = Card::open(&[Policy::default()]);
    let options = Options { interrupts: true, rx_queues: 2, tx_queues: 2, ..options() };
    let mut vf = card.open_vf(0, &options);
    let mac = vf.device.mac();
    let woken = |vf: &mut VfSide| {
        let event = vf.rx[0].arm().expect("opened with interrupts");
        let mut polled = [rustix::event::PollFd::new(&event, rustix::event::PollFlags::IN)];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut polled, Some(&now)).unwrap() > 0
    };
    assert!(!woken(&mut vf));
    let (side, pool) = card.peer();
    // Not IP: it comes to the first queue.
    send(&mut side.tx[0], pool, &to(mac, ixgbe::mac(1), b"wake up"), TxOffload::default());
    until("the queue's interrupt", || woken(&mut vf));
    vf.rx[0].disarm();
    expect(&mut vf.rx, &mut card.pool, 1);
    card.finish(vec![vf], &[]);
}

#[test]
pub fn a_function_that_nobody_hosts_or_that_has_too_little_is_an_error() {
    let mut card = Card::open(&[Policy::default()]);
    let open = |card: &Card, options: &Options| {
        Iavf::open(card.vfs[0].clone(), &card.dma, options.clone()).err().expect("it does not open")
    };
    let error = open(&card, &Options { rx_queues: 5, tx_queues: 1, ..options() });
    let driver::Error::Vf(VfFault::FewQueues { has: 4, wanted: 5, .. }) = error else { panic!("{error}") };
    let few = Host::new(&card.peer().0.device, &[Policy::default()]).err().expect("it has none");
    assert!(few.to_string().contains("the device has 0 virtual functions, and 1 are asked for"), "{few}");
    // A host that does not answer: it is there, and nobody polls it.
    // The reset at the end of the opening before must be over.
    let (bar, mut limit) = (card.vfs[0].bar(0).unwrap(), Limit::time("the reset to be over"));
    let host = loop {
        limit.check();
        let host = card.polling.as_ref().unwrap().host.lock().unwrap();
        if bar.read32(VFGEN_RSTAT::AT) == reset_state::ACTIVE {
            break host;
        }
    };
    let error = open(&card, &options());
    let driver::Error::Vf(VfFault::NoAnswer { message: "VERSION", .. }) = error else { panic!("{error}") };
    drop(host);
    card.polling = None;
    let error = open(&card, &options());
    let driver::Error::Vf(VfFault::NoHost { state: 0, .. }) = error else { panic!("{error}") };
    card.finish(Vec::new(), &[]);
}

#[test]
pub fn the_link_is_the_ports() {
    let mut card = Card::on(["fault:flap=300ms/200ms+pair", "pair"], &[Policy::default()]);
    let vf = card.open_vf(0, &options());
    for _ in 0..2 {
        until("the link to go", || !vf.device.link().up);
        until("the link to come", || vf.device.link() == port::Link::up(40_000));
    }
    assert!(vf.device.health().is_ok());
    card.finish(vec![vf], &[]);
}
