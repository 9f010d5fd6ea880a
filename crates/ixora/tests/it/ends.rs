//! How runs end: by time, by count, by a signal, by a peer that says nothing,
//! by a reader who is gone. And what they print meanwhile.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use crate::common::{model, names, run, start, until};
use crate::full_disk::readable;
use port::RxQueue as _;
use rustix::event::{EventfdFlags, eventfd};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};
use rustix::process::{Pid, Signal, kill_process};

#[test]
fn a_forwarder_ends_by_time_and_by_count() {
    let place = tempfile::tempdir().expect("a directory");
    let ports = "model:82599,wire=gen:rate=20k model:82599,wire=gen:rate=20k";
    let done = run(place.path(), &format!("fwd {ports} --count 1000 --duration 10s --json"));
    assert_eq!(done.code(), Some(0), "{done:#?}");
    let summary = done.json();
    assert!(summary["packets"].as_u64().is_some_and(|n| n >= 1000), "{summary:#}");
    assert!(summary["seconds"].as_f64().is_some_and(|s| s < 8.0), "{summary:#}");
    let done = run(place.path(), &format!("fwd {ports} --duration 300ms --json --touch"));
    let seconds = done.json()["seconds"].as_f64().expect("a number");
    assert!((0.3..3.0).contains(&seconds), "{seconds}");
    assert_eq!(done.json()["error"], serde_json::Value::Null);
}

#[test]
fn a_generator_sends_large_frames_and_spreads_them_over_queues() {
    let place = tempfile::tempdir().expect("a directory");
    let port = "model:82599,wire=sink";
    let options =
        "--count 1001 --rate 50k --allow-short --size 2052 --queues 3 --threads 2 --cpu 0 --head-writeback";
    let done = run(place.path(), &format!("pktgen {port} {options} --json"));
    assert_eq!(done.code(), Some(0), "{done:#?}");
    let summary = done.json();
    assert_eq!(summary["tx_packets"], 1001);
    assert_eq!(summary["ports"][0]["counters"]["GPTC"], 1001, "{summary:#}");
    assert_eq!(summary["missing_buffers"], 0);
}

#[test]
fn the_demo_forwards_frames_of_several_buffers() {
    let place = tempfile::tempdir().expect("a directory");
    let done = run(place.path(), "demo --duration 500ms --rate 5k --size 9000 --json");
    assert_eq!(done.code(), Some(0), "{done:#?}");
    assert_eq!(done.json()["accounts"]["balanced"], true);
}

#[test]
fn the_demo_passes_on_each_model() {
    let place = tempfile::tempdir().expect("a directory");
    for model in testbed::MODELS {
        let done = run(place.path(), &format!("demo --nic {} --duration 500ms --rate 5k --json", model.name));
        assert_eq!(done.code(), Some(0), "{done:#?}");
        assert_eq!(done.json()["models"]["endpoints"][1]["device"]["chip"], model.name);
    }
}

#[test]
fn an_interrupt_wakes_a_sleeping_capture() {
    let place = tempfile::tempdir().expect("a directory");
    let (_model, port) = model(place.path(), "--wire gen:rate=1k");
    let file = place.path().join("out.pcapng");
    let done = run(place.path(), &format!("pcap {port} {} --count 300 --interrupts --json", file.display()));
    assert_eq!(done.code(), Some(0), "{done:#?}");
    assert_eq!(done.json()["packets"], 300);
    // A sender has no interrupt to be woken by, so it must not sleep on one.
    let sent = run(
        place.path(),
        &format!("pktgen {port} --count 2000 --rate 20k --allow-short --interrupts --json"),
    );
    let seconds = sent.json()["seconds"].as_f64().expect("a number");
    assert!(seconds < 2.0, "100 ms of packets took {seconds} s");
}

