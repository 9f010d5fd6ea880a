//! FRR of Debian's packages: the daemons of a router as processes of this one, with all their
//! files in one directory.
//!
//! A router belongs to the network namespace of the thread that starts it, and needs root: its
//! daemons change that namespace's routes and forwarding databases.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::packages::{Tree, triplet};
use crate::{Error, Result};

/// The package, with zebra, bgpd and their modules.
pub const PACKAGES: &[&str] = &["frr"];
/// For a daemon to listen.
const START: Duration = Duration::from_secs(20);

/// A running router; its processes end with it.
#[derive(Debug)]
pub struct Router {
    tree: Tree,
    directory: PathBuf,
    processes: Vec<Child>,
}

impl Router {
    /// Starts zebra, then bgpd, with these configurations, and waits until both listen.
    ///
    /// zebra streams to FPM's port of this namespace (`dplane_fpm_nl`).
    ///
    /// # Errors
    /// When a program is missing in the tree or does not listen.
    pub fn start(tree: Tree, directory: PathBuf, zebra: &str, bgpd: &str) -> Result<Router> {
        let mut router = Router { tree, directory, processes: Vec::new() };
        // The daemons want a user and groups of their own, which they find in files that stand in
        // the place of the system's for them alone. Ours stand first: where FRR is installed, the
        // system has a group of that name to which root does not belong.
        let users = "frr:x:990:990::/nonexistent:/usr/sbin/nologin\n";
        for (file, more) in [("passwd", users), ("group", "frr:x:990:root\nfrrvty:x:991:root\n")] {
            let from = Path::new("/etc").join(file);
            let text = more.to_owned() + &fs::read_to_string(&from).map_err(Error::at(&from))?;
            router.write(file, &text)?;
        }
        router.write("zebra.conf", zebra)?;
        router.write("bgpd.conf", bgpd)?;
        router.run()?;
        Ok(router)
    }

    /// Ends all daemons at once, as a host that fails does: they tell nobody.
    pub fn kill(&mut self) {
        for mut process in self.processes.drain(..).rev() {
            let _ = process.kill(); // it may have ended
            let _ = process.wait();
        }
    }

    /// Starts them again, in the namespace of the thread that calls this.
    ///
    /// # Errors
    /// As [`Router::start`].
    pub fn restart(&mut self) -> Result<()> {
        self.kill();
        for socket in ["zebra.vty", "bgpd.vty", "zserv.api"] {
            let _ = fs::remove_file(self.directory.join(socket)); // it may never have been made
        }
        self.run()
    }

    fn run(&mut self) -> Result<()> {
        for daemon in ["zebra", "bgpd"] {
            let log = self.directory.join(format!("{daemon}.log"));
            let process = self.command(daemon, &log)?.spawn().map_err(Error::at("unshare"))?;
            self.processes.push(process);
            let (socket, start) = (self.directory.join(format!("{daemon}.vty")), Instant::now());
            while !socket.exists() {
                if start.elapsed() > START {
                    let said = fs::read_to_string(&log).unwrap_or_default();
                    let reason = format!("{daemon} does not listen: {}", said.trim());
                    return Err(Error::Malformed { path: log, reason });
                }
                sleep(Duration::from_millis(20));
            }
        }
        Ok(())
    }

    fn command(&self, daemon: &str, log: &Path) -> Result<Command> {
        // FRR's own library is where the loader does not look by itself.
        let libraries = self.tree.libraries().into_iter().flat_map(|library| [library.join("frr"), library]);
        let libraries = std::env::join_paths(libraries).unwrap_or_default();
        let at = self.directory.display();
        let script = format!(
            "mount --bind {at}/passwd /etc/passwd && mount --bind {at}/group /etc/group && exec \"$@\" -f \
             {at}/{daemon}.conf -i {at}/{daemon}.pid -z {at}/zserv.api --vty_socket {at} -u root -g root -A \
             127.0.0.1"
        );
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &script, "sh"]);
        command.arg(self.tree.loader()?).arg("--library-path").arg(libraries);
        command.arg(self.tree.file(&format!("usr/lib/frr/{daemon}"))?).stdin(Stdio::null());
        if daemon == "zebra" {
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
