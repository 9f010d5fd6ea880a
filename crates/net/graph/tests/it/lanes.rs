//! What lanes do with tasks, timers, signals and packets of elements that are made for
//! these tests.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use graph::clock::{Clock, SIMULATION_START_NS};
use graph::element::ThreadPlacement;
use graph::lang::{self, Source};
use graph::run::shared::Hotswap;
use graph::{
    Action, Class, Console, Cx, Each, Element, Next, Options, PerPacket, Ran, Registry, Router, Services,
    Signal, TaskId, TimerId,
};
use memory::{Batch, Packet};

/// What elements count, by name.
#[derive(Default)]
struct Log(Mutex<Vec<(&'static str, u64)>>);

impl Log {
    fn note(&self, what: &'static str) {
        let mut all = self.0.lock().unwrap();
        match all.iter_mut().find(|(name, _)| *name == what) {
            Some((_, count)) => *count += 1,
            None => all.push((what, 1)),
        }
    }

    fn count(&self, what: &str) -> u64 {
        self.0.lock().unwrap().iter().find(|(name, _)| *name == what).map_or(0, |(_, count)| *count)
    }
}

fn build(classes: &[&'static Class], config: &str, hotswap: Option<Hotswap>) -> (Router, Arc<Log>) {
    build_with(classes, config, Options { hotswap, ..Options::default() })
}

fn build_with(classes: &[&'static Class], config: &str, options: Options) -> (Router, Arc<Log>) {
    let registry: Registry = classes.iter().copied().collect();
    let words =
        lang::Options { known_class: &|name| registry.find(name).is_some(), ..lang::Options::default() };
    let flat = lang::read(vec![Source::new("config", config)], &words).unwrap();
    let log = Arc::new(Log::default());
    let mut services = Services::default();
    services.add(log.clone());
    let options = Options { services, console: Console::Memory(Arc::default()), ..options };
    let router = Router::build(config, flat, &registry, options);
    let router =
        router.unwrap_or_else(|problems| panic!("{}", problems.iter().map(|p| p.text()).collect::<String>()));
    (router, log)
}

fn log(setup: &graph::Setup<'_>) -> Arc<Log> {
    setup.services.get().unwrap()
}

/// Raises its signal while elements are initialized, and again later.
static RAISER: Class = Class {
    name: "Raiser",
    ports: "0/0",
    phase: 50,
    make: |setup, _| {
        let signal = Signal::new(false);
        setup.share(Arc::new(signal.clone()));
        Ok(Box::new(Raiser { signal, task: None, turns: 0 }))
    },
    ..Class::BASE
};

struct Raiser {
    signal: Signal,
    task: Option<TaskId>,
    turns: u64,
}

impl Element for Raiser {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let task = cx.new_task();
        cx.schedule(task);
        self.task = Some(task);
        self.signal.raise(cx);
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>, task: TaskId, _: &mut Batch) -> Ran {
        self.turns += 1;
        match self.turns {
            1 => self.signal.lower(),
            2 => self.signal.raise(cx),
            5 => cx.stop(),
            _ => {}
        }
        cx.schedule(task);
        Ran::done(true)
    }
}

/// Is initialized when the signal has risen already, and waits for it to rise again.
static LATE: Class = Class {
    name: "Late",
    ports: "0/0",
    phase: 200,
    make: |setup, _| Ok(Box::new(Late(log(setup)))),
    ..Class::BASE
};

struct Late(Arc<Log>);

impl Element for Late {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let signal = cx.shared::<Signal>("r").unwrap();
        let task = cx.new_task();
        cx.wake_on(&signal, task);
        Ok(())
    }

    fn run(&mut self, _: &mut Cx<'_>, _: TaskId, _: &mut Batch) -> Ran {
        self.0.note("woken");
        Ran::done(true)
    }
}

#[test]
fn who_listens_late_is_woken_as_well() {
    let (mut router, log) = build(&[&RAISER, &LATE], "r :: Raiser; l :: Late", None);
    router.run();
    assert_eq!(log.count("woken"), 1);
}

/// Asks for a new configuration in a turn of its own, while another task and a timer of
/// its come due.
static ASKER: Class = Class {
    name: "Asker",
    ports: "0/0",
    make: |setup, _| Ok(Box::new(Asker { log: log(setup), first: None, second: None, timer: None })),
    ..Class::BASE
};

struct Asker {
    log: Arc<Log>,
    first: Option<TaskId>,
    second: Option<TaskId>,
    timer: Option<TimerId>,
}

impl Element for Asker {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let first = cx.new_task();
        cx.schedule(first);
        (self.first, self.second, self.timer) = (Some(first), Some(cx.new_task()), Some(cx.new_timer()));
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>, task: TaskId, _: &mut Batch) -> Ran {
        if Some(task) == self.second {
            self.log.note("second");
            return Ran::done(true);
        }
        cx.schedule(self.second.unwrap());
        cx.set_timer_after(self.timer.unwrap(), 1_000_000);
        if cx.write("hotconfig", "anything").is_err() {
            self.log.note("refused");
        }
        Ran::done(true)
    }

    fn fire(&mut self, cx: &mut Cx<'_>, _: TimerId) {
        self.log.note("fired");
        cx.stop();
    }
}

/// While a new configuration is made ready, others go on; what is meant for the one that
/// asked for it comes later.
#[test]
fn tasks_and_timers_of_an_element_at_work_come_later() {
    let hotswap: Hotswap = Arc::new(|_: &str, _: Option<&graph::plan::Planned>| {
        std::thread::sleep(Duration::from_millis(40));
        Err("refused".to_string())
    });
    let (mut router, log) = build(&[&ASKER], "a :: Asker", Some(hotswap));
    let shared = router.shared();
    std::thread::scope(|scope| {
        let runs = scope.spawn(|| router.run());
        let end = std::time::Instant::now() + Duration::from_secs(10);
        while !runs.is_finished() && std::time::Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        shared.end();
    });
    assert_eq!([log.count("refused"), log.count("second"), log.count("fired")], [1, 1, 1]);
}

/// Counts in a way that is kept when its router is replaced.
static KEEPER: Class = Class {
    name: "Keeper",
    make: |setup, _| Ok(Each::boxed(Keeper { log: log(setup), seen: Arc::default() })),
    ..Class::BASE
};

struct Keeper {
    log: Arc<Log>,
    seen: Arc<AtomicU64>,
}

impl PerPacket for Keeper {
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, _: &mut Packet) -> Action {
        self.seen.fetch_add(1, Ordering::Relaxed);
        Action::ON
    }

    fn take_over(&mut self, _: &mut Cx<'_>, old: &mut Keeper) {
        self.log.note("taken over");
        self.seen = old.seen.clone();
    }
}

