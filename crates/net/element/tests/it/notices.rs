//! What Click warns of, and what it knows by names of the system's.
#![allow(clippy::unwrap_used)]

use crate::Rig;

fn warnings(config: &str) -> String {
    let rig = Rig::new(config).unwrap_or_else(|problems| panic!("{config}: {problems}"));
    rig.router.warnings().iter().map(|problem| problem.text() + "\n").collect()
}

/// `c` of a configuration, with so many outputs.
fn fan(class: &str, outputs: usize) -> String {
    let ends: String = (0..outputs).map(|n| format!(" c[{n}] -> Discard;")).collect();
    format!("Idle -> c :: {class};{ends}")
}

#[test]
fn what_click_warns_of_is_a_warning() {
    let (ip, ethernet) =
        (fan("IPClassifier(tcp, udp, tcp dst port 80, -)", 4), fan("Classifier(12/0800, 12/0800)", 2));
    for (config, word) in [
        (ip.as_str(), "output 2 matches no packets"),
        (ethernet.as_str(), "output 1 matches no packets"),
        ("Idle -> s :: StrideSched(40000) -> Discard", "input 0's tickets reduced to 32768"),
        ("StaticThreadSched(nonex 0)", "'nonex' does not name an element"),
    ] {
        let said = warnings(config);
        assert!(said.contains(word), "{config}: {said}");
    }
    assert_eq!(warnings(&fan("IPFilter(0 tcp, 0 udp, 1 all)", 2)), "");
}

#[test]
fn what_tells_dpdk_something_is_named_in_one_note() {
    let said = warnings("DPDKInfo(NB_MBUF 65536, MBUF_CACHE_SIZE 256)");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("NB_MBUF 65536, MBUF_CACHE_SIZE 256 not needed"), "{said}");
    assert_eq!(warnings("DPDKInfo()"), "");
}

#[test]
fn what_fastclick_says_of_its_own_ways_is_taken() {
    for config in [
        "Idle -> ReplayUnqueue(STOP 0, QUICK_CLONE true, VERBOSE false) -> Discard".to_owned(),
        fan("RoundRobinSwitch(SPLITBATCH false)", 2),
    ] {
        assert_eq!(warnings(&config), "", "{config}");
    }
}

#[test]
fn filters_know_the_systems_protocols() {
    // Where the machine has no such file they do not.
    if !std::fs::read_to_string("/etc/protocols").is_ok_and(|text| text.contains("ospf")) {
        return;
    }
    assert_eq!(warnings(&fan("IPClassifier(ip proto esp, ip proto ah, proto ospf, -)", 4)), "");
    assert!(Rig::new(&fan("IPClassifier(ip proto nonesuch, -)", 2)).is_err());
}

#[test]
fn the_flat_configuration_is_as_it_is_now() {
    let mut rig =
        Rig::new("Idle -> p :: Paint(1) -> s :: Switch(0); s[0] -> Discard; s[1] -> Discard").unwrap();
    assert!(rig.read("flatconfig").contains("p :: Paint(1);"), "{}", rig.read("flatconfig"));
    rig.write("p.config", "7").unwrap();
    rig.write("s.switch", "1").unwrap();
    let flat = rig.read("flatconfig");
    assert!(flat.contains("p :: Paint(7);") && flat.contains("s :: Switch(1);"), "{flat}");
}
