//! `OverlayFIB`: the table of virtual networks that elements share (the crate `overlay`), as
//! a configuration and its handlers see it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use graph::class::{Handlers, SystemUse, ask, keyword, read, write};
use graph::{Class, Cx, Element, Refused};
use overlay::{Encapsulator, Overlay, Reason, Tunnel};
use vtep::{Config, Desired, describe_tunnel, explain, parse_key};
use wire::MacAddress;

/// Reasons for which packets to or from tunnels are dropped, and those of elements alone.
pub(super) const DROPS: [&str; Reason::ALL.len() + 3] = {
    let mut names = ["overlay_punted"; Reason::ALL.len() + 3];
    let mut n = 0;
    while n < Reason::ALL.len() {
        names[n] = Reason::ALL[n].name();
        n += 1;
    }
    names[n + 1] = "overlay_no_copy";
    names[n + 2] = "overlay_no_output";
    names
};
/// No entry has the packet's identifier, and nobody takes such packets.
pub(super) const PUNTED: usize = Reason::ALL.len();
/// The flood list is empty, or there was no buffer for a copy.
pub(super) const NO_COPY: usize = PUNTED + 1;
/// No output leads on.
pub(super) const NO_OUTPUT: usize = PUNTED + 2;

/// The class.
pub static CLASS: Class = Class {
    name: "OverlayFIB",
    brief: "keeps virtual networks and their tunnels, for OverlayEncap and OverlayDecap",
    doc: "The table is given as TOML, in a file or as a text, with the keys of `ixora overlay` \
          (docs/overlays.md) but those that name ports: ports are elements here, and each [[underlay]] needs \
          its mac. A name may be in single quotes, so that the text may stand in double ones. Next hops are \
          those in neighbors, and those that the handler `neighbor` names. What changes is seen by all \
          threads at once, and stops none.",
    ports: "0/0",
    processing: "a/a",
    arguments: &[
        keyword("FILE", "the file; read again by the handler `reload`"),
        keyword("TEXT", "the text of a file, in place of one"),
    ],
    handlers: &Handlers::<OverlayFib>(&[
        read("table", "`NETWORK KEY TUNNEL STATE`, a line for each entry", |fib| fib.shared.lock().listing()),
        read("count", "entries of all networks", |fib| fib.shared.lock().desired.entries.len().to_string()),
        read(
            "unresolved",
            "`PORT IP`, a line for each next hop whose Ethernet address is not known",
            |fib| {
                let state = fib.shared.lock();
                state.table.unresolved().map(|(port, address)| format!("{port} {address}\n")).collect()
            },
        ),
        write("add", "`NETWORK KEY REMOTE`: an entry like those that its network has", |fib, _, value| {
            fib.shared.lock().add(value)
        }),
        write("remove", "`NETWORK KEY`: an entry", |fib, _, value| fib.shared.lock().remove(value)),
        write("neighbor", "`PORT IP ETH`: who a next hop is; without ETH nobody", |fib, _, value| {
            fib.shared.lock().neighbor(value)
        }),
        ask(
            "explain",
            "`NETWORK BYTES`: what becomes of a packet, whose bytes are hexadecimal",
            |fib, cx, value| fib.shared.explain(cx, value),
        ),
        write("reload", "reads the file again; what handlers said stays", |fib, _, _| fib.reload()),
    ]),
    example: EXAMPLE,
    see: &["OverlayEncap", "OverlayDecap"],
    system: &[SystemUse::ReadsFiles],
    make: |setup, conf| {
        let file: Option<PathBuf> = conf.keyword::<String>("FILE")?.map(PathBuf::from);
        let text: Option<String> = conf.keyword("TEXT")?;
        conf.complete()?;
        let text = match (&file, text) {
            (Some(_), Some(_)) => return Err("either FILE or TEXT".into()),
            (None, None) => return Err("FILE or TEXT: required argument missing".into()),
            (None, Some(text)) => text,
            (Some(file), None) => {
                setup.will_open(SystemUse::ReadsFiles, file.clone());
                std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?
            }
        };
        let desired = parse(&text)?;
        let mut table = Overlay::new();
        desired.apply(&mut table, &Desired::default()).map_err(|error| error.to_string())?;
        table.publish();
        let shared = Arc::new(SharedFib(Mutex::new(State { table, desired, said: Said::default() })));
        setup.share(shared.clone());
        Ok(Box::new(OverlayFib { shared, file }))
    },
    ..Class::BASE
};

