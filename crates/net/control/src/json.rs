//! Keys and values of the overlay's state as JSON, both ways.

use std::net::IpAddr;

use overlay::{Owner, Segment, Tunnel, Usage, is_one_host};
use serde_json::{Map, Value as Json, json};
use wire::MacAddress;

use crate::program::Claim;
use crate::state::{ELSEWHERE, End, Far, Key, Value, own_port};

/// A key of the overlay's state as JSON.
pub fn key(key: &Key) -> Json {
    match key {
        Key::Port(port) => json!({ "kind": "port", "port": port }),
        Key::Neighbor(port, address) => {
            json!({ "kind": "neighbor", "port": port, "address": address.to_string() })
        }
        Key::Route((address, length)) => json!({ "kind": "route", "prefix": format!("{address}/{length}") }),
        Key::Network(vni) => json!({ "kind": "network", "vni": vni }),
        Key::Entry(vni, mac) => json!({ "kind": "entry", "vni": vni, "mac": mac.to_string() }),
        Key::Other(vni, key) => json!({ "kind": "other", "vni": vni, "key": format!("{key:#x}") }),
        Key::Prefix(vni, (address, length)) => {
            json!({ "kind": "prefix", "vni": vni, "prefix": format!("{address}/{length}") })
        }
        Key::Flood(vni) => json!({ "kind": "flood", "vni": vni }),
        Key::Segment(vni) => json!({ "kind": "segment", "vni": vni }),
    }
}

/// The name of a place in the query of a URL: it has only characters that may stand there as
/// they are.
pub fn cursor(key: &Key) -> String {
    let text = match key {
        Key::Port(port) => format!("port-{port}"),
        Key::Neighbor(port, address) => format!("neighbor-{port}-{address}"),
        Key::Route((address, length)) => format!("route-{address}-{length}"),
        Key::Network(vni) => format!("network-{vni}"),
        Key::Entry(vni, mac) => format!("entry-{vni}-{mac}"),
        Key::Other(vni, key) => format!("other-{vni}-{key:x}"),
        Key::Prefix(vni, (address, length)) => format!("prefix-{vni}-{address}-{length}"),
        Key::Flood(vni) => format!("flood-{vni}"),
        Key::Segment(vni) => format!("segment-{vni}"),
    };
    text.replace(':', "_")
}

/// Reads the name of a place.
///
/// # Errors
/// When it is none.
pub fn read_cursor(text: &str) -> Result<Key, String> {
    let plain = text.replace('_', ":");
    let words: Vec<&str> = plain.split('-').collect();
    let key = match words[..] {
        ["port", port] => port.parse().ok().map(Key::Port),
        ["neighbor", port, address] => {
            port.parse().ok().zip(address.parse().ok()).map(|(port, address)| Key::Neighbor(port, address))
        }
        ["route", address, length] => address.parse().ok().zip(length.parse().ok()).map(Key::Route),
        ["network", vni] => vni.parse().ok().map(Key::Network),
        ["entry", vni, mac] => vni.parse().ok().zip(mac.parse().ok()).map(|(vni, mac)| Key::Entry(vni, mac)),
        ["other", vni, key] => {
            let key = u128::from_str_radix(key, 16).ok();
            vni.parse().ok().zip(key).map(|(vni, key)| Key::Other(vni, key))
        }
        ["prefix", vni, address, length] => {
            let prefix = address.parse().ok().zip(length.parse().ok());
            vni.parse().ok().zip(prefix).map(|(vni, prefix)| Key::Prefix(vni, prefix))
        }
        ["flood", vni] => vni.parse().ok().map(Key::Flood),
        ["segment", vni] => vni.parse().ok().map(Key::Segment),
        _ => None,
    };
    key.ok_or_else(|| format!("after={text:?} is not what a page gave as \"next\""))
}

