//! `KernelFilter`: keeps the kernel from packets that a router handles itself.

use std::process::Command;

use graph::class::{SystemUse, keyword, rest};
use graph::lang::args::words;
use graph::{Class, Cx, Element};

pub static CLASS: Class = Class {
    name: "KernelFilter",
    brief: "has the kernel drop packets that come in by an interface",
    doc: "A rule of `iptables` for each argument has the kernel drop what comes in by an interface; FromDevice \
          with `af_packet:` still sees it. The rules are removed when the router ends, not when it is killed. \
          Ports that take a NIC from the kernel, or packets before it sees them (`af_xdp:`), need none of \
          this. The program is started when the router starts and when it ends: `--explain` tells what a \
          process keeps for that.",
    ports: "0/0",
    arguments: &[
        keyword(
            "IPTABLES_COMMAND",
            "the program, and words that come first; /sbin/iptables or /usr/sbin/iptables",
        ),
        rest("drop dev DEVNAME", "the name of an interface"),
    ],
    system: &[SystemUse::ProgramsAtStart, SystemUse::Programs],
    example: "KernelFilter(drop dev eth0); FromDevice(af_packet:eth0) -> Discard",
    see: &["FromDevice"],
    make: |setup, conf| {
        let command: Option<String> = conf.keyword("IPTABLES_COMMAND")?;
        let mut interfaces = vec![];
        for argument in conf.rest() {
            match words(&argument)[..] {
                ["drop", "dev", interface] => interfaces.push(interface.to_string()),
                [_, _, _] => return Err("arguments must follow 'drop dev DEVNAME'".into()),
                [] => return Err("ACTION: required argument missing".into()),
                [_] => return Err("TYPE: required argument missing".into()),
                [_, _] => return Err("ARG: required argument missing".into()),
                _ => return Err("too many arguments".into()),
            }
        }
        conf.complete()?;
        if !interfaces.is_empty() {
            setup.will_need(SystemUse::ProgramsAtStart);
            setup.will_need(SystemUse::Programs);
        }
        Ok(Box::new(KernelFilter { command, interfaces, filtered: vec![] }))
    },
    ..Class::BASE
};

/// Where the program is.
const PLACES: &[&str] = &["/sbin/iptables", "/usr/sbin/iptables"];

/// A `KernelFilter` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct KernelFilter {
    command: Option<String>,
    interfaces: Vec<String>,
    /// Those for which there is a rule.
    filtered: Vec<String>,
}

impl KernelFilter {
    /// Adds (`-A`) or deletes (`-D`) the rule for an interface.
    fn rule(&self, change: &str, interface: &str) -> Result<(), String> {
        let found = || PLACES.iter().find(|place| std::path::Path::new(place).exists());
        let command = match &self.command {
            Some(command) => command.as_str(),
            None => found().ok_or("no 'iptables' executable found")?,
        };
        let mut words = command.split_whitespace();
        let program = words.next().ok_or("no 'iptables' executable found")?;
        let rule = [change, "INPUT", "-i", interface, "-j", "DROP"];
        let line = format!("{command} {}", rule.join(" "));
        let output = Command::new(program).args(words).args(rule).output();
        let output = output.map_err(|error| format!("{line}: {error}"))?;
        let said = [output.stdout, output.stderr].concat();
        match String::from_utf8_lossy(&said).trim() {
            "" if output.status.success() => Ok(()),
            "" => Err(format!("{line}: {}", output.status)),
            said => Err(format!("{line}: {said}")),
        }
    }

    /// Deletes the rules; what went wrong.
    fn remove(&mut self) -> Vec<String> {
        let interfaces = std::mem::take(&mut self.filtered);
        interfaces.iter().rev().filter_map(|interface| self.rule("-D", interface).err()).collect()
    }
}

/// A router that did not start because of another element is not cleaned up.
impl Drop for KernelFilter {
    fn drop(&mut self) {
        self.remove();
    }
}

impl Element for KernelFilter {
    fn init(&mut self, _: &mut Cx<'_>) -> Result<(), String> {
        for interface in self.interfaces.clone() {
            self.rule("-A", &interface)?;
            self.filtered.push(interface);
        }
        Ok(())
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        for error in self.remove() {
            cx.say(&format!("{} :: {}: {error}\n", cx.name(), cx.class()));
        }
    }
}
