//! `ControlSocket`: handlers for other programs, over TCP or a UNIX socket, in
//! Click's protocol 1.3 ([`protocol`](super::protocol)).

use std::any::Any;
use std::net::{IpAddr, Ipv4Addr};

use graph::class::{Handler, keyword, mandatory, read};
use graph::timer::TimerId;
use graph::watch::WatchId;
use graph::{Class, Cx, Element, Fault, Refused};

use super::clients::{Client, Clients};
use super::door::{Door, Place};
use super::protocol::{self, BANNER, Parsed, Request, parse};

/// The class.
pub static CLASS: Class = Class {
    name: "ControlSocket",
    brief: "lets other programs read and write handlers",
    doc: "Listens on a TCP port, or on a UNIX socket, and speaks Click's control protocol 1.3: `READ e.h`, \
          `WRITE e.h value`, `READDATA`, `WRITEDATA`, `READUNTIL`, `WRITEUNTIL`, `CHECKREAD`, `CHECKWRITE`, \
          `HELP`, `QUIT`. There is no password: a TCP socket is this machine's alone unless `LOCALHOST false` \
          says otherwise, a UNIX socket its owner's. `PORT` may end in `+`: if it is taken, one of the next \
          ten. Clients are bounded in number and in what they may leave unsaid or unread; binary calls \
          (`LLRPC`) are refused. A new configuration takes over socket and clients of the old one's \
          ControlSocket of the same name if it has `RETRIES`.",
    ports: "0/0",
    arguments: &[
        mandatory("TYPE", "`TCP` or `UNIX`"),
        mandatory("PORT", "the TCP port; 0 for any"),
        mandatory("FILENAME", "the UNIX socket's file"),
        keyword("READONLY", "no handler can be written; false"),
        keyword("PROXY", "refused: no element here stands for another router"),
        keyword("VERBOSE", "says when clients come; false"),
        keyword("LOCALHOST", "TCP clients must be on this machine; true"),
        keyword("ADDRESS", "the address to listen at, of this machine's; as LOCALHOST says"),
        keyword("RETRIES", "how often to try again each second when the socket is taken; 0"),
        keyword("RETRY_WARNINGS", "says each time that it is; true"),
    ],
    handlers: &[read("clients", "how many there are now, and what became of others")],
    example: "ControlSocket(TCP, 7777, READONLY true)",
    see: &["Script", "Metrics"],
    make: |setup, conf| {
        let kind: String = conf.mandatory("TYPE")?;
        let local = conf.keyword("LOCALHOST")?.unwrap_or(true);
        let usual = if local { Ipv4Addr::LOCALHOST } else { Ipv4Addr::UNSPECIFIED };
        let address = conf.keyword("ADDRESS")?.unwrap_or(IpAddr::V4(usual));
        let place = match kind.to_ascii_uppercase().as_str() {
            "TCP" => port(address, &conf.mandatory::<String>("PORT")?)?,
            "UNIX" => file(conf.mandatory("FILENAME")?)?,
            _ => return Err(Fault::new(format!("unknown socket type '{kind}'"))),
        };
        let retries = conf.keyword("RETRIES")?.unwrap_or(0);
        let warns = conf.keyword("RETRY_WARNINGS")?.unwrap_or(true);
        let socket = ControlSocket {
            name: setup.name.to_string(),
            door: Door::new(place, retries, warns),
            read_only: conf.keyword("READONLY")?.unwrap_or(false),
            verbose: conf.keyword("VERBOSE")?.unwrap_or(false),
            clients: Clients::new(BANNER),
        };
        if conf.keyword::<String>("PROXY")?.is_some() {
            return Err("PROXY: no element here stands for another router".into());
        }
        conf.complete()?;
        Ok(Box::new(socket))
    },
    ..Class::BASE
};

fn port(address: IpAddr, text: &str) -> Result<Place, Fault> {
    let (digits, near) = text.strip_suffix('+').map_or((text, false), |digits| (digits, true));
    let port = digits.trim().parse().map_err(|_| "PORT requires TCP port")?;
    Ok(Place::Port { address, port, near })
}

fn file(path: String) -> Result<Place, Fault> {
    match rustix::net::SocketAddrUnix::new(path.as_str()) {
        Ok(_) => Ok(Place::File(path)),
        Err(_) => Err("filename too long".into()),
    }
}

/// The element.
#[derive(Debug)]
pub struct ControlSocket {
    name: String,
    door: Door,
    read_only: bool,
    verbose: bool,
    clients: Clients,
}

impl ControlSocket {
    fn own(&self, handler: &str) -> Result<String, Refused> {
        match (&self.door.place, handler) {
            (_, "clients") => Ok(self.clients.report()),
            (Place::Port { port, .. }, "port") => Ok(port.to_string()),
            (Place::File(path), "filename") => Ok(path.clone()),
            _ => Err(Refused::NoHandler(handler.into())),
        }
    }
}

