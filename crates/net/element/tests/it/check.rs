//! What is found wrong with a configuration before a packet flows.

use graph::lang::{Problem, Severity};
use graph::plan::Plan;
use graph::{Console, Options, Router};

fn check(config: &str) -> (Option<Plan>, Vec<Problem>) {
    let flat = element::fixture::flatten(config, &crate::registry()).unwrap_or_else(|e| panic!("{e}"));
    let console = Console::Memory(Default::default());
    let options = Options { console, thorough: true, ..Options::default() };
    let (plan, problems) = Router::plan(config, flat, &crate::registry(), options);
    (plan.ok(), problems)
}

/// Problems as `severity line:column text`.
fn said(config: &str) -> Vec<String> {
    let line = |p: &Problem| format!("{} {}:{} {}", p.severity, p.place.line, p.place.column, p.text());
    sorted(config).iter().map(line).collect()
}

/// Problems in the order of their places.
fn sorted(config: &str) -> Vec<Problem> {
    let mut problems = check(config).1;
    problems.sort_by_key(|p| (p.place.line, p.place.column));
    problems
}

#[test]
fn a_header_nobody_found_is_an_error_and_the_way_is_told() {
    let (plan, problems) = check("InfiniteSource -> c :: Counter -> [0] ttl :: DecIPTTL -> Discard;");
    assert!(plan.is_none());
    let [problem] = &problems[..] else { panic!("{problems:?}") };
    assert_eq!(problem.severity, Severity::Error);
    assert_eq!((problem.place.line, problem.place.column), (1, 39));
    assert!(problem.text().starts_with("ttl :: DecIPTTL: needs the network header"), "{}", problem.text());
    assert!(problem.notes[0].message.contains("InfiniteSource@1 -> c -> ttl"), "{:?}", problem.notes);
}

#[test]
fn packages_that_cannot_be_loaded_are_errors_beside_others() {
    let config = "require(nopkg, compact_config); require(package \"other one\"); Idle -> Discard(1);";
    let (plan, _) = check(config);
    assert!(plan.is_none());
    let said = said(config);
    assert_eq!(said.len(), 3, "{said:?}");
    assert_eq!(said[0], "error 1:9 requirement 'nopkg' not available");
    assert_eq!(said[1], "error 1:41 requirement 'other one' not available");
    // As Click, which tells no place, and nothing of elements' configurations after that.
    assert_eq!(sorted(config)[0].compat(), "requirement 'nopkg' not available\n");
}

#[test]
fn a_header_that_was_found_is_known_further_on() {
    for config in [
        "InfiniteSource -> MarkIPHeader -> DecIPTTL -> Discard;",
        "InfiniteSource -> CheckIPHeader -> Queue -> Unqueue -> t :: Tee; t[0] -> DecIPTTL -> Discard; t[1] -> Discard;",
        "elementclass In { input -> CheckIPHeader -> output } InfiniteSource -> In -> DecIPTTL -> Discard;",
        "Idle -> DecIPTTL -> Discard;",
    ] {
        assert_eq!(said(config), [""; 0], "{config}");
    }
}

#[test]
fn a_header_found_on_one_way_only_is_a_warning() {
    let config = "c :: Classifier(12/0800, -); InfiniteSource -> c;
        c[0] -> CheckIPHeader -> ttl :: DecIPTTL -> Discard;
        c[1] -> ttl;";
    let (plan, problems) = check(config);
    assert!(plan.is_some());
    let [problem] = &problems[..] else { panic!("{problems:?}") };
    assert_eq!(problem.severity, Severity::Warning);
    assert!(problem.notes[0].message.ends_with("-> c [1] -> ttl"), "{:?}", problem.notes);
    // The bad packets of a check are as they came.
    let config = "InfiniteSource -> h :: CheckIPHeader -> Discard; h[1] -> DecIPTTL -> Discard;";
    assert!(said(config)[0].starts_with("error"), "{:?}", said(config));
}

#[test]
fn a_long_way_is_cut_in_the_middle() {
    let config = format!("InfiniteSource {} -> DecIPTTL -> Discard;", "-> Null ".repeat(40));
    let way = &check(&config).1[0].notes[0].message;
    assert!(way.contains("-> ... ->") && way.matches("->").count() < 12, "{way}");
}

#[test]
fn all_faults_are_told_at_once_each_at_its_place() {
    let config = "s :: InfiniteSource(LIMIT x, BUURST 3,\n  STOP maybe) -> q :: Queue(1, 2);\nq -> Discard;\nIdle -> Strip -> Discard;";
    assert_eq!(
        said(config),
        [
            "error 1:21 s :: InfiniteSource: LIMIT: expected integer",
            "error 1:30 s :: InfiniteSource: BUURST: unknown argument",
            "error 2:3 s :: InfiniteSource: STOP: expected boolean",
            "error 2:32 q :: Queue: too many arguments",
            "error 4:9 Strip@5 :: Strip: LENGTH: required argument missing",
        ]
    );
    let problems = sorted(config);
    assert_eq!(problems[1].suggestion.as_deref(), Some("did you mean 'BURST'?"));
    assert_eq!(problems[3].expected.as_deref(), Some("Queue([CAPACITY])"));
}