/// What is at a place; `null` for nothing.
pub fn value(value: Option<&Value>) -> Json {
    match value {
        None => Json::Null,
        Some(Value::Port(port)) => {
            json!({ "mac": port.mac.to_string(), "mtu": port.mtu, "vlan": port.vlan, "up": port.is_up })
        }
        Some(Value::Neighbor(mac)) => json!({ "mac": mac.to_string() }),
        Some(Value::Route(route)) if route.port == ELSEWHERE => json!({ "port": null, "gateway": null }),
        Some(Value::Route(route)) => {
            json!({ "port": route.port, "gateway": route.gateway.map(|gateway| gateway.to_string()) })
        }
        Some(Value::Network(End { local, port, zero_checksum })) => {
            json!({ "local": local.to_string(), "port": port, "accept_zero_checksum": zero_checksum })
        }
        Some(Value::Entry(far)) => far_end(far),
        Some(Value::Group(group)) => {
            let fars = group.fars.iter().map(|weighted| {
                let mut far = far_end(&weighted.far);
                far["weight"] = weighted.weight.into();
                far
            });
            json!({ "nexthop": group.id, "far_ends": fars.collect::<Vec<_>>() })
        }
        Some(Value::Flood(fars)) => json!({ "far_ends": fars.iter().map(far_end).collect::<Vec<_>>() }),
        Some(Value::Settings(settings)) => {
            json!({ "ends": settings.ends.iter().map(|(end, _)| tunnel(end)).collect::<Vec<_>>() })
        }
        Some(Value::Tunnel(is)) => tunnel(is),
        Some(Value::Several(several)) => {
            let members = several.members.iter().map(|member| {
                let mut far = tunnel(&member.tunnel);
                far["weight"] = member.weight.into();
                far
            });
            json!({ "group": several.name, "far_ends": members.collect::<Vec<_>>() })
        }
        Some(Value::Tunnels(all)) => json!({ "far_ends": all.iter().map(tunnel).collect::<Vec<_>>() }),
        Some(Value::Segment(segment)) => {
            let peers: Vec<String> = segment.peers.iter().map(IpAddr::to_string).collect();
            json!({ "designated": segment.is_designated, "peers": peers })
        }
    }
}

/// A tunnel of the configuration's.
fn tunnel(tunnel: &Tunnel) -> Json {
    json!({
        "protocol": tunnel.protocol.name, "remote": tunnel.remote.to_string(),
        "local": tunnel.local.to_string(), "vni": tunnel.identifier, "port": tunnel.port,
    })
}

fn far_end(far: &Far) -> Json {
    json!({
        "remote": far.remote.to_string(), "local": far.local.to_string(), "vni": far.vni, "port": far.port,
    })
}

/// What is at a place, with who wants it and since when.
pub fn claim(place: &Key, owner: Owner, claim: &Claim) -> Json {
    json!({
        "at": key(place), "is": value(Some(&claim.value)), "owner": owner.name(), "since_ns": claim.since_ns,
    })
}

/// How much an entry is used.
pub fn usage(Usage { count, last }: Usage) -> Json {
    let last_ns = last.map(|last| last.as_nanos() as u64); // enough for 500 years
    json!({ "packets": count.packets, "bytes": count.bytes, "last_ns": last_ns })
}

/// Reads the end of a network.
///
/// # Errors
/// What is wrong, for people.
pub fn read_end(text: &[u8]) -> Result<End, String> {
    let object = object(text, &["local", "port", "accept_zero_checksum"])?;
    let local = host(&object, "local")?.ok_or("\"local\" is missing: the outer source address")?;
    let zero_checksum = match object.get("accept_zero_checksum") {
        None | Some(Json::Null) => false,
        Some(Json::Bool(accepts)) => *accepts,
        Some(_) => return Err("\"accept_zero_checksum\" must be true or false".into()),
    };
    Ok(End { local, port: port(&object)?.and_then(own_port), zero_checksum })
}

/// Reads a far end. What it leaves out is taken from its network.
///
/// # Errors
/// What is wrong, for people.
pub fn read_far(text: &[u8], network: (u32, Option<End>)) -> Result<Far, String> {
    far_of(&object(text, FAR)?, network)
}

/// Reads a list of far ends.
///
/// # Errors
/// What is wrong, for people.
pub fn read_flood(text: &[u8], network: (u32, Option<End>)) -> Result<Vec<Far>, String> {
    let object = object(text, &["far_ends"])?;
    let Some(Json::Array(list)) = object.get("far_ends") else {
        return Err("\"far_ends\" must be a list of far ends".into());
    };
    if list.len() > overlay::MAX_FLOOD {
        return Err(format!("a flood list has {} far ends at most", overlay::MAX_FLOOD));
    }
    let fars = list.iter().enumerate().map(|(place, far)| {
        let far = far.as_object().ok_or("it must be an object".to_string());
        far.and_then(|far| known(far, FAR).and_then(|()| far_of(far, network)))
            .map_err(|error| format!("far end {place}: {error}"))
    });
    let mut fars: Vec<Far> = fars.collect::<Result<_, _>>()?;
    fars.sort_unstable();
    fars.dedup();
    Ok(fars)
}

