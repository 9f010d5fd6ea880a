//! Elements that several threads reach: a handler that is written holds for all of
//! them, and timers and tasks are those of the thread that has them.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use crate::Rig;
use element::trial::example;
use graph::Class;
use graph::element::port_code;

/// Values of all kinds that handlers take.
const VALUES: &[&str] = &[
    "true",
    "false",
    "7",
    "3",
    "1",
    "0",
    "10.0.0.9",
    "02:00:00:00:00:07",
    "0x0806",
    "2.5s",
    "0.25",
    "1Mbps",
    "64",
];
/// Classes whose elements write files, and are there once.
const FILES: &[&str] = &["ToDump", "ToIPSummaryDump", "ToIPFlowDumps"];
/// Handlers that are not about what the element does with packets, and why.
const EXEMPT: &[(&str, &str, &str)] = &[("Script", "run", "a call")];

/// A router of two threads that both get to the element `e`; `None` where that cannot be.
fn reached_twice(name: &str, class: &Class) -> Option<Rig> {
    let config = example(class.name, class.example);
    for inputs in 1..=2 {
        let count = port_code::count(class.ports, inputs);
        if !(count.inputs.0..=count.inputs.1).contains(&inputs) {
            continue;
        }
        for outputs in (0..=4).filter(|n| (count.outputs.0..=count.outputs.1).contains(n)) {
            let mut text = format!("e :: {name}({config});\n");
            for n in 0..inputs {
                match port_code::processing(class.processing, false, n) {
                    'l' => text += &format!("Idle -> Queue -> [{n}]e;\n"),
                    _ => {
                        for thread in 0..2 {
                            let source = format!("s{thread}_{n}");
                            text += &format!(
                                "{source} :: InfiniteSource(ACTIVE false) -> [{n}]e; StaticThreadSched({source} {thread});\n"
                            );
                        }
                    }
                }
            }
            for n in 0..outputs {
                match port_code::processing(class.processing, true, n) {
                    'l' => {
                        for thread in 0..2 {
                            let sink = format!("u{thread}_{n}");
                            text += &format!(
                                "e[{n}] -> {sink} :: Unqueue(ACTIVE false) -> Discard; StaticThreadSched({sink} {thread});\n"
                            );
                        }
                    }
                    _ => text += &format!("e[{n}] -> Discard;\n"),
                }
            }
            let Ok(rig) = Rig::with_threads(&text, 2) else { continue };
            let shared = rig.router.shared();
            let e = shared.plan.find("e", None).unwrap();
            if shared.plan.elements[e].lanes == 0b11 {
                return Some(rig);
            }
        }
    }
    None
}

