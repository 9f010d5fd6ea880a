//! `ixora compile` with configurations that nobody means well with: whatever the language
//! accepts becomes code that is Rust, or is refused with a name for what is wrong.
//!
//! `IXORA_SEED` repeats a random one, `IXORA_CASES` says how many there are.
#![allow(clippy::unwrap_used)]

#[path = "../../../net/element/tests/it/differential/random.rs"]
#[allow(dead_code)]
mod random;

use std::process::Command;
use std::time::UNIX_EPOCH;

use random::Random;

/// The code of a configuration, if it is taken; it is Rust then.
fn code(text: &str) -> Option<String> {
    let code = match ixora::compile::code_of("hostile.click", text) {
        Ok((code, _)) => code.module,
        Err(why) => {
            assert!(!why.trim().is_empty(), "refused without a word: {text}");
            return None;
        }
    };
    if let Err(error) = syn::parse_file(&code) {
        panic!("{error}\n{text}\n{code}");
    }
    // The compiler refuses text that does not look like what it is.
    let disguise = |c: &char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\r' | '\0');
    assert_eq!(code.chars().find(disguise), None, "{text}\n{code}");
    Some(code)
}

/// Numbers, strings and patterns as they should not be.
const WORDS: &[&str] = &[
    "",
    "0",
    "1",
    "2",
    "14",
    "-1",
    "255",
    "256",
    "65535",
    "65536",
    "4294967295",
    "4294967296",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999999",
    "0x",
    "0xffffffffffffffff",
    "1e9",
    "nan",
    "true",
    "false",
    "maybe",
    "'",
    "\"",
    "\"\"",
    "\"a\\\"b\"",
    "'\"'",
    "\"\\<22 5c 27>\"",
    "\"*/ // /* r#\\\"\"",
    "\"é 語 🦀\"",
    "\"\u{202e}gnirts\u{2066}\"",
    "\"line\nline\"",
    "\"\\<0d 0a 00>\"",
    "{}",
    "{{",
    "\"{0} {packet}\"",
    "r#fn",
    "self",
    "$x",
    "-",
    "12/0800",
    "12/08??",
    "12/0800%0f0f",
    "0/ffffffffffffffffffffffffffffffffffff",
    "65535/00",
    "70000/00",
    "4294967295/00",
    "!12/0800",
    "12/0800 0/45",
    "udp",
    "tcp opt syn",
    "ip[3:4] & 0xffffffff = 0",
    "((((((((((udp))))))))))",
    "udp || udp || udp && tcp",
    "dst net 0.0.0.0/0",
    "src host 255.255.255.255",
    "not (not (not (not udp)))",
    "ip vers 15",
    "allow all",
    "deny all",
    "1 udp",
    "10.0.0.1",
    "10.0.0.0/8 0",
    "0/0 1",
    "10.0.0.0/8 10.0.0.1 65535",
    "255.255.255.255/32 0",
    "1:2:3:4:5:6",
    "ff:ff:ff:ff:ff:ff",
    "0x0800",
    "fe80::1",
    "COUNT_CALL 5 c.reset \"\u{2067}\"",
    "ANNO 47",
    "ANNO PAINT",
    "OFFSET 18446744073709551615",
    "CHECKSUM false",
    "INTERFACES 10.0.0.1/24 10.0.1.1/24",
    "DETAILS true",
    "BADSRC 1.2.3.4 5.6.7.8",
    "MTU 4294967295",
];

/// Names that mean something to Rust, or to the code around them.
const NAMES: &[&str] = &[
    "fn", "self", "Self", "crate", "super", "_", "__", "packet", "cx", "g0", "R0", "kernels", "Exit",
    "element", "a@1", "a@2", "x", "async", "r", "b", "union", "0", "REGION", "Batch",
];

fn pick<'a>(random: &mut Random, of: &[&'a str]) -> &'a str {
    of[random.below(of.len())]
}

/// An element of a class that is fused, or of another.
fn element(random: &mut Random) -> String {
    let others = ["Queue", "Unqueue", "Tee", "Discard", "Idle", "InfiniteSource", "ICMPError", "Print", "C"];
    let class = match random.below(8) {
        0 => pick(random, &others),
        _ => {
            let registry = element::registry();
            let fused = registry
                .iter()
                .filter(|(name, class)| *name == class.name && class.kernel.inside().is_some());
            let fused: Vec<&str> = fused.map(|(name, _)| name).collect();
            pick(random, &fused)
        }
    };
    let words: Vec<&str> = (0..random.below(4)).map(|_| pick(random, WORDS)).collect();
    let name = match random.below(3) {
        0 => format!("{}{} :: ", pick(random, NAMES), random.below(5)),
        _ => String::new(),
    };
    format!("{name}{class}({})", words.join(", "))
}

/// A configuration that is right in most places.
fn configuration(random: &mut Random) -> String {
    let mut text = String::new();
    if random.below(2) == 0 {
        let inner = element(random);
        text += &format!("elementclass C {{ $a, __REST__ $r | input -> {inner} -> output; }}\n");
    }
    for _ in 0..1 + random.below(2) {
        let mut chain = vec!["InfiniteSource".to_string()];
        let plain = random.below(4) > 0;
        for _ in 0..1 + random.below(5) {
            let (nodes, element) = (random::NODES, element(random));
            let (node, _) = nodes[random.below(nodes.len())];
            let node = node.replace("u$", "u").replace("$n", "3");
            chain.push(if plain && random.below(5) > 0 { node } else { element });
        }
        text += &format!("{} -> Discard;\n", chain.join(" -> "));
    }
    text
}