/// Sends one packet, and stops the router.
static ONE: Class =
    Class { name: "One", ports: "0/1", processing: "h", make: |_, _| Ok(Box::new(One)), ..Class::BASE };

struct One;

impl Element for One {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let task = cx.new_task();
        cx.schedule(task);
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>, _: TaskId, batch: &mut Batch) -> Ran {
        batch.push(cx.packet(b"one").unwrap());
        cx.stop();
        Ran::push(0)
    }
}

static END: Class =
    Class { name: "End", ports: "1/0", processing: "h", make: |_, _| Ok(Box::new(End)), ..Class::BASE };

struct End;

impl Element for End {
    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) -> Next {
        cx.free_batch(batch);
        Next::Done
    }
}

static PANICKING: Class =
    Class { name: "Panicking", ports: "0/0", make: |_, _| Ok(Box::new(Panicking)), ..Class::BASE };

struct Panicking;

impl Element for Panicking {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let task = cx.new_task();
        cx.schedule(task);
        Ok(())
    }

    fn run(&mut self, _: &mut Cx<'_>, _: TaskId, _: &mut Batch) -> Ran {
        panic!("the panic of this test")
    }
}

#[test]
fn a_lane_that_panics_ends_those_that_sleep() {
    let (mut router, _) =
        build_with(&[&PANICKING], "Panicking", Options { threads: 3, ..Options::default() });
    let run = std::thread::spawn(move || router.run());
    let begin = std::time::Instant::now();
    while !run.is_finished() {
        assert!(begin.elapsed() < Duration::from_secs(60), "waited for the end of three lanes");
        std::thread::yield_now();
    }
    assert!(run.join().is_err(), "the panic is passed on");
}

