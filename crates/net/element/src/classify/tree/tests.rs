//! Trees against lists of rules.

use std::cell::Cell;

use graph::chain::Bytes;
use proptest::prelude::*;

use super::super::expression::{Expr, Graph};
use super::super::primitive::greater;
use super::super::program::{Program, Rule, Step, Test, To, walk};
use super::super::straight::code_in_headers;
use super::Tree;
use super::build::laid_out;
use super::{END, Slot};

/// The words of a packet, by their offsets: those of link, network and transport header.
const OFFSETS: [u16; 4] = [4, 256, 268, 512];

/// A packet: four words, and how many bytes of each are there.
type Packet = [(u32, usize); 4];

/// What is there of a packet from an offset on.
fn place(packet: &[[u8; 4]; 4], there: [usize; 4], offset: u16) -> &[u8] {
    match OFFSETS.iter().position(|at| *at == offset) {
        Some(n) => &packet[n][..there[n]],
        None => &[],
    }
}

fn bytes(packet: &Packet) -> ([[u8; 4]; 4], [usize; 4]) {
    (packet.map(|(word, _)| word.to_be_bytes()), packet.map(|(_, there)| there))
}

/// Rules that are tested one after the other.
struct List<'a> {
    rules: &'a [(Expr, To)],
    steps: Vec<Step>,
    starts: Vec<To>,
}

impl List<'_> {
    fn new(rules: &[(Expr, To)]) -> List<'_> {
        let mut graph = Graph::default();
        let starts = rules.iter().map(|(expr, _)| graph.lay(expr, To::Out(0), To::Drop)).collect();
        List { rules, steps: graph.into_steps(), starts }
    }

    fn decides(&self, packet: &Packet) -> To {
        let (words, there) = bytes(packet);
        let place = |offset| place(&words, there, offset);
        let holds = |start: &To| walk(&self.steps, *start, place) == To::Out(0);
        self.starts.iter().position(holds).map_or(To::Drop, |rule| self.rules[rule].1)
    }
}

/// What a tree decides, and how many words it looked at.
fn found(tree: &Tree, packet: &Packet) -> (To, usize) {
    let ((words, there), looked) = (bytes(packet), Cell::new(0));
    let to = tree.find(|offset| {
        looked.set(looked.get() + 1);
        place(&words, there, offset)
    });
    (to, looked.get())
}

/// Values that are near each other, so that rules and packets meet.
fn value() -> impl Strategy<Value = u32> {
    let near = (0..6u32, 0..4u32, 0..6u32).prop_map(|(a, b, c)| a << 24 | b << 16 | c);
    prop_oneof![3 => near, 1 => any::<u32>(), 1 => Just(0)]
}

fn mask() -> impl Strategy<Value = u32> {
    let prefix = (1..=32u32).prop_map(|length| u32::MAX << (32 - length));
    let field = prop::sample::select(vec![
        u32::MAX,
        0xFFFF_0000,
        0xFFFF,
        0x00FF_0000,
        0x1FFF,
        0xFFFF_FF00,
        0xFC00_0000,
        1,
        0x8000_0000,
    ]);
    prop_oneof![3 => field, 2 => prefix, 1 => 1..=u32::MAX]
}

fn test() -> impl Strategy<Value = Expr> {
    let offset = prop::sample::select(OFFSETS.to_vec());
    (offset, mask(), value(), any::<bool>()).prop_map(|(offset, mask, value, short)| {
        Expr::Test(Test { offset, mask, value: value & mask }, short)
    })
}

/// Expressions of all kinds; most are lists of tests that must hold, as rules are.
fn expression() -> impl Strategy<Value = Expr> {
    let list = prop::collection::vec(test(), 0..5).prop_map(Expr::All);
    let any = test().prop_recursive(3, 12, 4, |inner| {
        let list = || prop::collection::vec(inner.clone(), 0..4);
        prop_oneof![
            list().prop_map(Expr::All),
            list().prop_map(Expr::Any),
            inner.clone().prop_map(|expr| Expr::Not(Box::new(expr))),
            inner.clone().prop_map(Expr::negated),
            [inner.clone(), inner.clone(), inner.clone()].prop_map(|three| Expr::If(Box::new(three))),
        ]
    });
    prop_oneof![3 => list, 1 => any]
}

