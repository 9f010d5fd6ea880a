//! What our model says of a driver of virtual functions that breaks the rules of messages and resets:
//! each rule by hand, with a mailbox by hand, and nothing of what is beside it.

use std::collections::BTreeMap;

use crate::common::limit::until;
use crate::common::mailbox::Raw;
use crate::common::vf::Card;
use driver::i40e::host::Policy;
use memory::Region;
use regs::iavf::*;
use regs::virtchnl::message::{
    Addresses, Classes, Promiscuous, QueuePair, Queues, Resources, Rss, Select, Vector, Vectors, Version,
    Vlans,
};
use regs::virtchnl::{capability, op, status};

/// A card with one virtual function, whose mailbox is moved by hand.
struct Scene {
    card: Card,
    raw: Raw,
}

impl Scene {
    fn new(policy: Policy) -> Scene {
        let card = Card::open(&[policy]);
        let raw = Raw::open(&card.vfs[0], &card.dma);
        Scene { card, raw }
    }

    /// How often each rule was broken.
    fn broken(&self) -> BTreeMap<String, u64> {
        let findings = self.card.handles[2].report().findings;
        findings.into_iter().map(|finding| (finding.rule, finding.count)).collect()
    }

    /// Nothing but these rules was broken, once each.
    fn expect(&self, rules: &[&str]) {
        assert_eq!(self.broken(), rules.iter().map(|rule| ((*rule).to_owned(), 1)).collect());
    }

    /// Closes both functions; nothing but these rules was broken.
    fn finish(self, rules: &[&str]) {
        self.expect(rules);
        drop(self.raw);
        self.card.finish(Vec::new(), rules);
    }

    /// Two pairs of rings, and what tells of the first `count` of them.
    fn queues(&self, vsi: u16, count: u16) -> (Region, Vec<u8>) {
        // A whole chunk, which is unmapped as soon as it is dropped.
        let rings = self.card.dma.alloc(2 << 20).unwrap();
        let pair = |queue: u16| QueuePair {
            queue,
            tx_len: 64,
            tx_ring: rings.iova(8192 * usize::from(queue)),
            rx_len: 64,
            rx_ring: rings.iova(8192 * usize::from(queue) + 4096),
            rx_buffer: 2048,
            rx_max: 1526,
            ..QueuePair::default()
        };
        let pairs = (0..count).map(pair).collect();
        (rings, Queues { vsi, pairs }.encode())
    }

    /// Starts the first queues; their rings.
    fn start(&mut self, count: u16) -> (Region, Resources) {
        let has = self.raw.resources();
        let (rings, queues) = self.queues(has.vsi, count);
        assert_eq!(self.raw.ask(op::CONFIG_VSI_QUEUES, &queues).0, status::SUCCESS);
        let all = (1 << count) - 1;
        let select = Select { vsi: has.vsi, rx: all, tx: all }.encode();
        assert_eq!(self.raw.ask(op::ENABLE_QUEUES, &select).0, status::SUCCESS);
        (rings, has)
    }
}

#[test]
fn messages_of_no_kind_or_length_or_too_early() {
    let mut scene = Scene::new(Policy::default());
    scene.raw.ask(op::GET_VF_RESOURCES, &[0; 4]);
    scene.expect(&["MessageTooEarly"]);
    scene.raw.resources();
    scene.raw.ask(0, &[]);
    scene.expect(&["MessageTooEarly", "MessageUnknown"]);
    scene.raw.ask(op::GET_STATS, &[0; 4]);
    // Of kinds that are not known here nothing is said.
    scene.raw.ask(29, &[0; 4]);
    scene.finish(&["MessageTooEarly", "MessageUnknown", "MessageLengthInvalid"]);
}

