//! Any text as a configuration: a graph or problems, soon and within bounds, and a
//! graph printed reads as the same again.
//!
//! An even first byte means text as it is, or an archive that holds it; an odd one a token
//! for each byte, which gets deeper.
#![no_main]

use graph::lang::{self, Flat, Limits, Options, Problems, Source, archive, args};

#[rustfmt::skip]
const TOKENS: [&str; 72] = [
    " ", "\n", ";", ",", "->", "=>", "::", "|", "||", "...", "(", ")", "{", "}", "[", "]", "[0]", "[1]", "[0,]",
    "[0-2]", "[]", "input", "output", "a", "b", "c", "x/y", "A", "B", "C", "A@1", "@2", "elementclass ", "define(",
    "require(", "package p", "library l", "compact_config", "$a", "$b", "${a}", "${b-c}", "${a[1]}", "$(b", "K ",
    "__REST__ ", "1", "65535", "'", "\"", "\\<20>", "\\", "/*", "*/", "//", "#", "# 7 \"f\"\n", "\r\n", "elementclass A {",
    "A(1)", "a :: A;", "-> A ->", "(->)", "{ $a |", "A(\"", "\")", "\\x41", "\\101", "\\n", "\\<4", ">", "f",
];

/// Problems that are shown.
const SHOWN: usize = 4;

fn read(text: Vec<u8>) -> Result<Flat, Problems> {
    let limits = Limits { elements: 2_000, connections: 20_000, text: 1 << 18, source: 1 << 16 };
    let library = |name: &str, _: &str| (name == "l").then(|| Source::new("l", "elementclass L { -> A -> }"));
    let options = Options { limits, library: Some(&library), ..Options::default() };
    lang::read(vec![Source::new("config", text)], &options)
}

/// Whether an element's configuration string can be read where it is printed. A
/// variable may hold half of a pair of parentheses.
fn whole(config: &str) -> bool {
    read(format!("A({config})").into_bytes()).is_ok_and(|flat| {
        matches!(&flat.elements[..], [one] if one.config == config) && !config.contains('$')
    })
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((&way, rest)) = input.split_first() else { return };
    let text: Vec<u8> = match way % 2 {
        0 => rest.to_vec(),
        _ => rest.iter().flat_map(|&b| TOKENS[b as usize % TOKENS.len()].bytes()).collect(),
    };
    let text = match archive::unpack(&text) {
        Ok(Some(archive)) => archive.configuration.to_vec(),
        Ok(None) => text,
        Err(_) => return,
    };
    let flat = match read(text) {
        Ok(flat) => flat,
        Err(mut problems) => {
            assert!(problems.errors() > 0 && !problems.compat().is_empty());
            // There may be a thousand, and all in a line that is shown with each.
            problems.list.truncate(SHOWN);
            assert!(!problems.render().is_empty());
            return;
        }
    };
    for element in &flat.elements {
        for argument in args::split(&element.config) {
            args::unquote(&argument);
            args::keyword(&argument);
            args::words(&argument);
        }
    }
    if !flat.elements.iter().all(|e| e.config.is_empty() || whole(&e.config)) {
        return;
    }
    let printed = flat.unparse();
    match read(printed.clone().into_bytes()) {
        Ok(again) => assert_eq!(printed, again.unparse()),
        Err(problems) => panic!("{printed}\n{problems}"),
    }
});
