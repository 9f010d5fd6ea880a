//! Hostile configurations: each ends soon, within bounds, with a clear problem
//! or none.

use std::fmt::Write;

use graph::lang::{self, Flat, Limits, Options, Problems, Source};

fn read(text: impl Into<Vec<u8>>) -> Result<Flat, Problems> {
    lang::read(vec![Source::new("config", text)], &Options::default())
}

fn read_within(limits: Limits, text: &str) -> Result<Flat, Problems> {
    lang::read(vec![Source::new("config", text)], &Options { limits, ..Options::default() })
}

#[track_caller]
fn first_problem(result: Result<Flat, Problems>) -> String {
    let problems = result.expect_err("this configuration is wrong");
    assert!(problems.list.len() <= Problems::MOST + 1, "{} problems", problems.list.len());
    problems.render();
    problems.list[0].message.clone()
}

#[test]
fn nesting_has_a_bottom() {
    for (open, close, message) in [
        ("{", "}", "maximum compound element nesting depth exceeded"),
        ("(", ")", "maximum element group nesting depth exceeded"),
        ("x :: {", "}", "maximum compound element nesting depth exceeded"),
        ("{ || {", "}}", "maximum compound element nesting depth exceeded"),
        ("( {", "})", "maximum element group nesting depth exceeded"),
    ] {
        for depth in [300, 100_000] {
            let closed = open.repeat(depth) + &close.repeat(depth);
            assert_eq!(first_problem(read(closed)), message, "{open}");
            first_problem(read(open.repeat(depth)));
        }
    }
}

#[test]
fn nesting_may_be_deep() {
    let text = "x :: X; y :: Y; x -> ".to_owned()
        + &"(-> (->) -> {-> ".repeat(42)
        + "(->) "
        + &"-> } -> )".repeat(42)
        + " -> y";
    let flat = read(text).unwrap_or_else(|p| panic!("{p}"));
    assert_eq!(flat.unparse(), "x :: X;\ny :: Y;\n\nx -> y;\n");
}

/// Each class contains the last one twice: 2^40 elements.
#[test]
fn doubling_is_stopped() {
    let mut text = "elementclass C0 { Idle -> Discard }\n".to_owned();
    for i in 1..=40 {
        let _ = writeln!(text, "elementclass C{i} {{ C{}; C{} }}", i - 1, i - 1);
    }
    text += "C40;";
    let limits = Limits { elements: 10_000, ..Limits::default() };
    assert_eq!(first_problem(read_within(limits, &text)), "too many elements");
}

#[test]
fn growing_text_is_stopped() {
    let mut text = String::new();
    for i in 1..=40 {
        let _ = writeln!(text, "define($v{i} \"${}{}\")", format_args!("v{}$v", i - 1), i - 1);
        let _ = writeln!(text, "elementclass C{i} {{ $a | C{}($a $a $a $a) }}", i - 1);
    }
    text += "define($v0 x) elementclass C0 { $a | Idle($a) -> Discard } C40(x); Idle($v40)";
    let limits = Limits { text: 1 << 20, ..Limits::default() };
    assert_eq!(first_problem(read_within(limits, &text)), "too many bytes of configuration strings");
}

/// Empty values: the text does not grow, the work does.
#[test]
fn work_without_text_is_stopped() {
    let mut text = String::from("define($v0)");
    for i in 1..=9 {
        let _ = writeln!(text, "define($v{i} {})", format!("$v{}", i - 1).repeat(30));
    }
    text += "Idle($v9)";
    let limits = Limits { text: 4 << 20, ..Limits::default() };
    assert_eq!(first_problem(read_within(limits, &text)), "too many bytes of configuration strings");
}

#[test]
fn long_chains_of_classes_are_stopped() {
    let mut text = "elementclass C0 { Idle }\n".to_owned();
    for i in 1..=5_000 {
        let _ = writeln!(text, "elementclass C{i} {{ C{} }}", i - 1);
    }
    assert_eq!(first_problem(read(text.clone() + "C5000")), "compound elements too deep in each other");
    assert_eq!(read(text + "C200").unwrap_or_else(|p| panic!("{p}")).elements.len(), 1);
}

#[test]
fn recursion_by_mistake_is_told() {
    let problems = read("elementclass a { input -> a -> output }").expect_err("it is not known in itself");
    assert_eq!(problems.list[0].message, "undeclared element 'a'");
    let help = problems.list[0].suggestion.as_deref().unwrap_or("");
    assert!(help.contains("cannot contain itself"), "{help}");
    // With an earlier A it is that one.
    assert!(read("elementclass a { input -> output } elementclass a { input -> a -> output }").is_ok());
    // A variable in terms of itself ends.
    assert_eq!(read("define($a x$a) Idle($a)").map(|f| f.elements[0].config.len()).ok(), Some(13));
}