#[test]
fn interrupts_leave_the_core_to_others() {
    let place = tempfile::tempdir().expect("a directory");
    let (_model, port) = model(place.path(), "--wire gen:rate=100");
    let echo = start(place.path(), &format!("echo {port} --interrupts --json"));
    std::thread::sleep(Duration::from_millis(500));
    let before = cpu_time(echo.id());
    std::thread::sleep(Duration::from_secs(1));
    let used = cpu_time(echo.id()) - before;
    assert!(used < Duration::from_millis(500), "{used:?} of a second");
    echo.signal(Signal::INT);
    let done = echo.wait(10);
    assert_eq!(done.code(), Some(0), "{done:#?}");
    assert!(done.json()["rx_packets"].as_u64().is_some_and(|n| n > 50), "{done:#?}");
}

/// What a process has used of all cores, to 10 ms (proc(5): fields 14 and 15 of
/// `stat`, in clock ticks).
fn cpu_time(id: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).expect("still running");
    let after_name = stat.rsplit(')').next().expect("a name in parentheses");
    let ticks = after_name.split_whitespace().skip(11).take(2).map(|n| n.parse::<u64>().expect("a number"));
    Duration::from_millis(10 * ticks.sum::<u64>())
}

#[test]
fn a_served_model_reports_when_told_to_end() {
    let place = tempfile::tempdir().expect("a directory");
    let socket = place.path().join("nic");
    let model = start(place.path(), &format!("model 82599 --wire sink --socket {}", socket.display()));
    until("socket", || socket.exists());
    let sent = run(place.path(), &format!("pktgen vfio-user:{} --count 100", socket.display()));
    assert_eq!(sent.code(), Some(0), "{sent:#?}");
    model.signal(Signal::TERM);
    let done = model.wait(10);
    assert_eq!(done.code(), Some(0), "{done:#?}");
    assert!(done.stdout.contains("from host  offered 100  delivered 100"), "{done:#?}");
    assert!(done.stderr.contains("serving"), "{done:#?}");
    assert_eq!(names(place.path()), Vec::<String>::new());
}

/// A driver wires an interrupt to an eventfd at which whoever signals it plainly would wait for ever.
#[test]
fn a_model_beside_a_peer_with_a_full_eventfd_ends_when_it_is_interrupted() {
    let place = tempfile::tempdir().expect("a directory");
    let (model, port) = model(place.path(), "--wire gen:rate=20k");
    let socket = port.strip_prefix("vfio-user:").expect("a socket");
    let pci = bus::Pci::connect(std::path::Path::new(socket)).expect("it serves");
    let dma = memory::Dma::new(memory::Options::default());
    let mut pool = memory::Pool::new(&dma, 2048).expect("memory");
    let options = port::Options { interrupts: true, ..port::Options::default() };
    let opened = driver::ixgbe::Ixgbe::open(pci.clone(), &dma, options).expect("it opens");
    let (device, mut rx, tx) = opened.split();
    let full = eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd");
    rustix::io::write(&full, &(u64::MAX - 1).to_ne_bytes()).expect("it has room for that");
    (0..2).for_each(|vector| pci.set_interrupt(vector, Some(full.as_fd())).expect("it is an eventfd"));
    let mut receive = |what: &str| {
        let mut received = 0;
        until(what, || {
            let mut batch = memory::Batch::default();
            received += rx[0].recv(&mut pool, &mut batch);
            pool.free_batch(&mut batch);
            let _ = rx[0].arm();
            received > 200
        });
    };
    receive("frames of a model that has nobody to tell of them");
    model.signal(Signal::INT);
    let done = model.wait(20);
    assert_eq!(done.code(), Some(0), "{done:#?}");
    let told = &done.json()["endpoints"][0]["device"]["interrupts"];
    assert!(told.as_u64().is_some_and(|count| count > 0), "{done:#?}");
    drop((rx, tx, device));
}

