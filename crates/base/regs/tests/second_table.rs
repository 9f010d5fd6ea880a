//! The register table against a second one, written without it: `82599.csv` has
//! the places that Intel's public ixgbe header states, and counts and access
//! where that header or Snabb's register descriptions, made from the datasheet,
//! tell them; access also where DPDK's driver shows it, which adds up what reading
//! clears, and reads and writes back what is plain. Four cells are from a reading of
//! its own: 129 EITRs, and RTRPT4S, LSECTXCAP and LSECRXCAP as status and capabilities,
//! read only. What nobody tells is left empty and not compared.
//!
//! The driver and the model here share one table, so a wrong offset in it would
//! agree with itself everywhere but here.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use regs::Register;
use regs::ixgbe::{BAR0_LEN, TABLE, lookup};

/// What the header calls otherwise than the datasheet: its name, and ours. Where
/// ours ends in `_ALIAS`, the header knows only the place of the 82598, which the
/// 82599 decodes, too; its own is then by the name of `_82599`.
const RENAMED: &[(&str, &str)] = &[
    ("BAR_CTRL", "BARCTRL"),
    ("FDIRSIPv6", "FDIRIPV6"),
    ("GSSR", "SW_FW_SYNC"),
    ("L34T_IMIR", "L34TIMIR"),
    ("MPC", "RXMPC"),
    ("MRCTL", "PFMRCTL"),
    ("MRQC", "MRQC_ALIAS"),
    ("MRQC_82599", "MRQC"),
    ("QDE", "PFQDE"),
    ("RETA", "RETA_ALIAS"),
    ("RETA_82599", "RETA"),
    ("RSSRK", "RSSRK_ALIAS"),
    ("RSSRK_82599", "RSSRK"),
    ("RXDDGBCH", "RXDDBCH"),
    ("RXDDGBCL", "RXDDBCL"),
    ("RXDDGPC", "RXDDPC"),
    ("RXDLPBKGBCH", "RXDLPBKBCH"),
    ("RXDLPBKGBCL", "RXDLPBKBCL"),
    ("RXDLPBKGPC", "RXDLPBKPC"),
    ("RXLPBKGBCH", "RXLPBKBCH"),
    ("RXLPBKGBCL", "RXLPBKBCL"),
    ("RXLPBKGPC", "RXLPBKPC"),
    ("UTA", "PFUTA"),
    ("VFRE", "PFVFRE"),
    ("VFTE", "PFVFTE"),
    ("VLVF", "PFVLVF"),
    ("VLVFB", "PFVLVFB"),
    ("VMOLR", "PFVML2FLT"),
    ("VMRVLAN", "PFMRVLAN"),
    ("VMRVM", "PFMRVM"),
    ("VMTXSW", "PFVMTXSW"),
    ("VMVIR", "PFVMVIR"),
    ("VT_CTL", "PFVTCTL"),
];

/// Where the two differ and ours stands, with the reason.
const DIFFERENT: &[(&str, &str)] = &[
    ("IMIRVP", "the header has the 82598's place only; the datasheet has it beside SYNQF"),
    ("PFMBIMR", "the header's comment counts four; 64 pools need two, and no driver writes more"),
    ("RDH", "what a driver may not change later, it writes while the queue is off (4.6.7.1)"),
    ("SYSTIMH", "said to be read only, yet drivers set the time by writing it"),
    ("SYSTIML", "the same"),
    ("SYSTIMR", "the same"),
];

