//! What virtual functions of one card share: the host's time and the card's table of filters. Whatever
//! one asks for, the others are answered and have what they were promised.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::between::{Between, in_front_of};
use crate::common::limit::{Limit, until};
use crate::common::mailbox::Raw;
use crate::common::vf::{Card, options};
use bus::Pci;
use driver::i40e::MOST_QUEUES;
use driver::i40e::host::{Host, Policy, VF_QUEUES};
use memory::Region;
use port::{Filters as _, Options};
use regs::i40e::{PF_ARQH, QTX_ENA, reset_state};
use regs::iavf::VFGEN_RSTAT;
use regs::virtchnl::message::{Addresses, QueuePair, Queues, Select, Vlans};
use regs::virtchnl::{op, status};

/// Descriptors of the host's ring of events.
const EVENTS: u32 = 32;

/// Transmit queues of virtual function 0 do not tell that they run while this is on.
#[derive(Debug, Default)]
struct Unstarted(AtomicBool);

impl Between for Unstarted {
    fn read_bar(&self, inner: &Pci, index: usize, offset: u32, data: &mut [u8]) -> bus::Result<()> {
        inner.read_bar(index, offset, data)?;
        // Behind the port's own, and the one that programs filters.
        let is_queue = (0..VF_QUEUES).any(|n| offset == QTX_ENA::at(MOST_QUEUES + 1 + n));
        if index == 0 && is_queue && self.0.load(Ordering::Relaxed) {
            data[0] &= !(QTX_ENA::QENA_STAT as u8);
        }
        Ok(())
    }
}

/// Two virtual functions, whose mailboxes are moved by hand, and what starts the queues of the first.
struct Scene {
    card: Card,
    unstarted: Arc<Unstarted>,
    raws: [Raw; 2],
    _rings: Region,
    start: Vec<u8>,
    stats: [Vec<u8>; 2],
}

impl Scene {
    fn new() -> Scene {
        let unstarted = Arc::new(Unstarted::default());
        let front = unstarted.clone();
        let card = Card::with(["pair"; 2], &[Policy::default(); 2], 0, |pci| in_front_of(pci, front));
        let mut raws = [0, 1].map(|n| Raw::open(&card.vfs[n], &card.dma));
        let vsis = raws.each_mut().map(|raw| raw.resources().vsi);
        let rings = card.dma.alloc(8192).unwrap();
        let pair = QueuePair {
            tx_len: 64,
            tx_ring: rings.iova(0),
            rx_len: 64,
            rx_ring: rings.iova(4096),
            rx_buffer: 2048,
            rx_max: 1526,
            ..QueuePair::default()
        };
        let queues = Queues { vsi: vsis[0], pairs: vec![pair] }.encode();
        assert_eq!(raws[0].ask(op::CONFIG_VSI_QUEUES, &queues).0, status::SUCCESS);
        let start = Select { vsi: vsis[0], rx: 1, tx: 1 }.encode();
        let stats = vsis.map(|vsi| Select { vsi, rx: 0, tx: 0 }.encode());
        unstarted.0.store(true, Ordering::Relaxed);
        Scene { card, unstarted, raws, _rings: rings, start, stats }
    }

    /// Has the host look once at these messages, by whom they are from, which have all come to its ring
    /// before.
    fn look_at(&mut self, messages: &[(usize, u32)], look: impl FnOnce(&mut Host, &mut [Raw; 2])) {
        let Scene { card, raws, start, stats, .. } = self;
        let ring = card.pcis[0].bar(0).unwrap();
        card.host(|host| {
            let head = ring.read32(PF_ARQH::AT);
            let mut limit = Limit::time("messages to be taken");
            for &(from, kind) in messages {
                let bytes = if kind == op::ENABLE_QUEUES { &*start } else { &stats[from] };
                while raws[from].tell(kind, bytes) != 0 {
                    limit.check();
                }
            }
            let all = (head + messages.len() as u32) % EVENTS;
            until("messages to come to the ring", || ring.read32(PF_ARQH::AT) == all);
            host.poll().unwrap();
            look(host, raws);
        });
    }
}

/// Messages that were answered.
fn answered(host: &Host) -> [u64; 2] {
    [0, 1].map(|n| host.counters(n).messages)
}

#[test]
fn queues_that_do_not_start_hold_up_no_other_virtual_function() {
    let mut scene = Scene::new();
    let before = scene.card.host(|host| answered(host));
    let mut messages = vec![(0, op::ENABLE_QUEUES)];
    messages.extend([(0, op::GET_STATS); 20]);
    messages.push((1, op::GET_STATS));
    scene.look_at(&messages, |host, _| {
        assert_eq!(
            answered(host),
            [before[0], before[1] + 1],
            "the first's queues are waited for by it alone"
        );
        let lost = [0, 1].map(|n| host.counters(n).messages_lost);
        assert_eq!((lost, host.lost()), ([5, 0], 5), "16 of the 21 may wait");
    });
    // It is answered once they have had their time, and what waited behind is answered then.
    until("its answers", || scene.card.host(|host| answered(host)[0] == before[0] + 16));
    // The device writes answers after the host has counted them.
    let mut told = Vec::new();
    until("all answers to come", || {
        let come = std::iter::from_fn(|| scene.raws[0].event()).map(|(event, _)| event.cookie);
        told.extend(come.map(|cookie| (cookie as u32, (cookie >> 32) as i32)));
        told.len() >= 16
    });
    assert_eq!(told[0], (op::ENABLE_QUEUES, status::ERR_ADMIN_QUEUE_ERROR));
    assert_eq!(told[1..], [(op::GET_STATS, status::SUCCESS); 15]);
    scene.unstarted.0.store(false, Ordering::Relaxed);
    assert_eq!(scene.raws[0].ask(op::ENABLE_QUEUES, &scene.start).0, status::SUCCESS);
    let Scene { mut card, raws, _rings, .. } = scene;
    card.polling = None;
    drop(raws);
    card.finish(Vec::new(), &["AnswerNotAwaited"]);
}

