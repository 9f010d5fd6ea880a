//! The HTTP API by which controllers write networks, entries and flood lists, and read what
//! the overlay has: JSON over HTTP/1.1, described by the OpenAPI document that it serves at
//! `/v1/openapi.json`.
//!
//! What a controller writes is a claim of [`Owner::Api`]: it hides what FRR or the kernel say
//! of the same place, and gives way to the file. [`http`] reads requests, [`server`] has the
//! sockets, and [`answer`] is all in between, without I/O.

use std::ops::Bound;

use overlay::Owner;
use serde_json::{Value as Json, json};

use crate::json;
use crate::program::{Claim, OWNERS, Program};
use crate::state::{Change, End, Key, Value};

pub mod http;
pub mod server;

use http::{Method, Request, Response};

/// The description of the API (OpenAPI 3.1).
pub const OPENAPI: &str = include_str!("api/openapi.json");

/// Places that controllers may have claims for, at most.
pub const MAX_CLAIMS: usize = 1 << 20;
/// Places in one answer, at most.
const MAX_PAGE: usize = 1000;

/// What requests read and change.
#[derive(Debug)]
pub struct Controlled<'a> {
    /// What all owners want.
    pub program: &'a mut Program,
    /// The overlay's table, as packets find it.
    pub overlay: &'a mut overlay::Overlay,
    /// The time, as the caller counts it.
    pub now_ns: i64,
    /// What else is to be shown at `/v1/status`, such as counters.
    pub status: Json,
}

/// Why a request is refused: the HTTP status, and a sentence.
type Refused = (u16, String);

/// Answers a request.
pub fn answer(request: &Request<'_>, on: &mut Controlled<'_>) -> Response {
    match route(request, on) {
        Ok(response) => response,
        Err((status, error)) => Response::json(status, &json!({ "error": error })),
    }
}

fn route(request: &Request<'_>, on: &mut Controlled<'_>) -> Result<Response, Refused> {
    let parts: Vec<&str> = request.path.split('/').skip(1).collect();
    let method = request.method;
    let known: &[&str] = match (method, parts.as_slice()) {
        (Method::Get, ["v1", "claims"]) => &["owner", "after"],
        (Method::Get, ["v1", "openapi.json" | "status"]) => &[],
        (_, ["v1", "openapi.json" | "status" | "claims"]) => {
            return Err((405, "this can be read only: GET".into()));
        }
        (_, ["v1", "networks", _] | ["v1", "networks", _, "flood" | "segment"])
        | (_, ["v1", "networks", _, "entries", _]) => &[],
        _ => return Err(unknown(request)),
    };
    if let Some(name) = request.parameters().find(|name| !known.contains(name)) {
        return Err((400, format!("there is no parameter {name:?} here: see /v1/openapi.json")));
    }
    match (method, parts.as_slice()) {
        (Method::Get, ["v1", "openapi.json"]) => Ok(Response::text(200, OPENAPI)),
        (Method::Get, ["v1", "status"]) => Ok(Response::json(200, &status(on))),
        (Method::Get, ["v1", "claims"]) => claims(request, on),
        (_, ["v1", "networks", vni]) => network(request, on, number(vni)?),
        (_, ["v1", "networks", vni, "flood"]) => flood(request, on, number(vni)?),
        (_, ["v1", "networks", vni, "segment"]) => segment(request, on, number(vni)?),
        (_, ["v1", "networks", vni, "entries", mac]) => {
            let mac = json::read_mac(mac).map_err(|error| (400, error))?;
            entry(request, on, number(vni)?, mac)
        }
        _ => Err(unknown(request)),
    }
}

fn unknown(request: &Request<'_>) -> Refused {
    (404, format!("there is no {}: see /v1/openapi.json", request.path))
}

fn number(vni: &str) -> Result<u32, Refused> {
    json::read_vni(vni).map_err(|error| (400, error))
}

fn status(on: &Controlled<'_>) -> Json {
    let owners = OWNERS.map(|owner| (owner.name().to_string(), json!(on.program.claims(owner).len())));
    json!({
        "claims": serde_json::Map::from_iter(owners),
        "refused": on.program.refused().len(),
        "waiting": on.program.waiting().count(),
        "tunnels": on.overlay.tunnels(),
        "more": on.status,
    })
}

