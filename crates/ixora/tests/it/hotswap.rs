//! A configuration that takes another one's place while packets come in: on models
//! of the 82599, whose wires number every frame and look for each at the other end.
#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use element::fixture::EndOnDrop;
use element::io::router_ports::{OpenPorts, RouterPorts, Topology};
use graph::lang::{self, Source};
use graph::{Console, Options, Router, Services};
use memory::Dma;
use port::Port;
use testbed::inprocess::{Handle, InProcess, spawn, while_stepping};
use testbed::wire::{Cable, Plug, plug};
use testbed::{Idle, Stepper, ixgbe};

/// What routers that follow one another share.
struct Ground {
    dma: Dma,
    open_ports: Arc<OpenPorts>,
    handles: Vec<Handle>,
    opened: Arc<Mutex<Vec<String>>>,
}

/// 82599s named `p0`, `p1`, … with these wires.
fn ground(wires: &[&str]) -> Ground {
    let plugs: Vec<Plug> = (0..)
        .zip(wires)
        .map(|(index, wire)| Plug { spec: wire.parse().unwrap(), mac: ixgbe::mac(index) })
        .collect();
    let cables = plug(&plugs, &Default::default()).unwrap();
    let device = |(index, cable)| {
        let options = ixgbe::Options::with_mac(ixgbe::mac(index));
        InProcess::new(ixgbe::open(&options, cable).unwrap())
    };
    let (pcis, handles): (Vec<bus::Pci>, Vec<Handle>) = (0..).zip(cables).map(device).unzip();
    let (dma, opened) = (Dma::new(memory::Options::default()), Arc::<Mutex<Vec<String>>>::default());
    let (memory, seen, models) = (dma.clone(), opened.clone(), handles.clone());
    let open = move |wanted: &[element::io::router_ports::Wanted]| {
        let one = |w: &element::io::router_ports::Wanted| -> Result<Box<dyn Port>, String> {
            seen.lock().unwrap().push(w.name.clone());
            let number = w.name.strip_prefix("model:p").and_then(|n| n.parse::<usize>().ok());
            let pci = number.and_then(|n| pcis.get(n)).ok_or(format!("no port {}", w.name))?;
            ports::open(pci.clone(), &memory, w.options.clone()).map_err(|e| e.to_string())
        };
        while_stepping(&models, || wanted.iter().map(one).collect()).unwrap()
    };
    let usual = port::Options { rx_ring: 4096, tx_ring: 4096, ..port::Options::default() };
    Ground { dma, open_ports: Arc::new(OpenPorts::new(usual, Box::new(open))), handles, opened }
}

impl Ground {
    fn router(&self, text: &str, threads: usize) -> Result<Router, String> {
        let registry = element::registry();
        let options =
            lang::Options { known_class: &|name| registry.find(name).is_some(), ..lang::Options::default() };
        let flat = lang::read(vec![Source::new("config", text)], &options).map_err(|p| p.to_string())?;
        let router_ports = Arc::new(RouterPorts::of(self.open_ports.clone(), Topology::default()));
        let mut services = Services::default();
        services.add(router_ports.clone());
        let options = Options {
            threads,
            services,
            dma: self.dma.clone(),
            console: Console::Memory(Arc::default()),
            prepare: Some(Box::new(move |elements| router_ports.open(elements))),
            ..Options::default()
        };
        let problems = |list: Vec<lang::Problem>| list.iter().map(|p| p.text() + "\n").collect::<String>();
        Router::build(text, flat, &registry, options).map_err(problems)
    }

    fn run_models(&self) -> Stepper {
        spawn(&self.handles, None, Idle::Yield).unwrap()
    }

    /// Frames come from now on: not before somebody receives them.
    fn start(&self) {
        self.handles.iter().for_each(|handle| handle.with_cable(Cable::start_source));
    }

    /// How many frames came out of a device, all whole, once, and in order.
    fn arrived(&self, device: usize) -> u64 {
        let check = self.handles[device].report().wire.check.unwrap();
        let wrong = (check.corrupt, check.foreign, check.duplicated, check.reordered);
        assert_eq!(wrong, (0, 0, 0, 0), "corrupt, foreign, twice, out of order");
        check.received
    }

