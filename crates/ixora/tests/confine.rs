//! What a running program may still do, and that it does its work all the same.
//! Another process asks: this one, through ptrace(2).

mod common;
#[cfg(target_arch = "x86_64")]
#[path = "confine/inject.rs"]
mod inject;
#[path = "confine/router.rs"]
mod router;
#[path = "confine/servers.rs"]
mod servers;

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use common::{IXORA, Running, names, run, start, start_command, until};
use rustix::process::Signal;

/// How long a program works on after all was tried in it.
const AFTERWARDS: Duration = Duration::from_millis(500);
/// The user that has nothing.
const NOBODY: u32 = 65534;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The threads of a process.
fn threads(process: u32) -> Vec<u32> {
    names(Path::new(&format!("/proc/{process}/task")))
        .iter()
        .map(|id| id.parse().expect("a number"))
        .collect()
}

/// A thread's `status` (proc(5)), by name.
fn status(process: u32, thread: u32) -> BTreeMap<String, String> {
    // A thread that ends meanwhile has none.
    let text = std::fs::read_to_string(format!("/proc/{process}/task/{thread}/status")).unwrap_or_default();
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect()
}

/// Waits until system calls are filtered, which is the last step.
fn until_confined(process: u32) {
    until("filter of system calls", || {
        status(process, process).get("Seccomp").is_some_and(|mode| mode == "2")
    });
}

/// What all threads of a confined process look like from outside.
fn assert_confined(process: u32, user: Option<u32>) {
    until_confined(process);
    for thread in threads(process) {
        let status = status(process, thread);
        let is = |name: &str, value: &str| assert_eq!(status[name], value, "{name} of {status:#?}");
        is("Seccomp", "2");
        is("NoNewPrivs", "1");
        ["CapInh", "CapPrm", "CapEff", "CapAmb"].iter().for_each(|set| is(set, "0000000000000000"));
        if let Some(user) = user {
            is("CapBnd", "0000000000000000");
            is("Uid", &[user.to_string().as_str(); 4].join("\t"));
            is("Gid", &[user.to_string().as_str(); 4].join("\t"));
            is("Groups", "");
        }
    }
}

/// Whom a process that was started by root becomes.
fn expected_user() -> Option<u32> {
    is_root().then_some(NOBODY)
}

/// The oldest child of a process.
fn child_of(id: u32) -> u32 {
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).expect("a list");
    children.split_whitespace().next().expect("a child").parse().expect("a number")
}

#[cfg(target_arch = "x86_64")]
mod refused {
    use super::*;
    use crate::inject::{Call, TEXT, Thread};

    const HERE: u64 = libc::AT_FDCWD as u64;
    const EPERM: i64 = -(libc::EPERM as i64);
    /// By this bit a call's number is one of x32, x86-64's second interface.
    const X32: libc::c_long = 0x4000_0000;

