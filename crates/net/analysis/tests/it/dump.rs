//! Capture files: written and read again, cut in the middle, of every link type.

use std::path::PathBuf;

use crate::Rig;

fn rig(config: &str) -> Rig {
    Rig::new(config).unwrap_or_else(|problems| panic!("{config}\n{problems}"))
}

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        Scratch(std::env::temp_dir().join(format!("ixora-dump-{}-{name}", std::process::id())))
    }

    fn path(&self) -> std::path::Display<'_> {
        self.0.display()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

const LINES: &str = "!data timestamp ip_src ip_dst sport dport ip_len\n10.000000001 1.0.0.1 2.0.0.2 1 2 40\n\
                     11.5 1.0.0.1 2.0.0.2 3 4 3000\n12 1.0.0.1 2.0.0.2 5 6 60\n13 1.0.0.1 2.0.0.2 7 8 60\n";

/// Writes the packets of `LINES`.
fn write(file: &Scratch, more: &str) {
    let data = graph::lang::args::quote(LINES.as_bytes());
    let config = format!(
        "FromIPSummaryDump(DATA {data}, STOP true, CHECKSUM true) -> t :: ToDump({}, ENCAP IP, {more}) -> Discard",
        file.path()
    );
    let mut rig = rig(&config);
    rig.run();
    assert_eq!(rig.read("t.count"), "4");
}

/// What is read of a file.
fn read(file: &Scratch, more: &str, fields: &str) -> String {
    let config = format!(
        "FromDump({}, STOP true, {more}) -> ToIPSummaryDump(-, HEADER false, FIELDS {fields})",
        file.path()
    );
    rig(&config).run().printed()
}

#[test]
fn what_is_written_is_read_again() {
    let file = Scratch::new("again");
    write(&file, "SNAPLEN 0");
    assert_eq!(
        read(&file, "", "timestamp sport dport ip_len wire_len"),
        "10.000000001 1 2 40 40\n11.500000 3 4 3000 3000\n12.000000 5 6 60 60\n13.000000 7 8 60 60\n"
    );
    write(&file, "NANO false, SNAPLEN 44");
    assert_eq!(
        read(&file, "", "timestamp wire_len ip_len ip_capture_len payload_len"),
        "10.000000 40 40 40 0\n11.500000 44 3000 44 2960\n12.000000 44 60 44 20\n13.000000 44 60 44 20\n"
    );
    for packed in ["gz", "bz2"] {
        let file = Scratch::new(&format!("packed.{packed}"));
        let config = format!("Idle -> ToDump({}) -> Discard", file.path());
        if Rig::new(&config).is_err() {
            continue; // nobody here can pack
        }
        write(&file, "SNAPLEN 0");
        assert_eq!(read(&file, "", "sport"), "1\n3\n5\n7\n", "{packed}");
        assert_ne!(std::fs::read(&file.0).expect("a file")[0], 0xD4);
    }
}

#[test]
fn a_packed_file_is_whole_when_its_router_is_gone() {
    let file = Scratch::new("dropped.gz");
    let config = format!("Idle -> ToDump({}) -> Discard", file.path());
    for _ in 0..8 {
        let Ok(mut rig) = Rig::new(&config) else { return }; // nobody here can pack
        rig.router.begin();
        drop(rig);
        let bytes = std::fs::read(&file.0).expect("a file");
        assert_eq!(bytes.get(..2), Some(&[0x1F, 0x8B][..]), "the packer still runs");
    }
}

/// A packet that goes on is no loss, also where it is not in the file.
#[test]
fn what_a_full_disk_does_not_take_is_dropped_and_told_once() {
    let data = graph::lang::args::quote(LINES.as_bytes());
    for (next, dropped) in [("", 4), (" -> c :: Counter -> Discard", 0)] {
        let source = format!("FromIPSummaryDump(DATA {data}, STOP true)");
        let mut rig = rig(&format!("{source} -> t :: ToDump(/dev/full, ENCAP IP){next}"));
        let said = rig.run().printed();
        assert_eq!(said.matches("ToDump(/dev/full): No space left").count(), 1, "{said}");
        assert_eq!(rig.read("t.count"), "0");
        assert_eq!(rig.router.lanes()[0].counters(1).drops[..], [0, dropped], "{next}");
        assert_eq!(rig.router.lanes()[0].counters(1).ended, 0);
        assert!(rig.router.shared().failure().is_some_and(|failure| failure.contains("No space left")));
    }
}

