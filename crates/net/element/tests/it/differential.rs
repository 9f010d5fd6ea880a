//! Random small graphs and random packets: whatever the batch and however many
//! threads, the same packets come out, those of a flow that went the same way in the
//! same order, and the same is counted. Compiled ones: `crates/ixora/tests/programs.rs`.
#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
mod random;
#[allow(dead_code)]
mod rig;

use std::sync::Arc;

use proptest::prelude::*;
use random::{MOST, NODES, Node, THREADS, frame, text, way};
use rig::{Input, Outcome, run, run_threads};

fn graphs() -> impl Strategy<Value = Vec<Node>> {
    proptest::collection::vec((0..NODES.len(), any::<[u16; 5]>()), 1..=MOST)
        .prop_map(|nodes| nodes.into_iter().map(|(kind, leads)| (kind, leads.map(usize::from))).collect())
}

fn inputs() -> impl Strategy<Value = Arc<Input>> {
    let numbers = (0u8..64, 0u8..6, any::<u8>(), any::<u16>(), 0usize..120);
    let one = proptest::collection::vec(numbers.prop_map(frame), 1..150);
    proptest::collection::vec(one, THREADS).prop_map(|sources| Arc::new(Input { sources, way }))
}

fn cases(count: u32) -> ProptestConfig {
    let count = std::env::var("IXORA_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(count);
    ProptestConfig { cases: count, failure_persistence: None, ..ProptestConfig::default() }
}

fn alone(nodes: &[Node], burst: usize, input: &Arc<Input>) -> Outcome {
    run(&text(nodes, burst), &[], input).apart_from_queues()
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn batches_change_nothing(nodes in graphs(), input in inputs()) {
        let one = alone(&nodes, 1, &input);
        for burst in [2, 32, 256] {
            let other = one.difference(&alone(&nodes, burst, &input));
            prop_assert_eq!(other, None, "batches of {}\n{}", burst, text(&nodes, burst));
        }
    }
}

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn threads_change_nothing(nodes in graphs(), input in inputs()) {
        let (one, text) = (alone(&nodes, 32, &input), text(&nodes, 32));
        let threads = run_threads(&text, &[], &input, one.count()).apart_from_queues();
        prop_assert_eq!(one.difference(&threads), None, "{}", text);
    }
}

/// Every kind of node at least once, so that a word that is wrong is found.
#[test]
fn every_node_can_be_built() {
    let sources = vec![vec![frame((1, 5, 1, 9, 50)); 40]; THREADS];
    let input = Arc::new(Input { sources, way });
    for (kind, (name, _)) in NODES.iter().enumerate() {
        let nodes = [(kind, [0, 1, 2, 0, 1])];
        let one = alone(&nodes, 1, &input);
        assert_eq!(one.difference(&alone(&nodes, 32, &input)), None, "{name}");
        let dropped: u64 = one.drops.values().flatten().sum();
        assert!(one.count() + dropped as usize >= 160, "{name}: {} and {dropped}", one.count());
    }
}
