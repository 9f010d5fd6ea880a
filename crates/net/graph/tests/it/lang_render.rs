//! How problems look to people, letter by letter.

use graph::lang::{self, Options, Source};

const CLASSES: [&str; 6] = ["Discard", "InfiniteSource", "Queue", "Print", "Idle", "Null"];

#[track_caller]
fn shows(text: &str, expected: &str) {
    let options = Options {
        known_class: &|name| CLASSES.contains(&name),
        class_names: &|| CLASSES.iter().map(|n| n.to_string()).collect(),
        ..Options::default()
    };
    let shown = match lang::read(vec![Source::new("router.click", text)], &options) {
        Ok(flat) => flat.warnings.iter().map(|w| w.render(&flat.sources) + "\n").collect(),
        Err(problems) => problems.render(),
    };
    assert_eq!(shown, expected, "\n{shown}");
}

#[test]
fn a_misspelt_class() {
    shows(
        "// A source.\n\tInfinteSource(LIMIT 5)\n    -> Discrad;\n",
        "\
router.click:2:2: error: undeclared element 'InfinteSource'
  |
2 |  InfinteSource(LIMIT 5)
  |  ^
  = expected: an element declared above, or a class
  = help: did you mean 'InfiniteSource'?

router.click:3:8: error: undeclared element 'Discrad'
  |
3 |     -> Discrad;
  |        ^
  = expected: an element declared above, or a class
  = help: did you mean 'Discard'?

",
    );
}

#[test]
fn an_element_misspelt_or_declared_late() {
    shows(
        "queue :: Queue;\nsource -> quue;\nsource :: Idle;",
        "\
router.click:2:1: error: undeclared element 'source'
  |
2 | source -> quue;
  | ^
  = expected: an element declared above, or a class
  = help: declare it before it is used
router.click:3:1: note: declared here, which is too late
  |
3 | source :: Idle;
  | ^

router.click:2:11: error: undeclared element 'quue'
  |
2 | source -> quue;
  |           ^
  = expected: an element declared above, or a class
  = help: did you mean 'queue'?

",
    );
}

#[test]
fn a_redeclaration_shows_both() {
    shows(
        "x :: Idle;\n# 7 \"other\"\nx :: Null;",
        "\
other:7:1: error: redeclaration of element 'x'
  |
7 | x :: Null;
  | ^
router.click:1:1: note: element 'x' previously declared here
  |
1 | x :: Idle;
  | ^

",
    );
}

#[test]
fn an_unfinished_configuration_string() {
    shows(
        "Print(\"hello)\n  -> Discard;\n",
        "\
router.click:3:1: error: expected ')'
  |
3 | 
  | ^
  = help: a \" in the configuration string is never closed
router.click:1:7: note: the configuration string begins here
  |
1 | Print(\"hello)
  |       ^

",
    );
}

#[test]
fn overloads_that_do_not_fit_say_where_from() {
    shows(
        "elementclass Two { $a, $b | Idle($a) -> Null($b) }\nelementclass Outer { Two(1) }\nOuter;",
        "\
router.click:2:22: error: no match for 'Two[1 argument, 0 inputs, 0 outputs]'
  |
2 | elementclass Outer { Two(1) }
  |                      ^
router.click:1:20: note: candidates are:
  |
1 | elementclass Two { $a, $b | Idle($a) -> Null($b) }
  |                    ^
router.click:1:20: note:   Two(<arg>, <arg>)[0 inputs, 0 outputs]
router.click:3:1: note: in the expansion of 'Outer@1'
  |
3 | Outer;
  | ^

",
    );
}

#[test]
fn long_lines_and_control_characters_are_tamed() {
    let text = format!("/* {} \x1b[31m */ x {}", "é".repeat(100), "y".repeat(100));
    let options = Options::default();
    let problems = lang::read(vec![Source::new("f", text)], &options).expect_err("x is not declared");
    let shown = problems.list[0].render(&problems.sources);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0], "f:1:114: error: undeclared element 'x'");
    assert!(lines[2].starts_with("1 | ...é") && lines[2].ends_with("y..."), "{shown}");
    assert!(lines[2].contains("é .[31m */ x y"), "{shown}");
    let caret = lines[3].chars().position(|c| c == '^');
    assert_eq!(caret, lines[2].chars().position(|c| c == 'x'), "{shown}");
}

#[test]
fn what_is_right_but_odd_is_a_warning() {
    shows(
        "Idle -> { -> Null -> Discard, ; }",
        "\
router.click:1:31: warning: no element after ','
  |
1 | Idle -> { -> Null -> Discard, ; }
  |                               ^

",
    );
}

#[test]
fn arguments_have_places() {
    let text = "define($v 1) x :: Idle(a,\r\n  'b,c', /* d */ e) y :: Idle(1, $v) z :: Idle";
    let flat =
        lang::read(vec![Source::new("f", text)], &Options::default()).unwrap_or_else(|p| panic!("{p}"));
    let place = |element, argument| flat.argument_place(element, argument).map(|p| p.to_string());
    assert_eq!(place(0, 0).as_deref(), Some("f:1:24"));
    assert_eq!(place(0, 1).as_deref(), Some("f:2:3"));
    assert_eq!(place(0, 2).as_deref(), Some("f:2:18"));
    // What cannot be said is the element's own place.
    assert_eq!(place(0, 3).as_deref(), Some("f:1:14"));
    assert_eq!(place(1, 0), Some(flat.elements[1].place.to_string()));
    assert_eq!(place(2, 0), Some(flat.elements[2].place.to_string()));
    assert_eq!(place(3, 0), None);
    let shown =
        lang::Problem::error(&flat.argument_place(0, 2).expect("it is there"), "no").render(&flat.sources);
    assert_eq!(
        shown,
        "f:2:18: error: no\n  |\n2 |   'b,c', /* d */ e) y :: Idle(1, $v) z :: Idle\n  |                  ^\n"
    );
}