#[test]
fn what_is_written_holds_for_all_threads() {
    let mut wrong = vec![];
    let mut looked = 0;
    for (name, class) in crate::registry().iter().filter(|(name, class)| *name == class.name) {
        if FILES.contains(&name) {
            continue;
        }
        let Some(mut rig) = reached_twice(name, class) else { continue };
        let planned = rig.router.shared();
        let special = planned.plan.elements[planned.plan.find("e", None).unwrap()].further_handlers.clone();
        let special = special.into_iter().map(|(name, row)| (name, class.handlers.handler(row)));
        let own = class.handlers().map(|h| (h.name.to_string(), h)).chain(special);
        for (handler, _) in own.filter(|(_, h)| h.read && h.write) {
            if EXEMPT.iter().any(|(class, h, _)| *class == name && *h == handler) {
                continue;
            }
            let full = format!("e.{handler}");
            for value in VALUES {
                let of = |rig: &mut Rig, lane: usize| {
                    rig.router.lanes_mut()[lane].read(None, &full, "").unwrap_or_default()
                };
                let before = of(&mut rig, 0);
                if rig.write(&full, value).is_err() {
                    continue;
                }
                let (after, other) = (of(&mut rig, 0), of(&mut rig, 1));
                looked += 1;
                if after != other {
                    wrong.push(format!(
                        "{name}: {handler} was {before:?}, {value} written: {after:?} and {other:?}"
                    ));
                    break;
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(looked > 100, "only {looked} handlers were written");
}

/// Runs for a while; whether the condition held before its end.
fn run_for(rig: &mut Rig, time: Duration) {
    let shared = rig.router.shared();
    std::thread::scope(|scope| {
        let router = &mut rig.router;
        let running = scope.spawn(|| router.run());
        let end = Instant::now() + time;
        while !running.is_finished() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        shared.end();
    });
}

/// The reassembler is behind a lock, and its timer is one thread's.
#[test]
fn two_threads_reassemble_fragments() {
    let data = |flags: &str| format!("4500001c0001{flags}401100000a0000010a0000020000000000000000");
    let mut rig = Rig::with_threads(
        &format!(
            "s0 :: InfiniteSource(DATA \\<{}>, LIMIT 2000, BURST 1) -> m0 :: MarkIPHeader -> r :: IPReassembler
               -> c :: Counter -> Discard;
             s1 :: InfiniteSource(DATA \\<{}>, LIMIT 2000, BURST 1) -> m1 :: MarkIPHeader -> r;
             StaticThreadSched(s0 0, s1 1)",
            data("2000"),
            data("0001"),
        ),
        2,
    )
    .unwrap_or_else(|problems| panic!("{problems}"));
    run_for(&mut rig, Duration::from_millis(500));
    let count: u64 = rig.read("c.count").parse().unwrap();
    assert!(count > 0, "nothing was put together");
}

/// A variable set to several times itself, and a file without an end, fill no memory: the scripts run
/// in a process that has little.
#[test]
fn a_script_cannot_fill_memory() {
    const VARIABLE: &str = "IXORA_SCRIPT_OF_LITTLE_MEMORY";
    if std::env::var_os(VARIABLE).is_none() {
        // setrlimit(2) by the shell, in KiB.
        let limited = "ulimit -v 1000000 && exec \"$0\" --exact shared::a_script_cannot_fill_memory";
        let test = std::env::current_exe().unwrap();
        let mut child = std::process::Command::new("sh");
        let ended = child.args(["-c", limited]).arg(test).env(VARIABLE, "1").output().unwrap();
        let said = String::from_utf8_lossy(&ended.stdout);
        assert!(ended.status.success() && said.contains("1 passed"), "{ended:?}");
        return;
    }
    let printed = |config: &str| {
        let mut rig = Rig::new(config).unwrap_or_else(|problems| panic!("{problems}"));
        rig.run();
        rig.printed()
    };
    let said = printed("DriverManager(init x aaaaaaaaaaaaaaaa, label l, set x $x$x$x$x$x, goto l)");
    assert!(said.contains("x: longer than 1048576 bytes"), "{said}");
    let said = printed("DriverManager(set x $(cat /dev/zero), stop)");
    assert!(said.contains("/dev/zero: longer than 16777216 bytes"), "{said}");
}

/// What one thread asks of another while no thread runs is answered, at once.
#[test]
fn threads_that_do_not_run_are_asked_all_the_same() {
    let config = "a :: InfiniteSource(LIMIT 100, STOP true) -> ca :: Counter -> Discard;
         b :: InfiniteSource(LIMIT 50, STOP true) -> cb :: Counter -> Discard; StaticThreadSched(b 1);
         DriverManager(wait, wait, stop); s :: Script(TYPE PASSIVE, init x $(cb.count), return $(cb.count))";
    let mut rig = Rig::with_threads(config, 2).unwrap_or_else(|problems| panic!("{problems}"));
    let start = Instant::now();
    rig.router.write("measure", "true").unwrap();
    assert_eq!((rig.read("s.run"), rig.read("s.x")), ("0".into(), "refused: no 's.x' read handler".into()));
    rig.run();
    assert_eq!((rig.read("s.run"), rig.read("cb.count")), ("50".into(), "50".into()), "{}", rig.printed());
    let figures = rig.read("figures");
    for line in ["ca\tCounter\t100\t", "cb\tCounter\t50\t"] {
        assert!(figures.contains(line), "{figures}");
    }
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
}

/// A thread that has ended answers nobody: who asks does not wait for it.
#[test]
fn nobody_waits_for_a_thread_that_has_ended() {
    let config = "a :: InfiniteSource(LIMIT 10, STOP true) -> ca :: Counter -> Discard;
         b :: InfiniteSource(LIMIT 10) -> cb :: Counter -> Discard; StaticThreadSched(b 1)";
    let mut rig = Rig::with_threads(config, 2).unwrap_or_else(|problems| panic!("{problems}"));
    rig.run();
    let start = Instant::now();
    let said = rig.router.lanes_mut()[1].read(None, "ca.count", "");
    assert!(said.is_err() && start.elapsed() < Duration::from_secs(1), "{said:?}, {:?}", start.elapsed());
}

/// What only prints, and to no file, is there for each thread: no lock.
#[test]
fn printers_need_no_lock() {
    let config = "a :: InfiniteSource(LIMIT 3) -> p :: Print(x) -> i :: IPPrint -> r :: ARPPrint -> Discard;
         b :: InfiniteSource(LIMIT 4) -> p; StaticThreadSched(a 0, b 1)";
    let mut rig = Rig::with_threads(config, 2).unwrap_or_else(|problems| panic!("{problems}"));
    let shared = rig.router.shared();
    for name in ["p", "i", "r"] {
        let planned = &shared.plan.elements[shared.plan.find(name, None).unwrap()];
        assert_eq!((planned.lanes, planned.locked), (0b11, false), "{name}");
    }
    run_for(&mut rig, Duration::from_millis(100));
    assert_eq!(rig.printed().matches("x:").count(), 7, "{}", rig.printed());
}
