//! `learn`, `[fpm]` and `[api]`: who changes the table beside the file.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use control::{Binding, Options, Origin};
use overlay::{Layer, Network};
use toml_span::Value;

use super::network::Basis;
use super::read::{Problem, Read, Table, number, parsed, text, word};
use super::{Config, Reading};
use crate::desired::{End, EndKey};

const LEARN: &[(&str, Learn)] = &[("none", Learn::Nobody), ("kernel", Learn::Kernel), ("fpm", Learn::Fpm)];
const API_KEYS: &[&str] = &["listen", "users"];
const FPM_KEYS: &[&str] = &["listen", "hold", "users"];
/// Seconds for which FRR may be away where nothing is said.
const USUAL_HOLD: i64 = 60;
const NS_PER_SECOND: i64 = 1_000_000_000;

/// Who tells of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Learn {
    /// The file alone, and controllers.
    #[default]
    Nobody,
    /// The kernel's forwarding databases.
    Kernel,
    /// FRR, in its stream.
    Fpm,
}

/// Where controllers come in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// A TCP port of this machine alone.
    Tcp(SocketAddr),
    /// A Unix socket at this path.
    Unix(PathBuf),
}

/// The HTTP API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Api {
    /// Its address or path.
    pub listen: Listen,
    /// Users beside root and the program's own who may write.
    pub users: Vec<u32>,
}

/// The port to which FRR connects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FpmPort {
    /// The address and the TCP port on which FRR is waited for.
    pub listen: SocketAddr,
    /// How long what a connection told stays in use when it has ended, in nanoseconds.
    pub hold_ns: i64,
    /// Users beside root and the program's own who may connect.
    pub users: Vec<u32>,
}

/// All who change the table beside the file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Follow {
    /// Who tells of entries.
    pub learn: Learn,
    /// Where FRR connects to, if it tells.
    pub fpm: Option<FpmPort>,
    /// Where controllers come in, if they may.
    pub api: Option<Api>,
}

impl Follow {
    /// Whether there is anybody but the file.
    pub fn is_anybody(&self) -> bool {
        self.learn != Learn::Nobody || self.api.is_some()
    }
}

impl Config {
    /// What a mirror of the kernel's tables takes from whom.
    pub fn mirror(&self) -> Options {
        let bound = self.underlay.iter().enumerate().filter_map(|(number, port)| {
            let link = port.link.clone()?;
            Some(Binding { link, port: number as u16, vlan: port.vlan, mtu: Some(port.mtu) })
        });
        let entries = if self.follow.learn == Learn::Fpm { Origin::Fpm } else { Origin::Kernel };
        Options { locals: self.locals().collect(), ports: bound.collect(), entries, ..Options::default() }
    }

    /// The first address of each version of IP.
    pub(super) fn locals(&self) -> impl Iterator<Item = IpAddr> {
        let all = || self.underlay.iter().flat_map(|port| &port.addresses).map(|(address, _)| *address);
        [all().find(IpAddr::is_ipv4), all().find(IpAddr::is_ipv6)].into_iter().flatten()
    }
}

impl Reading<'_> {
    pub(super) fn follow(&mut self, file: &Table<'_, '_>) -> Read<()> {
        let named = ["learn", "fpm", "api"].into_iter().find(|key| file.has(key));
        if let Some(key) = named.filter(|_| !self.has_ports) {
            let fix = format!("leave {key} out");
            return Err(Problem::new(file.span_of(key), "a router's table follows nobody", fix));
        }
        let learn = file.get("learn", |value| word(value, LEARN))?.unwrap_or_default();
        if file.has("fpm") && learn != Learn::Fpm {
            let cause = "nobody listens to FRR's stream here";
            return Err(Problem::new(file.span_of("fpm"), cause, "add learn = \"fpm\" at the top"));
        }
        let usual = || FpmPort {
            listen: SocketAddr::from(([127, 0, 0, 1], control::fpm::PORT)),
            hold_ns: USUAL_HOLD * NS_PER_SECOND,
            users: Vec::new(),
        };
        let fpm = file.get("fpm", |value| fpm(value, usual()))?;
        let fpm = fpm.or_else(|| (learn == Learn::Fpm).then(usual));
        self.config.follow = Follow { learn, fpm, api: file.get("api", api)? };
        Ok(())
    }

    /// Whether others than the file may have entries in a network: one of VXLAN's as the
    /// kernel and controllers have them.
    pub(super) fn is_followed(&self, basis: &Basis) -> bool {
        let is_bridged = basis.network.layer == Layer::Ethernet
            && basis.network.extractor == Network::bridged().extractor
            && basis.options.identifier == Some(basis.number);
        self.config.follow.is_anybody() && is_bridged && basis.protocol.name == "vxlan"
    }

    /// Adds the ends to which others' tunnels lead, whoever they are.
    pub(super) fn add_open_ends(&mut self, basis: &Basis, span: toml_span::Span) -> Read<()> {
        let locals: Vec<IpAddr> = match basis.options.local {
            Some(local) => vec![local],
            None => self.config.locals().collect(),
        };
        for local in locals {
            let identifier = basis.options.identifier;
            let key = EndKey { protocol: basis.protocol, local, identifier, remote: None };
            self.add_end(key, End { network: basis.number, zero_checksum: basis.zero_checksum }, span)?;
        }
        Ok(())
    }
}

fn api(value: &Value<'_>) -> Read<Api> {
    let table = Table::new(value, "the API", &[API_KEYS])?;
    let listen =
        table.need("listen", "\"127.0.0.1:8080\", or the path of a Unix socket", |value| {
            match text(value)? {
                path if path.contains('/') => Ok(Listen::Unix(path.into())),
                _ => loopback(value).map(Listen::Tcp),
            }
        })?;
    Ok(Api { listen, users: users(&table)? })
}

fn fpm(value: &Value<'_>, usual: FpmPort) -> Read<FpmPort> {
    let table = Table::new(value, "FRR's port", &[FPM_KEYS])?;
    let hold = table.get("hold", |value| number::<i64>(value, 0, 86_400))?;
    Ok(FpmPort {
        listen: table.get("listen", loopback)?.unwrap_or(usual.listen),
        hold_ns: hold.map_or(usual.hold_ns, |seconds| seconds * NS_PER_SECOND),
        users: users(&table)?,
    })
}

/// An address that only this machine reaches.
fn loopback(value: &Value<'_>) -> Read<SocketAddr> {
    let address: SocketAddr = parsed(value, "address with a port", "127.0.0.1:8080")?;
    match address.ip().is_loopback() {
        true => Ok(address),
        false => {
            let cause = format!("{address} is reached by others than this machine");
            Err(Problem::new(value.span, cause, "write 127.0.0.1 or [::1], and a port"))
        }
    }
}

fn users(table: &Table<'_, '_>) -> Read<Vec<u32>> {
    table.list("users")?.iter().map(|value| number(value, 0, u32::MAX.into())).collect()
}