#[test]
fn a_peer_that_says_nothing_is_named() {
    let place = tempfile::tempdir().expect("a directory");
    let socket = place.path().join("mute");
    let _mute = UnixListener::bind(&socket).expect("a socket");
    let begin = Instant::now();
    let done = run(place.path(), &format!("fwd vfio-user:{} model:82599", socket.display()));
    assert_eq!(done.code(), Some(1), "{done:#?}");
    assert!(done.stderr.contains("mute gave no answer"), "{done:#?}");
    assert!(begin.elapsed() < Duration::from_secs(6), "{:?}", begin.elapsed());
}

#[test]
fn an_interrupt_ends_the_wait_for_a_peer_that_says_nothing() {
    let place = tempfile::tempdir().expect("a directory");
    let path = place.path().join("mute");
    let address = SocketAddrUnix::new(&path).expect("short enough");
    let mute = unix_stream_socket();
    bind(&mute, &address).expect("a free name");
    listen(&mute, 1).expect("a socket");
    let mut waiting = Vec::new();
    // One that is let in and told nothing; one that a full queue keeps out.
    for full in [false, true] {
        while full && waiting.len() < 10 {
            let client = unix_stream_socket();
            if connect(&client, &address).is_err() {
                break;
            }
            waiting.push(client);
        }
        let echo = start(place.path(), &format!("echo vfio-user:{}", path.display()));
        std::thread::sleep(Duration::from_millis(300));
        let begin = Instant::now();
        echo.signal(Signal::INT);
        let done = echo.wait(10);
        assert_eq!(done.code(), Some(1), "{done:#?}");
        assert!(done.stderr.contains("interrupted before the ports were open"), "{done:#?}");
        assert!(begin.elapsed() < Duration::from_secs(1), "full {full}: {:?}", begin.elapsed());
    }
    assert!(waiting.len() < 10, "the queue is full in the end");
}

/// One that never blocks.
fn unix_stream_socket() -> OwnedFd {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).expect("a socket")
}

#[test]
fn models_that_hang_end_the_demo_too() {
    let place = tempfile::tempdir().expect("a directory");
    let demo = start(place.path(), "demo --duration 60s --rate 10k --json");
    until("sockets", || names(place.path()).len() == 1);
    std::thread::sleep(Duration::from_millis(500));
    let child = child_of(demo.id());
    kill_process(child, Signal::STOP).expect("the models run");
    demo.signal(Signal::INT);
    let done = demo.wait(25);
    assert_eq!(done.code(), Some(1), "{done:#?}");
    assert!(done.stderr.contains("gave no answer"), "{done:#?}");
    // The shape stays: no accounts, but what was counted and why there are none.
    assert!(done.json()["accounts"].is_null() && done.json()["summary"]["error"].is_string());
    assert_eq!(names(place.path()), Vec::<String>::new());
    assert!(kill_process(child, Signal::CONT).is_err(), "the models' process is gone");
}

#[test]
fn a_signal_that_comes_twice_at_once_is_one() {
    let place = tempfile::tempdir().expect("a directory");
    let echo = start(place.path(), "echo model:82599,wire=gen:rate=10k --json");
    std::thread::sleep(Duration::from_millis(700));
    // As `timeout -s INT` does: to the process, then to its group.
    echo.signal(Signal::INT);
    std::thread::sleep(Duration::from_millis(5));
    echo.signal(Signal::INT);
    let done = echo.wait(10);
    assert_eq!(done.code(), Some(0), "{done:#?}");
    assert!(done.json()["rx_packets"].as_u64().is_some_and(|n| n > 0), "{done:#?}");
}

#[test]
fn a_second_signal_ends_a_command_that_hangs() {
    let place = tempfile::tempdir().expect("a directory");
    let demo = start(place.path(), "demo --duration 60s --rate 10k --json");
    until("sockets", || names(place.path()).len() == 1);
    std::thread::sleep(Duration::from_millis(500));
    let child = child_of(demo.id());
    kill_process(child, Signal::STOP).expect("the models run");
    demo.signal(Signal::INT);
    std::thread::sleep(Duration::from_millis(400));
    demo.signal(Signal::INT);
    let done = demo.wait(2);
    let _ = kill_process(child, Signal::KILL);
    assert_eq!(done.code(), Some(130), "{done:#?}");
}