#[test]
fn elements_of_one_packet_at_a_time_take_over_too() {
    let config = "One -> k :: Keeper -> End";
    let (mut old, _) = build(&[&ONE, &KEEPER, &END], config, None);
    old.run();
    let (mut new, log) = build(&[&ONE, &KEEPER, &END], config, None);
    new.take_over(&mut old);
    assert_eq!(log.count("taken over"), 1);
}

/// The first configuration that is accepted is the one that runs next.
#[test]
fn a_second_configuration_does_not_overtake_the_first() {
    let made = Arc::new(Mutex::new(vec![]));
    let seen = made.clone();
    let hotswap: Hotswap = Arc::new(move |text: &str, _: Option<&graph::plan::Planned>| {
        seen.lock().unwrap().push(text.to_string());
        if text == "wrong" { Err("refused".to_string()) } else { Ok(()) }
    });
    let (mut router, _) = build(&[&ONE, &END], "One -> End", Some(hotswap));
    assert!(router.write("hotconfig", "wrong").is_err());
    assert!(router.write("hotconfig", "first").is_ok(), "one that was refused is in nobody's way");
    let refused = format!("{:?}", router.write("hotconfig", "second").unwrap_err());
    assert!(refused.contains("another configuration has been accepted"), "{refused}");
    assert_eq!(*made.lock().unwrap(), ["wrong", "first"]);
}

/// Has more timers than one look at them fires, all of them due, in the second thread.
static CROWD: Class =
    Class { name: "Crowd", ports: "0/0", make: |setup, _| Ok(Box::new(Crowd(log(setup)))), ..Class::BASE };

const CROWD_TIMERS: u64 = 100;

struct Crowd(Arc<Log>);

impl ThreadPlacement for Crowd {
    fn homes(&self, _: u64) -> u64 {
        0b10
    }
}

impl Element for Crowd {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        for _ in 0..CROWD_TIMERS {
            let timer = cx.new_timer();
            cx.set_timer_after(timer, 0);
        }
        Ok(())
    }

    fn fire(&mut self, _: &mut Cx<'_>, _: TimerId) {
        self.0.note("fired");
    }

    fn thread_placement(&self) -> Option<&dyn ThreadPlacement> {
        Some(self)
    }
}

/// Works without a pause until all timers of the crowd have fired, or 10 seconds are over.
static BUSY: Class = Class {
    name: "Busy",
    ports: "0/0",
    make: |setup, _| Ok(Box::new(Busy(log(setup), std::time::Instant::now()))),
    ..Class::BASE
};

struct Busy(Arc<Log>, std::time::Instant);

impl Element for Busy {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let task = cx.new_task();
        cx.schedule(task);
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>, task: TaskId, _: &mut Batch) -> Ran {
        if self.0.count("fired") >= CROWD_TIMERS || self.1.elapsed() > Duration::from_secs(60) {
            cx.stop();
            return Ran::done(true);
        }
        std::thread::yield_now(); // the other thread may have this core
        cx.schedule(task);
        Ran::done(true)
    }
}

