//! Virtual functions whose driver means harm, against our host and our model: whatever they send, write
//! or leave out, the host answers within its bounds, counts what it refuses, and another virtual function
//! works on. The hostile driver is a mailbox by hand.

use crate::common::frames::tagged;
use crate::common::limit::{Limit, until};
use crate::common::mailbox::Raw;
use crate::common::vf::{Card, options, receive, send, to};
use driver::i40e::host::{Policy, VF_QUEUES};
use memory::TxOffload;
use port::Port as _;
use regs::i40e::admin::{Descriptor, flag, opcode};
use regs::i40e::reset_state;
use regs::iavf::*;
use regs::virtchnl::message::{
    Addresses, Classes, Promiscuous, QueuePair, Queues, Rss, Select, Vector, Vectors, Vlans,
};
use regs::virtchnl::{op, status};

/// Configurations of queues that a function of this VSI must not have.
fn bad_queues(vsi: u16) -> [Vec<u8>; 11] {
    let pair = QueuePair {
        tx_len: 64,
        tx_ring: 1 << 20,
        rx_len: 64,
        rx_ring: 1 << 20,
        rx_buffer: 2048,
        rx_max: 1526,
        ..QueuePair::default()
    };
    let queues = |vsi: u16, pairs: Vec<QueuePair>| Queues { vsi, pairs }.encode();
    [
        queues(vsi + 1, vec![pair]),
        queues(0, vec![pair]),
        queues(vsi, vec![QueuePair { queue: VF_QUEUES as u16, ..pair }]),
        queues(vsi, vec![QueuePair { queue: u16::MAX, ..pair }]),
        queues(vsi, vec![pair; 9]),
        queues(vsi, vec![QueuePair { rx_len: 8192, ..pair }]),
        queues(vsi, vec![QueuePair { tx_len: 33, ..pair }]),
        queues(vsi, vec![QueuePair { rx_ring: 1, ..pair }]),
        queues(vsi, vec![QueuePair { tx_ring: 0, ..pair }]),
        queues(vsi, vec![QueuePair { rx_buffer: 0, ..pair }]),
        queues(vsi, vec![QueuePair { rx_max: 20_000, ..pair }]),
    ]
}

/// Messages with addresses, VLANs, modes and tables that a function of this VSI must not have, and
/// what each is answered.
fn bad_tables(vsi: u16) -> [(u32, Vec<u8>, i32); 9] {
    let addresses = |addresses: Vec<[u8; 6]>| Addresses { vsi, addresses }.encode();
    let many = (0..200u8).map(|n| [2, 7, 7, 7, 7, n]).collect();
    [
        (op::ADD_ETH_ADDR, addresses(vec![[0; 6]]), status::ERR_PARAM),
        (op::ADD_ETH_ADDR, addresses(vec![[0xFF; 6]]), status::ERR_PARAM),
        (op::ADD_ETH_ADDR, addresses(many), status::ERR_NO_MEMORY),
        (op::ADD_VLAN, Vlans { vsi, vlans: vec![4096] }.encode(), status::ERR_PARAM),
        (op::ADD_VLAN, Vlans { vsi, vlans: (1..100).collect() }.encode(), status::ERR_NO_MEMORY),
        (op::CONFIG_PROMISCUOUS_MODE, Promiscuous { vsi, modes: 0xFFFF }.encode(), status::ERR_PARAM),
        (op::CONFIG_RSS_LUT, Rss { vsi, bytes: vec![9; 64] }.encode(), status::ERR_PARAM),
        (op::CONFIG_RSS_KEY, Rss { vsi, bytes: vec![9; 400] }.encode(), status::ERR_PARAM),
        (op::SET_RSS_HENA, Classes(u64::MAX).encode(), status::ERR_PARAM),
    ]
}