#[test]
fn arguments_that_are_not_of_what_was_told() {
    let mut scene = Scene::new(Policy::default());
    let Resources { vsi, queues, vectors, .. } = scene.raw.resources();
    let other = vsi + 1;
    let vector = Vector { vector: 1, rx: 1, tx: 0, rx_itr: 0, tx_itr: 0 };
    let map = |one: Vector| Vectors { vsi, vectors: vec![one] }.encode();
    let bad = [
        (op::VERSION, Version { major: 2, minor: 0 }.encode()),
        (op::GET_STATS, Select { vsi: other, rx: 0, tx: 0 }.encode()),
        (op::DISABLE_QUEUES, Select { vsi, rx: 0, tx: 0 }.encode()),
        (op::DISABLE_QUEUES, Select { vsi, rx: 1 << queues, tx: 0 }.encode()),
        (op::CONFIG_IRQ_MAP, map(Vector { vector: vectors, ..vector })),
        (op::CONFIG_IRQ_MAP, map(Vector { rx: 1 << queues, ..vector })),
        (op::CONFIG_IRQ_MAP, map(Vector { rx_itr: 4, ..vector })),
        (op::ADD_ETH_ADDR, Addresses { vsi, addresses: vec![[0; 6]] }.encode()),
        (op::DEL_ETH_ADDR, Addresses { vsi, addresses: vec![[0xFF; 6]] }.encode()),
        (op::ADD_VLAN, Vlans { vsi, vlans: vec![1, 4096] }.encode()),
        (op::CONFIG_PROMISCUOUS_MODE, Promiscuous { vsi, modes: 4 }.encode()),
        (op::CONFIG_RSS_KEY, Rss { vsi, bytes: vec![1; 40] }.encode()),
        (op::CONFIG_RSS_LUT, Rss { vsi, bytes: vec![0; 128] }.encode()),
        (op::SET_RSS_HENA, Classes(1).encode()),
    ];
    for (count, (kind, bytes)) in (1..).zip(bad) {
        scene.raw.ask(kind, &bytes);
        let broken = BTreeMap::from([("MessageArgumentInvalid".to_owned(), count)]);
        assert_eq!(scene.broken(), broken, "{} {bytes:?}", regs::virtchnl::name(kind));
    }
    let good = [
        (op::GET_STATS, Select { vsi, rx: 0, tx: 0 }.encode()),
        (op::CONFIG_IRQ_MAP, map(Vector { rx: 0, vector: 0, rx_itr: 3, ..vector })),
        (op::ADD_ETH_ADDR, Addresses { vsi, addresses: vec![[1, 0, 0x5E, 0, 0, 1]] }.encode()),
        (op::ADD_VLAN, Vlans { vsi, vlans: vec![0, 4095] }.encode()),
        (op::CONFIG_RSS_LUT, Rss { vsi, bytes: vec![3; 64] }.encode()),
    ];
    for (kind, bytes) in good {
        assert_eq!(scene.raw.ask(kind, &bytes).0, status::SUCCESS, "{}", regs::virtchnl::name(kind));
    }
    scene.raw.ask(op::CONFIG_RSS_LUT, &Rss { vsi, bytes: vec![4; 64] }.encode());
    let rules = ["MessageArgumentInvalid", "RssQueueInvalid"];
    assert_eq!(scene.broken().keys().collect::<Vec<_>>(), rules);
    drop(scene.raw);
    scene.card.finish(Vec::new(), &rules);
}

#[test]
fn rings_that_no_queue_can_have() {
    let mut scene = Scene::new(Policy::default());
    let vsi = scene.raw.resources().vsi;
    let good = QueuePair { rx_len: 64, rx_ring: 4096, rx_buffer: 2048, rx_max: 1526, ..QueuePair::default() };
    let bad = [
        ("RingBaseInvalid", QueuePair { rx_ring: 0, ..good }),
        ("RingBaseUnaligned", QueuePair { rx_ring: 4096 + 64, ..good }),
        ("RingLengthInvalid", QueuePair { rx_len: 8192, ..good }),
        ("BufferSizeInvalid", QueuePair { rx_buffer: 16, ..good }),
        ("RxMaxInvalid", QueuePair { rx_max: 0, ..good }),
    ];
    let mut rules = Vec::new();
    for (rule, pair) in bad {
        scene.raw.ask(op::CONFIG_VSI_QUEUES, &Queues { vsi, pairs: vec![pair] }.encode());
        rules.push(rule);
        scene.expect(&rules);
    }
    scene.finish(&rules);
}

#[test]
fn what_was_not_offered() {
    let mut scene = Scene::new(Policy { vlan: Some(7), ..Policy::default() });
    assert_eq!(scene.raw.resources().capabilities & capability::VLAN, 0);
    scene.raw.ask(op::DISABLE_VLAN_STRIPPING, &[]);
    scene.finish(&["MessageNotOffered"]);
}

#[test]
fn queues_that_are_started_before_they_are_known_and_used_before_they_run() {
    let mut scene = Scene::new(Policy::default());
    let vsi = scene.raw.resources().vsi;
    scene.raw.ask(op::ENABLE_QUEUES, &Select { vsi, rx: 1, tx: 1 }.encode());
    scene.expect(&["MessageTooEarly"]);
    // A few packets may go before the answer, as Linux's driver lets them.
    scene.raw.bar.write32(QTX_TAIL1::at(1), 31);
    scene.raw.ask(op::GET_STATS, &Select { vsi, rx: 0, tx: 0 }.encode());
    scene.expect(&["MessageTooEarly"]);
    scene.raw.bar.write32(QTX_TAIL1::at(1), 40);
    until("the device to look", || scene.broken().contains_key("TxTailBeforeEnable"));
    scene.finish(&["MessageTooEarly", "TxTailBeforeEnable"]);
}

#[test]
fn answers_about_queues_that_are_not_awaited() {
    let mut scene = Scene::new(Policy::default());
    let vsi = scene.raw.resources().vsi;
    let (rings, queues) = scene.queues(vsi, 1);
    let Scene { card, raw } = &mut scene;
    // Nobody answers meanwhile.
    card.host(|_| {
        raw.tell(op::CONFIG_VSI_QUEUES, &queues);
        raw.tell(op::GET_STATS, &Select { vsi, rx: 0, tx: 0 }.encode());
        raw.tell(op::GET_STATS, &Select { vsi, rx: 0, tx: 0 }.encode());
    });
    scene.expect(&["AnswerNotAwaited"]);
    drop(rings);
    scene.finish(&["AnswerNotAwaited"]);
}