/// In the second table only, and why: what a driver for this device leaves alone.
const SECOND_ONLY: &[(&str, &str)] = &[
    (
        "timestamps and pulses on the pins, which nobody here connects",
        "AUXSTMPH0 AUXSTMPH1 AUXSTMPL0 AUXSTMPL1 CLKTIMH CLKTIML TRGTTIMH0 TRGTTIMH1 TRGTTIML0 \
         TRGTTIML1",
    ),
    (
        "what passes between the wire and a management controller",
        "BBPTC BCRCERRS BMPTC BUPTC BXOFFRXC BXOFFTXC BXONRXC BXONTXC",
    ),
    (
        "the management firmware's own: filters, memory, handshake",
        "BMCIP BMCIPVAL FTFT FWRESETCNT HSMC0R HSMC1R LSWFW MAVTV MDEF MDEF_EXT METF MFUTP MIPAF \
         MMAH MMAL SWSR",
    ),
    ("the 82598's filters; the 82599 has L34TIMIR and SYNQF instead", "IMIR IMIREXT"),
    ("wake-up, of a machine that sleeps", "IP4AT IP6AT WUPL WUPM"),
    (
        "LinkSec keys and counters; drivers only turn it off",
        "LSECRXBAD LSECRXDELAY LSECRXINV LSECRXLATE LSECRXNOSCI LSECRXNUSA LSECRXNV LSECRXOCTD \
         LSECRXOCTV LSECRXOK LSECRXPN LSECRXSA LSECRXSCH LSECRXSCL LSECRXUNCH LSECRXUNSA \
         LSECRXUNSCI LSECRXUT LSECTXKEY0 LSECTXKEY1 LSECTXOCTE LSECTXOCTP LSECTXPKTE LSECTXPKTP \
         LSECTXPN0 LSECTXPN1 LSECTXSA LSECTXSCH LSECTXSCL LSECTXUT",
    ),
    ("contexts of Fibre Channel over Ethernet", "FCD_ID FCPARAM FCPTRH FCPTRL FCSMAC"),
    ("direct cache access, which the root complex must offer first", "DCA_CTRL DCA_ID"),
    (
        "congestion notification; only its rate limiter is used",
        "RTFRTIMER RTTBCNACH RTTBCNACL RTTBCNCP RTTBCNCR RTTBCNIDX RTTBCNRTT RTTBCNTG",
    ),
    ("diagnostics of the 1 Gb/s link", "PCS1GDBG0 PCS1GDBG1"),
    ("errors of virtual functions, of which there are none", "LMVM_RX LMVM_TX LVMMC_RX LVMMC_TX VMECM"),
];

/// In the first table only: the datasheet has CTRL at 0x0 and 0x4, the header at 0x0.
const FIRST_ONLY: &str = "CTRL_ALIAS";

/// Two names of one place.
const SHARED: &[(&str, &str)] = &[("CORESPARE", "PFVFLRE"), ("GTV", "PCIEPIPEADR"), ("MAXFRS", "MHADD")];

/// A line of the second table.
#[derive(Debug)]
struct Row {
    name: String,
    offset: u32,
    stride: u32,
    count: Option<usize>,
    second: Option<(u32, Option<usize>)>,
    access: Option<String>,
}

fn hex(text: &str) -> u32 {
    u32::from_str_radix(text.strip_prefix("0x").unwrap(), 16).unwrap()
}

fn row(line: &str) -> Row {
    let fields: Vec<&str> = line.split(',').collect();
    let [name, offset, stride, count, offset2, count2, access] = fields[..] else { panic!("{line}") };
    let renamed = RENAMED.iter().find(|(theirs, _)| *theirs == name);
    let second = (!offset2.is_empty()).then(|| (hex(offset2), count2.parse().ok()));
    Row {
        name: renamed.map_or(name, |(_, ours)| ours).to_owned(),
        offset: hex(offset),
        stride: hex(stride),
        count: count.parse().ok(),
        second,
        access: (!access.is_empty()).then(|| access.to_owned()),
    }
}

fn rows() -> Vec<Row> {
    include_str!("82599.csv").lines().skip(1).map(row).collect()
}

fn first() -> BTreeMap<&'static str, &'static Register> {
    TABLE.iter().map(|register| (register.name, register)).collect()
}

