//! `OverlayFIB`: the table of virtual networks that elements share (the crate `overlay`), as
//! a configuration and its handlers see it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use graph::class::{Handlers, SystemUse, ask, keyword, read, write};
use graph::{Class, Cx, Element, Refused};
use overlay::{Encapsulator, Match, Prefix, Tunnel};
use port::Reason;
use vtep::{At, Config, Desired, EntryTarget, Held, describe_target, explain, parse_key, parse_prefix};
use wire::MacAddress;

/// The registry's reasons for which elements drop packets to or from tunnels: those of the table,
/// and those of elements.
pub(super) const DROPS: [Reason; index(Reason::OverlayNoOutput) + 1] = {
    let mut reasons = [Reason::OverlayUnknownNetwork; index(Reason::OverlayNoOutput) + 1];
    let mut n = 0;
    while n < reasons.len() {
        reasons[n] = Reason::ALL[Reason::OverlayUnknownNetwork as usize + n];
        n += 1;
    }
    reasons
};

/// Where a reason stands among [`DROPS`].
pub(super) const fn index(reason: Reason) -> usize {
    reason as usize - Reason::OverlayUnknownNetwork as usize
}

/// No entry has the packet's identifier, and nobody takes such packets.
pub(super) const PUNTED: usize = index(Reason::OverlayPunted);
/// The flood list is empty, or there was no buffer for a copy.
pub(super) const NO_COPY: usize = index(Reason::OverlayNoCopy);
/// No output leads on.
pub(super) const NO_OUTPUT: usize = index(Reason::OverlayNoOutput);

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
        read("count", "entries of all networks", |fib| fib.shared.lock().count().to_string()),
        read(
            "unresolved",
            "`PORT IP`, a line for each next hop whose Ethernet address is not known",
            |fib| {
                let state = fib.shared.lock();
                state.held.table.unresolved().map(|(port, address)| format!("{port} {address}\n")).collect()
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
        let mut state = State { held: Held::default(), said: Said::default() };
        state.apply(parse(&text)?)?;
        let shared = Arc::new(SharedFib(Mutex::new(state)));
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
    pub(super) held: Held,
    /// What of that handlers said.
    said: Said,
}

/// What handlers said: it stays when the file is read again. Nothing stands for what they took
/// away.
#[derive(Debug, Clone, Default)]
struct Said {
    neighbors: BTreeMap<(u16, IpAddr), Option<MacAddress>>,
    entries: BTreeMap<(u32, u128), Option<EntryTarget>>,
    prefixes: BTreeMap<(u32, Prefix), Option<EntryTarget>>,
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
        self.prefixes.retain(|(network, _), _| is_same(network));
        lay_over(&mut self.neighbors, &mut file.neighbors);
        lay_over(&mut self.entries, &mut file.entries);
        lay_over(&mut self.prefixes, &mut file.prefixes);
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
        self.lock().held.table.trial_encapsulator()
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
        let explained = explain(&state.held.table, &mut sender, network, &mut packet);
        cx.free(packet);
        Ok(format!("{explained}\n"))
    }
}

fn number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("{text} is no number of a network"))
}

impl State {
    /// Lets the table hold this, and shows it to all threads.
    fn apply(&mut self, desired: Desired) -> Result<(), String> {
        self.held.apply(desired, 0).map_err(|error| error.to_string())?;
        self.held.table.publish();
        Ok(())
    }

    fn count(&self) -> usize {
        let table = &self.held.table;
        table.networks().map(|network| table.entries(network)).sum()
    }

    fn listing(&self) -> String {
        let (mut out, table) = (String::new(), &self.held.table);
        for network in table.networks() {
            let exact = table.entries_of(network);
            let exact = exact.map(|entry| (format!("{:#x}", entry.identifier), entry.target, entry.problem));
            let prefixes = table
                .prefixes_of(network)
                .map(|entry| (format!("{}/{}", entry.prefix.0, entry.prefix.1), entry.target, entry.problem));
            for (key, target, problem) in exact.chain(prefixes) {
                let state = problem.map_or("ready", |reason| reason.name());
                let _ = writeln!(out, "{network} {key} {} {state}", describe_target(table, target));
            }
        }
        out
    }

    /// The tunnel that new entries of a network are like.
    fn like(&self, network: u32) -> Result<Tunnel, String> {
        let desired = self.held.desired();
        let entry =
            desired.entries.range((network, 0)..=(network, u128::MAX)).find_map(|(_, way)| way.first());
        let prefix = || {
            let mut of_network = desired.prefixes.iter().filter(|((number, _), _)| *number == network);
            of_network.find_map(|(_, way)| way.first())
        };
        let flood = || desired.floods.get(&network)?.first();
        let tunnel = entry.or_else(prefix).or_else(flood);
        tunnel.cloned().ok_or_else(|| format!("network {network} has no tunnel that a new one could be like"))
    }

    /// Where a word of a handler's says that an entry is.
    fn place(&self, network: u32, key: &str) -> Result<At, String> {
        let settings = self.held.desired().networks.get(&network);
        if settings.is_some_and(|settings| settings.matching == Match::LongestPrefix) {
            return parse_prefix(key).map(|prefix| At::Prefix(network, prefix));
        }
        let key = parse_key(key).ok_or_else(|| format!("{key} is no key"))?;
        Ok(At::Bits(network, key))
    }

    /// Puts an entry into the table, or takes it away, and remembers that a handler said so;
    /// whether there was one.
    fn say(&mut self, at: At, way: Option<EntryTarget>) -> Result<bool, String> {
        let was_there = self.held.set_entry(at, way.clone(), 0).map_err(|error| error.to_string())?;
        self.held.table.publish();
        if way.is_some() || was_there {
            match at {
                At::Bits(network, bits) => drop(self.said.entries.insert((network, bits), way)),
                At::Prefix(network, prefix) => drop(self.said.prefixes.insert((network, prefix), way)),
            }
        }
        Ok(was_there)
    }

    fn add(&mut self, value: &str) -> Result<(), Refused> {
        let words: Vec<&str> = value.split_whitespace().collect();
        let [network, key, remote] = words[..] else { return Err("NETWORK KEY REMOTE".to_owned().into()) };
        let network = number(network)?;
        let at = self.place(network, key)?;
        let remote: IpAddr = remote.parse().map_err(|_| format!("{remote} is no IP address"))?;
        let tunnel = Tunnel { remote, ..self.like(network)? };
        self.say(at, Some(EntryTarget::Tunnel(tunnel)))?;
        Ok(())
    }

    fn remove(&mut self, value: &str) -> Result<(), Refused> {
        let words: Vec<&str> = value.split_whitespace().collect();
        let [network, key] = words[..] else { return Err("NETWORK KEY".to_owned().into()) };
        let network = number(network)?;
        let at = self.place(network, key)?;
        match self.say(at, None)? {
            true => Ok(()),
            false => Err(format!("network {network} has no entry {key}").into()),
        }
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
        let was_there = self.held.set_neighbor((port, address), mac, 0);
        self.held.table.publish();
        if mac.is_some() || was_there {
            self.said.neighbors.insert((port, address), mac);
        }
        Ok(())
    }
}

/// An `OverlayFIB` element; [`CLASS`] says what it does.
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
        said.lay_over(&mut desired, state.held.desired());
        state.apply(desired)?;
        state.said = said;
        Ok(())
    }
}

impl Element for OverlayFib {}