/// A page of what is wanted: by an owner, or at each place by whoever takes precedence.
fn claims(request: &Request<'_>, on: &Controlled<'_>) -> Result<Response, Refused> {
    let after = match request.parameter("after") {
        Some(text) => Bound::Excluded(json::read_cursor(text).map_err(|error| (400, error))?),
        None => Bound::Unbounded,
    };
    let owner = match request.parameter("owner") {
        Some(name) => {
            let named = OWNERS.into_iter().find(|owner| owner.name() == name);
            named.ok_or_else(|| (400, format!("owner={name:?} is not one of static, api, fpm, kernel")))?
        }
        None => Owner::Api,
    };
    let all = on.program.claims(owner);
    let mut rest = all.range((after, Bound::Unbounded));
    let page: Vec<(&Key, &Claim)> = rest.by_ref().take(MAX_PAGE).collect();
    let last = page.last().filter(|_| rest.next().is_some());
    let next = last.map(|(key, _)| json::cursor(key));
    let page: Vec<Json> = page.into_iter().map(|(key, claim)| json::claim(key, owner, claim)).collect();
    Ok(Response::json(200, &json!({ "total": all.len(), "claims": page, "next": next })))
}

fn network(request: &Request<'_>, on: &mut Controlled<'_>, vni: u32) -> Result<Response, Refused> {
    let key = Key::Network(vni);
    change(request, on, key, |body, _| Ok(Value::Network(json::read_end(body)?)))
}

fn flood(request: &Request<'_>, on: &mut Controlled<'_>, vni: u32) -> Result<Response, Refused> {
    change(request, on, Key::Flood(vni), |body, end| Ok(Value::Flood(json::read_flood(body, (vni, end))?)))
}

fn segment(request: &Request<'_>, on: &mut Controlled<'_>, vni: u32) -> Result<Response, Refused> {
    change(request, on, Key::Segment(vni), |body, _| Ok(Value::Segment(json::read_segment(body)?)))
}

fn entry(
    request: &Request<'_>,
    on: &mut Controlled<'_>,
    vni: u32,
    mac: wire::MacAddress,
) -> Result<Response, Refused> {
    change(request, on, Key::Entry(vni, mac), |body, end| Ok(Value::Entry(json::read_far(body, (vni, end))?)))
}

/// Reads, writes or deletes a controller's claim at a place.
fn change(
    request: &Request<'_>,
    on: &mut Controlled<'_>,
    key: Key,
    read: impl FnOnce(&[u8], Option<End>) -> Result<Value, String>,
) -> Result<Response, Refused> {
    let own = on.program.claims(Owner::Api);
    let (before, is_full) = (own.get(&key).cloned(), own.len() >= MAX_CLAIMS);
    let is_there = before.is_some();
    match request.method {
        Method::Get => match on.program.claim(&key) {
            Some((owner, claim)) => {
                let mut told = json::claim(&key, owner, claim);
                let usage = key.entry().and_then(|(vni, bits)| on.overlay.usage(vni, bits));
                if let Some(usage) = usage {
                    told["usage"] = json::usage(usage);
                }
                Ok(Response::json(200, &told))
            }
            None => Err((404, format!("there is no {key}"))),
        },
        Method::Delete if !is_there => Err((404, format!("no controller wrote {key}"))),
        Method::Delete => {
            on.program.set(on.overlay, Owner::Api, key, None);
            on.overlay.publish();
            Ok(Response::empty(204))
        }
        Method::Put if is_full && !is_there => {
            Err((507, format!("controllers may write {MAX_CLAIMS} places, and did")))
        }
        Method::Put => {
            let end = key.network().and_then(|vni| on.program.value(&Key::Network(vni))?.end());
            let value = read(request.body, end).map_err(|error| (400, error))?;
            let change = Change { key, value: Some(value) };
            on.program.apply(on.overlay, Owner::Api, vec![change], on.now_ns);
            let is_api = on.program.claim(&key).is_some_and(|(owner, _)| owner == Owner::Api);
            let refused = on.program.refused().get(&key).filter(|_| is_api).map(ToString::to_string);
            if refused.is_some() {
                on.program.set(on.overlay, Owner::Api, key, before);
            }
            on.overlay.publish();
            match refused {
                Some(error) => Err((409, error)),
                None => Ok(Response::empty(if is_there { 204 } else { 201 })),
            }
        }
    }
}