/// Whether what the second table tells is also what the first says.
fn agrees(row: &Row, register: &Register) -> bool {
    let second = match (row.second, register.second) {
        (Some((offset, count)), Some((ours, len))) => offset == ours && count.is_none_or(|n| n == len),
        (None, None) => true,
        _ => false,
    };
    let access = row.access.as_ref().is_none_or(|access| *access == format!("{:?}", register.access));
    row.offset == register.offset
        && row.stride == register.stride
        && row.count.is_none_or(|count| count == register.count)
        && second
        && access
}

#[test]
fn both_tables_say_the_same() {
    let first = first();
    assert_eq!(first.len(), TABLE.len(), "no name twice");
    let (mut same, mut classes, mut different) = (0, 0, BTreeSet::new());
    for row in rows() {
        let Some(register) = first.get(row.name.as_str()) else { continue };
        if agrees(&row, register) {
            same += 1;
            classes += usize::from(row.access.is_some());
        } else {
            println!("second {row:x?}\n first {register:x?}");
            different.insert(row.name);
        }
    }
    let known: BTreeSet<String> = DIFFERENT.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(different, known, "different, and known to be");
    assert!(same >= 350, "only {same} registers are in both tables");
    assert!(classes >= 225, "access is compared for only {classes} registers");
}

#[test]
fn each_table_has_what_the_other_has() {
    let second: BTreeSet<String> = rows().into_iter().map(|row| row.name).collect();
    assert_eq!(second.len(), rows().len(), "no name twice");
    let first: BTreeSet<String> = TABLE.iter().map(|register| register.name.to_owned()).collect();
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<BTreeSet<String>>();
    let only = |these: &BTreeSet<String>, those: &BTreeSet<String>| {
        these.difference(those).cloned().collect::<BTreeSet<String>>()
    };
    let second_only = SECOND_ONLY.iter().flat_map(|(_, names)| words(names)).collect();
    assert_eq!(only(&second, &first), second_only, "in the second table only");
    assert_eq!(only(&first, &second), words(FIRST_ONLY), "in the first table only");
}

#[test]
fn places_are_words_of_the_bar() {
    for register in TABLE {
        assert!(!register.is_empty(), "{}", register.name);
        assert_eq!(register.stride == 0, register.len() == 1, "{}", register.name);
        for n in 0..register.len() {
            let place = register.at(n);
            assert!(place.is_multiple_of(4) && place < BAR0_LEN, "{}[{n}] at {place:#x}", register.name);
        }
        let numbers = register.section.split('.').all(|part| part.parse::<u32>().is_ok());
        assert!(numbers && !register.what.is_empty(), "{}: {}", register.name, register.section);
    }
}

#[test]
fn no_two_registers_share_a_place_but_by_intent() {
    let (mut owners, mut shared) = (BTreeMap::<u32, &str>::new(), BTreeSet::new());
    for register in TABLE {
        for n in 0..register.len() {
            if let Some(other) = owners.insert(register.at(n), register.name) {
                shared.insert((other.min(register.name), other.max(register.name)));
            }
        }
    }
    assert_eq!(shared, SHARED.iter().copied().collect::<BTreeSet<_>>());
}

#[test]
fn every_place_is_found() {
    let twins = |name| SHARED.iter().any(|(one, other)| *one == name || *other == name);
    for register in TABLE {
        for n in 0..register.len() {
            for byte in 0..4 {
                let (found, at) = lookup(register.at(n) + byte).unwrap();
                assert_eq!(found.at(at), register.at(n));
                assert!((found.name, at) == (register.name, n) || twins(register.name), "{found:?}");
            }
        }
    }
    let places: BTreeSet<u32> = TABLE.iter().flat_map(|r| (0..r.len()).map(|n| r.at(n))).collect();
    for place in (0..BAR0_LEN).step_by(4).filter(|place| !places.contains(place)) {
        assert_eq!(lookup(place), None, "{place:#x}");
    }
}