#[test]
fn an_interface_that_is_taken_down_does_not_wait_until_its_queues_run() {
    let mut scene = Scene::new(Policy::default());
    let vsi = scene.raw.resources().vsi;
    let (rings, queues) = scene.queues(vsi, 1);
    let one = Select { vsi, rx: 1, tx: 1 }.encode();
    scene.raw.ask(op::CONFIG_VSI_QUEUES, &queues);
    let Scene { card, raw } = &mut scene;
    // Nobody answers meanwhile.
    card.host(|_| {
        raw.tell(op::ENABLE_QUEUES, &one);
        raw.tell(op::DISABLE_QUEUES, &one);
    });
    until("the queues to have stopped", || {
        raw.event().is_some_and(|(event, _)| event.cookie as u32 == op::DISABLE_QUEUES)
    });
    drop(rings);
    scene.finish(&[]);
}

#[test]
fn rings_that_go_before_their_queues_have_stopped() {
    for awaited in [false, true] {
        let mut scene = Scene::new(Policy::default());
        let (rings, Resources { vsi, .. }) = scene.start(2);
        let select = Select { vsi, rx: 3, tx: 3 }.encode();
        let rules = if awaited { &[][..] } else { &["DisableNotAwaited"] };
        if awaited {
            assert_eq!(scene.raw.ask(op::DISABLE_QUEUES, &select).0, status::SUCCESS);
            drop(rings);
        } else {
            let Scene { card, raw } = &mut scene;
            card.host(|_| {
                raw.tell(op::DISABLE_QUEUES, &select);
                drop(rings);
                let seen = || card.handles[2].report().findings.iter().map(|found| found.count).sum::<u64>();
                until("the device to look", || seen() == 4);
            });
        }
        assert_eq!(scene.broken().keys().collect::<Vec<_>>(), rules, "awaited: {awaited}");
        drop(scene.raw);
        scene.card.finish(Vec::new(), rules);
    }
}

#[test]
fn vectors_without_a_queue() {
    let mut scene = Scene::new(Policy::default());
    let on = VFINT_DYN_CTLN1::INTENA | VFINT_DYN_CTLN1::ITR_INDX_NONE;
    // Before queues run nothing is said: drivers enable vectors before they map them.
    scene.raw.bar.write32(VFINT_DYN_CTLN1::at(1), on);
    let (rings, Resources { vsi, .. }) = scene.start(1);
    let first = Vector { vector: 1, rx: 1, tx: 0, rx_itr: 0, tx_itr: 0 };
    let map = Vectors { vsi, vectors: vec![first, Vector { vector: 2, rx: 0, ..first }] }.encode();
    assert_eq!(scene.raw.ask(op::CONFIG_IRQ_MAP, &map).0, status::SUCCESS);
    scene.raw.bar.write32(VFINT_DYN_CTLN1::at(0), on);
    scene.expect(&[]);
    scene.raw.bar.write32(VFINT_DYN_CTLN1::at(1), on);
    assert_eq!(scene.raw.ask(op::DISABLE_QUEUES, &Select { vsi, rx: 1, tx: 1 }.encode()).0, status::SUCCESS);
    drop(rings);
    scene.finish(&["VectorUnmapped"]);
}

#[test]
fn a_mailbox_that_is_enabled_before_its_function_is_reset_and_active() {
    let mut scene = Scene::new(Policy::default());
    let enable = |raw: &Raw| raw.bar.write32(VF_ATQLEN1::AT, 32 | VF_ATQLEN1::ENABLE);
    let Scene { card, raw } = &mut scene;
    card.host(|_| {
        raw.tell(op::RESET_VF, &[]);
        enable(raw);
    });
    scene.expect(&["FunctionResetNotAwaited"]);
    // The host goes, and with it what the function had.
    scene.card.polling = None;
    scene.expect(&["FunctionResetNotAwaited"]);
    scene.raw.bar.read32(VFGEN_RSTAT::AT);
    enable(&scene.raw);
    scene.finish(&["FunctionResetNotAwaited", "FunctionNotActive"]);
}

#[test]
fn a_reset_that_nobody_notices() {
    let mut scene = Scene::new(Policy::default());
    scene.raw.resources();
    let device = scene.card.handles[2].clone();
    let later = 3_600_000_000_000;
    device.step(later);
    scene.card.host(|host| host.reset(0)).unwrap();
    device.step(later);
    let message = |scene: &Scene| scene.raw.bar.write32(VF_ATQT1::AT, 7);
    message(&scene);
    scene.expect(&[]);
    device.step(later + 11_000_000_000);
    message(&scene);
    scene.finish(&["ResetUnnoticed"]);
}

#[test]
fn reserved_bits_of_a_vector() {
    let scene = Scene::new(Policy::default());
    scene.raw.bar.write32(VFINT_DYN_CTL01::AT, VFINT_DYN_CTL01::ITR_INDX_NONE | 1 << 29);
    scene.finish(&["ReservedBitsWritten"]);
}
