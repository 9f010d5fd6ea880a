//! Archives as Click's tools write them, and archives that somebody made to do harm.

use graph::lang::archive::{Archive, Broken, unpack};
use proptest::prelude::*;

/// A member behind its header; the name as the header has it.
fn member(name: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes =
        format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 644, data.len()).into_bytes();
    bytes.extend_from_slice(data);
    if data.len() % 2 == 1 {
        bytes.push(b'\n');
    }
    bytes
}

fn archive(members: &[Vec<u8>]) -> Vec<u8> {
    [b"!<arch>\n".to_vec(), members.concat()].concat()
}

fn found<'a>(configuration: &'a [u8], others: &[&str]) -> Result<Option<Archive<'a>>, Broken> {
    Ok(Some(Archive { configuration, others: others.iter().map(ToString::to_string).collect() }))
}

#[test]
fn the_configuration_is_found_among_others() {
    let map = member("componentmap", b"a b\n");
    let config = member("config", b"Idle;");
    for members in [[map.clone(), config.clone()], [config.clone(), map.clone()]] {
        assert_eq!(unpack(&archive(&members)), found(b"Idle;", &["componentmap"]));
    }
    // GNU's tools end names with a slash.
    assert_eq!(unpack(&archive(&[member("config/", b"Idle;")])), found(b"Idle;", &[]));
    // The first one counts.
    assert_eq!(unpack(&archive(&[config, member("config", b"x")])), found(b"Idle;", &["config"]));
    // The last byte of some tools' archives is the data's.
    let all = archive(&[member("config", b"Idle;")]);
    assert_eq!(unpack(&all[..all.len() - 1]), found(b"Idle;", &[]));
    assert_eq!(unpack(b"Idle;"), Ok(None));
    assert_eq!(unpack(b"!<arch>"), Ok(None));
}

#[test]
fn long_names_are_found_where_each_way_has_them() {
    let name = "a-package-with-a-long-name.u.cc";
    let bsd = member(&format!("#1/{}", name.len()), format!("{name}int x;").as_bytes());
    let config = member("#1/8", b"config\0\0Idle;");
    assert_eq!(unpack(&archive(&[bsd, config])), found(b"Idle;", &[name]));
    let names = member("//", format!("other.cc/\n{name}/\nconfig/\n").as_bytes());
    let config_at = format!("/{}", 10 + name.len() + 2);
    let members = [names, member("/10", b"int x;"), member(&config_at, b"Idle;")];
    assert_eq!(unpack(&archive(&members)), found(b"Idle;", &[name]));
}

#[test]
fn broken_archives_are_refused_with_what_is_wrong() {
    let whole = archive(&[member("config", b"Idle; ")]);
    let with = |at: usize, bytes: &[u8]| {
        let mut broken = whole.clone();
        broken[at..at + bytes.len()].copy_from_slice(bytes);
        broken
    };
    let long = format!("{}/\n", "x".repeat(300));
    let cases = [
        (b"!<arch>\n".to_vec(), Broken::NoConfiguration),
        (archive(&[member("other", b"")]), Broken::NoConfiguration),
        (whole[..40].to_vec(), Broken::Truncated),
        (whole[..whole.len() - 1].to_vec(), Broken::Truncated),
        (with(8 + 58, b"x"), Broken::NoHeader),
        (with(8 + 48, b"-1"), Broken::BadSize),
        (with(8 + 48, b"9999999999"), Broken::Truncated),
        (archive(&[member("#1/7", b"config")]), Broken::BadName),
        (archive(&[member("/5", b"config")]), Broken::BadName),
        (archive(&[member("//", long.as_bytes()), member("/0", b"x")]), Broken::BadName),
        (archive(&vec![member("x", b""); 4096]), Broken::TooManyMembers),
    ];
    for (text, broken) in cases {
        assert_eq!(unpack(&text), Err(broken), "{}", text.escape_ascii());
    }
}

proptest! {
    /// Whatever bytes of an archive become others, or go, the answer is part of it or none.
    #[test]
    fn any_bytes_are_an_archive_or_refused(
        changes: Vec<(prop::sample::Index, u8)>,
        end: prop::sample::Index,
        names in prop::sample::subsequence(vec!["config", "//", "/3", "#1/4", "elementmap.xml"], 0..=5),
    ) {
        let members: Vec<Vec<u8>> = names.iter().map(|name| member(name, b"config/\nIdle;")).collect();
        let mut text = archive(&members);
        for (at, byte) in changes {
            let at = at.index(text.len());
            text[at] = byte;
        }
        let end = text.len() - end.index(8);
        if let Ok(Some(Archive { configuration, others })) = unpack(&text[..end]) {
            prop_assert!(configuration.len() <= 13 && others.len() < names.len());
        }
    }
}