#[test]
fn no_thread_rests_while_its_timers_are_due() {
    let clock = Arc::new(Clock::simulated(SIMULATION_START_NS));
    let options = Options { threads: 2, clock, ..Options::default() };
    let (mut router, log) = build_with(&[&CROWD, &BUSY], "Crowd; Busy", options);
    router.run();
    assert_eq!(log.count("fired"), CROWD_TIMERS);
}

/// Takes another configuration, but the second thread's copy none that is `wrong` or `final`,
/// and one that is `final` none at all.
static FUSSY: Class = Class {
    name: "Fussy",
    arguments: &[graph::class::mandatory("WHAT", "what it is")],
    live: true,
    make: |setup, conf| {
        let what: String = conf.mandatory("WHAT")?;
        conf.complete()?;
        Ok(Each::boxed(Fussy { what, seen: setup.services.get().unwrap_or_default() }))
    },
    ..Class::BASE
};

#[derive(Clone)]
struct Fussy {
    what: String,
    seen: Arc<Log>,
}

impl PerPacket for Fussy {
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, _: &mut Packet) -> Action {
        Action::ON
    }

    fn reconfigure(&mut self, cx: &mut Cx<'_>, new: Fussy) -> Result<(), graph::Refused> {
        if cx.lane() == 1 && ["wrong", "final"].contains(&new.what.as_str()) {
            return Err("refused".into());
        }
        if self.what == "final" {
            return Err("stays as it is".into());
        }
        self.what = new.what;
        self.seen.note(if self.what == "wrong" { "wrong" } else { "another" });
        Ok(())
    }

    fn replicate(&self) -> Option<Fussy> {
        Some(self.clone())
    }
}

/// Sends nothing, on the second thread.
static SECOND: Class = Class {
    name: "Second",
    ports: "0/1",
    processing: "h",
    make: |setup, _| Ok(Box::new(Crowd(log(setup)))),
    ..Class::BASE
};

#[test]
fn a_configuration_that_one_thread_refuses_is_nobodys() {
    let classes = [&ONE, &SECOND, &FUSSY, &END];
    let config = "One -> f :: Fussy(a) -> End; Second -> f";
    let (mut router, log) = build_with(&classes, config, Options { threads: 2, ..Options::default() });
    router.write("f.config", "b").unwrap();
    assert_eq!(log.count("another"), 2, "both copies");
    assert!(router.write("f.config", "wrong").is_err());
    assert_eq!(
        (log.count("wrong"), log.count("another")),
        (1, 3),
        "the first copy is given back what it had"
    );
    assert_eq!(router.read("f.config", "").unwrap(), "b");
}

/// A thread that does not answer in time has its message still, and reads it later.
#[test]
fn a_configuration_that_one_thread_does_not_see_is_nobodys() {
    let classes = [&ONE, &SECOND, &FUSSY, &END];
    let config = "One -> f :: Fussy(a) -> End; Second -> f";
    let (mut router, log) = build_with(&classes, config, Options { threads: 2, ..Options::default() });
    let refused =
        router.lanes_mut()[0].write(None, "f.config", "b").expect_err("no thread serves the other lane");
    assert!(refused.to_string().contains("thread 1 does not answer"), "{refused}");
    assert_eq!(log.count("another"), 2, "the first copy has what it had again");
    router.lanes_mut()[1].step(10);
    assert_eq!(log.count("another"), 2, "the second copy has it still");
    router.write("f.config", "c").unwrap();
    assert_eq!(log.count("another"), 4, "the lane reads its messages");
}

#[test]
fn a_copy_that_keeps_what_others_refused_is_told_of() {
    let classes = [&ONE, &SECOND, &FUSSY, &END];
    let config = "One -> f :: Fussy(a) -> End; Second -> f";
    let (mut router, _) = build_with(&classes, config, Options { threads: 2, ..Options::default() });
    let refused = router.write("f.config", "final").expect_err("one copy does not take it").to_string();
    assert!(refused.contains("refused") && refused.contains("stays as it is"), "{refused}");
}