/// As of `ToDump`: a summary's lines.
#[test]
fn lines_that_a_full_disk_does_not_take_are_dropped_and_told_once() {
    let data = graph::lang::args::quote(LINES.as_bytes());
    let source = format!("FromIPSummaryDump(DATA {data}, STOP true)");
    for (arguments, next, dropped) in [
        ("", "", 4),
        ("HEADER false", "", 4),
        ("BINARY true", "", 4),
        ("HEADER false", " -> c :: Counter -> Discard", 0),
    ] {
        let mut rig = rig(&format!("{source} -> ToIPSummaryDump(/dev/full, {arguments}){next}"));
        let said = rig.run().printed();
        assert_eq!(said.matches("ToIPSummaryDump(/dev/full): No space left").count(), 1, "{said}");
        assert_eq!(rig.router.lanes()[0].counters(1).drops[..], [0, dropped], "{arguments} {next}");
        assert_eq!(rig.router.lanes()[0].counters(1).ended, 0);
        assert!(rig.router.shared().failure().is_some_and(|failure| failure.contains("No space left")));
    }
}

/// Printers and what tells of flows lose no packet, and their runs fail.
#[test]
fn what_cannot_be_printed_to_a_file_is_told_once_and_fails() {
    let data = graph::lang::args::quote(LINES.as_bytes());
    let flows = "-> AggregateIPFlows(TRACEINFO /dev/full)";
    for (printer, count) in [
        ("-> IPPrint(OUTFILE /dev/full)", 1),
        (flows, 1),
        ("-> AggregateIPFlows -> ToIPFlowDumps(/dev/full)", 1),
    ] {
        let mut rig = rig(&format!("FromIPSummaryDump(DATA {data}, STOP true) {printer} -> Discard"));
        let said = rig.run().printed();
        assert_eq!(said.matches("No space left").count(), count, "{printer}: {said}");
        assert!(rig.router.shared().failure().is_some_and(|failure| failure.contains("No space left")));
    }
}

#[test]
fn an_empty_capture_is_one_nonetheless() {
    let file = Scratch::new("empty");
    std::fs::write(&file.0, "what was there before").expect("a file");
    rig(&format!("Idle -> ToDump({}); DriverManager(stop)", file.path())).run();
    assert_eq!(std::fs::read(&file.0).expect("a file").len(), 24);
    assert_eq!(read(&file, "", "sport"), "");
}

#[test]
fn times_choose_packets() {
    let file = Scratch::new("times");
    write(&file, "");
    let got = |more: &str| read(&file, more, "ts_sec").split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(got(""), "10 11 12 13");
    assert_eq!(got("START 11.5, END 13"), "11 12");
    assert_eq!(got("START_AFTER 2, INTERVAL 1.5"), "13");
    assert_eq!(got("END_AFTER 2"), "10 11 12");
    assert_eq!(got("SAMPLE 0"), "");
    assert_eq!(got("FILEPOS 80"), "11 12 13");
    assert_eq!(got("BURST 32"), "10 11 12 13");
    assert_eq!(got("PRELOAD 2, TIMING_FNT \"\""), "10 11 12 13");
    for wrong in [
        "START 1, START_AFTER 1",
        "END 1, INTERVAL 1",
        "STOP true, END_CALL stop",
        "FILEPOS 100000000",
        "TIMING_FNT \"x+1\"",
    ] {
        assert!(Rig::new(&format!("FromDump({}, {wrong}) -> Discard", file.path())).is_err(), "{wrong}");
    }
    let config = format!(
        "f :: FromDump({}, END 12, END_CALL f.extend_interval 1) -> d :: Discard; DriverManager(wait_time 1s, stop)",
        file.path()
    );
    let mut rig = rig(&config);
    rig.run();
    assert_eq!(rig.read("d.count"), "4", "the end is moved on again and again");
    assert_eq!(rig.read("f.count"), "4");
    assert_eq!(rig.read("f.encap"), "IP");
}

