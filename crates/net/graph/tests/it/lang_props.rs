//! Properties of random configurations: what is printed reads as the same again, and
//! what should change nothing does not.

use std::collections::HashSet;
use std::fmt::Write;

use graph::lang::lexer::{Lexer, Text, TokenKind};
use graph::lang::{self, Flat, Limits, Options, Problems, Source, Sources};
use proptest::prelude::*;

fn read(text: &str) -> Result<Flat, Problems> {
    let limits = Limits { elements: 5_000, connections: 20_000, text: 1 << 20, source: 1 << 20 };
    lang::read(vec![Source::new("config", text)], &Options { limits, ..Options::default() })
}

/// Writes a configuration from bytes that choose.
struct Writer<'b> {
    bytes: std::slice::Iter<'b, u8>,
    out: String,
    /// The names of the elements of each open scope.
    names: Vec<Vec<String>>,
    count: usize,
}

impl Writer<'_> {
    fn write(bytes: &[u8]) -> String {
        let mut writer = Writer { bytes: bytes.iter(), out: String::new(), names: vec![vec![]], count: 0 };
        while !writer.bytes.as_slice().is_empty() {
            writer.statement(4);
        }
        writer.out
    }

    fn choose(&mut self, most: u8) -> u8 {
        self.bytes.next().map_or(0, |b| b % most)
    }

    fn pick<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of[self.choose(of.len() as u8) as usize]
    }

    fn statement(&mut self, depth: usize) {
        match self.choose(8) {
            0 | 1 => self.declaration(),
            2 if depth > 0 => self.class(depth - 1),
            3 => {
                let (variable, value) =
                    (self.pick(&["a", "b", "c"]), self.pick(&["1", "x y", "\"q, r\"", "$b z", "'$c'"]));
                let _ = write!(self.out, "define(${variable} {value})");
            }
            _ => self.chain(depth),
        }
        let end = self.pick(&[";", ";\n", " ; // c\n", "/* */;"]);
        self.out += end;
    }

    fn declaration(&mut self) {
        self.count += 1;
        let name = format!("e{}", self.count);
        let class = self.pick(&["A", "B", "Queue", "Two"]);
        let _ = write!(self.out, "{name} :: {class}");
        self.config();
        if let Some(names) = self.names.last_mut() {
            names.push(name);
        }
    }

    fn class(&mut self, depth: usize) {
        let name = self.pick(&["Two", "Queue", "Three"]);
        let _ = write!(self.out, "elementclass {name} ");
        self.braces(depth);
    }

    fn braces(&mut self, depth: usize) {
        let formals = self.pick(&["", "|", "$a |", "$a, K $b |", "__REST__ $a |", "$a, __REST__ $c |"]);
        let _ = write!(self.out, "{{ {formals} ");
        self.names.push(vec![]);
        let thread = self.pick(&["-> ", "input -> A -> output; ", "", "input => B => output; "]);
        self.out += if thread == "-> " { "->; " } else { thread };
        for _ in 0..self.choose(3) {
            self.statement(depth);
        }
        self.names.pop();
        self.out += "}";
    }

    fn config(&mut self) {
        let config = self.pick(&[
            "",
            "(1)",
            "($a)",
            "(\"$a\", ${b-d})",
            "(1, K 2)",
            "( /* c */ 'x, y', $c // z\n)",
            "(${a[0]} $zz)",
        ]);
        self.out += config;
    }

    fn chain(&mut self, depth: usize) {
        let last = self.choose(5);
        for i in 0..=last {
            if i > 0 {
                let arrow = self.pick(&[" -> ", "->", " => ", " ->\n\t"]);
                self.out += arrow;
            }
            // At an end, what has ports on both sides would be half connected.
            self.element(if i == 0 || i == last { 0 } else { depth });
        }
    }

    fn element(&mut self, depth: usize) {
        let names = self.names.last().map_or(0, Vec::len);
        match self.choose(8) {
            0..4 if names > 0 => {
                let name = self.choose(names as u8) as usize;
                let name = self.names.last().map_or(String::new(), |n| n[name].clone());
                self.out += &name;
            }
            4 if depth > 0 => {
                self.out += "(->; ";
                self.statement(depth - 1);
                self.out += ")";
            }
            5 if depth > 0 => {
                self.braces(depth - 1);
                self.config();
            }
            6 => self.declaration(),
            _ => {
                let class = self.pick(&["A", "B", "Queue", "Two", "Three"]);
                self.out += class;
                self.config();
            }
        }
    }
}