const EXAMPLE: &str = "fib :: OverlayFIB(TEXT \"\n\
    [[underlay]]\n\
    name = 'up'\n\
    mac = '02:00:00:00:00:01'\n\
    addresses = ['192.0.2.1/24']\n\
    neighbors = { '192.0.2.2' = '02:00:00:00:00:02' }\n\
    [[network]]\n\
    number = 100\n\
    protocol = 'vxlan'\n\
    flood = ['192.0.2.2']\n\
    \");";

fn parse(text: &str) -> Result<Desired, String> {
    let config = Config::parse_for_router(text).map_err(|error| format!("{error}: {}", error.fix))?;
    let macs: Vec<MacAddress> = config.underlay.iter().map(|port| port.mac.unwrap_or_default()).collect();
    Ok(config.desired(&macs))
}

/// The table that elements share.
#[derive(Debug)]
pub(super) struct SharedFib(Mutex<State>);

/// What the lock holds; no packet takes it.
#[derive(Debug)]
pub(super) struct State {
    pub(super) table: Overlay,
    /// What the table holds.
    pub(super) desired: Desired,
    /// What of that handlers said.
    said: Said,
}

/// What handlers said: it stays when the file is read again. Nothing stands for what they took
/// away.
#[derive(Debug, Clone, Default)]
struct Said {
    neighbors: BTreeMap<(u16, IpAddr), Option<MacAddress>>,
    entries: BTreeMap<(u32, u128), Option<Tunnel>>,
}

impl Said {
    /// Lays this over what a file says. Entries of networks that the file has no more, or has
    /// as others, are forgotten.
    fn lay_over(&mut self, file: &mut Desired, before: &Desired) {
        let is_same = |network: &u32| {
            let settings = file.networks.get(network);
            settings.is_some() && settings == before.networks.get(network)
        };
        self.entries.retain(|(network, _), _| is_same(network));
        lay_over(&mut self.neighbors, &mut file.neighbors);
        lay_over(&mut self.entries, &mut file.entries);
    }
}

/// Lays values over those of a file, and forgets that something was taken away which the file
/// does not have.
fn lay_over<K: Copy + Ord, V: Clone>(said: &mut BTreeMap<K, Option<V>>, file: &mut BTreeMap<K, V>) {
    said.retain(|key, value| match value {
        Some(value) => {
            file.insert(*key, value.clone());
            true
        }
        None => file.remove(key).is_some(),
    });
}

impl SharedFib {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A sender that tries packets for people.
    pub(super) fn sender(&self) -> Encapsulator {
        self.lock().table.trial_encapsulator()
    }

    fn explain(&self, cx: &mut Cx<'_>, value: &str) -> Result<String, Refused> {
        let (network, bytes) = value.trim().split_once(' ').ok_or("NETWORK BYTES".to_owned())?;
        let network = number(network)?;
        let digits: Vec<u8> = bytes.bytes().filter(u8::is_ascii_hexdigit).collect();
        let digit = |byte: &u8| (*byte as char).to_digit(16).unwrap_or(0) as u8;
        let bytes: Vec<u8> = digits.chunks_exact(2).map(|two| digit(&two[0]) << 4 | digit(&two[1])).collect();
        let mut packet = cx.packet(&bytes).ok_or("the packet does not fit into a buffer".to_owned())?;
        let mut sender = self.sender();
        let state = self.lock();
        let explained = explain(&state.table, &mut sender, network, &mut packet);
        cx.free(packet);
        Ok(format!("{explained}\n"))
    }
}

fn number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("{text} is no number of a network"))
}

