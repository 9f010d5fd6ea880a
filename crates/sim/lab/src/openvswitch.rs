//! Open vSwitch of Debian's packages: its database and its daemon as processes of this one,
//! with all their files in one directory, and the programs that tell them what to do.
//!
//! A switch forwards in user space and needs no module of the kernel. It belongs to the network
//! namespace of the thread that starts it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::packages::Tree;
use crate::{Error, Result, limited};

/// For a daemon to listen.
const START: Duration = Duration::from_secs(20);
/// For a program that asks or changes something.
const LIMIT: Duration = Duration::from_secs(60);

/// Which of Debian's daemons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Daemon {
    /// The package `openvswitch-switch`.
    Plain,
    /// The package `openvswitch-switch-dpdk`.
    Dpdk,
}

impl Daemon {
    fn program(self) -> &'static str {
        match self {
            Daemon::Plain => "usr/lib/openvswitch-switch/ovs-vswitchd",
            Daemon::Dpdk => "usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk",
        }
    }
}

/// A running switch; its processes end with it.
#[derive(Debug)]
pub struct Switch {
    tree: Tree,
    directory: PathBuf,
    processes: Vec<Child>,
}

impl Switch {
    /// Starts the database with these columns of the table `Open_vSwitch`, then the daemon
    /// with these arguments, and waits until both listen.
    ///
    /// # Errors
    /// When a program is missing in the tree, complains or does not listen.
    pub fn start(
        tree: Tree,
        directory: PathBuf,
        daemon: Daemon,
        columns: &[String],
        arguments: &[&str],
    ) -> Result<Switch> {
        let mut switch = Switch { tree, directory, processes: Vec::new() };
        let schema = switch.tree.file("usr/share/openvswitch/vswitch.ovsschema")?;
        let (database, socket) = (switch.at("conf.db"), switch.at("db.sock"));
        let create = [Path::new("create"), &database, &schema];
        limited::said(switch.command("usr/bin/ovsdb-tool")?.args(create), LIMIT)?;
        let mut server = switch.command("usr/sbin/ovsdb-server")?;
        server.arg(&database).arg(format!("--remote=punix:{}", socket.display()));
        switch.spawn(server, "ovsdb", &socket)?;
        switch.set(&["--no-wait", "init"])?;
        if !columns.is_empty() {
            let columns = columns.iter().map(String::as_str);
            let words: Vec<&str> =
                ["--no-wait", "set", "Open_vSwitch", "."].into_iter().chain(columns).collect();
            switch.set(&words)?;
        }
        let mut vswitchd = switch.command(daemon.program())?;
        vswitchd.arg(format!("unix:{}", socket.display())).args(arguments);
        let control = switch.at("vswitchd.ctl");
        switch.spawn(vswitchd, "vswitchd", &control)?;
        Ok(switch)
    }

    /// The place of one of its files.
    pub fn at(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Changes or reads the switch's database (`ovs-vsctl`), and waits until the switch has
    /// done it.
    ///
    /// # Errors
    /// When the program fails, with what it said.
    pub fn set(&self, words: &[&str]) -> Result<String> {
        let database = format!("--db=unix:{}", self.at("db.sock").display());
        let mut command = self.command("usr/bin/ovs-vsctl")?;
        limited::said(command.args([&database, "--timeout=20"]).args(words), LIMIT)
    }

    /// Changes or reads the flows of a bridge (`ovs-ofctl`).
    ///
    /// # Errors
    /// As [`Switch::set`].
    pub fn flows(&self, words: &[&str]) -> Result<String> {
        limited::said(self.command("usr/bin/ovs-ofctl")?.args(words), LIMIT)
    }

    /// A program of the switch's, with all its files in the switch's directory.
    fn command(&self, program: &str) -> Result<Command> {
        let mut command = self.tree.command(program)?;
        for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR", "XDG_RUNTIME_DIR"] {
            command.env(variable, &self.directory);
        }
        command.stdin(Stdio::null());
        Ok(command)
    }

    /// Starts a daemon and waits until it listens.
    fn spawn(&mut self, mut command: Command, name: &str, socket: &Path) -> Result<()> {
        let log = self.at(&format!("{name}.log"));
        let control = self.at(&format!("{name}.ctl"));
        command.arg(format!("--unixctl={}", control.display()));
        command.arg(format!("--log-file={}", log.display())).arg("-vconsole:off");
        command.stdout(Stdio::null()).stderr(Stdio::null());
        self.processes.push(command.spawn().map_err(Error::at(self.tree.root()))?);
        let start = Instant::now();
        while !socket.exists() {
            if start.elapsed() > START {
                return Err(Error::Malformed { path: log, reason: format!("{name} does not listen") });
            }
            sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        for process in self.processes.iter_mut().rev() {
            let _ = process.kill(); // it may have ended
            let _ = process.wait();
        }
    }
}