    /// What a confined process may not do, in words.
    fn calls() -> [(&'static str, Call); 25] {
        let (private, anonymous) = (libc::MAP_PRIVATE as u64, libc::MAP_ANONYMOUS as u64);
        let exec = (libc::PROT_READ | libc::PROT_EXEC) as u64;
        [
            ("open a file", Call(libc::SYS_openat, [HERE, TEXT, 0, 0], "/etc/passwd")),
            ("open a file the old way", Call(libc::SYS_open, [TEXT, 0, 0, 0], "/etc/passwd")),
            ("look for a file", Call(libc::SYS_newfstatat, [HERE, TEXT, TEXT, 0], "/etc/passwd")),
            ("make a file", Call(libc::SYS_creat, [TEXT, 0o600, 0, 0], "/tmp/ixora-confined")),
            ("remove a file", Call(libc::SYS_unlink, [TEXT, 0, 0, 0], "/tmp/ixora-confined")),
            ("change rights", Call(libc::SYS_chmod, [TEXT, 0o777, 0, 0], "/tmp")),
            ("make a TCP socket", Call(libc::SYS_socket, [libc::AF_INET as u64, 1, 0, 0], "")),
            ("make a local socket", Call(libc::SYS_socket, [libc::AF_UNIX as u64, 1, 0, 0], "")),
            ("make a packet socket", Call(libc::SYS_socket, [libc::AF_PACKET as u64, 3, 0, 0], "")),
            (
                "make a pair of sockets",
                Call(libc::SYS_socketpair, [libc::AF_UNIX as u64, 1, 0, TEXT], "12345678"),
            ),
            ("run a program", Call(libc::SYS_execve, [TEXT, 0, 0, 0], "/bin/true")),
            ("make a process", Call(libc::SYS_fork, [0; 4], "")),
            ("make a process by clone", Call(libc::SYS_clone, [libc::SIGCHLD as u64, 0, 0, 0], "")),
            (
                "make a user namespace",
                Call(libc::SYS_clone, [(libc::CLONE_NEWUSER | libc::SIGCHLD) as u64, 0, 0, 0], ""),
            ),
            ("make a process by clone3", Call(libc::SYS_clone3, [0; 4], "")),
            ("run a program by x32", Call(X32 | 520, [TEXT, 0, 0, 0], "/bin/true")),
            ("end its parent", Call(libc::SYS_kill, [std::process::id() as u64, 0, 0, 0], "")),
            ("trace a process", Call(libc::SYS_ptrace, [16, std::process::id() as u64, 0, 0], "")),
            ("map code", Call(libc::SYS_mmap, [0, 4096, exec, private | anonymous], "")),
            ("make code of data", Call(libc::SYS_mprotect, [0, 4096, exec, 0], "")),
            ("name itself another user", Call(libc::SYS_setuid, [0; 4], "")),
            ("load a BPF program", Call(libc::SYS_bpf, [0, 0, 0, 0], "")),
            ("make an io_uring", Call(libc::SYS_io_uring_setup, [1, 0, 0, 0], "")),
            ("type on its terminal", Call(libc::SYS_ioctl, [0, libc::TIOCSTI, TEXT, 0], "x")),
            ("become dumpable", Call(libc::SYS_prctl, [libc::PR_SET_DUMPABLE as u64, 1, 0, 0], "")),
        ]
    }

    /// Stops a thread; `None` if it has ended since it was listed, or if this
    /// machine lets nobody look into another process.
    fn stop(process: u32, thread: u32) -> Option<Thread> {
        match Thread::stop(process, thread) {
            Ok(thread) => Some(thread),
            Err(nix::Error::ESRCH) => None,
            Err(error) => {
                assert!(
                    !std::env::var("CI").is_ok_and(|ci| ci == "true"),
                    "CI=true, but ptrace says {error}"
                );
                println!("passed over: ptrace says {error}");
                None
            }
        }
    }

    /// Tries one of [`calls`] in the first thread: what comes of it, if it can be tried.
    pub fn try_one(process: u32, what: &str) -> Option<i64> {
        let stopped = stop(process, process)?;
        let calls = calls();
        let (_, call) = calls.iter().find(|(name, _)| *name == what).expect("one of those calls");
        Some(stopped.call(call))
    }

    /// Tries all of [`calls`] in all threads.
    pub fn try_all(process: u32) {
        for thread in threads(process) {
            let Some(stopped) = stop(process, thread) else { continue };
            for (what, call) in calls() {
                assert_eq!(stopped.call(&call), EPERM, "thread {thread} may {what}");
            }
            // What goes through does go through: the thread is asked, and answers.
            assert_eq!(stopped.call(&Call(libc::SYS_getpid, [0; 4], "")), i64::from(process));
            let data = (libc::PROT_READ | libc::PROT_WRITE) as u64;
            let how = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
            assert!(stopped.call(&Call(libc::SYS_mmap, [0, 4096, data, how], "")) > 0, "memory is to be had");
        }
    }

    #[test]
    fn a_process_that_is_not_confined_may() {
        let place = tempfile::tempdir().expect("a directory");
        let echo = start(place.path(), "echo model:82599 --duration 20s --json --no-confine");
        until("thread", || threads(echo.id()).len() == 3);
        let open = || {
            let stopped = stop(echo.id(), echo.id())?;
            let calls = calls();
            let may = ["open a file", "make a TCP socket", "map code", "look for a file"];
            let tried = calls.iter().filter(|(what, _)| may.contains(what));
            Some(tried.map(|(what, call)| (*what, stopped.call(call))).collect::<Vec<_>>())
        };
        for (what, outcome) in open().unwrap_or_default() {
            assert!(outcome >= 0, "{what}: {outcome}");
        }
        echo.signal(Signal::INT);
        assert_eq!(echo.wait(10).code(), Some(0));
    }

    #[test]
    fn the_end_of_a_process_is_heard_of_though_a_thread_was_stopped() {
        let place = tempfile::tempdir().expect("a directory");
        let echo = start(place.path(), "echo model:82599 --duration 20s --json --no-confine");
        until("thread", || threads(echo.id()).len() == 3);
        let other = threads(echo.id()).into_iter().find(|thread| *thread != echo.id()).expect("three");
        let stopped = stop(echo.id(), other);
        echo.signal(Signal::KILL);
        until("end of the thread", || {
            std::fs::read_to_string(format!("/proc/{}/task/{other}/stat", echo.id()))
                .map_or(true, |stat| stat.contains(") Z "))
        });
        drop(stopped);
        assert_eq!(echo.wait(10).code(), None);
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod refused {
    pub fn try_all(_process: u32) {}

    pub fn try_one(_process: u32, _what: &str) -> Option<i64> {
        None
    }
}

/// Serves a model without `--json`, so that its sockets' names are told.
fn served(place: &Path, wire: &str) -> (Running, String) {
    let socket = place.join("nic");
    let model = start(place, &format!("model 82599 --json --socket {} --wire {wire}", socket.display()));
    until_confined(model.id());
    (model, format!("vfio-user:{}", socket.display()))
}

#[test]
fn applications_work_on_with_nothing_left_to_abuse() {
    let place = tempfile::tempdir().expect("a directory");
    let port = "model:82599,wire=gen:rate=20k";
    let file = place.path().join("out.pcapng");
    for arguments in [
        format!("fwd {port} {port} --threads 2"),
        format!("echo {port} --queues 2 --threads 2 --interrupts"),
        "pktgen model:82599,wire=sink --rate 20k --allow-short".to_owned(),
        format!("pcap {port} {}", file.display()),
    ] {
        let running = start(place.path(), &format!("{arguments} --json"));
        let process = running.id();
        assert_confined(process, expected_user());
        refused::try_all(process);
        std::thread::sleep(AFTERWARDS); // now it gets on with its packets
        running.signal(Signal::INT);
        let done = running.wait(30);
        assert_eq!(done.code(), Some(0), "{arguments}: {done:#?}");
        assert!(done.json()["packets"].as_u64().is_some_and(|n| n > 2000), "{arguments}: {done:#?}");
        assert_eq!(done.json()["missing_buffers"], 0);
    }
    assert!(std::fs::metadata(file).is_ok_and(|file| file.len() > 2000 * 60));
}

#[test]
fn a_model_takes_new_clients_with_nothing_left_to_abuse() {
    let place = tempfile::tempdir().expect("a directory");
    let (model, port) = served(place.path(), "sink");
    let mut sent = 0;
    for round in 1..=2 {
        let client = start(place.path(), &format!("pktgen {port} --rate 20k --allow-short --json"));
        assert_confined(client.id(), expected_user());
        assert_confined(model.id(), expected_user());
        refused::try_all(model.id());
        refused::try_all(client.id());
        std::thread::sleep(AFTERWARDS);
        client.signal(Signal::INT);
        let done = client.wait(20);
        assert_eq!(done.code(), Some(0), "{round}: {done:#?}");
        let packets = done.json()["tx_packets"].as_u64().expect("a number");
        assert!(packets > 2000, "{round}: {done:#?}");
        sent += packets;
    }
    model.signal(Signal::TERM);
    let done = model.wait(10);
    assert_eq!(done.code(), Some(0), "{done:#?}");
    assert_eq!(done.json()["endpoints"][0]["device"]["wire"]["from_host"]["delivered"], sent, "{done:#?}");
    assert_eq!(names(place.path()), Vec::<String>::new(), "the socket is removed by who still may");
}

#[test]
fn the_demo_balances_with_nothing_left_to_abuse() {
    let place = tempfile::tempdir().expect("a directory");
    let demo = start(place.path(), "demo --duration 60s --rate 20k --json");
    assert_confined(demo.id(), expected_user());
    let models = child_of(demo.id());
    assert_confined(models, expected_user());
    refused::try_all(demo.id());
    refused::try_all(models);
    std::thread::sleep(AFTERWARDS);
    demo.signal(Signal::INT);
    let done = demo.wait(10);
    assert_eq!(done.code(), Some(0), "{done:#?}");
    assert_eq!(done.json()["accounts"]["balanced"], true);
    assert!(done.json()["accounts"]["delivered"].as_u64().is_some_and(|n| n > 500), "{done:#?}");
    assert_eq!(names(place.path()), Vec::<String>::new());
}

/// The program where anybody may run it, with a place to write.
fn for_anybody(place: &Path) -> PathBuf {
    let program = place.join("ixora");
    std::fs::copy(IXORA, &program).expect("a copy");
    let work = place.join("work");
    std::fs::create_dir(&work).expect("a directory");
    if is_root() {
        std::os::unix::fs::chown(place, Some(NOBODY), Some(NOBODY)).expect("root may");
        std::os::unix::fs::chown(&work, Some(NOBODY), Some(NOBODY)).expect("root may");
    }
    program
}

#[test]
fn an_ordinary_user_is_confined_too() {
    let place = tempfile::tempdir().expect("a directory");
    let program = for_anybody(place.path());
    let work = place.path().join("work");
    let start = |arguments: &str| {
        let mut command = Command::new(&program);
        command.args(arguments.split(' '));
        if is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        start_command(&mut command, &work)
    };
    let socket = work.join("nic");
    let model = start(&format!("model 82599 --json --socket {} --wire gen:rate=5k", socket.display()));
    assert_confined(model.id(), None);
    let echo = start(&format!("echo vfio-user:{} --json", socket.display()));
    assert_confined(echo.id(), None);
    refused::try_all(model.id());
    refused::try_all(echo.id());
    std::thread::sleep(AFTERWARDS);
    echo.signal(Signal::INT);
    let done = echo.wait(20);
    assert_eq!(done.code(), Some(0), "{done:#?}");
    assert!(done.json()["packets"].as_u64().is_some_and(|n| n > 500), "{done:#?}");
    model.signal(Signal::TERM);
    assert_eq!(model.wait(10).code(), Some(0));
    let demo = start("demo --duration 1s --rate 20k --json").wait(20);
    assert_eq!(demo.code(), Some(0), "{demo:#?}");
    assert_eq!(demo.json()["accounts"]["balanced"], true);
    assert_eq!(names(&work), Vec::<String>::new());
}

#[test]
fn sudo_leads_back_to_who_called_it() {
    if !is_root() {
        println!("passed over: only root becomes somebody else");
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(IXORA);
    command.args("echo model:82599 --duration 20s --json".split(' '));
    let echo = start_command(command.env("SUDO_UID", "1234").env("SUDO_GID", "1234"), place.path());
    assert_confined(echo.id(), Some(1234));
    echo.signal(Signal::INT);
    assert_eq!(echo.wait(10).code(), Some(0));
}

#[test]
fn what_sudo_serves_its_caller_may_drive() {
    if !is_root() {
        println!("passed over: only root serves for somebody else");
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let program = for_anybody(place.path()); // of user NOBODY, who is the caller here
    let socket = place.path().join("work/nic");
    let mut command = Command::new(&program);
    command.args(["model", "82599", "--json", "--socket"]).arg(&socket);
    let caller = NOBODY.to_string();
    let model = start_command(command.env("SUDO_UID", &caller).env("SUDO_GID", &caller), place.path());
    until_confined(model.id());
    let mut command = Command::new(&program);
    command.arg("pktgen").arg(format!("vfio-user:{}", socket.display())).args(["--count", "10"]);
    let sent = start_command(command.uid(NOBODY).gid(NOBODY), place.path()).wait(10);
    assert_eq!(sent.code(), Some(0), "{sent:#?}");
    model.signal(Signal::TERM);
    assert_eq!(model.wait(10).code(), Some(0));
    assert_eq!(names(&place.path().join("work")), Vec::<String>::new());
}

#[test]
fn a_wire_between_sockets_carries_on() {
    let place = tempfile::tempdir().expect("a directory");
    let (a, b) = (place.path().join("a"), place.path().join("b"));
    let far = std::os::unix::net::UnixDatagram::bind(&b).expect("a socket");
    far.set_read_timeout(Some(Duration::from_secs(5))).expect("a limit");
    let port = format!("model:82599,wire=unix:{},remote={}", a.display(), b.display());
    let echo = start(place.path(), &format!("echo {port} --duration 20s --json"));
    assert_confined(echo.id(), None);
    refused::try_all(echo.id());
    let mut answer = [0; 2048];
    for n in 0..10_u8 {
        far.send_to(&[n; 60], &a).expect("it listens");
        assert_eq!(far.recv(&mut answer).expect("an echo"), 60);
    }
    echo.signal(Signal::INT);
    assert_eq!(echo.wait(10).code(), Some(0));
    assert_eq!(names(place.path()), ["b"], "its own socket is gone, ours is not");
}

#[test]
fn what_a_killed_model_leaves_is_removed() {
    let place = tempfile::tempdir().expect("a directory");
    let (model, _port) = served(place.path(), "sink");
    assert_eq!(names(place.path()), ["nic"]);
    model.signal(Signal::KILL);
    assert_eq!(model.wait(10).code(), None);
    until("end of the socket", || names(place.path()).is_empty());
}

#[test]
fn another_ones_socket_is_left_alone() {
    let place = tempfile::tempdir().expect("a directory");
    let (model, _port) = served(place.path(), "sink");
    let socket = place.path().join("nic");
    std::fs::rename(&socket, place.path().join("old")).expect("moved");
    let _other = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    model.signal(Signal::TERM);
    assert_eq!(model.wait(10).code(), Some(0));
    assert!(socket.exists(), "it is not the one that was bound");
}

#[test]
fn without_confinement_all_is_tidied_up_as_well() {
    let place = tempfile::tempdir().expect("a directory");
    let socket = place.path().join("nic");
    let model =
        start(place.path(), &format!("model 82599 --json --no-confine --socket {}", socket.display()));
    until("socket", || socket.exists());
    let sent = run(place.path(), &format!("pktgen vfio-user:{} --count 100 --no-confine", socket.display()));
    assert_eq!(sent.code(), Some(0), "{sent:#?}");
    assert_eq!(status(model.id(), model.id())["Seccomp"], "0");
    model.signal(Signal::TERM);
    assert_eq!(model.wait(10).code(), Some(0));
    let demo = run(place.path(), "demo --duration 300ms --rate 10k --json --no-confine");
    assert_eq!(demo.code(), Some(0), "{demo:#?}");
    assert_eq!(names(place.path()), Vec::<String>::new());
}