    /// How many frames a device had no room for: the sender does not wait, and a busy
    /// machine may let nobody receive for longer than ring and packet buffer last.
    fn missed(&self, device: usize) -> u64 {
        let drops = self.handles[device].report().drops;
        assert!(drops.keys().all(|name| name == "rx_fifo_full"), "{drops:?}");
        drops.values().sum()
    }

    /// Frames that came out of a device, and those that did not come into the other.
    fn accounted(&self, device: usize) -> u64 {
        self.arrived(device) + self.missed(1 - device)
    }

    /// Runs the routers one after the other, each for a while, the last one until
    /// `wanted` frames came out of a device or were missed.
    fn run(&self, routers: &[String], threads: usize, (device, wanted): (usize, u64)) -> Router {
        let models = self.run_models();
        let mut router = self.router(&routers[0], threads).unwrap();
        router.begin();
        self.start();
        for (n, text) in routers.iter().enumerate() {
            let last = n + 1 == routers.len();
            let shared = router.shared();
            let next = std::thread::scope(|scope| {
                scope.spawn(|| router.run());
                let _end = EndOnDrop(shared.clone());
                let end = Instant::now() + Duration::from_secs(20);
                let until = if last { wanted } else { (n as u64 + 1) * wanted / routers.len() as u64 };
                while self.accounted(device) < until && Instant::now() < end {
                    std::thread::sleep(Duration::from_millis(2));
                }
                // Made ready while the old one runs.
                (!last).then(|| self.router(&routers[n + 1], threads).unwrap())
            });
            let Some(mut next) = next else { break };
            assert_eq!(*shared.plan.source, **text);
            next.take_over(&mut router);
            router.cleanup();
            router = next;
        }
        drop(models);
        router
    }
}

fn count(router: &mut Router, handler: &str) -> u64 {
    router.read(handler, "").unwrap().trim().parse().unwrap()
}

const FRAMES: u64 = 60_000;

#[test]
fn five_configurations_forward_every_frame_once() {
    let ground = ground(&["gen:hold,rate=60k,count=60000,flows=16", "sink:check"]);
    let texts = [
        "FromDevice(model:p0) -> c :: Counter -> ToDevice(model:p1, BLOCKING true)",
        "f :: FromDevice(model:p0) -> Null -> c :: Counter -> Null -> ToDevice(model:p1, BLOCKING true)",
        "FromDevice(model:p0) -> c :: Counter -> q :: Queue(10000) -> t :: ToDevice(model:p1, BLOCKING true)",
        "FromDevice(model:p0) -> c :: Counter -> q :: Queue(10000) -> Unqueue -> t :: ToDevice(model:p1, BLOCKING true)",
        // With its queue: what waits in one that is no more goes with it.
        "FromDevice(model:p0) -> Null -> c :: Counter -> q :: Queue(20000) -> t :: ToDevice(model:p1, BLOCKING true)",
    ];
    let mut router = ground.run(&texts.map(String::from), 1, (1, FRAMES));
    assert_eq!(ground.accounted(1), FRAMES);
    assert_eq!(count(&mut router, "c.count"), ground.arrived(1), "the counter went from router to router");
    assert_eq!(*ground.opened.lock().unwrap(), ["model:p0", "model:p1"], "each port was opened once");
}