#[test]
fn wiring_and_arguments_are_told_together() {
    let said =
        said("InfiniteSource -> ToDump -> Discard; a :: Queue(x); InfiniteSource -> a -> Queue -> Discard;");
    assert!(said.iter().any(|s| s.contains("CAPACITY: expected unsigned integer")), "{said:?}");
    assert!(said.iter().any(|s| s.contains("pull output 0 connected to")), "{said:?}");
}

#[test]
fn what_nothing_leads_to_is_a_warning() {
    let said = said("a :: Null -> b :: Null -> a; InfiniteSource -> Discard;");
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].starts_with("warning 1:1 a :: Null: no packet ever comes here"), "{said:?}");
}

#[test]
fn in_clicks_words_each_element_has_a_line_of_its_own() {
    let problem = &check("Idle -> q :: Queue(1, 2) -> Discard;").1[0];
    assert_eq!(problem.compat(), "config:1: While configuring 'q :: Queue':\n  too many arguments\n");
    let compat = |config: &str| check(config).1[0].compat().replace("\n  ", "\n- ");
    assert!(compat("Idle -> Queue(x) -> Discard;").ends_with("\n- CAPACITY: invalid number\n"));
    assert!(
        compat("Idle -> Queue(AH 1, OH 2, 3, 4) -> Discard;")
            .ends_with("\n- AH: unknown argument\n- OH: unknown argument\n- too many arguments\n")
    );
}

#[test]
fn of_an_argument_that_is_there_twice_the_last_counts() {
    for (config, capacity) in [("5, CAPACITY 7", 7), ("CAPACITY 7, CAPACITY 8", 8)] {
        let mut rig =
            crate::Rig::new(&format!("Idle -> q :: Queue({config}) -> Discard;")).expect("a router");
        assert_eq!(rig.read("q.capacity"), capacity.to_string(), "{config}");
    }
}

/// No stack holds a call for each. How long it takes is counted by `cargo xtask instructions`.
#[test]
fn a_hundred_thousand_elements_in_a_row_are_looked_at() {
    let config = format!("InfiniteSource {} -> DecIPTTL -> Discard;", "-> Null ".repeat(100_000));
    let (_, problems) = check(&config);
    assert_eq!(problems.len(), 1, "{:?}", problems.iter().take(3).map(|p| &p.message).collect::<Vec<_>>());
    assert!(problems[0].message.contains("needs the network header"), "{:?}", problems[0].message);
}

#[test]
fn explanations_tell_locks_units_and_threads() {
    let config =
        "InfiniteSource -> t :: Tee; t[0] -> Strip(1) -> q :: Queue -> Unqueue -> Discard; t[1] -> Discard;";
    let plan = check(config).0.expect("a sound configuration");
    let told = graph::plan::explain::reports(&plan, None);
    let find = |name: &str| told.iter().find(|t| t.name == name).unwrap_or_else(|| panic!("{name}"));
    assert_eq!((find("t").unit, find("q").way), ("batch", "push to pull"));
    assert_eq!(find("Strip@3").unit, "packet");
    assert!(find("t").notes.iter().any(|note| note.contains("copies")), "{:?}", find("t").notes);
    let text = graph::plan::explain::text(&plan, None);
    assert_eq!(text.lines().filter(|line| line.contains("push")).count(), 7, "{text}");
}

#[test]
fn explanations_tell_of_the_buffers_that_there_will_be() {
    let plan =
        check("InfiniteSource -> Queue(5000) -> Unqueue -> Discard;").0.expect("a sound configuration");
    let told = |threads, given| graph::plan::explain::packets(&plan, threads, given);
    let usual = told(1, None);
    assert!(usual.contains("may hold 5000; it may have 267144 buffers.\n"), "{usual}");
    let given = told(1, Some(4000));
    assert!(given.contains("it may have 4000 buffers, fewer than that"), "{given}");
}

#[test]
fn pictures_show_every_element_and_connection() {
    let config = "i :: InfiniteSource -> q :: Queue -> u :: Unqueue -> n :: Null -> Discard;";
    let plan = check(config).0.expect("a sound configuration");
    let svg = graph::plan::svg::draw(&plan).expect("few elements");
    assert_eq!(svg.matches("<g>").count(), plan.elements.len());
    assert_eq!(svg.matches("marker-end").count(), plan.wires.len());
    assert_eq!(svg.matches("class=\"pull\"").count(), 1, "queue to unqueue");
}
