//! Debian's kernel, as QEMU boots it fastest, and its modules in loading order.
//!
//! Linux/x86 boot protocol (Documentation/arch/x86/boot.rst, 2.08 and later):
//! the bzImage carries the compressed vmlinux. Uncompressed it enters through PVH
//! and saves seconds of unpacking in a translated guest. What a module needs is
//! read from its own `.modinfo`, as depmod has not run. x86-64 only.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::packages::{Packages, Suite, Tree};
use crate::{Error, Result};

/// Where the boot protocol's fields lie in a bzImage.
const SETUP_SECTORS: usize = 0x1F1;
const MAGIC: usize = 0x202 - 4;
const PAYLOAD_OFFSET: usize = 0x248;
const PAYLOAD_LENGTH: usize = 0x24C;

/// A kernel and its modules.
#[derive(Debug)]
pub struct Kernel {
    version: String,
    image: PathBuf,
    /// By name with underscores, path below `lib/modules/VERSION`.
    modules: BTreeMap<String, PathBuf>,
    root: PathBuf,
}

impl Kernel {
    /// The suite's newest, fetched and unpacked.
    ///
    /// # Errors
    /// What [`Packages::tree`] says, or [`Error::Malformed`] for an image that
    /// holds no xz stream.
    pub fn fetch(packages: &Packages, suite: Suite) -> Result<Kernel> {
        let tree = packages.tree(&["linux-image-amd64"], suite)?;
        let boot = tree.first(&["boot"])?;
        let names = fs::read_dir(&boot).map_err(Error::at(&boot))?;
        let names = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let version = names.filter_map(|name| name.strip_prefix("vmlinuz-").map(str::to_owned)).max();
        let version = version
            .ok_or_else(|| Error::Missing { file: "boot/vmlinuz-*".into(), root: tree.root().to_owned() })?;
        let image = packages.cache().join(format!("vmlinux-{version}"));
        if !image.exists() {
            // Busybox's own decoder does not know the filter of x86 code.
            let unpacker = packages.tree(&["xz-utils"], suite)?;
            let _turn = packages.lock()?;
            extract(&boot.join(format!("vmlinuz-{version}")), &image, &unpacker)?;
        }
        let root = directory(&tree, &version)?;
        let mut modules = BTreeMap::new();
        index(&root, &root, &mut modules)?;
        Ok(Kernel { version, image, modules, root })
    }

    /// As `uname -r` says it in the guest.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The uncompressed vmlinux.
    pub fn image(&self) -> &Path {
        &self.image
    }

    /// Where the modules' relative paths begin.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A module's path below [`Kernel::root`], and those of all it needs in
    /// the order in which they load, itself last.
    ///
    /// # Errors
    /// [`Error::Missing`] names a module that the kernel lacks.
    pub fn chain(&self, name: &str) -> Result<Vec<&Path>> {
        let mut chain = Vec::new();
        self.visit(&name.replace('-', "_"), &mut chain)?;
        Ok(chain)
    }

    fn visit<'a>(&'a self, name: &str, chain: &mut Vec<&'a Path>) -> Result<()> {
        let path = self
            .modules
            .get(name)
            .ok_or_else(|| Error::Missing { file: format!("{name}.ko").into(), root: self.root.clone() })?;
        if chain.contains(&path.as_path()) {
            return Ok(());
        }
        let full = self.root.join(path);
        let bytes = fs::read(&full).map_err(Error::at(&full))?;
        for needed in depends(&bytes) {
            self.visit(&needed.replace('-', "_"), chain)?;
        }
        chain.push(path);
        Ok(())
    }
}

fn directory(tree: &Tree, version: &str) -> Result<PathBuf> {
    tree.first(&[&format!("lib/modules/{version}"), &format!("usr/lib/modules/{version}")])
}

fn index(root: &Path, below: &Path, modules: &mut BTreeMap<String, PathBuf>) -> Result<()> {
    for entry in fs::read_dir(below).map_err(Error::at(below))?.flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            index(root, &path, modules)?;
        } else if let Some(name) = entry.file_name().to_str().and_then(|name| name.strip_suffix(".ko"))
            && let Ok(relative) = path.strip_prefix(root)
        {
            modules.insert(name.replace('-', "_"), relative.to_owned());
        }
    }
    Ok(())
}

/// The names after `depends=` in a module's `.modinfo`.
fn depends(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = module.windows(KEY.len()).position(|window| window == KEY) else { return Vec::new() };
    let rest = &module[at + KEY.len()..];
    let value = rest.split(|&byte| byte == 0).next().unwrap_or_default();
    let text = String::from_utf8_lossy(value);
    text.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// Where the compressed kernel lies in a bzImage.
fn payload(image: &[u8]) -> Option<&[u8]> {
    let word = |at: usize| Some(u32::from_le_bytes(image.get(at..at + 4)?.try_into().ok()?) as usize);
    if image.get(MAGIC + 4..MAGIC + 8)? != b"HdrS" {
        return None;
    }
    let sectors = match *image.get(SETUP_SECTORS)? {
        0 => 4,
        sectors => usize::from(sectors),
    };
    let start = ((sectors + 1) * 512).checked_add(word(PAYLOAD_OFFSET)?)?;
    // The last four bytes are the size, which the stream does not count.
    image.get(start..start.checked_add(word(PAYLOAD_LENGTH)?)?.checked_sub(4)?)
}

fn extract(image: &Path, to: &Path, unpacker: &Tree) -> Result<()> {
    let bytes = fs::read(image).map_err(Error::at(image))?;
    let malformed = |reason: &str| Error::Malformed { path: image.to_owned(), reason: reason.to_owned() };
    let stream = payload(&bytes).ok_or_else(|| malformed("not a bzImage"))?;
    if !stream.starts_with(b"\xFD7zXZ\0") {
        return Err(malformed("its kernel is not an xz stream"));
    }
    let (part, raw) = (to.with_extension("xz"), to.with_extension("part"));
    fs::write(&part, stream).map_err(Error::at(&part))?;
    let output = File::create(&raw).map_err(Error::at(&raw))?;
    let input = File::open(&part).map_err(Error::at(&part))?;
    let mut command = unpacker.command("usr/bin/xz")?;
    let status = command
        .arg("-dc")
        .stdin(input)
        .stdout(output)
        .stderr(Stdio::null())
        .status()
        .map_err(Error::at(unpacker.root()))?;
    fs::remove_file(&part).map_err(Error::at(&part))?;
    if !status.success() {
        return Err(malformed("its kernel does not unpack"));
    }
    fs::rename(&raw, to).map_err(Error::at(to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_module_needs_is_read_from_it() {
        let module = b"\x7fELF..\0license=GPL\0depends=mdio,libphy,i2c-algo-bit\0retpoline=Y\0";
        assert_eq!(depends(module), ["mdio", "libphy", "i2c-algo-bit"]);
        assert!(depends(b"\0depends=\0").is_empty());
        assert!(depends(b"").is_empty());
    }

    #[test]
    fn the_payload_is_bounded_by_the_file() {
        let mut image = vec![0; 2048];
        image[SETUP_SECTORS] = 1;
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[PAYLOAD_OFFSET..PAYLOAD_OFFSET + 4].copy_from_slice(&8u32.to_le_bytes());
        image[PAYLOAD_LENGTH..PAYLOAD_LENGTH + 4].copy_from_slice(&20u32.to_le_bytes());
        assert_eq!(payload(&image).map(<[u8]>::len), Some(16));
        image[PAYLOAD_LENGTH..PAYLOAD_LENGTH + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(payload(&image), None);
        assert_eq!(payload(&image[..100]), None);
    }
}