#[test]
fn ports_have_a_limit() {
    for text in [
        "a :: A; a[65536] -> a",
        "a :: A; a -> [99999999999999999999] a",
        "a :: A; a[0-4294967296] => [0-4294967296] a",
    ] {
        assert!(first_problem(read(text)).starts_with("port number"), "{text}");
    }
    assert!(read("a :: A; a[65535] -> [0xffff]a").is_ok());
    // Each of these is 65,536 connections.
    let limits = Limits { connections: 1 << 20, ..Limits::default() };
    let text = "a :: A; ".to_owned() + &"a[0-65535] => [0-65535] a;".repeat(1_000);
    assert_eq!(first_problem(read_within(limits, &text)), "too many connections");
    // A hole of 65,535 ports is not as many problems.
    assert!(read("{ input [65535] -> output }").expect_err("ports are missing").list.len() < 50);
}

/// A thousand come in and a thousand go out of each of a hundred edges.
#[test]
fn crossing_connections_are_bounded() {
    let names = |c| (0..1_000).map(|i| format!("{c}{i}")).collect::<Vec<_>>().join(",");
    let text = format!("{} :: X; {} :: Y;", names('a'), names('b'));
    let limits = Limits { connections: 100_000, ..Limits::default() };
    let text = text + &format!("g :: {{->}}; {} -> g; g -> {}", names('a'), names('b'));
    assert_eq!(first_problem(read_within(limits, &text)), "too many connections");
    assert_eq!(read(text).map(|f| f.connections.len()).ok(), Some(1_000_000));
}

#[test]
fn edges_in_circles_lead_to_the_same() {
    let text = "x :: X; y :: Y; a :: {->}; b :: {->}; c :: {->}; x -> a -> b -> c -> a; b -> y";
    assert_eq!(read(text).map(|f| f.unparse()).ok().as_deref(), Some("x :: X;\ny :: Y;\n\nx -> y;\n"));
    // Entered elsewhere, it leads to the same, whichever way in is looked at first.
    let text = "x, z :: X; y :: Y; a :: {->}; b :: {->}; c :: {->}; x -> a -> b -> c -> a; b -> y; z -> c";
    let expected = "x :: X;\nz :: X;\ny :: Y;\n\nx -> y;\nz -> y;\n";
    assert_eq!(read(text).map(|f| f.unparse()).ok().as_deref(), Some(expected));
    // A circle nothing leaves.
    assert_eq!(read("x :: X; a :: {->}; x -> a -> a").map(|f| f.connections.len()).ok(), Some(0));
}

#[test]
fn long_chains_of_edges_do_not_recurse() {
    let text = "x :: X; y :: Y; x ".to_owned() + &"-> (->)".repeat(100_000) + " -> y";
    assert_eq!(read(text).map(|f| f.unparse()).ok().as_deref(), Some("x :: X;\ny :: Y;\n\nx -> y;\n"));
}

#[test]
fn broken_text_is_told_where_it_matters() {
    assert!(read(b"// M\xfcller \xff\xfe\n/* \xc3 */ x :: X(1 /* \xff */, 2) // \xff".to_vec()).is_ok());
    for text in [&b"x :: X(\n\"http://\xff\")"[..], b"x\xff :: X", b"\xff", b"x :: X;\n\xff\xff\xff\xff"] {
        let problems = read(text).expect_err("this is not UTF-8");
        assert!(problems.list.iter().any(|p| p.message == "byte 0xFF is not UTF-8"), "{problems}");
        problems.render();
    }
    // A replacement character that is one.
    assert!(read("x :: X(\u{fffd})").is_ok());
    assert_eq!(first_problem(read("\u{fffd}")), "syntax error near '\u{fffd}'");
}

#[test]
fn stray_tokens_are_counted_not_kept() {
    for token in [
        "]",
        "::",
        "$x",
        "||",
        "...",
        "'",
        "\0",
        "é",
        "[",
        "[[",
        "->",
        "x[",
        "x[0",
        "}",
        "define",
        "require(",
        "elementclass",
        "elementclass x",
    ] {
        let problems = read(format!("{token} ").repeat(20_000)).expect_err("nonsense");
        assert!(problems.list.len() <= Problems::MOST + 1, "{token}: {}", problems.list.len());
    }
}

#[test]
fn ends_come_anywhere() {
    let text = "# 3 \"f\"\nrequire(package a, library b); define($A 'x')\nelementclass C { $a, K $b, __REST__ $c | input[0-1,] => (->), \
                ({input -> Q(\"a\\<20 21>\\\"\" /* c */) -> output} ) -> output || ... }\n a, b :: C(1, K 2, 3); a[] => [0] b;";
    for end in 0..text.len() {
        if let Err(problems) = read(&text[..end]) {
            problems.render();
            problems.compat();
        }
    }
}

#[test]
fn libraries_do_not_go_round() {
    let endless =
        |name: &str, _: &str| Some(Source::new(name, format!("require(library {name}x) A{};", name.len())));
    let options = Options { library: Some(&endless), ..Options::default() };
    let problems =
        lang::read(vec![Source::new("main", "require(library a)")], &options).expect_err("endless");
    assert!(problems.list[0].message.ends_with("is required through too many others"), "{problems}");
}
