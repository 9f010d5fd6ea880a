//! Classifiers: what they decide, and the programs they make of patterns.

use crate::Rig;

#[test]
fn programs_are_as_click_prints_them() {
    let mut rig = Rig::new(
        "Idle -> c :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
         c[0] -> Discard; c[1] -> Discard; c[2] -> Discard; c[3] -> Discard;
         Idle -> d :: Classifier(1/01, -) -> Discard; d[1] -> Discard;",
    )
    .expect("a configuration");
    assert_eq!(
        rig.read("c.program"),
        " 0  12/08060000%ffff0000  yes->step 1  no->step 3\n \
          1  20/00010000%ffff0000  yes->[0]  no->step 2\n \
          2  20/00020000%ffff0000  yes->[1]  no->[3]\n \
          3  12/08000000%ffff0000  yes->[2]  no->[3]\n\
         safe length 22\nalignment offset 0\n"
    );
    assert_eq!(
        rig.read("d.program"),
        " 0   0/00010000%00ff0000  yes->[0]  no->[1]\nsafe length 2\nalignment offset 0\n"
    );
}

fn counts(patterns: &str, data: &str, outputs: usize) -> Vec<String> {
    let sinks: String = (1..outputs).map(|n| format!("c[{n}] -> d{n} :: Discard;")).collect();
    let config = format!(
        "InfiniteSource(DATA \\<{data}>, LIMIT 40, BURST 8, STOP true) -> c :: Classifier({patterns}) -> d0 :: Discard; {sinks}"
    );
    let mut rig = Rig::new(&config).expect("a configuration");
    rig.run();
    (0..outputs).map(|n| rig.read(&format!("d{n}.count"))).collect()
}

#[test]
fn the_first_pattern_that_holds_decides() {
    assert_eq!(counts("0/01, 0/0102, -", "0102", 3), ["40", "0", "0"]);
    assert_eq!(counts("!0/01, 0/0102, -", "0102", 3), ["0", "40", "0"]);
    assert_eq!(counts("0/0?%0e, -", "01", 2), ["40", "0"]);
    assert_eq!(counts("3/0102030405, -", "000000 0102030405", 2), ["40", "0"]);
    assert_eq!(counts("3/0102030405, -", "000000 01020304", 2), ["0", "40"], "too short");
    assert_eq!(counts("!3/01, -", "0000", 2), ["40", "0"], "what is not there does not match");
}

#[test]
fn wrong_patterns_are_refused() {
    for (pattern, message) in [
        ("12/080", "odd number"),
        ("x/08", "byte offset"),
        ("12/08%0", "as many hex digits"),
        ("", "empty"),
        ("12", "syntax"),
    ] {
        let said = Rig::new(&format!("Idle -> Classifier({pattern}) -> Discard")).err().expect("refused");
        assert!(said.contains(message) || said.contains("need 1 arguments"), "{pattern}: {said}");
    }
    let said =
        Rig::new("Idle -> c :: Classifier(-); c[0] -> Discard; c[1] -> Discard").err().expect("refused");
    assert!(said.contains("need 2 arguments"), "{said}");
}

/// More patterns than can be simplified, by one word and each by its own.
#[test]
fn ten_thousand_patterns_are_a_program() {
    let of_one_word = (0..10_000).map(|n| format!("0/{n:08x}"));
    let of_each_its_own = (0..10_000).map(|n| format!("{}/{:02x}", 4 * (n % 4000), n % 256));
    let the_same = std::iter::repeat_n("0/ff".to_owned(), 10_000);
    for patterns in [of_one_word.collect::<Vec<_>>(), of_each_its_own.collect(), the_same.collect()] {
        let sinks: String = (0..patterns.len()).map(|n| format!("c[{n}] -> d;")).collect();
        let config = format!("Idle -> c :: Classifier({}); d :: Discard; {sinks}", patterns.join(", "));
        drop(Rig::new(&config).expect("a configuration"));
    }
    let patterns: Vec<String> = (0..10_000).map(|n| format!("0/{n:08x}")).collect();
    let config = format!(
        "InfiniteSource(DATA \\<0000270e>, LIMIT 40, STOP true) -> c :: Classifier({}); d :: Discard; e :: Discard; c[9998] -> e; {}",
        patterns.join(", "),
        (0..10_000).filter(|n| *n != 9998).map(|n| format!("c[{n}] -> d;")).collect::<String>()
    );
    let mut rig = Rig::new(&config).expect("a configuration");
    rig.run();
    assert_eq!((rig.read("e.count"), rig.read("d.count")), ("40".to_owned(), "0".to_owned()));
}