#[test]
fn a_reset_does_not_wait_for_queues_that_do_not_start() {
    let mut scene = Scene::new();
    scene.look_at(&[(0, op::ENABLE_QUEUES), (0, op::GET_STATS)], |host, raws| {
        let before = host.counters(0);
        host.reset(0).unwrap();
        let mut limit = Limit::time("the reset");
        while raws[0].bar.read32(VFGEN_RSTAT::AT) != reset_state::ACTIVE {
            limit.check();
            host.poll().unwrap();
        }
        let counters = host.counters(0);
        assert_eq!((counters.messages, counters.refused), (before.messages, before.refused));
        assert_eq!(counters.discarded, 2, "what was asked for, and what waited behind it");
    });
    let Scene { mut card, raws, _rings, .. } = scene;
    card.polling = None;
    drop(raws);
    card.finish(Vec::new(), &["AnswerNotAwaited"]);
}

/// Takes up to so many addresses, and VLANs one after the other until there is no room; how many VLANs.
fn take_all(raw: &mut Raw, addresses: u8, most: u16) -> u16 {
    let vsi = raw.resources().vsi;
    let addresses = (0..addresses).map(|n| [1, 0, 0x5E, 0, 0, n]).collect();
    assert_eq!(raw.ask(op::ADD_ETH_ADDR, &Addresses { vsi, addresses }.encode()).0, status::SUCCESS);
    for n in 0..most {
        let vlans = Vlans { vsi, vlans: vec![n + 1] }.encode();
        match raw.ask(op::ADD_VLAN, &vlans).0 {
            status::SUCCESS => {}
            refused => {
                assert_eq!(refused, status::ERR_NO_MEMORY);
                return n;
            }
        }
    }
    most
}

#[test]
fn one_without_trust_has_16_vlans_beside_frames_without_a_tag() {
    let mut card = Card::open(&[Policy::default()]);
    let mut vf = card.open_vf(0, &Options { vlan_filter: true, ..options() });
    for vlan in 1..=16 {
        vf.device.set_vlan(vlan, true).unwrap_or_else(|error| panic!("{vlan}: {error}"));
    }
    let refused = vf.device.set_vlan(17, true).unwrap_err().to_string();
    assert!(refused.contains("ADD_VLAN (12): ERR_NO_MEMORY"), "{refused}");
    card.works_on(&mut vf);
    card.finish(vec![vf], &[]);
}

#[test]
fn one_with_trust_takes_no_filter_that_others_were_promised() {
    let trusted = Policy { trust: true, ..Policy::default() };
    let mut card = Card::open(&[trusted, Policy::default()]);
    let mut raws = [0, 1].map(|n| Raw::open(&card.vfs[n], &card.dma));
    // Of 1,536 filters 64 are the port's and 323 the other's: pairs of an address and a VLAN.
    assert_eq!(take_all(&mut raws[0], 127, 64), 1149 / 129 - 1);
    assert_eq!(take_all(&mut raws[1], 17, 16), 16, "18 addresses and 16 VLANs");
    let port = &mut card.pf().0.device;
    (0..62).for_each(|n| port.add_mac([2, 0xAA, 0, 0, 0, n]).unwrap());
    let full = port.add_mac([2, 0xAA, 0, 0, 1, 0]).unwrap_err();
    assert!(matches!(full, port::Error::TableFull { capacity: 64, .. }), "{full}");
    // Without a host it may have all.
    card.polling = None;
    drop(raws);
    card.pf().0.device.add_mac([2, 0xAA, 0, 0, 1, 0]).unwrap();
    card.finish(Vec::new(), &[]);
}

#[test]
fn virtual_functions_that_take_all_they_may_are_brought_up_again() {
    const VFS: usize = 5;
    let mut card = Card::open(&[Policy::default(); VFS]);
    let mut raws = [0, 1, 2, 3, 4].map(|n| Raw::open(&card.vfs[n], &card.dma));
    for raw in &mut raws {
        // A fifth of 1,472 filters, and 19 for each VLAN, broadcasts with them.
        assert_eq!(take_all(raw, 17, 16), 1472 / 5 / 19 - 1);
    }
    for (n, raw) in raws.iter().enumerate() {
        let resets = card.host(|host| host.reset(n).map(|()| host.counters(n).resets)).unwrap();
        until("it to be brought up", || raw.bar.read32(VFGEN_RSTAT::AT) == reset_state::ACTIVE);
        let counters = card.host(|host| host.counters(n));
        assert_eq!((counters.resets, counters.not_brought_up), (resets, 0), "at once, and not again");
    }
    card.polling = None;
    drop(raws);
    card.finish(Vec::new(), &[]);
}