#[test]
fn what_is_accepted_is_rust() {
    let seed = std::env::var("IXORA_SEED").ok().map(|seed| seed.parse().unwrap());
    let cases = std::env::var("IXORA_CASES").ok().map_or(1500, |cases| cases.parse().unwrap());
    let first = UNIX_EPOCH.elapsed().unwrap().as_millis() as u64 % 1_000_000 * 10_000;
    let mut accepted = 0;
    for seed in seed.map_or(first..first + cases, |seed| seed..seed + 1) {
        let text = configuration(&mut Random(seed));
        let code = std::panic::catch_unwind(|| code(&text));
        let code = code.unwrap_or_else(|_| panic!("IXORA_SEED={seed} repeats it\n{text}"));
        accepted += u64::from(code.is_some_and(|code| code.contains("impl Program")));
    }
    assert!(seed.is_some() || accepted > cases / 20, "{accepted} of {cases} have a program");
}

/// A chain of fused elements of these, between a source and a sink.
fn chain(elements: &str) -> String {
    format!("InfiniteSource -> Strip(0) -> {elements} -> Null -> Discard;")
}

#[test]
fn words_and_names_stay_what_they_are() {
    let quoted = |word: &&&str| word.len() > 1 && word.starts_with('"') && word.ends_with('"');
    for word in WORDS.iter().filter(quoted) {
        let code = code(&chain(&format!("c :: Counter(COUNT_CALL 5 c.reset {word})"))).unwrap();
        assert!(code.contains("impl Program"), "{word}");
    }
    for name in NAMES.iter().filter(|name| name.chars().any(|c| !c.is_ascii_digit())) {
        let text = format!("elementclass {name}C {{ {name} :: Strip(1) -> Counter }}");
        let text = text.replace("{ ", "{ input -> ").replace(" }", " -> output; }");
        let text = format!("{text} InfiniteSource -> {name} :: {name}C -> Counter -> Discard;");
        if let Some(code) = code(&text) {
            assert!(code.contains(&format!("{name}/{name}")), "{text}\n{code}");
        }
    }
    for number in ["0", "1", "2147483647", "4294967295"] {
        assert!(code(&chain(&format!("Strip({number})"))).unwrap().contains(&format!("with({number})")));
    }
}

/// Microseconds of the processor that this thread had.
fn busy() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000 + time.tv_nsec / 1000
}

/// Four times as many elements take about four times as long, and never sixteen times.
#[test]
fn the_cost_grows_with_the_elements() {
    // Many small programs, and many ways.
    let apart = |n: usize| chain(&vec!["Null -> Strip(2)"; n].join(" -> Queue -> Unqueue -> "));
    let wide = |n: usize| {
        let ways: String = (0..n).map(|i| format!("s[{i}] -> Paint({}) -> d;\n", i % 256)).collect();
        format!("InfiniteSource -> s :: HashSwitch(0, 4); d :: Discard;\n{ways}")
    };
    for (many, text, last) in
        [(1200, apart as fn(usize) -> String, "R1199"), (300, wide as fn(usize) -> String, "0..=299")]
    {
        let [few, many] = [many / 4, many].map(|elements| {
            let start = busy();
            let code = code(&text(elements)).expect("it is compiled");
            (busy() - start, code)
        });
        assert!(many.1.contains(last));
        assert!(many.0 < 10 * few.0, "{last}: {} us, and {} us for four times as many", few.0, many.0);
    }
    // One way through more than a program holds.
    assert!(code(&chain(&["Strip(1)"; 5000].join(" -> "))).is_some());
    let deep = |n: usize| format!("{}Strip(1){}", "{ input -> ".repeat(n), " -> output }".repeat(n));
    assert!(code(&chain(&deep(60))).is_some() && code(&chain(&deep(5000))).is_none());
}

/// What a file is called matters to cargo, and stands in the code.
#[test]
fn names_of_files_are_no_matter() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("hostile");
    let _old = std::fs::remove_dir_all(&folder);
    let long = "long".repeat(60);
    let names = [
        "fn",
        "self",
        "a\"b\\",
        "line\nline",
        "é\u{301}語",
        "\u{202e}x",
        "-",
        "test",
        "clap",
        "9",
        &long,
        "{}",
        "'",
    ];
    for (n, name) in names.into_iter().enumerate() {
        let (folder, out) = (folder.join(format!("{n} \" \\ é\u{301}")), folder.join(format!("{n} \"o")));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join(name).with_extension("click");
        std::fs::write(&file, chain("Strip(1)")).unwrap();
        let mut ixora = Command::new(env!("CARGO_BIN_EXE_ixora"));
        let said = ixora.arg("compile").arg(&file).args(["--no-build", "-o"]).arg(&out).output().unwrap();
        assert!(said.status.success(), "{name}: {}", String::from_utf8_lossy(&said.stderr));
        let main = std::fs::read_to_string(out.join("src/main.rs")).unwrap();
        if let Err(error) = syn::parse_file(&main) {
            panic!("{error}\n{main}");
        }
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1", "--manifest-path"]);
        let read = cargo.arg(out.join("Cargo.toml")).output().unwrap();
        assert!(read.status.success(), "{name}: {}", String::from_utf8_lossy(&read.stderr));
        let package: serde_json::Value = serde_json::from_slice(&read.stdout).unwrap();
        let called = package["packages"][0]["name"].as_str().unwrap();
        assert!(called.len() <= 64 && called != "test", "{name}: {called}");
    }
}
