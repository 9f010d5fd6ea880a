//! Messages of rtnetlink, whole or in FPM's frames, from the kernel and from FRR: the mirror
//! keeps within its limits, the table is what is wanted of it after each part, and nothing is
//! left when nobody tells of anything any more.
//!
//! The first byte says how many bytes come at a time, and whether they are frames.
#![no_main]

use control::fpm::Frames;
use control::{Binding, Limits, Mirror, Options, Origin, Owner, Program};
use libfuzzer_sys::fuzz_target;
use overlay::Overlay;

const MOST: usize = 4;

fuzz_target!(|bytes: &[u8]| {
    let Some((first, bytes)) = bytes.split_first() else { return };
    let limits = Limits {
        links: MOST,
        nexthops: MOST,
        members: MOST,
        fdb: MOST,
        neighbors: MOST,
        routes: MOST,
        parts: 4 * MOST,
    };
    let entries = if first & 1 == 0 { Origin::Kernel } else { Origin::Fpm };
    let ports = vec![Binding { link: "a".into(), port: 0, vlan: None, mtu: None }];
    let mut mirror = Mirror::new(Options { ports, limits, entries, ..Options::default() });
    let (kernel, fpm) = (mirror.begin(Origin::Kernel), mirror.begin(Origin::Fpm));
    let (mut program, mut overlay) = (Program::new(), Overlay::new());
    let mut frames = Frames::default();
    for (place, part) in bytes.chunks(usize::from(first >> 2) * 4 + 16).enumerate() {
        match first & 2 != 0 && place % 2 == 1 {
            true => drop(frames.push(part, |payload| mirror.apply_bytes(fpm, payload))),
            false => mirror.apply_bytes(kernel, part),
        }
        assert!(mirror.len() <= 5 * MOST, "the mirror keeps more than its limits");
        program.apply(&mut overlay, Owner::Kernel, mirror.changes(), 0);
        let wrong = program.compare_table(&overlay);
        assert_eq!(wrong.len(), program.refused().len(), "{wrong:?}");
    }
    for origin in [Origin::Kernel, Origin::Fpm] {
        let next = mirror.begin(origin);
        mirror.sweep(origin, &[next]);
    }
    program.apply(&mut overlay, Owner::Kernel, mirror.changes(), 0);
    assert!(mirror.is_empty() && program.claims(Owner::Kernel).is_empty() && overlay.tunnels() == 0);
});