#[test]
fn threads_and_queues_change_hands() {
    let wire = "gen:hold,rate=30k,count=30000,flows=32+sink:check";
    let ground = ground(&[wire, wire]);
    // Two threads receive from each of two ports; then one from each.
    let texts = [
        "FromDevice(model:p0) -> c :: Counter -> ToDevice(model:p1, BLOCKING true);
         FromDevice(model:p1) -> d :: Counter -> ToDevice(model:p0, BLOCKING true)",
        "a :: FromDevice(model:p0, THREADS \"0 1\") -> c :: Counter -> ToDevice(model:p1, BLOCKING true);
         b :: FromDevice(model:p1, THREADS \"1\") -> d :: Counter -> ToDevice(model:p0, BLOCKING true)",
        "FromDevice(model:p1) -> d :: Counter -> ToDevice(model:p0, BLOCKING true);
         FromDevice(model:p0) -> c :: Counter -> ToDevice(model:p1, BLOCKING true)",
    ];
    let mut router = ground.run(&texts.map(String::from), 2, (1, 30_000));
    let end = Instant::now() + Duration::from_secs(10);
    while ground.accounted(0) < 30_000 && Instant::now() < end {
        ground.handles.iter().for_each(|handle| _ = handle.step_now());
        router.lanes_mut().iter_mut().for_each(|lane| lane.step(64));
    }
    assert_eq!((ground.accounted(0), ground.accounted(1)), (30_000, 30_000));
    let counts = (count(&mut router, "c.count"), count(&mut router, "d.count"));
    assert_eq!(counts, (ground.arrived(1), ground.arrived(0)));
}

/// What waits in the ring, in a queue and in front of a full ring when the router
/// ends is all there in the next one.
#[test]
fn what_waits_is_taken_over() {
    let ground = ground(&["gen:hold,count=3000", "sink:check"]);
    let mut old = ground
        .router("f :: FromDevice(model:p0) -> q :: Queue(9999) -> u :: Unqueue(ACTIVE false) -> t :: ToDevice(model:p1, BLOCKING true)", 1)
        .unwrap();
    old.begin();
    ground.start();
    let mut now = 1 << 40; // later than the machine's time while ports were opened
    let mut step = |rounds: usize| {
        for _ in 0..rounds {
            now += 10_000;
            ground.handles.iter().for_each(|handle| _ = handle.step(now));
        }
    };
    for _ in 0..60 {
        step(1);
        old.lanes_mut()[0].step(1);
    }
    step(10);
    let waiting = count(&mut old, "q.length");
    assert!((1..3000).contains(&waiting), "{waiting} in the queue: {:?}", ground.handles[0].report());
    let mut new = ground
        .router(
            "q :: Queue(9999); FromDevice(model:p0) -> q -> t :: ToDevice(model:p1, BLOCKING true, BURST 8)",
            1,
        )
        .unwrap();
    new.take_over(&mut old);
    old.cleanup();
    drop(old);
    assert_eq!(count(&mut new, "q.length"), waiting);
    new.begin();
    for _ in 0..2000 {
        step(1);
        new.lanes_mut()[0].step(8);
    }
    step(50);
    assert_eq!(ground.arrived(1), 3000);
}

#[test]
fn a_broken_configuration_changes_nothing() {
    let ground = ground(&["gen:hold,count=2000,rate=40k", "sink:check"]);
    let models = ground.run_models();
    let text = "FromDevice(model:p0) -> c :: Counter -> ToDevice(model:p1, BLOCKING true)";
    let mut router = ground.router(text, 1).unwrap();
    router.begin();
    ground.start();
    let shared = router.shared();
    let broken = [
        ("FromDevice(model:p0) -> Strip(x) -> ToDevice(model:p1, BLOCKING true)", "LENGTH"),
        ("FromDevice(model:p0) -> ToDevice(model:p9, BLOCKING true)", "no port model:p9"),
        ("FromDevice(model:p0) -> Queue -> Strip(1) -> Queue -> Discard", "push"),
        ("FromDevice(model:p0) -> Strip(1); Strip(2) -> Discard", "need exactly 1 output"),
        // What elements say of their ports.
        ("FromDevice(model:p0, MTU 1600) -> ToDevice(model:p1, BLOCKING true)", "open with MTU 1500"),
        (
            "FromDevice(model:p0) -> ToDevice(model:p1); Idle -> ToDevice(model:p1, MTU 1600); Idle -> ToDevice(model:p1, MTU 1500)",
            "say the same in both",
        ),
        // Found out when elements are initialized, with the ports open.
        (
            "FromDevice(model:p0) -> ToDevice(model:p1, BLOCKING true); ControlSocket(UNIX, /nowhere/at/all)",
            "bind",
        ),
    ];
    let errors = std::thread::scope(|scope| {
        scope.spawn(|| router.run());
        let _end = EndOnDrop(shared);
        let errors =
            broken.map(|(text, word)| (text, word, ground.router(text, 1).err().unwrap_or_default()));
        let end = Instant::now() + Duration::from_secs(20);
        while ground.arrived(1) < 2000 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(2));
        }
        errors
    });
    drop(models);
    for (text, word, error) in errors {
        assert!(error.contains(word), "{text}: {error}");
    }
    assert_eq!((ground.arrived(1), count(&mut router, "c.count")), (2000, 2000));
}

