//! Elements that are about the machine or the terminal more than about packets.

use crate::Rig;

#[test]
fn locks_are_named_and_packets_pass() {
    let mut rig = Rig::new(
        "SpinlockInfo(one, two); InfiniteSource(LIMIT 5, STOP true) -> SpinlockAcquire(one) -> SpinlockPush(two) \
         -> c :: Counter -> SpinlockRelease(one) -> Discard",
    )
    .expect("a router");
    rig.run();
    assert_eq!(rig.read("c.count"), "5");
    for class in ["SpinlockAcquire", "SpinlockRelease", "SpinlockPush"] {
        let wrong = Rig::new(&format!("SpinlockInfo(one); Idle -> {class}(other) -> Discard")).err();
        assert!(wrong.is_some_and(|wrong| wrong.contains("cannot locate spinlock other")), "{class}");
    }
    // A lock holds in its compound element and within.
    assert!(Rig::new("C :: { SpinlockInfo(x); input -> D :: { input -> SpinlockAcquire(x) -> output } -> Discard }; Idle -> C").is_ok());
    assert!(
        Rig::new(
            "C :: { SpinlockInfo(x); input -> Discard }; Idle -> C; Idle -> SpinlockAcquire(x) -> Discard"
        )
        .is_err()
    );
}

#[test]
fn packets_stay_on_their_paths_through_a_lock() {
    let mut rig = Rig::new(
        "SpinlockInfo(one); p :: PathSpinlock; q :: PathSpinlock(one);
         InfiniteSource(LIMIT 5) -> p -> a :: Counter -> Discard;
         InfiniteSource(LIMIT 7) -> [1] p [1] -> b :: Counter -> Discard;
         InfiniteSource(LIMIT 9) -> Queue -> q -> Unqueue -> c :: Counter -> Discard; Script(wait 0.1, stop)",
    )
    .expect("a router");
    rig.run();
    assert_eq!([rig.read("a.count"), rig.read("b.count"), rig.read("c.count")], ["5", "7", "9"]);
    assert!(Rig::new("Idle -> PathSpinlock(other) -> Discard").is_err());
}

#[test]
fn nobody_has_the_rights_of_another_user() {
    assert!(Rig::new("ChangeUID(); Idle -> Discard").is_ok());
    assert!(Rig::new("ChangeUID(0); Idle -> Discard").is_err());
}

#[test]
fn rules_for_the_kernel_come_and_go() {
    let folder = tempfile::tempdir().expect("a folder");
    let (script, log) = (folder.path().join("tables"), folder.path().join("log"));
    let text = format!("echo \"$*\" >> {}; [ \"$4\" != bad ] || echo no such interface", log.display());
    std::fs::write(&script, text).expect("a script");
    let command = format!("IPTABLES_COMMAND /bin/sh {}", script.display());
    let logged = || std::fs::read_to_string(&log).unwrap_or_default();
    let mut rig =
        Rig::new(&format!("KernelFilter(drop dev eth0, drop dev eth1, {command}); Idle -> Discard"))
            .expect("a router");
    assert_eq!(logged(), "-A INPUT -i eth0 -j DROP\n-A INPUT -i eth1 -j DROP\n");
    rig.router.cleanup();
    drop(rig);
    assert_eq!(
        logged().lines().skip(2).collect::<Vec<_>>(),
        ["-D INPUT -i eth1 -j DROP", "-D INPUT -i eth0 -j DROP"]
    );
    // What was added is removed when a router does not start.
    std::fs::write(&log, "").expect("the log");
    let wrong =
        Rig::new(&format!("KernelFilter(drop dev eth0, drop dev bad, {command}); Idle -> Discard")).err();
    assert!(wrong.is_some_and(|wrong| wrong.contains("-A INPUT -i bad -j DROP: no such interface")));
    assert_eq!(logged().lines().last(), Some("-D INPUT -i eth0 -j DROP"));
    let wrong = Rig::new("KernelFilter(accept dev eth0); Idle -> Discard").err();
    assert!(wrong.is_some_and(|wrong| wrong.contains("arguments must follow 'drop dev DEVNAME'")));
}

/// Tests have no terminal: nothing is shown, and handlers answer.
#[test]
fn a_progress_bar_knows_its_handlers() {
    let mut rig = Rig::new(
        "c :: Counter; d :: Counter; Idle -> c -> d -> Discard; b :: ProgressBar(c.count d.count, FIXED_SIZE 7, BANNER file)",
    )
    .expect("a router");
    let read = |rig: &mut Rig| {
        ["poshandler", "sizehandler", "size", "pos", "active", "banner"].map(|h| rig.read(&format!("b.{h}")))
    };
    assert_eq!(read(&mut rig), ["c.count d.count", "", "7", "0", "true", "file"]);
    assert_eq!(rig.write("b.sizehandler", "d.count"), Ok(()));
    assert_eq!((rig.write("b.mark_done", ""), rig.write("b.banner", " a b")), (Ok(()), Ok(())));
    assert_eq!(
        (rig.read("b.sizehandler"), rig.read("b.size"), rig.read("b.banner")),
        ("d.count".into(), "0".into(), " a b".into())
    );
    assert!(rig.write("b.poshandler", "nobody.count").is_err());
    assert_eq!(rig.read("b.poshandler"), "c.count d.count");
    assert!(rig.write("b.active", "maybe").is_err_and(|refused| refused.to_string() == "type mismatch"));
    assert!(Rig::new("ProgressBar(nobody.count); Idle -> Discard").is_err());
    assert!(Rig::new("c :: Counter; Idle -> c -> Discard; ProgressBar(c.reset)").is_err());
}