/// Reads an Ethernet segment.
///
/// # Errors
/// What is wrong, for people.
pub fn read_segment(text: &[u8]) -> Result<Segment, String> {
    let object = object(text, &["designated", "peers"])?;
    let Some(Json::Bool(is_designated)) = object.get("designated") else {
        return Err("\"designated\" must be true or false".into());
    };
    let list = match object.get("peers") {
        None | Some(Json::Null) => &[][..],
        Some(Json::Array(list)) => list,
        Some(_) => return Err("\"peers\" must be a list of addresses".into()),
    };
    let address = |peer: &Json| peer.as_str()?.parse().ok().filter(|peer| is_one_host(*peer));
    let wrong = |peer: &Json| format!("{peer} in \"peers\" is no address of one host in quotes");
    let peers: Result<Vec<IpAddr>, String> =
        list.iter().map(|peer| address(peer).ok_or_else(|| wrong(peer))).collect();
    let mut peers = peers?;
    peers.sort_unstable();
    peers.dedup();
    Ok(Segment { is_designated: *is_designated, peers })
}

const FAR: &[&str] = &["remote", "local", "vni", "port"];

fn far_of(object: &Map<String, Json>, (vni, end): (u32, Option<End>)) -> Result<Far, String> {
    let remote = host(object, "remote")?.ok_or("\"remote\" is missing: the far end's address")?;
    let local = host(object, "local")?.or(end.map(|end| end.local));
    let local = local.ok_or("\"local\" is missing, and the network has no end here yet")?;
    if remote.is_ipv4() != local.is_ipv4() {
        return Err(format!("{remote} and {local} must both be IPv4 or both be IPv6 addresses"));
    }
    if remote == local {
        return Err(format!("{remote} is the address here, and no far end's"));
    }
    let vni = number(object, "vni", MAX_VNI)?.map_or(vni, |vni| vni as u32);
    let port = port(object)?.or(end.and_then(|end| end.port));
    Ok(Far { remote, local, vni, port: port.and_then(own_port) })
}

fn port(object: &Map<String, Json>) -> Result<Option<u16>, String> {
    Ok(number(object, "port", u16::MAX.into())?.map(|port| port as u16))
}

/// The largest number of a network in VXLAN's header.
const MAX_VNI: u64 = 0xFF_FFFF;

fn object(text: &[u8], names: &[&str]) -> Result<Map<String, Json>, String> {
    match serde_json::from_slice(text) {
        Ok(Json::Object(object)) => known(&object, names).map(|()| object),
        Ok(_) => Err("the body must be a JSON object".into()),
        Err(error) => Err(format!("line {}, column {}: {error}", error.line(), error.column())),
    }
}

fn known(object: &Map<String, Json>, names: &[&str]) -> Result<(), String> {
    match object.keys().find(|name| !names.contains(&name.as_str())) {
        Some(name) => Err(format!("{name:?} is unknown; there may be {}", names.join(", "))),
        None => Ok(()),
    }
}

fn address(object: &Map<String, Json>, name: &str) -> Result<Option<IpAddr>, String> {
    match object.get(name) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::String(text)) => text.parse().map(Some).map_err(|_| format!("{text:?} is no IP address")),
        Some(_) => Err(format!("{name:?} must be an address in quotes")),
    }
}

/// An address that one host has.
fn host(object: &Map<String, Json>, name: &str) -> Result<Option<IpAddr>, String> {
    match address(object, name)? {
        Some(address) if !is_one_host(address) => {
            Err(format!("{address} in {name:?} is not an address of one host"))
        }
        other => Ok(other),
    }
}

fn number(object: &Map<String, Json>, name: &str, most: u64) -> Result<Option<u64>, String> {
    match object.get(name) {
        None | Some(Json::Null) => Ok(None),
        Some(number) => match number.as_u64().filter(|number| (1..=most).contains(number)) {
            Some(number) => Ok(Some(number)),
            None => Err(format!("{name:?} must be a number from 1 to {most}")),
        },
    }
}

/// Reads the number of a network in a path.
///
/// # Errors
/// What is wrong, for people.
pub fn read_vni(text: &str) -> Result<u32, String> {
    // One number is one path: no sign, and no zeros in front.
    let is_whole = |vni: &u32| (1..=MAX_VNI).contains(&u64::from(*vni)) && vni.to_string() == text;
    let vni = text.parse().ok().filter(is_whole);
    vni.ok_or_else(|| format!("{text:?} is no network's number, which is from 1 to {MAX_VNI}"))
}

/// Reads a host's Ethernet address in a path.
///
/// # Errors
/// What is wrong, for people.
pub fn read_mac(text: &str) -> Result<MacAddress, String> {
    let mac: MacAddress = text.parse().map_err(|error: wire::InvalidMac| error.to_string())?;
    match mac.is_station() {
        true => Ok(mac),
        false => Err(format!("{mac} is not one host's address: use the network's flood list")),
    }
}