#[test]
fn messages_that_make_no_sense_are_refused_by_name_and_counted() {
    let mut card = Card::open(&[Policy::default(); 2]);
    let mut honest = card.open_vf(1, &options());
    let mut raw = Raw::open(&card.vfs[0], &card.dma);
    // Before it knows what it has.
    assert_eq!(raw.ask(op::GET_STATS, &Select { vsi: 1, rx: 0, tx: 0 }.encode()).0, status::ERR_PARAM);
    let vsi = raw.resources().vsi;
    let mut refused = 1;
    let mut is = |raw: &mut Raw, kind: u32, bytes: &[u8], wanted: i32| {
        assert_eq!(raw.ask(kind, bytes).0, wanted, "{} {}", regs::virtchnl::name(kind), bytes.len());
        refused += u64::from(wanted != status::SUCCESS);
    };
    for kind in [0, 4, 5, 16, op::EVENT, 20, 29, 30, 99, u32::MAX] {
        is(&mut raw, kind, &[1, 2, 3, 4], status::ERR_NOT_SUPPORTED);
    }
    for (kind, _) in op::TABLE {
        // Of some kinds any length is good.
        let any = [op::RESET_VF, op::EVENT, op::GET_RSS_HENA_CAPS];
        let strips = [op::ENABLE_VLAN_STRIPPING, op::DISABLE_VLAN_STRIPPING];
        if any.contains(kind) || strips.contains(kind) {
            continue;
        }
        for len in [1, 7, 4096] {
            is(&mut raw, *kind, &vec![0xFF; len], status::ERR_OPCODE_MISMATCH);
        }
    }
    for bad in bad_queues(vsi) {
        is(&mut raw, op::CONFIG_VSI_QUEUES, &bad, status::ERR_PARAM);
    }
    let vector = Vector { vector: 1, rx: 1, tx: 1, rx_itr: 0, tx_itr: 0 };
    for bad in
        [Vector { vector: 5, ..vector }, Vector { rx: 1 << 4, ..vector }, Vector { tx: 1 << 15, ..vector }]
    {
        is(&mut raw, op::CONFIG_IRQ_MAP, &Vectors { vsi, vectors: vec![bad] }.encode(), status::ERR_PARAM);
    }
    for (rx, tx) in [(1, 0), (0, 1), (u32::MAX, u32::MAX), (0, 0)] {
        is(&mut raw, op::ENABLE_QUEUES, &Select { vsi, rx, tx }.encode(), status::ERR_PARAM);
    }
    for (kind, bytes, wanted) in bad_tables(vsi) {
        is(&mut raw, kind, &bytes, wanted);
    }
    is(&mut raw, op::CONFIG_PROMISCUOUS_MODE, &Promiscuous { vsi, modes: 3 }.encode(), status::SUCCESS);
    let counters = card.host(|host| host.counters(0));
    assert_eq!((counters.refused, counters.not_trusted, counters.unsent), (refused, 1, 0));
    card.works_on(&mut honest);
    drop(raw);
    let messages = ["MessageUnknown", "MessageLengthInvalid", "MessageTooEarly", "MessageArgumentInvalid"];
    let rings = ["RingBaseInvalid", "RingBaseUnaligned", "RingLengthInvalid", "RssQueueInvalid"];
    let sizes = ["BufferSizeInvalid", "RxMaxInvalid"];
    card.finish(vec![honest], &[&messages[..], &rings, &sizes].concat());
}

#[test]
fn rings_outside_of_its_memory_do_not_start_and_nothing_else_is_touched() {
    let mut card = Card::open(&[Policy::default(); 2]);
    let mut honest = card.open_vf(1, &options());
    let mut raw = Raw::open(&card.vfs[0], &card.dma);
    let vsi = raw.resources().vsi;
    // It has descriptors where nothing is mapped: the queues run on nothing.
    let far = 0x7000_0000_0000;
    let pair = QueuePair {
        tx_len: 64,
        tx_ring: far,
        tx_head: Some(far + 4096),
        rx_len: 64,
        rx_ring: far,
        rx_buffer: 2048,
        rx_max: 1526,
        ..QueuePair::default()
    };
    assert_eq!(
        raw.ask(op::CONFIG_VSI_QUEUES, &Queues { vsi, pairs: vec![pair] }.encode()).0,
        status::SUCCESS
    );
    let select = Select { vsi, rx: 1, tx: 1 }.encode();
    let (status, _) = raw.ask(op::ENABLE_QUEUES, &select);
    assert!([status::SUCCESS, status::ERR_ADMIN_QUEUE_ERROR].contains(&status), "{status}");
    raw.bar.write32(QTX_TAIL1::at(0), 63);
    raw.bar.write32(QRX_TAIL1::at(0), 63);
    raw.bar.write32(QTX_TAIL1::at(1), u32::MAX);
    // What runs is not configured anew.
    let queues = Queues { vsi, pairs: vec![pair] }.encode();
    assert_eq!(raw.ask(op::CONFIG_VSI_QUEUES, &queues).0, status::ERR_PARAM);
    card.works_on(&mut honest);
    assert_eq!(raw.ask(op::DISABLE_QUEUES, &select).0, status::SUCCESS);
    drop(raw);
    let findings = ["RingUnmapped", "TailOutOfRange", "TxTailBeforeEnable"];
    card.finish(vec![honest], &findings);
}

