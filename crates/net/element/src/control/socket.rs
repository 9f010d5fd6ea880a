//! `ControlSocket`: handlers for other programs, over TCP or a UNIX socket, in
//! Click's protocol 1.3 ([`protocol`](super::protocol)).

use std::any::Any;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use graph::class::{Handler, Handlers, keyword, mandatory, read};
use graph::{Class, Complaint, ConfFault, Cx, Element, Named, Refused, TimerId, WatchId};

use super::clients::{Client, Clients};
use super::listener::{ListenAddress, Listener, USES};
use super::policy::ControlPolicy;
use super::protocol::{self, BANNER, Parsed, Request, parse_on};

const HANDLERS: Handlers<ControlSocket> = Handlers(&[
    read("clients", "how many there are now, and what became of others", |socket| socket.clients.report()),
    read("port", "the TCP port", |socket: &ControlSocket| socket.listener.shown())
        .only_if(|socket| socket.listener.is_port()),
    read("filename", "the UNIX socket's file", |socket: &ControlSocket| socket.listener.shown())
        .only_if(|socket| !socket.listener.is_port()),
]);

pub static CLASS: Class = Class {
    name: "ControlSocket",
    brief: "lets other programs read and write handlers",
    doc: "Listens on a TCP port, or on a UNIX socket, and speaks Click's control protocol 1.3: `READ e.h`, \
          `WRITE e.h value`, `READDATA`, `WRITEDATA`, `READUNTIL`, `WRITEUNTIL`, `CHECKREAD`, `CHECKWRITE`, \
          `HELP`, `QUIT`. There is no password: a TCP socket is for clients on this machine, of the user who \
          started the router or of root, unless `SAME_USER false` or `LOCALHOST false` say otherwise; a UNIX \
          socket its owner's. A connection ends at the first line that is HTTP's, so that no page in a \
          browser writes handlers. Handlers that take a file's name are refused unless the command line has \
          `--control-files`. `PORT` may end in `+`: if it is taken, one of the next \
          ten. Clients are bounded in number and in what they may leave unsaid or unread; binary calls \
          (`LLRPC`) are refused. A new configuration takes over socket and clients of the old one's \
          ControlSocket of the same name if it has `RETRIES`.",
    ports: "0/0",
    arguments: &[
        mandatory("TYPE", "`TCP` or `UNIX`"),
        mandatory("PORT", "the TCP port; 0 for any"),
        mandatory("FILENAME", "the UNIX socket's file"),
        keyword("READONLY", "no handler can be written; false"),
        keyword("PROXY", "an element that is asked in place of all others: `E.H` is its handler `E.H`"),
        keyword("VERBOSE", "says when clients come; false"),
        keyword("LOCALHOST", "TCP clients must be on this machine; true"),
        keyword("SAME_USER", "TCP clients on a loopback address must be of the same user, or root; true"),
        keyword("ADDRESS", "the address to listen at, of this machine's; as LOCALHOST says"),
        keyword("RETRIES", "how often to try again each second when the socket is taken; 0"),
        keyword("RETRY_WARNINGS", "says each time that it is; true"),
    ],
    handlers: &HANDLERS,
    example: "ControlSocket(TCP, 7777, READONLY true)",
    see: &["Script", "Metrics"],
    system: USES,
    make: |setup, conf| {
        let kind: String = conf.mandatory("TYPE")?;
        let local = conf.keyword("LOCALHOST")?.unwrap_or(true);
        let usual = if local { Ipv4Addr::LOCALHOST } else { Ipv4Addr::UNSPECIFIED };
        let address = conf.keyword("ADDRESS")?.unwrap_or(IpAddr::V4(usual));
        let place = match kind.to_ascii_uppercase().as_str() {
            "TCP" => port(address, &conf.mandatory::<String>("PORT")?)?,
            "UNIX" => file(conf.mandatory("FILENAME")?)?,
            _ => return Err(ConfFault::new(format!("unknown socket type '{kind}'"))),
        };
        let retries = conf.keyword("RETRIES")?.unwrap_or(0);
        let warns = conf.keyword("RETRY_WARNINGS")?.unwrap_or(true);
        let same_user = conf.keyword("SAME_USER")?.unwrap_or(true);
        let socket = ControlSocket {
            name: setup.name.to_string(),
            listener: Listener::new(place, retries, warns),
            read_only: conf.keyword("READONLY")?.unwrap_or(false),
            verbose: conf.keyword("VERBOSE")?.unwrap_or(false),
            proxy: conf.keyword("PROXY")?,
            clients: Clients::new(BANNER),
            same_user,
            policy: ControlPolicy::of(setup),
            file_handlers: vec![],
        };
        conf.complete()?;
        socket.listener.say_needs(setup);
        Ok(Box::new(socket))
    },
    ..Class::BASE
};

