//! `ChatterSocket`: what a router says, for other programs to listen to.

use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use graph::class::{Handlers, keyword, mandatory, read};
use graph::{Class, ConfFault, Cx, Element, TimerId, Until, WatchId};
use rustix::event::{EventfdFlags, eventfd};

use super::clients::Clients;
use super::listener::{Listener, USES};
use super::policy::ControlPolicy;
use super::protocol::{Parsed, Request, parse};
use super::socket;

/// Bytes a client may fall behind.
const BACKLOG: usize = 500_000;
/// What each client is told first.
const GREETING: &str = "Click::ChatterSocket/1.0\r\n";

pub static CLASS: Class = Class {
    name: "ChatterSocket",
    brief: "tells other programs what the router says",
    doc: "Listens on a TCP port, or on a UNIX socket, and sends all that the router prints to its diagnostic \
          output to those who connect. What they send is not done; one who sends HTTP is let go, and so is one \
          who falls 500,000 bytes behind. A TCP socket is for clients on this machine, of the user who started \
          the router or of root, unless `SAME_USER false` or `LOCALHOST false` say otherwise.",
    ports: "0/0",
    arguments: &[
        mandatory("TYPE", "`TCP` or `UNIX`"),
        mandatory("PORT", "the TCP port; 0 for any"),
        mandatory("FILENAME", "the UNIX socket's file"),
        keyword("CHANNEL", "which messages; `default`, and nobody sends others"),
        keyword("QUIET_CHANNEL", "accepted: messages of no other channel are printed; true"),
        keyword("GREETING", "clients are greeted; true"),
        keyword("LOCALHOST", "TCP clients must be on this machine; true"),
        keyword("SAME_USER", "TCP clients on a loopback address must be of the same user, or root; true"),
        keyword("RETRIES", "how often to try again each second when the socket is taken; 0"),
        keyword("RETRY_WARNINGS", "says each time that it is; true"),
    ],
    phase: Class::INFORMATION,
    example: "ChatterSocket(UNIX, /tmp/chatter)",
    see: &["ControlSocket", "Message"],
    handlers: &Handlers::<ChatterSocket>(&[
        read("port", "the TCP port", |socket: &ChatterSocket| socket.listener.shown())
            .only_if(|socket| socket.listener.is_port()),
        read("filename", "the UNIX socket's file", |socket: &ChatterSocket| socket.listener.shown())
            .only_if(|socket| !socket.listener.is_port()),
    ]),
    system: USES,
    make: |setup, conf| {
        let kind: String = conf.mandatory("TYPE")?;
        let channel = conf.keyword::<String>("CHANNEL")?.unwrap_or("default".into());
        let _quiet: Option<bool> = conf.keyword("QUIET_CHANNEL")?;
        let greets = conf.keyword("GREETING")?.unwrap_or(true);
        let local = conf.keyword("LOCALHOST")?.unwrap_or(true);
        let address = IpAddr::V4(if local { Ipv4Addr::LOCALHOST } else { Ipv4Addr::UNSPECIFIED });
        let retries = conf.keyword("RETRIES")?.unwrap_or(0);
        let warns = conf.keyword("RETRY_WARNINGS")?.unwrap_or(true);
        let place = match kind.to_ascii_uppercase().as_str() {
            "TCP" => socket::port(address, &conf.mandatory::<String>("PORT")?)?,
            "UNIX" => socket::file(conf.mandatory("FILENAME")?)?,
            _ => return Err(ConfFault::new(format!("unknown socket type `{kind}'"))),
        };
        let same_user = conf.keyword("SAME_USER")?.unwrap_or(true);
        conf.complete()?;
        let listener = Listener::new(place, retries, warns);
        listener.say_needs(setup);
        Ok(Box::new(ChatterSocket {
            same_user,
            policy: ControlPolicy::of(setup),
            listener,
            clients: Clients::new(if greets { GREETING } else { "" }),
            listens: channel == "default",
            said: Arc::default(),
            wakeup: None,
        }))
    },
    ..Class::BASE
};

/// A `ChatterSocket` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct ChatterSocket {
    listener: Listener,
    clients: Clients,
    same_user: bool,
    policy: Arc<ControlPolicy>,
    listens: bool,
    /// What was said and not passed on yet.
    said: Arc<Mutex<Vec<u8>>>,
    wakeup: Option<(Arc<OwnedFd>, WatchId)>,
}

impl ChatterSocket {
    /// Passes on what was said.
    fn pass_on(&mut self, cx: &mut Cx<'_>) {
        let said = std::mem::take(&mut *self.said.lock().unwrap_or_else(PoisonError::into_inner));
        if !said.is_empty() {
            self.clients.tell(cx, &said, BACKLOG);
        }
    }
}

impl Element for ChatterSocket {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if self.same_user && self.listener.is_loopback() {
            self.clients.admit_only(self.policy.clone())?;
        }
        self.listener.open(cx, &mut self.clients)?;
        if !self.listens {
            return Ok(());
        }
        let wakeup = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC);
        let wakeup = Arc::new(wakeup.map_err(|error| format!("eventfd: {error}"))?);
        self.wakeup = Some((wakeup.clone(), cx.watch(wakeup.clone(), Until::Readable)));
        let said = self.said.clone();
        cx.listen_to_all(Arc::new(move |text: &str| {
            let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
            // Nobody gets more than that in any case.
            if said.len() + text.len() <= BACKLOG {
                said.extend_from_slice(text.as_bytes());
            }
            let _rung = rustix::io::write(&*wakeup, &1u64.to_ne_bytes()); // full: it rings already
        }));
        Ok(())
    }

    fn fire(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        if !self.clients.fire(cx, timer) {
            self.listener.fire(cx, timer, &mut self.clients);
        }
    }

    fn ready(&mut self, cx: &mut Cx<'_>, watch: WatchId) {
        if let Some((wakeup, _)) = self.wakeup.as_ref().filter(|(_, own)| *own == watch) {
            let _silent = rustix::io::read(&**wakeup, &mut [0; 8]);
            return self.pass_on(cx);
        }
        self.clients.ready(cx, watch, |client, _| {
            let parsed = parse(&client.input, false);
            client.ends |= matches!(parsed, Parsed::Request(Request::Bad { fatal: true, .. }, _));
            client.input.clear();
            true
        });
        self.clients.news();
    }

    fn take_over(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) {
        let Some(old) = (old as &mut dyn std::any::Any).downcast_mut::<ChatterSocket>() else { return };
        self.listener.take_over(cx, &mut self.clients, (&mut old.listener, &mut old.clients));
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        self.pass_on(cx);
        self.listener.close(cx, &mut self.clients);
    }
}