fn to() -> impl Strategy<Value = To> {
    prop_oneof![1 => Just(To::Drop), 4 => (0..9u32).prop_map(To::Out)]
}

/// The tests of an expression.
fn tests_of(expr: &Expr) -> Vec<Test> {
    match expr {
        Expr::Test(test, _) => vec![*test],
        Expr::All(list) | Expr::Any(list) => list.iter().flat_map(tests_of).collect(),
        Expr::Not(inner) => tests_of(inner),
        Expr::If(three) => three.iter().flat_map(tests_of).collect(),
    }
}

/// Packets that fit rules: the bits of a rule's tests over random ones, then a change of one bit or none,
/// and the end within a word or none.
fn packets_of(rules: Vec<(Expr, To)>) -> impl Strategy<Value = (Vec<(Expr, To)>, Vec<Packet>)> {
    let aimed = (any::<prop::sample::Index>(), [value(), value(), value(), value()], 0..64usize, 0..16usize);
    let of = rules.clone();
    let packet = aimed.prop_map(move |(rule, mut words, flipped, cut)| {
        for test in of.get(rule.index(of.len().max(1))).map_or(vec![], |(expr, _)| tests_of(expr)) {
            let word = OFFSETS.iter().position(|at| *at == test.offset).unwrap_or(0);
            words[word] = words[word] & !test.mask | test.value;
        }
        if let Some(word) = words.get_mut(flipped / 16) {
            *word ^= if flipped.is_multiple_of(2) { 0 } else { 1 << (flipped % 32) };
        }
        let mut packet = words.map(|word| (word, 4));
        if let Some((_, there)) = packet.get_mut(cut) {
            *there = flipped % 4;
        }
        packet
    });
    (Just(rules), prop::collection::vec(packet, 64))
}

fn rules_and_packets(most: usize) -> impl Strategy<Value = (Vec<(Expr, To)>, Vec<Packet>)> {
    prop::collection::vec((expression(), to()), 0..most).prop_flat_map(packets_of)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn a_tree_decides_as_its_rules_one_after_the_other((rules, packets) in rules_and_packets(80)) {
        let (tree, list) = (Tree::new(&rules).expect("few rules are read soon"), List::new(&rules));
        for packet in packets {
            let (to, looked) = found(&tree, &packet);
            prop_assert_eq!(to, list.decides(&packet), "{:x?}", packet);
            prop_assert!(looked <= tree.worst, "{} words, at most {}", looked, tree.worst);
        }
    }

    #[test]
    fn a_program_of_a_tree_sends_packets_where_the_one_of_steps_does(
        tests in prop::collection::vec(prop::collection::vec((test(), any::<bool>()), 0..4), 0..60),
        packets in prop::collection::vec(prop::collection::vec(0..4u8, 0..20), 32),
    ) {
        let rules: Vec<Rule> = tests.iter().enumerate().map(|(n, tests)| rule(n, tests)).collect();
        let expressions: Vec<_> = rules.iter().map(Rule::expression).collect();
        let tree = Program::of_tree(Tree::new(&expressions).expect("few rules are read soon"));
        let steps = Program::new(&rules);
        for packet in packets {
            let bytes = Bytes::new(&packet, None);
            prop_assert_eq!(tree.classify(bytes), steps.classify(bytes), "{:?}", packet);
        }
    }

    #[test]
    fn each_value_of_a_table_is_found(values in prop::collection::hash_set(value(), 1..200)) {
        let slots: Vec<Slot> = values.iter().map(|value| Slot { value: *value, to: value % 1000 }).collect();
        let (multiplier, shift, table) = laid_out(&slots);
        for slot in slots {
            let place = (slot.value.wrapping_mul(multiplier) >> shift) as usize;
            let run: Vec<&Slot> = table[place..].iter().take_while(|slot| slot.to != END).collect();
            prop_assert!(run.iter().any(|there| (there.value, there.to) == (slot.value, slot.to)));
        }
        prop_assert_eq!(table.last().map(|slot| slot.to), Some(END));
    }
}

