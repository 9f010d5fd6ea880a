//! The files a look at the machine needs, below a root that tests may replace.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// Why a device cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Not by this user.
    NotAllowed,
    /// Another program has it.
    Busy,
    /// Something else, in words.
    Other(String),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Refusal {
        match error.kind() {
            io::ErrorKind::PermissionDenied => Refusal::NotAllowed,
            io::ErrorKind::ResourceBusy => Refusal::Busy,
            _ => Refusal::Other(error.to_string()),
        }
    }
}

/// A machine, as its files show it.
pub struct System {
    root: PathBuf,
}

impl System {
    /// The root of this machine's file system.
    pub fn root() -> System {
        System { root: PathBuf::from("/") }
    }

    /// Another root, for tests.
    #[cfg(test)]
    pub fn at(root: &Path) -> System {
        System { root: root.to_owned() }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// A file's text without its last line end; empty when there is none.
    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap_or_default().trim_end().to_owned()
    }

    /// A number in a file.
    pub fn number(&self, path: &str) -> Option<u64> {
        self.read(path).parse().ok()
    }

    /// Whether there is such a file.
    pub fn has(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// Whether the kernel that runs has a module that can be loaded.
    pub fn has_module(&self, name: &str) -> bool {
        let at = format!("/lib/modules/{}/modules.dep", self.read("/proc/sys/kernel/osrelease"));
        // A file is named with one of the two, whatever the module is called.
        let name = name.replace('-', "_");
        let is = |line: &str| {
            let file = line.split(':').next().unwrap_or(line).rsplit('/').next().unwrap_or(line);
            file.split_once(".ko").is_some_and(|(module, _)| module.replace('-', "_") == name)
        };
        self.read(&at).lines().any(is)
    }

    /// The names in a directory, sorted.
    pub fn list(&self, path: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(path)) else { return Vec::new() };
        let mut names: Vec<String> = entries
            .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
            .collect();
        names.sort();
        names
    }

    /// A field of the first processor in `/proc/cpuinfo`; empty when unknown.
    pub fn cpu(&self, name: &str) -> String {
        let text = self.read("/proc/cpuinfo");
        let mut fields = text.lines().filter_map(|line| line.split_once(':'));
        let value = fields.find(|(field, _)| field.trim() == name).map(|(_, value)| value.trim());
        value.unwrap_or_default().to_owned()
    }

    /// Whether this is a virtual machine.
    pub fn is_virtual(&self) -> bool {
        self.cpu("flags").split(' ').any(|flag| flag == "hypervisor")
    }

    /// Opens a device for reading and writing, and closes it: why this process cannot. What
    /// its mode says is not enough, for a container may be refused devices, and a group of
    /// VFIO's is opened by one program at a time.
    pub fn refusal(&self, path: &str) -> Option<Refusal> {
        fs::OpenOptions::new().read(true).write(true).open(self.path(path)).err().map(Refusal::from)
    }

    /// Where sysfs is.
    pub fn sysfs(&self) -> PathBuf {
        self.path("/sys")
    }

    /// The root itself.
    pub fn is_here(&self) -> bool {
        self.root == Path::new("/")
    }
}
