//! `docs/evpn.md` as a reader types it: its blocks of `sh` in one shell, in namespaces of its own, and
//! what stands behind a block among what it printed.
//!
//! It needs root, and fetches FRR and `ping` (`IXORA_OFFLINE` leaves it out). They are unpacked, not
//! installed: over the shell's `/usr` and `/etc` lies what the packages would have put there.

use std::path::Path;
use std::process::Command;

use crate::common::{IXORA, may_make_interfaces, start_command};
use lab::packages::{Packages, Suite, Tree};

/// The packages of the guide that are fetched; the others every machine has that runs these tests.
const PACKAGES: &[&str] = &["frr", "iputils-ping"];
const HERE: &[&str] = &["iproute2", "procps"];
/// Programs of theirs that the guide runs.
const PROGRAMS: &[&str] = &["usr/lib/frr/zebra", "usr/lib/frr/bgpd", "usr/bin/vtysh", "bin/ping"];
/// For all of it, on a busy machine; it takes some ten seconds.
const SECONDS: u64 = 150;

/// Blocks of commands, each with what it prints.
fn blocks(guide: &str) -> Vec<(&str, Vec<&str>)> {
    let mut blocks: Vec<(&str, Vec<&str>)> = Vec::new();
    // Every other piece is between two fences, and begins with its kind.
    for block in guide.split("```").skip(1).step_by(2) {
        let (kind, text) = block.split_once('\n').expect("a line");
        match (kind, blocks.last_mut()) {
            ("sh", _) => blocks.push((text, Vec::new())),
            ("text", Some((_, printed))) => printed.extend(text.lines()),
            _ => {}
        }
    }
    blocks
}

/// Whether a line is as the guide has it: `…` stands for anything, a space for any number of them.
fn is_as(line: &str, wanted: &str) -> bool {
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (line, wanted) = (plain(line), plain(wanted));
    let pieces: Vec<&str> = wanted.split('…').collect();
    let [first, between @ .., last] = &pieces[..] else { return line == wanted };
    let mut rest = line.strip_prefix(first);
    for piece in between {
        rest = rest.and_then(|rest| Some(rest.split_once(piece)?.1));
    }
    rest.is_some_and(|rest| rest.ends_with(last))
}

/// What stands in front of the guide's commands: the programs of the packages over the machine's own,
/// and the user that FRR's package makes.
fn prelude(tree: &Tree) -> String {
    let libraries = tree.libraries().into_iter().flat_map(|library| [library.join("frr"), library]);
    let libraries = std::env::join_paths(libraries).expect("no colons").into_string().expect("text");
    let loader = tree.loader().expect("the C library");
    let mut text =
        "set -e\nmount -t tmpfs none /run\nmount -t tmpfs none /var/tmp\nmkdir -p /run/over/etc /run/over/work /run/over/usr\n".to_owned();
    for program in PROGRAMS {
        let file = tree.file(program).expect("the packages have it");
        let at = format!("/run/over/usr/{}", program.trim_start_matches("usr/"));
        text += &format!(
            "mkdir -p {}\nprintf '#!/bin/sh\\nexec {} --library-path {libraries} {} \"$@\"\\n' > {at}\n\
             chmod +x {at}\n",
            Path::new(&at).parent().expect("a directory").display(),
            loader.display(),
            file.display(),
        );
    }
    text += "mount -t overlay none -o lowerdir=/run/over/usr:/usr /usr\n\
             mount -t overlay none -o lowerdir=/etc,upperdir=/run/over/etc,workdir=/run/over/work /etc\n\
             echo 'frr:x:990:990::/nonexistent:/usr/sbin/nologin' >> /etc/passwd\n\
             printf 'frr:x:990:\\nfrrvty:x:991:frr\\n' >> /etc/group\n\
             install -d -o frr -g frr /run/frr\ninstall -d -m 750 -o frr -g frr /etc/frr\n";
    // With the package's own files: a daemon that is not told its file waits for `vtysh -b` where there
    // is a `/etc/frr/frr.conf`.
    let files = tree.file("etc/frr/frr.conf").expect("the package has it");
    let folder = files.parent().expect("a directory").display();
    text += &format!("install -m 640 -o frr -g frr {folder}/* /etc/frr\n");
    text
}

#[test]
fn the_guide_makes_a_fabric() {
    if !may_make_interfaces() {
        return;
    }
    let Some(tree) = Packages::of_test(PACKAGES, Suite::BOOKWORM) else { return };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/evpn.md");
    let guide = std::fs::read_to_string(path).expect("the guide");
    let install = guide.lines().find_map(|line| line.strip_prefix("# apt-get install "));
    let mut packages: Vec<&str> = install.expect("what it needs").split(' ').collect();
    packages.retain(|package| !HERE.contains(package));
    assert_eq!(packages, PACKAGES, "what the guide needs is what is fetched here");
    let blocks = blocks(&guide);
    let mut script = prelude(&tree);
    for (number, (commands, _)) in blocks.iter().enumerate() {
        script += &format!("echo '=== block {number}'\n{commands}");
    }
    // Only this shell may be there at the end; daemons that were told to end take their time.
    script += "echo '=== block end'\nip netns list\nfor try in $(seq 300); do\n  set -- /proc/[0-9]*\n  \
               if [ $# = 1 ]; then break; fi\n  sleep 0.1\ndone\ncat /proc/[0-9]*/comm\ntrue\n";
    let place = tempfile::tempdir().expect("a directory");
    let ixora = Path::new(IXORA).parent().expect("a directory");
    let path = format!("{}:{}", ixora.display(), std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("unshare");
    // All processes end with the shell, and the mounts and namespaces with them.
    command.args(["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c"]);
    command.arg(&script).env("PATH", path).current_dir(place.path());
    let done = start_command(&mut command, place.path()).wait(SECONDS);
    assert_eq!(done.code(), Some(0), "{}\n{}", done.stdout, done.stderr);
    let printed: Vec<&str> = done.stdout.split("=== block ").skip(1).collect();
    assert_eq!(printed.len(), blocks.len() + 1, "{}\n{}", done.stdout, done.stderr);
    for ((commands, wanted), printed) in blocks.iter().zip(&printed) {
        for wanted in wanted {
            let is_there = printed.lines().any(|line| is_as(line, wanted));
            assert!(is_there, "{commands}does not print\n{wanted}\nbut\n{printed}\n{}", done.stderr);
        }
    }
    assert_eq!(printed.last().expect("the end").trim(), "end\nbash", "{}", done.stderr);
}

#[test]
fn lines_of_the_guide_are_compared() {
    assert!(is_as("a  b 12 c", "a b … c") && is_as("a b", "a   b") && is_as("TX: 0", "TX: …"));
    assert!(!is_as("a b 12 d", "a b … c") && !is_as("a b c", "a b") && !is_as("x a", "a …"));
    let guide = "# t\n```console\n# no\n```\n```sh\none\n```\nx\n```text\ntwo\n```\n```sh\nthree\n```\n";
    assert_eq!(blocks(guide), [("one\n", vec!["two"]), ("three\n", vec![])]);
}