/// A rule of words at the beginning of a packet, of small values.
fn rule(number: usize, tests: &[(Expr, bool)]) -> Rule {
    let test = |(expr, must): &(Expr, bool)| {
        let test = tests_of(expr)[0];
        let (mask, offset) = (test.mask & 0x0303_0303 | 1, test.offset % 5 * 4);
        (Test { offset, mask, value: test.value & mask }, *must)
    };
    Rule { tests: tests.iter().map(test).collect(), to: To::Out(number as u32) }
}

/// A number that looks random, of another one.
fn mixed(number: u32) -> u32 {
    let mut x = number.wrapping_add(0x9E37_79B9).wrapping_mul(0x85EB_CA6B);
    x ^= x >> 13;
    x = x.wrapping_mul(0xC2B2_AE35);
    x ^ x >> 16
}

/// As `tcp and dst port N`, or a range of ports, or nothing of ports.
fn of_ports(number: u32, port: u32) -> Vec<Expr> {
    let protocol = Expr::test(256, 0x00FF_0000, 6 << 16);
    match number % 4 {
        0 => vec![protocol, Expr::test(512, 0xFFFF, port)],
        1 => vec![protocol, Expr::test(512, 0xFC00, 0).negated()],
        2 => vec![Expr::test(256, 0x00FF_0000, 17 << 16), Expr::test(512, 0xFFFF_FFFF, port << 16 | port)],
        _ => vec![],
    }
}

fn to_of(number: u32) -> To {
    if number.is_multiple_of(3) { To::Drop } else { To::Out(number % 5) }
}

/// A set of so many rules.
type Set = fn(u32) -> (Expr, To);

/// Sets of rules as they are written; numbers name other addresses.
const SETS: [(&str, Set); 6] = [
    ("addresses", |n| (Expr::test(268, u32::MAX, 0x0A00_0001 + n), To::Out(n))),
    ("address and port", |n| {
        let protocol = Expr::test(256, 0x00FF_0000, 17 << 16);
        (
            Expr::All(vec![protocol, Expr::test(268, u32::MAX, mixed(n)), Expr::test(512, 0xFFFF, n)]),
            To::Out(n),
        )
    }),
    ("addresses of few and ports of few", |n| {
        (
            Expr::All(vec![
                Expr::test(268, u32::MAX, n % 100),
                Expr::test(512, 0xFFFF_0000, (n / 100) << 16),
            ]),
            To::Out(n),
        )
    }),
    ("ranges of ports", |n| {
        let (above, most) = (greater(512, 0, 0xFFFF, 6 * n), greater(512, 0, 0xFFFF, 6 * n + 5 + n % 3));
        (Expr::All(vec![Expr::test(256, 0x00FF_0000, 6 << 16), above, most.negated()]), to_of(n))
    }),
    ("prefixes", |n| {
        let length = 24 - mixed(n) % 17 + mixed(n + 7) % 9;
        (Expr::test(268, u32::MAX << (32 - length), mixed(n / 2)), to_of(n))
    }),
    ("access list", |n| {
        let (from, to) = (mixed(n / 3), mixed(n + 1_000_000));
        let (longer, shorter) = (u32::MAX << (n % 9), u32::MAX << (8 + n % 9));
        let ends = match n % 8 {
            0 => vec![Expr::test(268, longer, from)],
            1 => vec![Expr::test(4, shorter, to)],
            _ => vec![Expr::test(268, longer, from), Expr::test(4, shorter, to)],
        };
        (Expr::All([ends, of_ports(n / 8, mixed(n) % 60_000)].concat()), to_of(n))
    }),
];