#[test]
fn timing_keeps_the_gaps() {
    let file = Scratch::new("gaps");
    write(&file, "");
    let config = format!(
        "FromDump({}, TIMING true, STOP true) -> SetTimestamp -> r :: TimeRange -> Discard",
        file.path()
    );
    let mut rig = rig(&config);
    rig.run();
    let span: f64 = rig.read("r.interval").parse().expect("a number");
    assert!((span - 3.0).abs() < 0.001, "{span}");
}

#[test]
fn a_file_cut_anywhere_gives_what_was_whole_and_is_told() {
    let file = Scratch::new("cut");
    write(&file, "");
    let whole = std::fs::read(&file.0).expect("a file");
    let ends = [24, 80, 80 + 16 + 2000, 80 + 16 + 2000 + 76, whole.len()];
    for length in (0..whole.len()).step_by(7).chain(ends) {
        std::fs::write(&file.0, &whole[..length]).expect("a file");
        let config = format!("FromDump({}, STOP true) -> d :: Discard", file.path());
        let Ok(mut rig) = Rig::new(&config) else {
            assert!(length < 24, "{length}");
            continue;
        };
        let printed = rig.run().printed();
        let count = ends.iter().filter(|end| length >= **end).count() - 1;
        assert_eq!(rig.read("d.count"), count.to_string(), "{length}");
        let said = printed.contains("the file was cut in the middle of");
        assert_eq!(said, !ends.contains(&length), "{length}: {printed}");
    }
}

/// A pcap file of one packet, in any byte order and resolution.
fn classic(magic: u32, big: bool, link: u32, data: &[u8]) -> Vec<u8> {
    let patched = magic == 0xA1B2_CD34;
    let words = [magic, if big { 0x0002_0004 } else { 0x0004_0002 }, 0, 0, 65_535, link];
    let record = [1, 500, data.len() as u32, data.len() as u32 + 10];
    let bytes = |word: &u32| if big { word.to_be_bytes() } else { word.to_le_bytes() };
    let mut file: Vec<u8> = words.iter().chain(&record).flat_map(bytes).collect();
    file.extend(vec![0; if patched { 8 } else { 0 }]);
    file.extend(data);
    file
}

const IP: &[u8] = &[0x45, 0, 0, 20, 0, 0, 0, 0, 64, 99, 0, 0, 1, 0, 0, 1, 1, 0, 0, 2];

#[test]
fn every_kind_of_pcap_is_read() {
    let file = Scratch::new("kinds");
    for (magic, time) in [(0xA1B2_C3D4, "1.000500"), (0xA1B2_3C4D, "1.000000500"), (0xA1B2_CD34, "1.000500")]
    {
        for big in [false, true] {
            std::fs::write(&file.0, classic(magic, big, 101, IP)).expect("a file");
            assert_eq!(
                read(&file, "", "timestamp ip_src wire_len"),
                format!("{time} 1.0.0.1 20\n"),
                "{magic:x} {big}"
            );
        }
    }
}

