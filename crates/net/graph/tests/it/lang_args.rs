//! Configuration strings taken apart and put together.

use graph::lang::args::*;
use proptest::prelude::*;

#[test]
fn arguments_are_split_at_commas_outside_quotes() {
    let cases: [(&str, &[&str]); 12] = [
        ("", &[]),
        ("  ", &[]),
        (" /* */ // x", &[]),
        ("a, b, c", &["a", "b", "c"]),
        ("  a /*?*/ b,  c, ", &["a b", "c"]),
        ("\"x, y\" // ?", &["\"x, y\""]),
        (",", &[""]),
        (",,a", &["", "", "a"]),
        ("a, // one\n b /* two, */ , 'c, d'", &["a", "b", "'c, d'"]),
        ("\"a\\\", b\", \\<2c, 2C>, c", &["\"a\\\", b\"", "\\<2c, 2C>", "c"]),
        ("a  b", &["a  b"]),
        ("'unclosed, ", &["'unclosed, "]),
    ];
    for (config, expected) in cases {
        assert_eq!(split(config), expected, "{config}");
    }
    // Parentheses do not hold an argument together: Click splits there as well.
    assert_eq!(split("f(a, b), c"), ["f(a", "b)", "c"]);
    assert_eq!(split_at(" a, /**/ b"), [(1, "a".into()), (9, "b".into())]);
}

#[test]
fn quotes_and_escapes_are_replaced() {
    let cases: [(&str, &[u8]); 14] = [
        ("abc", b"abc"),
        ("a\"b\"c", b"abc"),
        ("'a\\n\"'", b"a\\n\""),
        (r#""\a\b\t\n\v\f\r\\\"\'\$\,\q""#, b"\x07\x08\t\n\x0b\x0c\r\\\"'$,q"),
        (r#""\0\12\1011\777""#, b"\0\nA1\xff"),
        (r#""\x41\x4142""#, b"AB"),
        (r#""\x""#, b"\0"),
        ("\"a\\\nb\\\r\nc\\\rd\"", b"abcd"),
        (r"\<48 65 /* x */ 6c6C 6f 2>!", b"Hello!"),
        (r#""\<48 65>""#, b"He"),
        (r"'\<48>'", br"\<48>"),
        (r"\n", br"\n"),
        (r#""\"#, b"\\"),
        ("  é /* */ ü ", "é ü".as_bytes()),
    ];
    for (argument, expected) in cases {
        assert_eq!(unquote(argument), expected, "{argument}");
    }
    assert_eq!(unquote_text("\\<ff>"), None);
}

#[test]
fn keywords_have_a_form() {
    for (argument, expected) in [
        ("K v", Some(("K", "v"))),
        ("_a.b:c?d! \n v w", Some(("_a.b:c?d!", "v w"))),
        ("k", None),
        ("K ", None),
        ("1K v", None),
        ("K-L v", None),
        ("K\"v\"", None),
        ("", None),
        ("K é", Some(("K", "é"))),
    ] {
        assert_eq!(keyword(argument), expected, "{argument}");
    }
}

#[test]
fn words_end_at_white_space_and_comments() {
    assert_eq!(words(" a/b \"c d\"e//f\n'g h' \\<1 2> "), ["a/b", "\"c d\"e", "'g h'", "\\<1 2>"]);
    assert_eq!(shift_word("  one /**/ two three "), ("one", "two three "));
    assert_eq!(shift_word("/**/"), ("", ""));
    assert!(is_word("a-b.c") && !is_word("a b") && !is_word("") && !is_word("é") && !is_word("a,b"));
    assert!(is_identifier("a/b@1") && !is_identifier("a//b") && !is_identifier("/a") && !is_identifier(""));
}

proptest! {
    #[test]
    fn quoted_bytes_come_back(bytes: Vec<u8>) {
        let quoted = quote(&bytes);
        prop_assert!(quoted.is_ascii());
        prop_assert_eq!(unquote(&quoted), bytes);
        let quoted_list = vec![quoted.clone()];
        prop_assert_eq!(split(&quoted), quoted_list);
    }

    #[test]
    fn arguments_joined_are_split_again(config in "[a-c ,/*'\"\\\\<>$\n\r\u{e9}]{0,40}") {
        let arguments = split(&config);
        for argument in &arguments {
            unquote(argument);
            keyword(argument);
            // Words are the argument without white space and comments.
            prop_assert!(words(argument).iter().all(|w| argument.contains(w)));
        }
        // An unclosed quote or comment may take in what is joined to it; all else is
        // as it was, but for an empty last argument.
        let closed = arguments.iter().all(|a| split(&format!("{a},x")).len() == 2);
        if closed && arguments.last().is_none_or(|a| !a.is_empty()) {
            prop_assert_eq!(split(&join(&arguments)), arguments);
        }
    }

    #[test]
    fn uncommenting_twice_changes_nothing(text in "[ab /*\n'\"\\\\<>]{0,30}") {
        let once = uncomment(&text);
        prop_assert_eq!(uncomment(&once), once.clone());
    }
}