#[test]
fn a_mailbox_that_floods_or_takes_nothing_is_bounded() {
    let mut card = Card::open(&[Policy::default(); 2]);
    let mut honest = card.open_vf(1, &options());
    let mut raw = Raw::open(&card.vfs[0], &card.dma);
    let vsi = raw.resources().vsi;
    let select = Select { vsi, rx: 0, tx: 0 }.encode();
    // Without a buffer for answers: they wait in the device up to its bound, and are lost then.
    raw.bar.write32(VF_ARQLEN1::AT, 0);
    let (mut sent, mut limit) = (0, Limit::time("messages to be taken"));
    while sent < 64 {
        limit.check();
        sent += usize::from(raw.tell(op::GET_STATS, &select) == 0);
    }
    until("all to be answered or lost", || {
        card.host(|host| host.counters(0).messages + host.lost()) >= 2 + sent as u64
    });
    let (counters, lost) = card.host(|host| (host.counters(0), host.lost() as usize));
    assert!(counters.unsent as usize + 16 + lost >= sent, "{counters:?} {sent}");
    card.works_on(&mut honest);
    // Rings and buffers that are not there, commands that are none.
    let bad =
        Descriptor { flags: flag::BUF | flag::RD, datalen: 64, ..Descriptor::new(opcode::SEND_MSG_TO_PF) };
    assert_ne!(raw.command(&bad), 0, "its buffer is at zero");
    assert_ne!(raw.command(&Descriptor::new(opcode::UPDATE_VSI)), 0, "that is no command of its own");
    raw.bar.write32(VF_ATQT1::AT, 4000);
    raw.bar.write32(VF_ATQBAH1::AT, 0x7FFF);
    raw.ring_doorbell();
    until("the firmware to stop the queue", || raw.bar.read32(VF_ATQLEN1::AT) & VF_ATQLEN1::CRIT != 0);
    card.works_on(&mut honest);
    // A reset makes it good again.
    drop(raw);
    card.host(|host| host.reset(0)).unwrap();
    let mut raw = Raw::open(&card.vfs[0], &card.dma);
    assert_eq!(raw.resources().vsi, vsi);
    drop(raw);
    let rules = ["AdminBufferUnmapped", "AdminUnknownCommand", "AdminTailOutOfRange", "AdminRingUnmapped"];
    card.finish(vec![honest], &rules);
}

#[test]
fn what_was_sent_before_a_reset_is_not_done_after_it() {
    let mut card = Card::open(&[Policy::default(); 2]);
    let mut honest = card.open_vf(1, &options());
    let mut raw = Raw::open(&card.vfs[0], &card.dma);
    raw.resources();
    // Nobody answers meanwhile: messages wait with the host, in its queue for events, and in the device.
    let resets = card.host(|host| {
        let before = host.counters(0).resets;
        // More than the device keeps.
        let (mut taken, mut limit) = (0, Limit::time("messages to be taken"));
        while taken < 24 {
            limit.check();
            taken += usize::from(raw.tell(op::RESET_VF, &[]) == 0);
        }
        host.reset(0).unwrap();
        while raw.bar.read32(VFGEN_RSTAT::AT) != reset_state::ACTIVE {
            limit.check();
            host.poll().unwrap();
        }
        (0..100).for_each(|_| _ = host.poll().unwrap());
        host.counters(0).resets - before
    });
    assert_eq!(resets, 1);
    card.works_on(&mut honest);
    drop(raw);
    card.finish(vec![honest], &[]);
}

#[test]
fn tags_of_anothers_vlan_are_not_sent() {
    let mut card = Card::open(&[Policy::default(), Policy { vlan: Some(77), ..Policy::default() }]);
    let mut plain = card.open_vf(0, &options());
    let mut hidden = card.open_vf(1, &options());
    let frame = to(hidden.device.mac(), plain.device.mac(), b"foreign tag");
    send(&mut plain.tx[0], &mut card.pool, &tagged(&frame, 77), TxOffload::default());
    // The frame behind it comes through the wire's other end: all before it have been dealt with.
    card.works_on(&mut plain);
    assert!(receive(&mut hidden.rx, &mut card.pool).is_empty());
    assert_eq!(plain.device.stats().lost(port::Reason::TxSpoofed), 1);
    card.finish(vec![plain, hidden], &[]);
}

#[test]
fn a_driver_that_cannot_know_of_a_reset_yet_is_not_blamed() {
    let card = Card::open(&[Policy::default()]);
    let raw = Raw::open(&card.vfs[0], &card.dma);
    let findings = || card.handles[2].report().findings;
    card.host(|host| host.reset(0)).unwrap();
    raw.bar.write32(VF_ARQT1::AT, 1);
    assert!(findings().is_empty(), "{:#?}", findings());
    assert_eq!(raw.bar.read32(VF_ARQLEN1::AT), 0, "it is told of the reset");
    raw.bar.write32(VF_ARQT1::AT, 2);
    assert_eq!(findings().len(), 1, "{:#?}", findings());
    drop(raw);
    card.finish(vec![], &["AdminQueueOff"]);
}