#[test]
fn a_port_that_nobody_uses_any_more_is_closed() {
    let ground = ground(&["gen:hold", "sink:check"]);
    let mut old = ground.router("FromDevice(model:p0) -> ToDevice(model:p1, BLOCKING true)", 1).unwrap();
    old.begin();
    let mut new = ground.router("FromDevice(model:p1) -> Discard", 1).unwrap();
    new.take_over(&mut old);
    old.cleanup();
    drop(old);
    new.begin();
    assert_eq!(*ground.opened.lock().unwrap(), ["model:p0", "model:p1"]);
    // It is opened anew when it is wanted again; the other one is not.
    let again = ground.router("FromDevice(model:p0) -> ToDevice(model:p1, BLOCKING true)", 1);
    assert!(again.is_ok());
    assert_eq!(*ground.opened.lock().unwrap(), ["model:p0", "model:p1", "model:p0"]);
}

/// As a user does it: the program, its control socket, models with wires of their own.
#[test]
fn a_running_program_takes_a_new_configuration() {
    let place = tempfile::tempdir().unwrap();
    let socket = place.path().join("control");
    let wire = "model:82599,wire=gen:rate=20k+sink";
    let text = |middle: &str| format!("f :: FromDevice(\"{wire}\") -> {middle} t :: ToDevice(\"{wire}\")");
    let mut command = std::process::Command::new(crate::common::IXORA);
    command.args(["click", "-R", "--ring", "4096", "-u"]).arg(&socket);
    command.args(["-e", &text("c :: Counter ->")]);
    let program = crate::common::start_command(&mut command, place.path());
    let mut control = Control::open(&socket);
    let count = |control: &mut Control, handler: &str| {
        control.ask(&format!("READ {handler}")).1.trim().parse::<u64>().unwrap()
    };
    let until = |control: &mut Control, least: u64| {
        let end = Instant::now() + Duration::from_secs(30);
        while count(control, "c.count") < least {
            assert!(Instant::now() < end, "{} packets", count(control, "c.count"));
        }
    };
    until(&mut control, 500);
    let broken = format!("{}; Strip(x) -> Cuonter -> Discard", text("c :: Counter ->"));
    let (code, _) = control.write_data("hotconfig", &broken);
    assert!(code.starts_with("5"), "{code}");
    let before = count(&mut control, "c.count");
    until(&mut control, before + 500);
    let (code, _) = control.write_data("hotconfig", &text("Null -> c :: Counter -> Null ->"));
    assert!(code.starts_with("200"), "{code}");
    let before = count(&mut control, "c.count");
    assert!(before >= 1000, "the counter goes on from where it was, not from {before}");
    until(&mut control, before + 500);
    assert!(control.ask("READ list").1.contains("Null@"), "this is the new one");
    // What is asked for behind a new configuration in one breath is asked of the new router.
    let again = text("c :: Counter -> Null -> behind :: Null ->");
    let words = format!("WRITEDATA hotconfig {}\r\n{again}READ behind.name\r\n", again.len());
    std::io::Write::write_all(control.0.get_mut(), words.as_bytes()).unwrap();
    assert!(control.reply().1.starts_with("200"));
    assert!(control.reply().1.starts_with("200"), "the old one has no such element");
    assert_eq!((control.line(), control.name("behind")), ("DATA 6\r\n".into(), "behind".into()));
    let (from, through) = (count(&mut control, "f.count"), count(&mut control, "c.count"));
    assert!(from >= before && through >= from, "{from} were received and {through} counted");
    let lost: u64 = count(&mut control, "t.dropped");
    assert_eq!(lost, 0);
    control.ask("WRITE stop");
    assert_eq!(program.wait(60).code(), Some(0));
}

