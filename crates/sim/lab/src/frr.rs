//! FRR of Debian's packages: the daemons of a router as processes of this one, with all their
//! files in one directory.
//!
//! A router belongs to the network namespace of the thread that starts it, and needs root: its
//! daemons change that namespace's routes and forwarding databases.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::packages::{Tree, triplet};
use crate::{Error, Result};

/// The package, with zebra, bgpd and their modules.
pub const PACKAGES: &[&str] = &["frr"];
const ZEBRA: &str = "zebra";
/// In the order in which they start.
const DAEMONS: [&str; 2] = [ZEBRA, "bgpd"];
/// Where FRR keeps what it logs at the last moment.
const LAST_LOGS: &str = "/var/tmp/frr";
/// For a daemon to listen.
const START: Duration = Duration::from_secs(20);

/// A running router; its processes end with it.
#[derive(Debug)]
pub struct Router {
    tree: Tree,
    directory: PathBuf,
    vrfs: Vec<(String, i32)>,
    processes: Vec<(&'static str, Child)>,
}

impl Router {
    /// Starts zebra, then bgpd, with these configurations, and waits until both listen.
    ///
    /// zebra streams to FPM's port of this namespace (`dplane_fpm_nl`).
    ///
    /// # Errors
    /// When a program is missing in the tree or does not listen.
    pub fn start(tree: Tree, directory: PathBuf, zebra: &str, bgpd: &str) -> Result<Router> {
        Router::with_vrfs(tree, directory, (zebra, bgpd), Vec::new())
    }

    /// As [`Router::start`], with a network namespace for each VRF (`zebra -n`): its name, and a
    /// thread that is in it.
    ///
    /// # Errors
    /// As [`Router::start`].
    pub fn with_vrfs(
        tree: Tree,
        directory: PathBuf,
        (zebra, bgpd): (&str, &str),
        vrfs: Vec<(String, i32)>,
    ) -> Result<Router> {
        let mut router = Router { tree, directory, vrfs, processes: Vec::new() };
        // The daemons want a user and groups of their own, which they find in files that stand in
        // the place of the system's for them alone. Ours stand first: where FRR is installed, the
        // system has a group of that name to which root does not belong.
        let users = "frr:x:990:990::/nonexistent:/usr/sbin/nologin\n";
        for (file, more) in [("passwd", users), ("group", "frr:x:990:root\nfrrvty:x:991:root\n")] {
            let from = Path::new("/etc").join(file);
            let text = more.to_owned() + &fs::read_to_string(&from).map_err(Error::at(&from))?;
            router.write(file, &text)?;
        }
        // The shell asks the machine's PAM for a password otherwise, which may not know FRR.
        router.write("vtysh.conf", "username root nopassword\n")?;
        router.write("zebra.conf", zebra)?;
        router.write("bgpd.conf", bgpd)?;
        router.restart()?;
        Ok(router)
    }

    /// Ends all daemons at once, as a host that fails does: they tell nobody.
    pub fn kill(&mut self) {
        while let Some((daemon, _)) = self.processes.last() {
            self.kill_daemon(daemon);
        }
    }

    /// Ends a daemon, which tells nobody.
    ///
    /// # Panics
    /// When there is none of that name.
    pub fn kill_daemon(&mut self, daemon: &str) {
        assert!(DAEMONS.contains(&daemon), "{daemon} is none of {DAEMONS:?}");
        while let Some(place) = self.processes.iter().position(|(name, _)| *name == daemon) {
            let (_, mut process) = self.processes.remove(place);
            let _ = process.kill(); // it may have ended
            let _ = process.wait();
        }
    }

    /// Starts what does not run, in the namespace of the thread that calls this.
    ///
    /// # Errors
    /// As [`Router::start`].
    pub fn restart(&mut self) -> Result<()> {
        self.processes.retain_mut(|(_, process)| matches!(process.try_wait(), Ok(None)));
        for daemon in DAEMONS {
            if !self.processes.iter().any(|(name, _)| *name == daemon) {
                self.run(daemon)?;
            }
        }
        Ok(())
    }

    /// Numbers of the daemons' processes, with their names.
    pub fn processes(&self) -> impl Iterator<Item = (&'static str, u32)> {
        self.processes.iter().map(|(daemon, process)| (*daemon, process.id()))
    }