impl Element for ControlSocket {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.door.open(cx, &mut self.clients)
    }

    fn fire(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        if !self.clients.fire(cx, timer) {
            self.door.fire(cx, timer, &mut self.clients);
        }
    }

    fn ready(&mut self, cx: &mut Cx<'_>, watch: WatchId) {
        let mut clients = std::mem::take(&mut self.clients);
        let before = clients.count();
        clients.ready(cx, watch, |client, cx| self.answer(cx, client));
        self.clients = clients;
        let what = match self.clients.count().cmp(&before) {
            std::cmp::Ordering::Less => "closed",
            std::cmp::Ordering::Greater => "opened",
            std::cmp::Ordering::Equal => return,
        };
        if self.verbose {
            cx.say(&format!("{} :: ControlSocket: {what} connection\n", self.name));
        }
    }

    fn read(&mut self, _: &mut Cx<'_>, handler: &str, _: &str) -> Result<String, Refused> {
        self.own(handler)
    }

    fn handlers(&self) -> Vec<(String, Handler)> {
        let handler = match self.door.place {
            Place::Port { .. } => read("port", "the TCP port"),
            Place::File(_) => read("filename", "the UNIX socket's file"),
        };
        vec![(handler.name.to_string(), handler)]
    }

    fn take_over(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) {
        let Some(old) = (old as &mut dyn Any).downcast_mut::<ControlSocket>() else { return };
        self.door.take_over(cx, &mut self.clients, (&mut old.door, &mut old.clients));
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        self.door.close(cx, &mut self.clients);
    }
}

/// What clients ask for.
impl ControlSocket {
    /// Answers the request at the front of a client's input; false when it is not
    /// there in full.
    fn answer(&self, cx: &mut Cx<'_>, client: &mut Client) -> bool {
        let Parsed::Request(request, length) = parse(&client.input, client.closed) else { return false };
        client.input.drain(..length);
        client.faults = if matches!(request, Request::Bad { .. }) { client.faults + 1 } else { 0 };
        let out = &mut client.output;
        match request {
            Request::Nothing => {}
            Request::Read { handler, parameter } => self.answer_read(cx, out, &handler, &parameter),
            Request::Write { handler, value } => self.answer_write(cx, out, &handler, &value),
            Request::Check { handler, write } => self.answer_check(cx, out, &handler, write),
            Request::Llrpc(name) => {
                protocol::say(out, 501, false, &format!("Cannot call LLRPC '{name}' remotely"));
            }
            Request::Help => {
                for (i, line) in protocol::HELP.iter().enumerate() {
                    protocol::say(out, 200, i + 1 < protocol::HELP.len(), line);
                }
            }
            Request::Quit => {
                protocol::say(out, 200, false, "Goodbye!");
                client.ends = true;
            }
            Request::Bad { code, message, fatal } => {
                protocol::say(out, code, false, &message);
                client.ends |= fatal;
            }
        }
        true
    }

    /// The handler of a name: elements may be numbered from 1, and 0 is the router.
    fn find(cx: &mut Cx<'_>, out: &mut Vec<u8>, given: &str) -> Option<(String, Handler)> {
        let name = given.strip_prefix("0.").or(given.strip_prefix('.')).unwrap_or(given);
        let numbered = name.split_once('.').and_then(|(number, handler)| {
            let index = number.parse::<usize>().ok()?.checked_sub(1)?;
            Some(format!("{}.{handler}", cx.elements().get(index)?))
        });
        let name = numbered.unwrap_or_else(|| name.to_string());
        match cx.has_handler(&name) {
            Ok(handler) => return Some((name, handler)),
            Err(Refused::NoElement(element)) => {
                protocol::say(out, 510, false, &format!("No element named '{element}'"));
            }
            Err(_) => protocol::say(out, 511, false, &format!("No handler named '{given}'")),
        }
        None
    }

    fn answer_read(&self, cx: &mut Cx<'_>, out: &mut Vec<u8>, given: &str, parameter: &str) {
        let Some((name, handler)) = Self::find(cx, out, given) else { return };
        if !handler.read {
            return protocol::say(out, 530, false, &format!("Handler '{given}' write-only"));
        }
        let result = match cx.read(&name, parameter) {
            // This element itself is at work just now.
            Err(Refused::Busy(who)) if who == self.name => self.own(handler.name),
            other => other,
        };
        match result {
            Ok(data) => {
                protocol::say(out, 200, false, &format!("Read handler '{given}' OK"));
                protocol::say_data(out, &data);
            }
            Err(refused) => {
                let message = format!("Read handler '{given}' error");
                protocol::say_all(out, 520, &message, &refused.to_string());
            }
        }
    }

    fn answer_write(&self, cx: &mut Cx<'_>, out: &mut Vec<u8>, given: &str, value: &str) {
        let Some((name, handler)) = Self::find(cx, out, given) else { return };
        if !handler.write {
            return protocol::say(out, 530, false, &format!("Handler '{given}' read-only"));
        }
        if self.read_only {
            return protocol::say(out, 530, false, &format!("Permission denied for '{given}'"));
        }
        match cx.write(&name, value) {
            Ok(()) => protocol::say(out, 200, false, &format!("Write handler '{given}' OK")),
            Err(refused) => {
                let message = format!("Write handler '{given}' error");
                protocol::say_all(out, 520, &message, &refused.to_string());
            }
        }
    }

    fn answer_check(&self, cx: &mut Cx<'_>, out: &mut Vec<u8>, given: &str, write: bool) {
        let Some((_, handler)) = Self::find(cx, out, given) else { return };
        let (kind, can) = if write { ("Write", handler.write) } else { ("Read", handler.read) };
        match can {
            true if write && self.read_only => {
                protocol::say(out, 530, false, &format!("Permission denied for '{given}'"));
            }
            true => protocol::say(out, 200, false, &format!("{kind} handler '{given}' OK")),
            false => {
                let able = if write { "writable" } else { "readable" };
                protocol::say(out, 511, false, &format!("Handler '{given}' not {able}"));
            }
        }
    }
}