#[test]
fn ip_is_found_behind_link_headers() {
    let file = Scratch::new("links");
    for (link, header, encap) in [
        (1, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0][..], "ETHER"),
        (12, &[], "IP"),
        (113, &[0, 0, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0], "SLL"),
        (9, &[0xFF, 3, 0, 0x21], "PPP"),
        (0, &[2, 0, 0, 0], "NULL"),
    ] {
        std::fs::write(&file.0, classic(0xA1B2_C3D4, false, link, &[header, IP].concat())).expect("a file");
        assert_eq!(read(&file, "FORCE_IP true", "ip_src ip_proto"), "1.0.0.1 99\n", "{encap}");
        let config = format!(
            "f :: FromDump({}, STOP true) -> t :: ToDump(/dev/null, USE_ENCAP_FROM f) -> Discard",
            file.path()
        );
        assert_eq!(rig(&config).run().read("f.encap"), encap);
        // What is no IP goes the other way.
        std::fs::write(&file.0, classic(0xA1B2_C3D4, false, link, &[0; 60])).expect("a file");
        let config = format!(
            "f :: FromDump({}, STOP true, FORCE_IP true) -> d :: Discard; f[1] -> e :: Discard",
            file.path()
        );
        let mut rig = rig(&config);
        rig.run();
        assert_eq!((rig.read("d.count"), rig.read("e.count")), ("0".into(), "1".into()), "{encap}");
    }
    std::fs::write(&file.0, classic(0xA1B2_C3D4, false, 147, IP)).expect("a file");
    let refused = Rig::new(&format!("FromDump({}, FORCE_IP true) -> Discard", file.path())).err();
    assert!(refused.expect("refused").contains("unknown linktype 147; can't force IP packets"));
}

#[test]
fn what_is_no_capture_is_refused() {
    let file = Scratch::new("none");
    for bytes in [&b""[..], b"!IPSummaryDump 1.3\n", &[0; 100]] {
        std::fs::write(&file.0, bytes).expect("a file");
        assert!(Rig::new(&format!("FromDump({}) -> Discard", file.path())).is_err());
    }
    let missing = Rig::new("FromDump(/nonexistent) -> Discard").err().expect("refused");
    assert!(missing.contains("/nonexistent: No such file or directory"), "{missing}");
    assert!(Rig::new("Idle -> ToDump(/nonexistent/file)").is_err());
    assert!(Rig::new("Idle -> ToDump(/dev/null, ENCAP NONSENSE)").is_err());
    // A packet that is longer than any.
    let mut file_bytes = classic(0xA1B2_C3D4, false, 1, &[]);
    file_bytes[32..36].copy_from_slice(&u32::MAX.to_le_bytes());
    std::fs::write(&file.0, file_bytes).expect("a file");
    assert!(read(&file, "", "ip_src").contains("packet longer than 262144 bytes"));
}

#[test]
fn a_dump_can_be_pulled_from_and_gone_back_in() {
    let file = Scratch::new("pulled");
    write(&file, "");
    let config = format!(
        "f :: FromDump({}) -> u :: Unqueue -> d :: Discard; DriverManager(wait_time 1s, write f.filepos 80, wait_time 1s, stop)",
        file.path()
    );
    let mut rig = rig(&config);
    let printed = rig.run().printed();
    assert_eq!(rig.read("d.count"), "7", "four, then the last three again: {printed}");
    assert_eq!(rig.read("f.filename"), file.path().to_string());
    rig.write("f.reset_counts", "").expect("a handler");
    assert_eq!(rig.read("f.count"), "0");
}

/// The packer of a router that ends is the next one's, and no other one writes the file.
#[test]
fn a_packed_file_goes_on_in_another_router() {
    let file = Scratch::new("goes-on.gz");
    let config = |port: &str| {
        let line =
            format!("!data timestamp ip_src ip_dst sport dport ip_len\\n10 1.0.0.1 2.0.0.2 {port} 2 40\\n");
        format!(
            "FromIPSummaryDump(DATA \"{line}\", STOP true, CHECKSUM true)
             -> t :: ToDump({}, ENCAP IP, SNAPLEN 0) -> Discard",
            file.path()
        )
    };
    let Ok(mut old) = Rig::new(&config("1")) else { return }; // nobody here can pack
    old.router.run();
    let mut new = rig(&config("3"));
    new.router.take_over(&mut old.router);
    old.router.cleanup();
    drop(old);
    new.run();
    assert_eq!(new.read("t.count"), "2", "{}", new.printed());
    assert_eq!(read(&file, "", "sport"), "1\n3\n");
}