/// Packets that fit rules of a set, and some that fit none for sure.
fn packets_for(rules: &[(Expr, To)]) -> Vec<Packet> {
    let mut packets = vec![];
    for (n, (expr, _)) in rules.iter().enumerate().step_by(1 + rules.len() / 500) {
        let n = n as u32;
        let mut words = [mixed(n), mixed(n + 1), mixed(n + 2), mixed(n + 3)];
        packets.push(words.map(|word| (word, 4)));
        for test in tests_of(expr) {
            let word = OFFSETS.iter().position(|at| *at == test.offset).unwrap_or(0);
            words[word] = words[word] & !test.mask | test.value;
        }
        packets.push(words.map(|word| (word, 4)));
        words[2] ^= 1 << (n % 32);
        packets.push(words.map(|word| (word, 4)));
    }
    packets
}

#[test]
fn ten_thousand_rules_take_a_few_times_the_words_of_ten() {
    for (name, rule) in SETS {
        let rules = |count| (0..count).map(rule).collect::<Vec<_>>();
        let (few, many) = (rules(10), rules(10_000));
        let words: usize = few.iter().map(|(expr, _)| expr.length()).sum();
        let (tree, list) = (Tree::new(&many).expect("it does not take too long"), List::new(&many));
        let packets = packets_for(&many);
        let mut looked = vec![];
        for packet in &packets {
            let (to, words) = found(&tree, packet);
            looked.push(words);
            assert_eq!(to, list.decides(packet), "{name}: {packet:x?}");
        }
        let (most, all) = (looked.iter().max().copied().unwrap_or(0), looked.iter().sum::<usize>());
        let mean = all as f64 / looked.len() as f64;
        println!(
            "{name}: ten rules {words} tests; ten thousand at most {}, seen {most}, mean {mean:.1}; {} bytes",
            tree.worst,
            tree.bytes()
        );
        assert!(tree.worst <= 8 * words.max(10), "{name}: {} words at most, ten rules {words}", tree.worst);
        assert!(mean <= 2.0 * words as f64, "{name}: {mean} words in the mean, ten rules {words}");
        assert!(tree.bytes() <= 1024 * many.len(), "{name}: {} bytes", tree.bytes());
    }
}

impl Tree {
    fn bytes(&self) -> usize {
        size_of_val(&*self.nodes)
            + size_of_val(&*self.slots)
            + size_of_val::<[Step]>(&self.steps)
            + size_of_val(&*self.ends)
    }
}

/// Rules that no table tells apart stay a program; so do few.
#[test]
fn what_fits_no_tree_is_walked() {
    let program = |rules: &[(Expr, To)]| super::program(rules, || super::super::expression::program(rules));
    let unlike = |n: u32| (Expr::test(268, u32::MAX, n).negated(), To::Out(n));
    let scattered = |n: u32| (Expr::test(4 * n as u16, u32::MAX, n), To::Out(n));
    assert!(!program(&(0..100).map(unlike).collect::<Vec<_>>()).is_tree());
    assert!(!program(&(0..100).map(scattered).collect::<Vec<_>>()).is_tree());
    let (_, addresses) = SETS[0];
    assert!(!program(&(0..16).map(addresses).collect::<Vec<_>>()).is_tree());
    let tree = program(&(0..17).map(addresses).collect::<Vec<_>>());
    assert!(tree.is_tree());
    assert!(code_in_headers(&tree).is_none(), "compiled programs ask the element");
}

/// Rules behind one that holds for all they hold for are found by nobody.
#[test]
fn rules_that_are_hidden_are_left_out() {
    let address = |n: u32| (Expr::test(268, u32::MAX, n), To::Out(n));
    let mut rules: Vec<_> = (0..100).map(address).collect();
    rules.extend((0..100).map(|n| (Expr::test(268, u32::MAX, n), To::Out(1000))));
    rules.push((Expr::TRUE, To::Out(7)));
    rules.push(address(5000));
    let tree = Tree::new(&rules).expect("it does not take too long");
    let outputs = tree.outputs();
    assert!(!outputs.contains(&1000) && !outputs.contains(&5000) && outputs.contains(&7), "{outputs:?}");
    assert_eq!(found(&tree, &[(0, 4), (0, 4), (5000, 4), (0, 4)]).0, To::Out(7));
}
