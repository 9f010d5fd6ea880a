//! Tasks with much to do let others have their turns.
#![allow(clippy::unwrap_used)]

use crate::Rig;

/// A capture file of so many packets, each a second after the other.
fn capture(packets: u32) -> Vec<u8> {
    let mut file: Vec<u8> = vec![];
    let mut word = |n: u32| file.extend(n.to_le_bytes());
    [0xA1B2_C3D4, 0x0004_0002, 0, 0, 65535, 1].into_iter().for_each(&mut word);
    for n in 0..packets {
        [1000 + n, 0, 20, 20, n, 0, 0, 0, 0].into_iter().for_each(&mut word);
    }
    file
}

/// A long part of a file that is passed over does not stop the router for as long.
#[test]
fn who_passes_over_a_file_lets_others_go_on() {
    const PACKETS: u32 = 50_000;
    let file = std::env::temp_dir().join(format!("ixora-turns-{}.pcap", std::process::id()));
    std::fs::write(&file, capture(PACKETS)).unwrap();
    let path = file.display();
    for what in ["START_AFTER 49990s", "SAMPLE 0", "FORCE_IP true"] {
        for ending in ["-> c :: Counter -> Discard", "-> Null -> c :: Counter -> Discard"] {
            let config = format!(
                "f :: FromDump({path}, {what}) {ending};
                 s :: InfiniteSource(BURST 1) -> others :: Counter -> Discard"
            );
            let mut rig = Rig::new(&config).unwrap_or_else(|problems| panic!("{problems}"));
            rig.router.lanes_mut()[0].step(40);
            let others: u32 = rig.read("others.count").parse().unwrap();
            assert!(others >= 15, "{what}: {others} turns");
            let read: u64 = rig.read("f.filepos").parse().unwrap();
            assert!(read < 24 + 36 * u64::from(PACKETS), "{what}: not read in one go");
            rig.router.lanes_mut()[0].step(400);
            let wanted = if what.starts_with("START") { "10" } else { "0" };
            assert_eq!(rig.read("c.count"), wanted, "{what}: all the same packets in the end");
        }
    }
    let _ = std::fs::remove_file(&file);
}
