//! The language, rule by rule, as click(5) has it and as Click's own program prints
//! the same text: names, numbers, order and the wording of errors.

use graph::lang::{self, Flat, Options, Problems, Source};

fn read(text: &str) -> Result<Flat, Problems> {
    lang::read(vec![Source::new("config", text)], &Options::default())
}

fn read_with(defines: &[(&str, &str)], text: &str) -> Result<Flat, Problems> {
    let defines = defines.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
    lang::read(vec![Source::new("config", text)], &Options { defines, ..Options::default() })
}

#[track_caller]
fn flat(text: &str) -> String {
    read(text).unwrap_or_else(|problems| panic!("{text}\n{problems}")).unparse()
}

/// The connections alone, one a line.
#[track_caller]
fn connections(text: &str) -> String {
    let flat = read(text).unwrap_or_else(|problems| panic!("{text}\n{problems}"));
    let name = |i: usize| &flat.elements[i].name;
    let lines = flat
        .connections
        .iter()
        .map(|c| format!("{}[{}]->[{}]{}", name(c.from.0), c.from.1, c.to.1, name(c.to.0)));
    lines.collect::<Vec<_>>().join(" ")
}

/// The names and configuration strings, one a line.
#[track_caller]
fn configs(result: Result<Flat, Problems>) -> String {
    let flat = result.unwrap_or_else(|problems| panic!("{problems}"));
    flat.elements.iter().map(|e| format!("{}({})", e.name, e.config)).collect::<Vec<_>>().join(" ")
}

/// Click's own text of all problems.
#[track_caller]
fn problems(text: &str) -> String {
    match read(text) {
        Ok(flat) => panic!("no problem with {text}:\n{}", flat.unparse()),
        Err(problems) => problems.compat(),
    }
}

