//! `learning`: whether a network makes entries of the frames that come out of its tunnels, as a
//! bridge does (RFC 7348, section 4.1), and for how long and how many they are.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use overlay::{Learning, Network};
use toml_span::Value;

use super::Reading;
use super::network::Basis;
use super::read::{Problem, Read, Table, flag, number};

const LEARNING_KEYS: &[&str] = &["ageing", "limit"];
/// Seconds for which an entry stays without being heard of, where nothing is said (ip-link(8)).
const AGEING: u32 = 300;
/// Entries at most, where nothing is said.
const LIMIT: u32 = 4096;

impl Reading<'_> {
    /// Reads how a network learns.
    pub(super) fn learning(&mut self, network: &Table<'_, '_>, basis: &Basis) -> Read<()> {
        let Some((ageing, limit)) = network.get("learning", learning)?.flatten() else { return Ok(()) };
        let span = network.span_of("learning");
        if !self.has_ports {
            let cause = "the elements of a router do not learn";
            return Err(Problem::new(span, cause, "leave learning out"));
        }
        let bridged = Network { unknown: basis.network.unknown, ..Network::bridged() };
        if basis.network != bridged {
            let cause = "only Ethernet frames that are known by their destination can be learned from";
            return Err(Problem::new(span, cause, "leave learning out, or write key = \"mac\""));
        }
        let locals: Vec<IpAddr> = match basis.options.local {
            Some(local) => vec![local],
            None => self.config.locals().collect(),
        };
        // Who is heard of stands in for the far end.
        let remote = |local: &IpAddr| match local {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
        let made = locals.iter().map(remote);
        let made = made.map(|remote| self.tunnel_between(remote, basis.options.clone(), basis, span));
        // What only one version of IP can have is learned by that one.
        let (tunnels, refused): (Vec<_>, Vec<_>) = made.partition(Result::is_ok);
        let refused = refused.into_iter().find_map(Result::err).filter(|_| tunnels.is_empty());
        refused.map_or(Ok(()), Err)?;
        let tunnels = tunnels.into_iter().flatten().collect();
        let age = Duration::from_secs(ageing.into());
        let learning = Learning { tunnels, limit: limit as usize, age };
        self.config.desired.learning.insert(basis.number, learning);
        self.add_open_ends(basis, span)
    }
}

/// Seconds, and entries; `None` where it is said that nothing is learned.
fn learning(value: &Value<'_>) -> Read<Option<(u32, u32)>> {
    if value.as_table().is_none() {
        return flag(value).map(|learns| learns.then_some((AGEING, LIMIT)));
    }
    let table = Table::new(value, "learning", &[LEARNING_KEYS])?;
    let ageing = table.get("ageing", |value| number(value, 1, i64::from(u32::MAX)))?.unwrap_or(AGEING);
    let limit = table.get("limit", |value| number(value, 1, i64::from(u32::MAX)))?.unwrap_or(LIMIT);
    Ok(Some((ageing, limit)))
}