/// What holds of every flat configuration.
fn check(flat: &Flat) {
    let names: HashSet<&str> = flat.elements.iter().map(|e| &*e.name).collect();
    assert_eq!(names.len(), flat.elements.len(), "names are unique");
    for element in &flat.elements {
        assert!(element.place.line > 0 && flat.sources.line(&element.place).is_some());
        assert!(element.within.is_none_or(|c| element.name.starts_with(&flat.compounds[c].name)));
    }
    for compound in &flat.compounds {
        assert!(compound.within.is_none_or(|c| compound.name.starts_with(&flat.compounds[c].name)));
    }
    assert!(flat.connections.iter().all(|c| c.from.0.max(c.to.0) < flat.elements.len()));
    let sorted = |w: &[lang::Connection]| (w[0].to, w[0].from) < (w[1].to, w[1].from);
    assert!(flat.connections.windows(2).all(sorted), "connections are sorted, and each is there once");
}

fn parts(flat: &Flat) -> impl PartialEq + std::fmt::Debug + use<> {
    let elements: Vec<_> =
        flat.elements.iter().map(|e| (e.name.clone(), e.class.clone(), e.config.clone())).collect();
    let connections: Vec<_> = flat.connections.iter().map(|c| (c.from, c.to)).collect();
    (elements, connections)
}

/// The tokens of a text, configuration strings in one piece, with something between.
fn respaced(text: &str, between: &str) -> String {
    let mut sources = Sources::default();
    let text = Text::new(Source::new("", text), &mut sources);
    let mut lexer = Lexer::new(&text);
    let mut out = String::new();
    let mut name = false;
    loop {
        let token = lexer.token();
        match token.kind {
            TokenKind::End => return out,
            TokenKind::Variable => _ = write!(out, "${}", token.text),
            // After a name it is a configuration string, elsewhere a group.
            TokenKind::Char('(') if name => {
                let config = lexer.config().text.into_owned();
                let _ = write!(out, "({config})");
                lexer.token();
            }
            _ => out += token.text,
        }
        name = matches!(token.kind, TokenKind::Name | TokenKind::Define | TokenKind::Require)
            || token.kind == TokenKind::Char('}');
        out += between;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn printed_reads_as_the_same(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let text = Writer::write(&bytes);
        match read(&text) {
            Ok(flat) => {
                check(&flat);
                let printed = flat.unparse();
                let again = read(&printed).unwrap_or_else(|p| panic!("{text}\n--\n{printed}\n--\n{p}"));
                prop_assert_eq!(parts(&flat), parts(&again));
                prop_assert_eq!(printed, again.unparse());
            }
            Err(problems) => {
                prop_assert!(problems.errors() > 0);
                problems.render();
                problems.compat();
            }
        }
    }

    #[test]
    fn space_between_tokens_means_nothing(bytes in prop::collection::vec(any::<u8>(), 0..60), space in 0..4usize) {
        let text = Writer::write(&bytes);
        let spaced = respaced(&text, [" ", "\n", "/* ( */", " // {\r\n"][space]);
        match (read(&text), read(&spaced)) {
            (Ok(a), Ok(b)) => prop_assert_eq!(parts(&a), parts(&b)),
            (Err(a), Err(b)) => {
                let messages = |p: &Problems| p.list.iter().map(|p| p.message.clone()).collect::<Vec<_>>();
                prop_assert_eq!(messages(&a), messages(&b));
            }
            (a, b) => prop_assert!(false, "{text}\n{a:?}\n{spaced}\n{b:?}"),
        }
    }

    /// An empty group or compound element in a connection is as good as none.
    #[test]
    fn edges_lead_through(links in prop::collection::vec((0..5u8, 0..3u8, 0..5u8, 0..3u8, 0..4u8), 0..30)) {
        let declared = "a, b, c, d, e :: X;";
        let (mut plain, mut edged) = (declared.to_owned(), declared.to_owned());
        for (from, output, to, input, way) in links {
            let (from, to) = (b"abcde"[from as usize] as char, b"abcde"[to as usize] as char);
            let way = ["->", "-> (->) ->", "-> {->} ->", "-> { -> (-> {->} ->) -> } ->"][way as usize];
            let _ = write!(plain, "{from} [{output}] -> [{input}] {to};");
            let _ = write!(edged, "{from} [{output}] {way} [{input}] {to};");
        }
        let connections = |text: &str| {
            let flat = read(text).unwrap_or_else(|p| panic!("{text}\n{p}"));
            check(&flat);
            flat.connections.iter().map(|c| (c.from, c.to)).collect::<Vec<_>>()
        };
        prop_assert_eq!(connections(&plain), connections(&edged));
    }

    #[test]
    fn any_text_ends_in_a_graph_or_problems(text in "[abAB$(){}\\[\\];:,|>\"'/*.\\-= \n0-2]{0,80}") {
        match read(&text) {
            Ok(flat) => check(&flat),
            Err(problems) => prop_assert!(problems.errors() > 0 && !problems.render().is_empty()),
        }
    }
}