pub(super) fn port(address: IpAddr, text: &str) -> Result<ListenAddress, ConfFault> {
    let (digits, near) = text.strip_suffix('+').map_or((text, false), |digits| (digits, true));
    let port = digits.trim().parse().map_err(|_| "PORT requires TCP port")?;
    Ok(ListenAddress::Port { address, port, near })
}

pub(super) fn file(path: String) -> Result<ListenAddress, ConfFault> {
    match rustix::net::SocketAddrUnix::new(path.as_str()) {
        Ok(_) if path.len() <= LONGEST_NAME => Ok(ListenAddress::File(path)),
        _ => Err(too_long(&path)),
    }
}

/// The longest name of a socket: `sun_path` has 108 bytes (unix(7)), the last of them zero.
const LONGEST_NAME: usize = 107;

#[cold]
fn too_long(path: &str) -> ConfFault {
    let bytes = path.len();
    let message = format!("filename too long: {bytes} bytes, and a socket's name has {LONGEST_NAME} at most");
    ConfFault {
        compat: Some("filename too long".to_owned()),
        suggestion: Some("name a file in a directory nearer to /, as /tmp or /run".to_owned()),
        ..ConfFault::new(message)
    }
}

/// What a handler complained of, and why it refused.
fn lines(told: &[Complaint], refused: Option<Refused>) -> String {
    let all = told.iter().map(ToString::to_string).chain(refused.map(|refused| refused.to_string()));
    all.map(|line| line + "\n").collect()
}

/// A `ControlSocket` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct ControlSocket {
    name: String,
    listener: Listener,
    read_only: bool,
    verbose: bool,
    proxy: Option<String>,
    clients: Clients,
    same_user: bool,
    policy: Arc<ControlPolicy>,
    /// Handlers of this router that clients may not write.
    file_handlers: Vec<&'static str>,
}

impl Element for ControlSocket {
    fn check_names(&self, named: &Named<'_>) -> Result<(), String> {
        match self.proxy.as_ref().filter(|proxy| named.find(proxy).is_none()) {
            Some(proxy) => Err(format!("PROXY: '{proxy}' does not name an element")),
            None => Ok(()),
        }
    }

    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if !self.policy.files {
            self.file_handlers = cx.handlers_that(Handler::names_file);
        }
        if self.same_user && self.listener.is_loopback() {
            self.clients.admit_only(self.policy.clone())?;
        }
        self.listener.open(cx, &mut self.clients)
    }

    fn fire(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        if !self.clients.fire(cx, timer) {
            self.listener.fire(cx, timer, &mut self.clients);
        }
    }

    fn ready(&mut self, cx: &mut Cx<'_>, watch: WatchId) {
        let mut clients = self.clients.take_out();
        clients.ready(cx, watch, |client, cx| self.answer(cx, client));
        self.clients = clients;
        for what in self.clients.news() {
            if self.verbose {
                cx.say(&format!("{} :: ControlSocket: {what}\n", self.name));
            }
        }
    }

    fn take_over(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) {
        let Some(old) = (old as &mut dyn Any).downcast_mut::<ControlSocket>() else { return };
        self.listener.take_over(cx, &mut self.clients, (&mut old.listener, &mut old.clients));
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        self.listener.close(cx, &mut self.clients);
    }
}