impl State {
    fn listing(&self) -> String {
        let mut out = String::new();
        for ((network, key), tunnel) in &self.desired.entries {
            let state = self.table.problem(*network, *key).map_or("ready", |reason| reason.name());
            let _ = writeln!(out, "{network} {key:#x} {} {state}", describe_tunnel(tunnel));
        }
        out
    }

    /// The tunnel that new entries of a network are like.
    fn like(&self, network: u32) -> Result<Tunnel, String> {
        let entry = self.desired.entries.range((network, 0)..=(network, u128::MAX)).next();
        let flood = || self.desired.floods.get(&network)?.first();
        let tunnel = entry.map(|(_, tunnel)| tunnel).or_else(flood);
        tunnel.cloned().ok_or_else(|| format!("network {network} has no tunnel that a new one could be like"))
    }

    fn add(&mut self, value: &str) -> Result<(), Refused> {
        let words: Vec<&str> = value.split_whitespace().collect();
        let [network, key, remote] = words[..] else { return Err("NETWORK KEY REMOTE".to_owned().into()) };
        let (network, key) = (number(network)?, parse_key(key).ok_or_else(|| format!("{key} is no key"))?);
        let remote: IpAddr = remote.parse().map_err(|_| format!("{remote} is no IP address"))?;
        let tunnel = Tunnel { remote, ..self.like(network)? };
        self.table.insert(network, key, tunnel.clone()).map_err(|error| error.to_string())?;
        self.table.publish();
        self.said.entries.insert((network, key), Some(tunnel.clone()));
        self.desired.entries.insert((network, key), tunnel);
        Ok(())
    }

    fn remove(&mut self, value: &str) -> Result<(), Refused> {
        let words: Vec<&str> = value.split_whitespace().collect();
        let [network, key] = words[..] else { return Err("NETWORK KEY".to_owned().into()) };
        let (network, key) = (number(network)?, parse_key(key).ok_or_else(|| format!("{key} is no key"))?);
        if !self.table.remove(network, key).map_err(|error| error.to_string())? {
            return Err(format!("network {network} has no entry {key:#x}").into());
        }
        self.table.publish();
        self.said.entries.insert((network, key), None);
        self.desired.entries.remove(&(network, key));
        Ok(())
    }

    fn neighbor(&mut self, value: &str) -> Result<(), Refused> {
        let words: Vec<&str> = value.split_whitespace().collect();
        let (port, address, mac) = match words[..] {
            [port, address] => (port, address, None),
            [port, address, mac] => (port, address, Some(mac)),
            _ => return Err("PORT IP ETH".to_owned().into()),
        };
        let port: u16 = port.parse().map_err(|_| format!("{port} is no number of a port"))?;
        let address: IpAddr = address.parse().map_err(|_| format!("{address} is no IP address"))?;
        let mac: Option<MacAddress> =
            mac.map(|mac| mac.parse().map_err(|error: wire::InvalidMac| error.to_string())).transpose()?;
        self.table.set_neighbor(port, address, mac);
        self.table.publish();
        let before = match mac {
            Some(mac) => self.desired.neighbors.insert((port, address), mac),
            None => self.desired.neighbors.remove(&(port, address)),
        };
        if mac.is_some() || before.is_some() {
            self.said.neighbors.insert((port, address), mac);
        }
        Ok(())
    }
}

/// See [`CLASS`].
#[derive(Debug)]
pub struct OverlayFib {
    shared: Arc<SharedFib>,
    file: Option<PathBuf>,
}

impl OverlayFib {
    fn reload(&self) -> Result<(), Refused> {
        let file = self.file.as_ref().ok_or("the table is no file's".to_owned())?;
        let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let mut desired = parse(&text)?;
        let mut state = self.shared.lock();
        let mut said = state.said.clone();
        said.lay_over(&mut desired, &state.desired);
        desired.check().map_err(|error| error.to_string())?;
        let State { table, desired: before, .. } = &mut *state;
        desired.apply(table, before).map_err(|error| error.to_string())?;
        table.publish();
        (state.desired, state.said) = (desired, said);
        Ok(())
    }
}

impl Element for OverlayFib {}
