//! `ChangeUID`: for programs that are installed set-uid-root, which this one must not be.

use graph::{Class, Cx, Element};

pub static CLASS: Class = Class {
    name: "ChangeUID",
    brief: "makes sure that the process has no rights of another user",
    doc: "In Click it gives up what a program has that is installed set-uid-root. This program gives up \
          privileges by itself once all is open (see security.md), and is not to be installed so: where the \
          effective user or group is another than the real one, the router does not start.",
    ports: "0/0",
    example: "ChangeUID()",
    see: &["FromDevice"],
    make: |_, conf| {
        conf.complete()?;
        Ok(Box::new(ChangeUid))
    },
    ..Class::BASE
};

/// A `ChangeUID` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct ChangeUid;

impl Element for ChangeUid {
    fn init(&mut self, _: &mut Cx<'_>) -> Result<(), String> {
        use rustix::process::{getegid, geteuid, getgid, getuid};
        match getuid() == geteuid() && getgid() == getegid() {
            true => Ok(()),
            false => Err("could not drop privilege: the program is set-uid or set-gid".into()),
        }
    }
}