fn child_of(id: u32) -> Pid {
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).expect("a list");
    let child = children.split_whitespace().next().expect("a child").parse().expect("a number");
    Pid::from_raw(child).expect("an id")
}

#[test]
fn a_reader_who_is_gone_is_no_reason_to_panic() {
    let place = tempfile::tempdir().expect("a directory");
    for arguments in [
        "demo --duration 200ms --rate 10k",
        "doctor",
        "doctor --json",
        "fwd model:82599,wire=gen:rate=1k model:82599,wire=sink --duration 1200ms",
        "pktgen model:82599 --count 10 --json",
        "--help",
    ] {
        let mut running = start(place.path(), arguments);
        running.hang_up();
        assert_eq!(running.wait(15).code(), Some(0), "{arguments}");
    }
    let mut running = start(place.path(), "echo nonsense");
    running.hang_up();
    assert_eq!(running.wait(15).code(), Some(2));
    assert_eq!(names(place.path()), Vec::<String>::new());
}

#[test]
fn live_lines_are_lines_and_can_be_silenced() {
    let place = tempfile::tempdir().expect("a directory");
    let run = |options| run(place.path(), &format!("echo model:82599 --duration 1500ms {options}"));
    let loud = run("--batch 8");
    assert_eq!(loud.stderr.lines().count(), 1, "{loud:#?}");
    assert!(loud.stderr.contains(" pps") && !loud.stderr.contains('\r'), "{loud:#?}");
    for options in ["--quiet", "--json"] {
        assert_eq!(run(options).stderr, "");
    }
}

#[test]
fn a_full_disk_ends_a_capture_with_its_name() {
    let place = tempfile::tempdir().expect("a directory");
    let done = run(place.path(), "pcap model:82599,wire=gen:rate=50k /dev/full --queues 2 --threads 2");
    assert_eq!(done.code(), Some(1), "{done:#?}");
    assert!(done.stderr.contains("cannot write /dev/full"), "{done:#?}");
}

#[test]
fn a_capture_goes_to_standard_output_and_says_whose_its_times_are() {
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("out.pcapng");
    let script = format!(
        "{} pcap model:82599,wire=gen:rate=5k - --count 200 --quiet > {}",
        crate::common::IXORA,
        file.display()
    );
    let mut command = std::process::Command::new("sh");
    let done = crate::common::start_command(command.args(["-c", &script]), place.path()).wait(20);
    assert_eq!(done.code(), Some(0), "{done:#?}");
    assert_eq!(readable(&file), 200);
    assert!(done.stderr.contains("pcap: 200 packets"), "{done:#?}");
    let bytes = std::fs::read(&file).expect("a capture");
    let says = |text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(says("time stamps when a batch was received"));
    // An interface statistics block is the last: type 5, with the count of packets received.
    let length = u32::from_le_bytes(*bytes.last_chunk().expect("a block")) as usize;
    let block = &bytes[bytes.len() - length..];
    assert_eq!(block[..4], [5, 0, 0, 0]);
    assert_eq!(block[20..24], [4, 0, 8, 0], "isb_ifrecv, of eight bytes");
}

#[test]
fn a_wrong_port_costs_no_older_capture() {
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("old.pcapng");
    std::fs::write(&file, "precious").expect("a file");
    let done = run(place.path(), &format!("pcap vfio-user:/nonexistent {}", file.display()));
    assert_eq!(done.code(), Some(1), "{done:#?}");
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), "precious");
}

