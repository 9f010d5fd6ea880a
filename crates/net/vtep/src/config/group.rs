//! Several far ends of one entry: a list of its own (`remotes`), or a `[[group]]` that entries of
//! any networks name, such as the hosts of an Ethernet segment (RFC 7432, section 8). A flow goes
//! to one of them by their weights.

use std::net::IpAddr;
use std::sync::Arc;

use control::Several;
use overlay::{MAX_MEMBERS, MAX_WEIGHT, Member};
use toml_span::{Span, Value};

use super::network::Basis;
use super::read::{Problem, Read, Table, number, parsed, text};
use super::tunnel::{self, Options};
use super::{Reading, parse_prefix};

const GROUP_KEYS: &[&str] = &["name", "remotes"];
const FAR_KEYS: &[&str] = &["remote", "weight"];

/// A far end as it is written, before a network says what its tunnel is.
#[derive(Debug, Clone)]
pub(super) struct FarEnd {
    remote: IpAddr,
    weight: u16,
    options: Options,
    span: Span,
}

impl Reading<'_> {
    /// A table `[[group]]`: a name, and the far ends that it stands for.
    pub(super) fn group(&mut self, value: &Value<'_>) -> Read<()> {
        let table = Table::new(value, "a group", &[GROUP_KEYS])?;
        let name = table.need("name", "\"segment1\"", text)?;
        self.once(format!("the group {name:?}"), table.span_of("name"))?;
        let far_ends = table.need("remotes", "[\"192.0.2.2\", \"192.0.2.3\"]", |_| far_ends(&table))?;
        self.groups.insert(name, far_ends);
        Ok(())
    }

    /// The far ends of an entry that has several, by whichever key it names them; `None` when it
    /// has one. Those of a group are the same ones for all entries of a network.
    pub(super) fn several(&mut self, entry: &Table<'_, '_>, basis: &Basis) -> Read<Option<Arc<Several>>> {
        let named: Vec<&str> =
            ["remote", "remotes", "group"].into_iter().filter(|key| entry.has(key)).collect();
        if let [_, second, ..] = named[..] {
            let cause = format!(
                "an entry leads by one of remote, remotes and group, and has {}",
                named.join(" and ")
            );
            return Err(Problem::new(entry.span_of(second), cause, format!("leave {second} out")));
        }
        let (name, far_ends, used) = match named.first() {
            Some(&"remotes") => (None, far_ends(entry)?, None),
            Some(&"group") => {
                let name = entry.need("group", "\"segment1\"", text)?;
                if let Some(key) = tunnel::KEYS.iter().find(|key| entry.has(key)) {
                    let cause = format!("entries that name a group change together, and {key} is this one's");
                    let fix = format!("say {key} in the group, or for the whole network");
                    return Err(Problem::new(entry.span_of(key), cause, fix));
                }
                if let Some(several) = self.shared.get(&(basis.number, name.clone())) {
                    return Ok(Some(several.clone()));
                }
                let far_ends = self.groups.get(&name).cloned();
                let far_ends = far_ends.ok_or_else(|| self.no_group(&name, entry.span_of("group")))?;
                (Some(name), far_ends, Some(basis.number))
            }
            _ => return Ok(None),
        };
        let general = Options::read(entry)?.or(&basis.options);
        let mut members: Vec<Member> = Vec::new();
        for FarEnd { remote, weight, options, span } in far_ends {
            let tunnel = self.tunnel_to(remote, options.or(&general), basis, span);
            let tunnel = tunnel.map_err(|problem| match used {
                Some(network) => problem.within(format!("for network {network}")),
                None => problem,
            })?;
            if members.iter().any(|member| member.tunnel == tunnel) {
                let cause = format!("{remote} is in the list already");
                return Err(Problem::new(span, cause, "name it once, with a weight"));
            }
            members.push(Member { tunnel, weight });
        }
        let several = Arc::new(Several { name: name.clone(), members });
        if let Some(name) = name {
            self.shared.insert((basis.number, name), several.clone());
        }
        Ok(Some(several))
    }

    fn no_group(&self, name: &str, span: Span) -> Problem {
        let names: Vec<&str> = self.groups.keys().map(String::as_str).collect();
        let fix = match names.is_empty() {
            true => format!("add [[group]] with name = {name:?} and remotes"),
            false => format!("name one of {}", names.join(", ")),
        };
        Problem::new(span, format!("there is no group {name:?}"), fix)
    }
}

/// The list `remotes` of a table: addresses, or tables with a weight and a tunnel's keys.
fn far_ends(table: &Table<'_, '_>) -> Read<Vec<FarEnd>> {
    let list = table.list("remotes")?;
    if !(1..=MAX_MEMBERS).contains(&list.len()) {
        let cause = format!("{} far ends cannot share flows", list.len());
        return Err(Problem::new(table.span_of("remotes"), cause, format!("name 1 to {MAX_MEMBERS}")));
    }
    list.iter().map(far_end).collect()
}

fn far_end(value: &Value<'_>) -> Read<FarEnd> {
    let address = |value: &Value<'_>| parsed(value, "IP address", "192.0.2.2");
    if value.as_str().is_some() {
        let remote = address(value)?;
        return Ok(FarEnd { remote, weight: 1, options: Options::default(), span: value.span });
    }
    let table = Table::new(value, "a far end", &[FAR_KEYS, tunnel::KEYS])?;
    let weight = table.get("weight", |value| number(value, 1, MAX_WEIGHT.into()))?.unwrap_or(1);
    let remote = table.need("remote", "\"192.0.2.2\"", address)?;
    Ok(FarEnd { remote, weight, options: Options::read(&table)?, span: value.span })
}

/// The prefix that an entry's packets go to, in a network in which the longest one decides.
pub(super) fn destination(value: &Value<'_>) -> Read<overlay::Prefix> {
    let text = text(value)?;
    let (address, len) = parse_prefix(&text)
        .map_err(|cause| Problem::new(value.span, cause, "write it as \"10.1.0.0/16\""))?;
    match super::underlay::first(address, len) {
        first if first == address => Ok((address, len)),
        first => {
            let cause = format!("{text} has bits behind the {len} that it is about");
            Err(Problem::new(value.span, cause, format!("write \"{first}/{len}\"")))
        }
    }
}