    /// Has the daemons do these commands, as a person at FRR's shell (`vtysh`); what it prints.
    ///
    /// # Errors
    /// When the shell is missing in the tree, or fails; some commands only warn.
    pub fn tell(&self, commands: &[&str]) -> Result<String> {
        let mut shell = Command::new(self.tree.loader()?);
        shell.arg("--library-path").arg(self.libraries()).arg(self.tree.file("usr/bin/vtysh")?);
        // Neither the machine's settings nor its user's history are touched.
        shell.arg("--config_dir").arg(&self.directory).env("HOME", &self.directory);
        shell.arg("--vty_socket").arg(&self.directory);
        commands.iter().for_each(|command| _ = shell.args(["-c", command]));
        let done = shell.stdin(Stdio::null()).output().map_err(Error::at("vtysh"))?;
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        if done.status.success() {
            return Ok(said);
        }
        let reason = format!("vtysh: {said} {}", String::from_utf8_lossy(&done.stderr));
        Err(Error::Malformed { path: self.directory.clone(), reason })
    }

    fn run(&mut self, daemon: &'static str) -> Result<()> {
        let (log, socket) = (self.file(daemon, "log"), self.file(daemon, "vty"));
        let mut left = vec![socket.clone()];
        if daemon == ZEBRA {
            left.push(self.directory.join("zserv.api"));
        }
        for socket in left {
            let _ = fs::remove_file(socket); // it may never have been made
        }
        let process = self.command(daemon, &log)?.spawn().map_err(Error::at("unshare"))?;
        self.processes.push((daemon, process));
        let start = Instant::now();
        while !socket.exists() {
            if start.elapsed() > START {
                let said = fs::read_to_string(&log).unwrap_or_default();
                let reason = format!("{daemon} does not listen: {}", said.trim());
                return Err(Error::Malformed { path: log, reason });
            }
            sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn file(&self, daemon: &str, extension: &str) -> PathBuf {
        self.directory.join(daemon).with_extension(extension)
    }

    /// Where shared libraries are. FRR's own is where the loader does not look by itself, unless FRR is
    /// installed there.
    fn libraries(&self) -> OsString {
        let all = self.tree.libraries().into_iter().flat_map(|library| [library.join("frr"), library]);
        std::env::join_paths(all).unwrap_or_default()
    }

    fn command(&self, daemon: &str, log: &Path) -> Result<Command> {
        let at = self.directory.display();
        // What FRR logs at the last moment stays in a directory of its own; here it goes with the
        // daemon's mounts, and the directory stays, empty.
        let mut mounts = format!(
            "mount --bind {at}/passwd /etc/passwd && mount --bind {at}/group /etc/group && \
             mkdir -p {LAST_LOGS} && mount -t tmpfs none {LAST_LOGS}"
        );
        if !self.vrfs.is_empty() {
            mounts += " && mkdir -p /run/netns && mount -t tmpfs none /run/netns";
        }
        for (name, thread) in &self.vrfs {
            mounts += &format!(
                " && touch /run/netns/{name} && mount --bind /proc/{thread}/ns/net /run/netns/{name}"
            );
        }
        let script = format!(
            "{mounts} && exec \"$@\" -f {at}/{daemon}.conf -i {at}/{daemon}.pid -z {at}/zserv.api \
             --vty_socket {at} -u root -g root -A 127.0.0.1"
        );
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &script, "sh"]);
        command.arg(self.tree.loader()?).arg("--library-path").arg(self.libraries());
        command.arg(self.tree.file(&format!("usr/lib/frr/{daemon}"))?).stdin(Stdio::null());
        if daemon == ZEBRA {
            if !self.vrfs.is_empty() {
                command.arg("-n");
            }
            let modules = format!("usr/lib/{}/frr/modules", triplet());
            command.arg("--moduledir").arg(self.tree.root().join(modules)).args(["-M", "dplane_fpm_nl"]);
        }
        let file = File::create(log).map_err(Error::at(log))?;
        let errors = file.try_clone().map_err(Error::at(log))?;
        command.stdout(file).stderr(errors);
        Ok(command)
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.directory.join(name);
        fs::write(&path, text).map_err(Error::at(&path))
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        self.kill();
    }
}