#[test]
fn help_has_examples_and_they_are_accepted() {
    let place = tempfile::tempdir().expect("a directory");
    for command in ["", "fwd ", "pktgen ", "pcap ", "echo ", "serve ", "model ", "demo ", "doctor ", "bench "]
    {
        let help = run(place.path(), &format!("{command}--help"));
        assert_eq!(help.code(), Some(0), "{help:#?}");
        let examples = help.stdout.lines().filter_map(|line| line.strip_prefix("  ixora "));
        let examples: Vec<_> = examples.map(|line| line.split("  ").next().unwrap_or_default()).collect();
        assert!(!examples.is_empty(), "{command}: {help:#?}");
        for example in examples {
            // `--help` at the end: the words are looked at, nothing is done.
            let read = run(place.path(), &format!("{example} --help"));
            assert_eq!(read.code(), Some(0), "{example}: {read:#?}");
        }
    }
    let version = run(place.path(), "--version");
    assert_eq!(version.stdout.trim(), format!("ixora {}", env!("CARGO_PKG_VERSION")));
}

#[test]
fn an_interrupt_ends_the_wait_for_a_link() {
    let place = tempfile::tempdir().expect("a directory");
    // Up for a millisecond, then down for the rest of the test.
    let port = "model:82599,wire=sink+fault:flap=1000s/999999ms";
    let echo = start(place.path(), &format!("echo {port}"));
    std::thread::sleep(Duration::from_millis(700));
    echo.signal(Signal::INT);
    let done = echo.wait(5);
    assert_eq!(done.code(), Some(1), "{done:#?}");
    assert!(done.stderr.contains("interrupted before the ports were open"), "{done:#?}");
}

#[test]
fn a_warning_in_a_file_has_no_colours() {
    let place = tempfile::tempdir().expect("a directory");
    let done = run(place.path(), "echo model:82599 --threads 4 --duration 100ms --quiet");
    assert_eq!(done.code(), Some(0), "{done:#?}");
    assert!(done.stderr.contains("1 threads instead of 4") && !done.stderr.contains('\x1b'), "{done:#?}");
}

#[test]
fn a_router_ends_with_its_devices() {
    let place = tempfile::tempdir().expect("a directory");
    let (model, port) = model(place.path(), "--wire gen:rate=20k+sink");
    let text = format!("FromDevice(\"{port}\") -> c :: Counter -> ToDevice(\"{port}\")");
    let mut command = std::process::Command::new(crate::common::IXORA);
    let router =
        crate::common::start_command(command.args(["click", "-h", "c.count", "-e", &text]), place.path());
    std::thread::sleep(Duration::from_millis(1500));
    model.signal(Signal::KILL);
    let done = router.wait(15);
    assert_eq!(done.code(), Some(1), "{done:#?}");
    assert!(done.stderr.contains("error: "), "{done:#?}");
    assert!(done.stdout.trim().parse::<u64>().is_ok_and(|count| count > 0), "its handlers, still: {done:#?}");
}

#[test]
fn a_served_model_lets_go_of_a_clients_memory() {
    let place = tempfile::tempdir().expect("a directory");
    for (n, (words, protocol)) in [
        ("82599 --socket", "vfio-user"),
        ("virtio-net --socket", "vfio-user"),
        ("virtio-net --vhost-user", "vhost-user"),
    ]
    .into_iter()
    .enumerate()
    {
        let socket = place.path().join(format!("nic{n}"));
        let model = start(place.path(), &format!("model {words} {} --wire gen:rate=20k", socket.display()));
        until("socket", || socket.exists());
        let done = run(place.path(), &format!("echo {protocol}:{} --count 200", socket.display()));
        assert_eq!(done.code(), Some(0), "{done:#?}");
        let maps = || std::fs::read_to_string(format!("/proc/{}/maps", model.id())).expect("it serves");
        assert!(maps().contains("ixora"), "the program itself, to know that names are seen");
        until(&format!("end of {words}'s mappings"), || !maps().contains("ixora-dma"));
    }
}