/// What clients ask for.
impl ControlSocket {
    /// Answers the request at the front of a client's input; false when it is not
    /// there in full.
    fn answer(&self, cx: &mut Cx<'_>, client: &mut Client) -> bool {
        let parsed = parse_on(&client.input, client.closed, &mut client.looked);
        let Parsed::Request(request, length) = parsed else { return false };
        client.input.drain(..length);
        client.faults = if matches!(request, Request::Bad { .. }) { client.faults + 1 } else { 0 };
        let out = &mut client.output;
        match request {
            Request::Nothing => {}
            Request::Read { handler, parameter } => self.answer_read(cx, out, &handler, &parameter),
            Request::Write { handler, value } => self.answer_write(cx, out, &handler, &value),
            Request::Check { handler, write } => self.answer_check(cx, out, &handler, write),
            Request::Llrpc { name, data } => self.answer_llrpc(cx, out, &name, &data),
            Request::Help => {
                for (i, line) in protocol::HELP.iter().enumerate() {
                    protocol::say(out, 200, i + 1 < protocol::HELP.len(), line);
                }
            }
            Request::Quit(more) => {
                if more {
                    protocol::say(out, 500, false, "Bad command syntax");
                }
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
    /// Handlers that are none of a client's business are not there.
    fn find(&self, cx: &mut Cx<'_>, out: &mut Vec<u8>, given: &str) -> Option<(String, Handler)> {
        let name = given.strip_prefix("0.").or(given.strip_prefix('.')).unwrap_or(given);
        let full = match (&self.proxy, name.split_once('.')) {
            (Some(proxy), _) => format!("{proxy}.{name}"),
            (None, None) => format!(".{name}"),
            (None, Some((element, handler))) => {
                let number = element.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
                let numbered = number.filter(|_| cx.find(element).is_none());
                match numbered.and_then(|index| cx.elements().into_iter().nth(index)) {
                    Some(element) => format!("{element}.{handler}"),
                    None => name.to_string(),
                }
            }
        };
        match cx.named().handler_of(&full) {
            Ok(handler) if handler.is_public() || handler.write => return Some((full, handler)),
            Err(Refused::NoElement(element)) => {
                protocol::say(out, 510, false, &format!("No element named '{element}'"));
            }
            _ if self.proxy.is_some() => {
                protocol::say(out, 511, false, &format!("No proxied handler named '{given}'"));
            }
            _ => protocol::say(out, 511, false, &format!("No handler named '{given}'")),
        }
        None
    }

    fn answer_llrpc(&self, cx: &mut Cx<'_>, out: &mut Vec<u8>, name: &str, data: &[u8]) {
        let (code, message) = protocol::refuse_llrpc(name, data, self.read_only);
        // The number is read first, then comes the element, then what is asked of it.
        let element = name.split_once('#').map_or(name, |(element, _)| element);
        if code == 500 || self.find(cx, out, &format!("{element}.name")).is_some() {
            protocol::say(out, code, false, &message);
        }
    }

    fn answer_read(&self, cx: &mut Cx<'_>, out: &mut Vec<u8>, given: &str, parameter: &str) {
        let Some((name, handler)) = self.find(cx, out, given) else { return };
        if !handler.is_public() {
            return protocol::say(out, 530, false, &format!("Handler '{given}' write-only"));
        }
        let result = match cx.read(&name, parameter) {
            // This element itself is at work just now.
            Err(Refused::Busy(who)) if who == self.name => {
                HANDLERS.value(self, handler.name).ok_or_else(|| Refused::NoHandler(handler.name.into()))
            }
            other => other,
        };
        let told = cx.take_complaints();
        match result {
            Ok(data) if told.iter().all(|complaint| complaint.is_warning) => {
                protocol::say(out, 200, false, &format!("Read handler '{given}' OK"));
                protocol::say_data(out, &data);
            }
            result => {
                let message = format!("Read handler '{given}' error");
                protocol::say_all(out, 590, &message, &lines(&told, result.err()));
            }
        }
    }

    fn answer_write(&self, cx: &mut Cx<'_>, out: &mut Vec<u8>, given: &str, value: &str) {
        let Some((name, handler)) = self.find(cx, out, given) else { return };
        if !handler.write {
            return protocol::say(out, 530, false, &format!("Handler '{given}' read-only"));
        }
        if self.read_only {
            return protocol::say(out, 530, false, &format!("Permission denied for '{given}'"));
        }
        if let Some(name) = self.file_handler(handler, value) {
            let flag = self.policy.files_flag;
            let why = format!("Permission denied: '{name}' writes files; start the router with {flag}");
            return protocol::say(out, 530, false, &why);
        }
        let refused = cx.write(&name, value).err();
        let told = cx.take_complaints();
        let wrong = refused.is_some() || told.iter().any(|complaint| !complaint.is_warning);
        let (code, end) = match (wrong, told.is_empty()) {
            (true, _) => (520, "error"),
            (false, false) => (220, "OK with warnings"),
            (false, true) => (200, "OK"),
        };
        protocol::say_all(out, code, &format!("Write handler '{given}' {end}"), &lines(&told, refused));
    }

    /// The handler that writes a file and that a client may not write: this one, or one
    /// that the value names, which other handlers (`count_call`) would write later.
    fn file_handler(&self, handler: Handler, value: &str) -> Option<&'static str> {
        let named = |name: &&&str| handler.name == **name || value.contains(**name);
        self.file_handlers.iter().find(named).copied()
    }

    fn answer_check(&self, cx: &mut Cx<'_>, out: &mut Vec<u8>, given: &str, write: bool) {
        let Some((_, handler)) = self.find(cx, out, given) else { return };
        let (kind, can) = if write { ("Write", handler.write) } else { ("Read", handler.is_public()) };
        match can {
            true if write && (self.read_only || self.file_handlers.contains(&handler.name)) => {
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