#[test]
fn overloads_are_chosen_in_order_and_extended() {
    let text = "\
require(compact_config)
elementclass Foo {
   $a, $b | input -> Print(1) -> output
|| $a, __REST__ $b | input -> Print(2) -> output
|| $a, TWO $b, __REST__ $c | input -> Print(3) -> output
}
InfiniteSource(DATA \"\", LIMIT 1)
  -> Foo(A)
  -> f::Foo(A, TWO B)
elementclass Foo {
   $a, $b | input -> Print(4) -> output
|| ...
}
f -> Foo(A, B) -> Foo(A, B, C) -> Discard
";
    let expected = "\
require(compact_config);

InfiniteSource@1 :: InfiniteSource(DATA \"\", LIMIT 1);
Discard@6 :: Discard;
Foo@2/Print@1 :: Print(2);
f/Print@1 :: Print(1);
Foo@4/Print@1 :: Print(4);
Foo@5/Print@1 :: Print(2);

InfiniteSource@1 -> Foo@2/Print@1
    -> f/Print@1
    -> Foo@4/Print@1
    -> Foo@5/Print@1
    -> Discard@6;
";
    assert_eq!(flat(text), expected);
}

#[test]
fn overloads_are_chosen_by_ports_too() {
    let class = "elementclass F { -> A -> || input[0] -> B -> output; input[1] -> B -> [1]output || $x | -> C($x) -> } s :: S; ";
    assert_eq!(connections(&format!("{class} s -> F -> s")), "F@2/A@1[0]->[0]s s[0]->[0]F@2/A@1");
    assert!(
        connections(&format!("{class} s => F => s; f :: F; s => [0,1]f[0,1] => [0-1] s"))
            .contains("s[1]->[0]f/B@2")
    );
    assert!(flat(&format!("{class} s -> F(5) -> s")).contains("F@2/C@1 :: C(5);"));
    let two =
        "s :: S; f :: { input[0] -> A -> [1]output; input[1] -> B -> [0]output } s[0,1] => f => [0,1] s";
    let crossed = "f/B@2[0]->[0]s f/A@1[0]->[1]s s[0]->[0]f/A@1 s[1]->[0]f/B@2";
    assert_eq!(connections(two), crossed);
    // What extends a class of the program leaves it the rest.
    let queue = "elementclass Queue { $a, $b | -> Queue($a) -> Shaper($b) -> || ... } s :: S;";
    assert!(flat(&format!("{queue} s -> Queue(1, 2) -> s")).contains("Queue@2/Shaper@2 :: Shaper(2);"));
    assert!(flat(&format!("{queue} s -> Queue(1) -> s")).contains("Queue@2 :: Queue(1);"));
    assert!(flat(&format!("{queue} q :: Queue; s -> s")).contains("q :: Queue;"));
    // Only what precedes a use is seen by it.
    let text =
        "elementclass T { $a | Idle($a) }\ntest :: T(1, 2);\nelementclass T { $a, $b | Idle($b) || ... }";
    let expected = "config:3: no match for 'T[2 arguments, 0 inputs, 0 outputs]'\n\
                    config:1: candidates are:\nconfig:1:   T(<arg>)[0 inputs, 0 outputs]\n";
    assert_eq!(problems(text), expected);
}

#[test]
fn declarations_have_short_forms() {
    assert_eq!(flat("a, b :: C(1);"), "a :: C(1);\nb :: C(1);\n\n");
    assert_eq!(flat("C(1) D C"), "C@1 :: C(1);\nD@2 :: D;\nC@3 :: C;\n\n");
    assert_eq!(connections("a :: A [1] -> [2] x :: X [3] -> [4] B"), "a[1]->[2]x x[3]->[4]B@3");
    // In a connection each declaration is for one name only.
    assert_eq!(connections("n1 :: A; n1, n2 :: B -> n3 :: C"), "n1[0]->[0]n3 n2[0]->[0]n3");
    assert_eq!(connections("a :: A; b :: B; a -> b -> a; a -> b"), "b[0]->[0]a a[0]->[0]b");
    assert_eq!(
        flat("Print(1, /* ) */ ')', \")\" // )\n)"),
        "Print@1 :: Print(1, /* ) */ ')', \")\" // )\n);\n\n"
    );
}

#[test]
fn anonymous_names_count_all_elements() {
    // A taken number gives way to the next that is free.
    assert_eq!(flat("C@3 :: X; D; C; C"), "C@3 :: X;\nD@2 :: D;\nC@4 :: C;\nC@5 :: C;\n\n");
    // A group is three elements, before those beside it; in a compound element
    // `input` and `output` do not count.
    let text = "s :: S; A, (-> B ->) , { -> C -> D -> } -> E";
    assert_eq!(
        configs(read("A, (-> B ->) -> E").or(read("s :: S; s -> A, (-> B ->) -> E"))),
        "s() B@5() A@6() E@7()"
    );
    assert!(read(text).is_err());
    assert_eq!(configs(read("s :: S -> { -> C -> (-> D ->) -> } -> E")), "s() E@3() @2/C@1() @2/D@5()");
    assert_eq!(configs(read("s :: S -> a :: { -> b :: { -> C -> } -> } -> s")), "s() a/b/C@1()");
}

#[test]
fn classes_end_with_their_scope() {
    let text = "elementclass Queue { -> Queue -> Shaper -> } s :: S -> { elementclass X { -> Y -> } -> X -> } -> Queue -> s";
    assert_eq!(configs(read(text)), "s() @2/X@1/Y@1() Queue@3/Queue@1() Queue@3/Shaper@2()");
    assert_eq!(problems("{ elementclass x { -> Y -> } } x(1)"), "config:1: undeclared element 'x'\n");
    // Of its parts it sees what was so when it was defined.
    assert!(
        flat("elementclass A { -> B -> } elementclass C { -> A -> } elementclass A { -> D -> } S -> C -> S")
            .contains("C@2/A@1/B@1")
    );
    // A synonym is another name, nothing else.
    assert_eq!(
        flat("elementclass MyQueue Queue; MyQueue(5); q :: MyQueue"),
        "MyQueue@1 :: Queue(5);\nq :: Queue;\n\n"
    );
    // A group has no scope of its own.
    assert_eq!(
        configs(read("s :: S; s -> (-> x :: X -> ; elementclass z Y) -> s; x -> z(1) -> s")),
        "s() x() z@6(1)"
    );
}

#[test]
fn ports_have_lists_and_arrows_match_them() {
    let c = "c :: C; n :: N; a :: A; b :: B; ";
    for text in [
        "c[0], c[1], c[2] => a, b, n",
        "c[0,1,2] => a, b, n",
        "c[0-2] => a, b, n",
        "c[0-1,2] => a, b, n",
        "c[0,] => a, b, n",
        "c[] => a, b, n",
        "c => a, b, n",
    ] {
        assert_eq!(connections(&format!("{c}{text}")), "c[2]->[0]n c[0]->[0]a c[1]->[0]b", "{text}");
    }
    assert_eq!(connections(&format!("{c} a, b => c")), "a[0]->[0]c b[0]->[1]c");
    assert_eq!(connections(&format!("{c} a, b -> [3] c")), "a[0]->[3]c b[0]->[3]c");
    assert_eq!(connections(&format!("{c} c -> a, b")), "c[0]->[0]a c[0]->[0]b");
    assert_eq!(connections(&format!("{c} c[1,0x10,010] => [2-4]a")), "c[1]->[2]a c[16]->[3]a c[8]->[4]a");
    assert_eq!(connections(&format!("{c} a[0,1], b => [5,]c")), "a[0]->[5]c a[1]->[6]c b[0]->[7]c");
    let mismatch = |m| format!("config:1: connection mismatch: {m}\n");
    assert_eq!(problems(&format!("{c} c[0-2] => a, b")), mismatch("3 outputs connected to 2 inputs"));
    assert_eq!(
        problems(&format!("{c} c[0-2,] => a, b")),
        mismatch("3 or more outputs connected to 2 inputs")
    );
    assert_eq!(
        problems(&format!("{c} a, b => [0-3,]c")),
        mismatch("2 outputs connected to 4 or more inputs")
    );
    let arrow = "config:1: syntax error: many-to-many connections require '=>'\n";
    assert_eq!(problems(&format!("{c} c, n -> a, b")), arrow);
    let open = "config:1: at most one expandable port allowed per connection\n";
    assert_eq!(problems(&format!("{c} c[] => [] a")), open);
    assert_eq!(problems(&format!("{c} [1] a -> b")), "config:1: input ports ignored at start of chain\n");
    assert_eq!(problems(&format!("{c} a -> b [1]")), "config:1: output ports ignored at end of chain\n");
}

#[test]
fn groups_leave_no_trace() {
    for text in [
        "x -> y",
        "x -> ( input -> output ) -> y",
        "x -> ( [0] -> [0] ) -> y",
        "x -> (->) -> y",
        "x -> ( [0]->[0]; [1]->[1] ) => ( [0]->[0]; [1]->[1] ) -> y",
        "x -> (-> (-> (->) ->) ->) -> y",
        "x -> { -> (->) -> } -> y",
    ] {
        assert_eq!(flat(&format!("x::X; y::Y; {text}")), "x :: X;\ny :: Y;\n\nx -> y;\n", "{text}");
    }
    let two = "x[0]->[0]y x[1]->[0]y";
    assert_eq!(connections("x :: X; y :: Y; x => [0,1] ( [0]->[0]; [1]->[1] ) [0,1] -> y"), two);
    let text = "x :: X; y :: Y; x -> c :: C => ( input[0] -> output; input[1] -> P(1) -> output ) -> y";
    assert_eq!(connections(text), "c[0]->[0]y P@7[0]->[0]y x[0]->[0]c c[1]->[0]P@7");
    let missing = problems("x :: X; x => ( [0]->[0]; [2]->Idle ) -> x");
    assert!(missing.starts_with("config:1: '<anonymous group>' input 1 missing\n"), "{missing}");
}

#[test]
fn pseudoelements_are_used_from_their_side() {
    let misuse = "'<anonymous>' pseudoelement 'input' may only be used as output\n";
    assert!(problems("{ X -> input }").starts_with(&format!("config:1: {misuse}")));
    assert_eq!(problems("input -> X"), "config:1: undeclared element 'input'\n");
    assert_eq!(problems("y :: Y; X -> (y -> output) -> y"), "config:1: '@3' has no input 0\n");
    assert_eq!(
        problems("elementclass A { -> B -> } a :: A; X -> [1] a"),
        "config:1: 'a' has no input 1\nconfig:1: 'a' input 0 unused\nconfig:1: 'a' output 0 unused\n"
    );
    assert_eq!(problems("-> X"), "config:1: syntax error near '->'\n");
}

#[test]
fn parameters_are_replaced() {
    let rest = "{ $a, COUNT $c, __REST__ $r | A($a, $c, $r) } (1, 2, COUNT 3, FOO 4)";
    assert_eq!(configs(read(rest)), "@1/A@1(1, 3, 2, FOO 4)");
    assert_eq!(configs(read("{ __REST__ $r | A($r) B(x$r) }")), "@1/A@1() @1/B@2(x)");
    let forms =
        "{ $a | A($a ${a}b \"$a\" '$a' ${b-none} ${a-none} $b ${b} $(b $a) $$ /* $a */ \\$a) }(1 \"2\")";
    let expected = "@1/A@1(1 \"2\" 1 \"2\"b \"1 \\\"2\\\"\" '$a' none 1 \"2\" $b ${b} $(b 1 \"2\") $$ /* $a */ \\1 \"2\")";
    assert_eq!(configs(read(forms)), expected);
    assert_eq!(configs(read("{ $a, $n | P(${a[0]},${a[$n]},${ a [9] }) }(x y z, 2)")), "@1/P@1(x,z,)");
    // The value of a variable is looked up where it is used.
    assert_eq!(
        configs(read("define($x 1) a :: { $x | B($x) { C($x) } } ($x 2) D($x)")),
        "D@2(1) a/B@1(1 2) a/@2/C@1(1 2)"
    );
    // What a class mentions is what it sees where it is written.
    let text = "define($x 1) elementclass C { A($x) } { define($x 2) C B($x) { C } }";
    assert_eq!(configs(read(text)), "@1/B@2(2) @1/C@1/A@1(1) @1/@3/C@1/A@1(1)");
    // A keyword given twice: the last counts.
    assert_eq!(configs(read("{ K $k | A($k) }(K 1, K 2)")), "@1/A@1(2)");
    for (class, candidates) in
        [("{ $a, $b | A }(1)", "(<arg>, <arg>)"), ("{ C $c | A }(1)", "(C)"), ("{ A }(1)", "")]
    {
        let expected = format!(
            "config:1: no match for '<anonymous>[1 argument, 0 inputs, 0 outputs]'\n\
             config:1: candidates are:\nconfig:1:   <anonymous>{candidates}[0 inputs, 0 outputs]\n"
        );
        assert_eq!(problems(class), expected);
    }
}

#[test]
fn parameters_have_an_order() {
    let order = "config:1: compound element parameters out of order\n\
                 config:1: (The correct order is '[positional], [keywords], [__REST__]'.)\n";
    assert_eq!(problems("elementclass X { K $a, $b | A }"), order);
    assert_eq!(problems("elementclass X { __REST__ $a, K $b | A }"), order);
    assert_eq!(problems("elementclass X { $a, $a | A }"), "config:1: parameter '$a' multiply defined\n");
    let twice = "config:1: repeated keyword parameter 'K' in compound element\n";
    assert_eq!(problems("elementclass X { K $a, K $b | A }"), twice);
    assert_eq!(configs(read("elementclass X { $a, | A($a) } X(1)")), "X@1/A@1(1)");
}

#[test]
fn definitions_are_simultaneous_and_overridden() {
    for text in ["define($a 2); M($a)", "M($a); define($a 2)", "define($a $b, $b 2) M($a)"] {
        assert_eq!(configs(read(text)), "M@1(2)");
    }
    assert_eq!(configs(read_with(&[("a", "9")], "define($a 2) M($a)")), "M@1(9)");
    assert_eq!(
        configs(read_with(&[("DEV", "eth0")], "M($DEV) { D(${DEV-none}) }")),
        "M@1(eth0) @2/D@1(eth0)"
    );
    // In a compound element they are its own, command line or not.
    assert_eq!(configs(read_with(&[("a", "9")], "{ define($a 2) M($a) }")), "@1/M@1(2)");
    assert_eq!(configs(read("{ define($a 2) M($a) } M($a)")), "M@2($a) @1/M@1(2)");
    assert_eq!(problems("define($a 1, $a 2)"), "config:1: parameter '$a' multiply defined\n");
    assert_eq!(problems("define(a 1)"), "config:1: bad 'define' declaration: not a variable\n");
    assert_eq!(problems("define $a"), "config:1: expected '('\nconfig:1: syntax error near '$a'\n");
}

#[test]
fn requirements_are_kept() {
    let text = "require(package \"a b\", fastclassifier, , compact_config); require(package x) I";
    let expected = "require(package \"a b\", package \"fastclassifier\", compact_config, package \"x\");\n\nI@1 :: I;\n\n";
    assert_eq!(flat(text), expected);
    assert!(read(text).is_ok_and(|f| f.compact_config()));
    assert_eq!(problems("require(package)"), "config:1: syntax error at requirement\n");
}

#[test]
fn libraries_are_read_once_into_the_file() {
    let find = |name: &str, folder: &str| {
        let text = match name {
            "lib" => "require(library dir/lib2)\nelementclass A { b :: B; }",
            "dir/lib2" => "elementclass B { i :: Idle($here); } define($here yes)",
            "lib3" => "require(library lib)",
            _ => return None,
        };
        Some(Source::new(format!("{folder}/{name}"), text))
    };
    let options = Options { library: Some(&find), ..Options::default() };
    let text = "require(library lib, library lib3)\na :: A;";
    let flat = lang::read(vec![Source::new("main", text)], &options).unwrap_or_else(|p| panic!("{p}"));
    assert_eq!(flat.unparse(), "a/b/i :: Idle(yes);\n\n");
    assert_eq!(flat.elements[0].place.to_string(), "./dir/lib2:1:18");
    let wrong =
        lang::read(vec![Source::new("m/main", "require(library x)\n{ require(library lib) }")], &options);
    let expected = "m/main:1: library 'x' not found in CLICKPATH/conf\n\
                    m/main:2: 'require library' must be used at file scope\n";
    assert_eq!(wrong.expect_err("neither is allowed").compat(), expected);
}

#[test]
fn line_directives_move_places() {
    let text = "# 1 \"A\"\n# 0 \"<built-in>\"\n#line 3 \"A\" 1\nx :: Idle;\nyy :: Idle;\n\
                # 1 \"./B\" 1\nx :: Idle;\n# 7 \"A\" 2\n\ny :: (\n# 100 \"\"\n)";
    let expected = "./B:1: redeclaration of element 'x'\nA:3: element 'x' previously declared here\n\
                    config:100: missing element type in declaration\n"
        .replace("config:100: missing element type", "A:8: missing element type");
    assert_eq!(problems(text), expected);
    assert_eq!(problems("# 5 \"it:\"\nx"), "it:5: undeclared element 'x'\n");
    assert_eq!(problems("#define\nI"), "config:1: unknown preprocessor directive\n");
    // In a configuration string too, and not part of it.
    let flat = read("I(a,\n# 9 \"F\"\nb) J").unwrap_or_else(|p| panic!("{p}"));
    assert_eq!(flat.elements[0].config, "a,\n\nb");
    assert_eq!(flat.elements[1].place.to_string(), "F:9:4");
}

#[test]
fn identifiers_have_slashes_inside() {
    assert_eq!(flat("a/b@c/_1 :: C//too/many\n;"), "a/b@c/_1 :: C;\n\n");
    assert_eq!(problems("1/x :: C"), "config:1: element name '1/x' has all-digit component\n");
    assert_eq!(
        problems("a/ :: C"),
        "config:1: undeclared element 'a'\nconfig:1: syntax error near '/'\nconfig:1: syntax error near '::'\n"
    );
    // What expanding makes may be taken.
    let taken = "config:1: redeclaration of element 'a/b'\nconfig:1: 'a/b' previously declared here\n";
    assert_eq!(problems("a/b :: X; a :: { b :: Y }"), taken);
}

#[test]
fn names_are_declared_once_and_before() {
    let again = "config:2: redeclaration of element 'a'\nconfig:1: element 'a' previously declared here\n";
    assert_eq!(problems("a :: A;\na :: B"), again);
    assert_eq!(problems("A :: B"), "config:1: class 'A' used as element name\n");
    assert_eq!(problems("a :: nope; b :: nope"), "config:1: unknown element class 'nope'\n");
    assert_eq!(
        problems("a -> b; b -> a;"),
        "config:1: undeclared element 'a'\nconfig:1: undeclared element 'b'\n"
    );
    assert_eq!(problems("a :: A; a(1)"), "config:1: configuration string ignored on element reference\n");
    let unknown = "config:1: cannot extend unknown element class 'x'\n";
    assert_eq!(problems("elementclass x { A || B || ... } "), unknown);
}

#[test]
fn syntax_errors_read_as_click_s() {
    for (text, expected) in [
        ("x :: X; x ->", "syntax error near ''"),
        ("X(1", "expected ')'"),
        ("{ X", "expected '}'"),
        ("X -> (->", "expected ')'"),
        ("X[a]", "syntax error: port number should be integer"),
        ("}", "syntax error near '}'"),
        ("provide(x)", "syntax error near 'provide'"),
        ("elementclass", "expected element type name"),
        ("elementclass X { ... }", "'...' should occur last, after one or more compounds"),
        ("elementclass x { A || ... }", "cannot extend unknown element class 'x'"),
        ("x :: ;", "missing element type in declaration"),
        ("{ X; [1] ; }", "stranded port ignored"),
        ("{ $a, 5 | X }", "expected variable"),
        ("{ $a X }", "expected ',' or '|'"),
        ("{ X -> [0], Y -> Z }", "implicit ports used in the middle of a chain"),
    ] {
        let problems = problems(text);
        assert!(problems.contains(&format!(": {expected}\n")), "{text}: {problems}");
    }
}

#[test]
fn warnings_come_with_success() {
    let flat = read("a :: { s :: S; s -> Discard; -> Discard } S -> a").unwrap_or_else(|p| panic!("{p}"));
    let said: String = flat.warnings.iter().map(|w| w.compat()).collect();
    assert_eq!(said, "config:1: warning: suggest 'input ->' or '[0] ->' to start connection\n");
}

/// Repeated, cyclic and branching connections, as `flatconfig` prints chains.
#[test]
fn chains_are_printed_as_click_does() {
    let elements = "a :: A;\nb :: B;\nc :: C;\n\n";
    for (text, expected) in [
        ("a -> b -> c; a -> c", "a -> b\n    -> c;\na -> c;\n"),
        ("a -> b -> a", "b -> a\n    -> b;\n"),
        ("a -> a", "a -> a;\n"),
        ("a -> [1] b; a -> [2] b; c -> a", "c -> a\n    -> [2] b;\na -> [1] b;\n"),
        ("a -> [1] b -> c [2] -> a", "c [2] -> a\n    -> [1] b;\nb -> c;\n"),
        ("a -> b; b -> [1] c; b -> c", "a -> b\n    -> c;\nb -> [1] c;\n"),
    ] {
        assert_eq!(flat(&format!("{elements}{text}")), format!("{elements}{expected}"), "{text}");
    }
}