/// Rings that few packets go through hold buffers of the configuration before, and of many before
/// that; their pools are handed on, so that those of all configurations are not kept.
#[test]
fn configurations_that_follow_one_another_keep_the_same_memory() {
    let place = tempfile::tempdir().unwrap();
    let socket = place.path().join("control");
    let wire = "model:82599,wire=gen:rate=100+sink";
    let text = |middle: &str| format!("f :: FromDevice(\"{wire}\") -> {middle} t :: ToDevice(\"{wire}\")");
    let mut command = std::process::Command::new(crate::common::IXORA);
    command
        .args(["click", "-R", "--ring", "4096", "-u"])
        .arg(&socket)
        .args(["-e", &text("c0 :: Counter ->")]);
    let program = crate::common::start_command(&mut command, place.path());
    let mut control = Control::open(&socket);
    let files = || {
        let all = std::fs::read_dir(format!("/proc/{}/fd", program.id())).unwrap().flatten();
        all.filter(|fd| fd.path().read_link().is_ok_and(|to| to.to_string_lossy().contains("ixora-dma")))
            .count()
    };
    let before = files();
    for swap in 1..=10 {
        let (code, _) = control.write_data("hotconfig", &text(&format!("c{swap} :: Counter ->")));
        assert!(code.starts_with("200"), "{code}");
        // Buffers of this one go into the rings, which the last frames have not left yet in the end.
        let mut count = || control.ask(&format!("READ c{swap}.count")).1.trim().parse().unwrap_or(0u64);
        crate::common::until("some frames", || count() >= 40);
    }
    let end = Instant::now() + Duration::from_secs(20);
    while files() > before && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(files() <= before, "{} files of memory, of which there were {before}", files());
    drop(control);
    program.signal(rustix::process::Signal::TERM);
    assert_eq!(program.wait(20).code(), Some(0));
}

/// A client of the control socket.
struct Control(std::io::BufReader<std::os::unix::net::UnixStream>);

impl Control {
    fn open(socket: &std::path::Path) -> Control {
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            if let Ok(stream) = std::os::unix::net::UnixStream::connect(socket) {
                stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
                let mut control = Control(std::io::BufReader::new(stream));
                control.line();
                return control;
            }
            assert!(Instant::now() < end, "no control socket");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        std::io::BufRead::read_line(&mut self.0, &mut line).unwrap();
        line
    }

    /// What follows the last line of the reply, and that line.
    fn reply(&mut self) -> (String, String) {
        let mut code = self.line();
        let mut all = code.clone();
        while code.as_bytes().get(3) == Some(&b'-') {
            code = self.line();
            all += &code;
        }
        (all, code)
    }

    fn ask(&mut self, words: &str) -> (String, String) {
        use std::io::{Read, Write};
        self.0.get_mut().write_all(format!("{words}\r\n").as_bytes()).unwrap();
        let (code, _) = self.reply();
        if !words.starts_with("READ") || !code.starts_with("200") {
            return (code, String::new());
        }
        let len = self.line().trim().strip_prefix("DATA ").unwrap().parse().unwrap();
        let mut data = vec![0; len];
        self.0.read_exact(&mut data).unwrap();
        (code, String::from_utf8(data).unwrap())
    }

    /// What a handler said whose length is known.
    fn name(&mut self, expected: &str) -> String {
        let mut data = vec![0; expected.len()];
        std::io::Read::read_exact(&mut self.0, &mut data).unwrap();
        String::from_utf8(data).unwrap()
    }

    fn write_data(&mut self, handler: &str, data: &str) -> (String, String) {
        use std::io::Write;
        let words = format!("WRITEDATA {handler} {}\r\n{data}", data.len());
        self.0.get_mut().write_all(words.as_bytes()).unwrap();
        self.reply()
    }
}
