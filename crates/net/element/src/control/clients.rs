//! Clients of a stream socket, served by a lane between its packets.
//!
//! Nothing here blocks. What a client can cost is bounded: how many there are, what
//! is kept of what they send, what they do not take of our answers, how long they
//! may stand in the middle of either, how long they may stay where that is bounded, and
//! how much nonsense they may talk. Where one user's clients are let in, others are told
//! so and closed.

use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use graph::{Cx, TimerId, Until, WatchId};
use runtime::peer::Peers;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags};

use super::policy::ControlPolicy;

/// Clients at a time; one more takes the place of the one that was quiet longest.
const MAX_CLIENTS: usize = 64;
/// Bytes taken from a client at a time.
const CHUNK: usize = 16 << 10;
/// Bytes a client may leave unread before it is not listened to any more.
const MAX_UNREAD: usize = 64 << 10;
/// Requests answered before others have a turn.
const REQUESTS_A_TURN: usize = 16;
/// How long a client may stand still in the middle of a request or an answer.
const STALL_NS: i64 = 30_000_000_000;
/// Wrong requests one after the other.
const MAX_FAULTS: u32 = 32;
/// How long nobody is let in when there are no file descriptors left.
const PAUSE_NS: i64 = 100_000_000;

/// What became of clients.
#[derive(Debug, Clone, Copy, Default)]
struct ClientCounters {
    /// Connections that were accepted.
    accepted: u64,
    /// Connections that were closed for one that came later.
    displaced: u64,
    /// Connections that were closed because they stalled in a request or an answer.
    timed_out: u64,
    /// Connections that were closed for too many wrong or too long lines.
    refused: u64,
    /// Connections of other users, which were closed at once.
    strangers: u64,
}

/// A client that is connected.
#[derive(Debug)]
pub(super) struct Client {
    file: Arc<OwnedFd>,
    watch: WatchId,
    /// What it sent and was not looked at yet.
    pub(super) input: Vec<u8>,
    /// How far that was looked at, if there was no request in full.
    pub(super) looked: usize,
    /// What it is told.
    pub(super) output: Vec<u8>,
    /// It sends no more.
    pub(super) closed: bool,
    /// It is let go as soon as it was told all.
    pub(super) ends: bool,
    /// Wrong requests since the last right one.
    pub(super) faults: u32,
    /// It is gone.
    lost: bool,
    /// The front of its input is the beginning of a request.
    waits: bool,
    /// When it last did anything.
    moved_ns: i64,
    /// When it connected, in nanoseconds.
    came_ns: i64,
}

impl Client {
    fn receive(&mut self, now: i64) {
        let mut chunk = [0; CHUNK];
        match rustix::net::recv(&self.file, &mut chunk[..], RecvFlags::empty()) {
            Ok((_, 0)) => self.closed = true,
            Ok((_, length)) => {
                self.input.extend_from_slice(&chunk[..length.min(CHUNK)]);
                self.moved_ns = now;
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.lost = true,
        }
    }

    fn send(&mut self, now: i64) {
        let mut sent = 0;
        while sent < self.output.len() {
            match rustix::net::send(&self.file, &self.output[sent..], SendFlags::NOSIGNAL) {
                Ok(length) => sent += length,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => {
                    self.lost = true;
                    break;
                }
            }
        }
        if sent > 0 {
            self.output.drain(..sent);
            self.moved_ns = now;
        }
    }

    /// Whether more of what it sends is taken. Not before what is there was answered:
    /// a client that sends faster than it is answered waits, and costs no memory.
    fn is_heard(&self) -> bool {
        let answered = self.waits || self.input.is_empty();
        !self.closed && !self.ends && answered && self.output.len() < MAX_UNREAD
    }

    fn is_done(&self) -> bool {
        let told = self.output.is_empty();
        self.lost || (told && (self.ends || (self.closed && (self.input.is_empty() || self.waits))))
    }

    fn is_stalled(&self, now: i64) -> bool {
        let amid = !self.output.is_empty() || !self.input.is_empty();
        amid && now - self.moved_ns > STALL_NS
    }
}

/// All of them, and where they come in.
#[derive(Debug, Default)]
pub(super) struct Clients {
    listener: Option<(Arc<OwnedFd>, WatchId)>,
    clients: Vec<Client>,
    timer: Option<TimerId>,
    /// Set while the listener is shut for a moment.
    pause: Option<TimerId>,
    counters: ClientCounters,
    /// Clients whose list is elsewhere, while one of them is answered.
    away: usize,
    /// What each is told first.
    greeting: &'static str,
    /// Who is let in; all without.
    only: Option<Arc<Only>>,
    /// How long each may stay.
    stay_ns: Option<i64>,
    /// Who came and went since somebody asked.
    news: Vec<String>,
}

/// Those who are let in.
#[derive(Debug)]
struct Only {
    peers: Peers,
    policy: Arc<ControlPolicy>,
}

/// What others are told.
const STRANGER: &[u8] = b"530 This port is for the user who started the router; -u FILE makes a socket with \
    an owner and a mode\r\n";

/// The most that is remembered of who came and went.
const MOST_NEWS: usize = 256;

impl Clients {
    pub(super) fn new(greeting: &'static str) -> Clients {
        Clients { greeting, ..Clients::default() }
    }

    /// Lets in only those whom a policy admits. Before a listener is there.
    ///
    /// # Errors
    /// When this machine does not tell who somebody is.
    pub(super) fn admit_only(&mut self, policy: Arc<ControlPolicy>) -> Result<(), String> {
        let peers = Peers::open().map_err(|_| {
            "this kernel does not tell who a client is (sock_diag, /proc/net/tcp): use a UNIX socket, or \
             SAME_USER false"
        })?;
        self.only = Some(Arc::new(Only { peers, policy }));
        Ok(())
    }

    /// Closes connections after so long, whatever they do.
    pub(super) fn stay_at_most(&mut self, ns: i64) {
        self.stay_ns = Some(ns);
    }

    /// Takes everything out, to be put back when a client was answered; what is known of
    /// them stays, for that client may ask.
    pub(super) fn take_out(&mut self) -> Clients {
        let known = Clients { counters: self.counters, away: self.clients.len(), ..Clients::default() };
        std::mem::replace(self, known)
    }

    /// Lets clients in at a listening socket.
    pub(super) fn open(&mut self, cx: &mut Cx<'_>, listener: Arc<OwnedFd>) {
        let watch = cx.watch(listener.clone(), Until::Readable);
        self.listener = Some((listener, watch));
        self.timer.get_or_insert_with(|| cx.new_timer());
    }

    /// Who came and went since the last time.
    pub(super) fn news(&mut self) -> Vec<String> {
        std::mem::take(&mut self.news)
    }

    fn note(&mut self, what: String) {
        if self.news.len() < MOST_NEWS {
            self.news.push(what);
        }
    }

    /// Tells all the same; those who fell `most` bytes behind are let go.
    pub(super) fn tell(&mut self, cx: &mut Cx<'_>, text: &[u8], most: usize) {
        let now = cx.now_ns();
        self.clients.retain_mut(|client| {
            client.output.extend_from_slice(text);
            client.send(now);
            let stays = !client.lost && client.output.len() <= most;
            match stays {
                true if client.output.is_empty() => cx.change_watch(client.watch, Until::Readable),
                true => cx.change_watch(client.watch, Until::Either),
                false => cx.unwatch(client.watch),
            }
            stays
        });
        self.look_again(cx);
    }

    /// What became of them, one number a line.
    pub(super) fn report(&self) -> String {
        let ClientCounters { accepted, displaced, timed_out, refused, strangers } = self.counters;
        let now = self.clients.len() + self.away;
        format!(
            "now {now}\nwelcomed {accepted}\ncrowded {displaced}\nstill {timed_out}\nnonsense {refused}\n\
             strangers {strangers}\n"
        )
    }

    pub(super) fn is_open(&self) -> bool {
        self.listener.is_some()
    }

    /// Lets nobody in any more.
    pub(super) fn shut(&mut self, cx: &mut Cx<'_>) {
        if let Some((_, watch)) = self.listener.take() {
            cx.unwatch(watch);
        }
    }

    /// Takes another's listener and clients; false when it had none.
    pub(super) fn take_over(&mut self, cx: &mut Cx<'_>, old: &mut Clients) -> bool {
        let Some((listener, _)) = old.listener.take() else { return false };
        self.open(cx, listener);
        for mut client in old.clients.drain(..) {
            client.watch = cx.watch(client.file.clone(), Until::Either);
            self.clients.push(client);
        }
        true
    }

    /// Something happened at the listener or with a client. `answer` takes a request off
    /// the front of its input; false when there is none in full.
    pub(super) fn ready(
        &mut self,
        cx: &mut Cx<'_>,
        watch: WatchId,
        mut answer: impl FnMut(&mut Client, &mut Cx<'_>) -> bool,
    ) {
        if self.listener.as_ref().is_some_and(|(_, listener)| *listener == watch) {
            return self.welcome(cx);
        }
        let Some(place) = self.clients.iter().position(|c| c.watch == watch) else { return };
        if cx.is_replaced() {
            return; // the next router answers
        }
        let now = cx.now_ns();
        let client = &mut self.clients[place];
        if client.is_heard() {
            client.receive(now);
        }
        let mut more = false;
        client.waits = false;
        for _ in 0..REQUESTS_A_TURN {
            more = !client.input.is_empty() && !client.ends && client.output.len() < MAX_UNREAD;
            if !more || cx.is_replaced() {
                break;
            }
            if !answer(client, cx) {
                (more, client.waits) = (false, true);
                break;
            }
            client.ends |= client.faults > MAX_FAULTS;
        }
        if cx.is_replaced() {
            return; // it is told when the new configuration is in force
        }
        client.send(now);
        if client.is_done() {
            self.counters.refused += u64::from(client.faults > 0 && client.ends);
            let number = client.file.as_raw_fd();
            cx.unwatch(watch);
            self.clients.swap_remove(place);
            return self.note(format!("closed connection {number}"));
        }
        // Who is not listened to is not waited for either, or we would find bytes of
        // theirs to be read for ever.
        let tells = more || !client.output.is_empty();
        let until = match (client.is_heard(), tells) {
            (true, false) => Until::Readable,
            (true, true) => Until::Either,
            (false, _) => Until::Writable,
        };
        cx.change_watch(watch, until);
        self.look_again(cx);
    }

    fn welcome(&mut self, cx: &mut Cx<'_>) {
        let Some((listener, watch)) = &self.listener else { return };
        let file = match rustix::net::accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Ok(file) => file,
            Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                // Whoever waits goes on waiting; without a pause we would ask for ever.
                cx.unwatch(*watch);
                let timer = *self.pause.get_or_insert_with(|| cx.new_timer());
                return cx.set_timer_after(timer, PAUSE_NS);
            }
            Err(_) => return, // it thought better of it
        };
        let peer: Option<SocketAddr> =
            rustix::net::getpeername(&file).ok().flatten().and_then(|peer| peer.try_into().ok());
        if !self.admits(&file, peer) {
            self.counters.strangers += 1;
            // A client that has just come has room for a line; one that is gone needs none.
            let _ = rustix::net::send(&file, STRANGER, SendFlags::NOSIGNAL);
            let from = peer.map_or(String::new(), |peer| format!(" from {}.{}", peer.ip(), peer.port()));
            return self.note(format!("refused connection{from}: another user's"));
        }
        self.counters.accepted += 1;
        if self.clients.len() >= MAX_CLIENTS {
            let quiet = (0..self.clients.len()).min_by_key(|&i| self.clients[i].moved_ns).unwrap_or(0);
            cx.unwatch(self.clients.swap_remove(quiet).watch);
            self.counters.displaced += 1;
        }
        let from = peer.map_or(String::new(), |peer| format!(" from {}.{}", peer.ip(), peer.port()));
        self.note(format!("opened connection {}{from}", file.as_raw_fd()));
        let file = Arc::new(file);
        let (now, watch) = (cx.now_ns(), cx.watch(file.clone(), Until::Readable));
        let mut client = Client {
            file,
            watch,
            input: vec![],
            looked: 0,
            output: self.greeting.as_bytes().to_vec(),
            closed: false,
            ends: false,
            faults: 0,
            lost: false,
            waits: false,
            moved_ns: now,
            came_ns: now,
        };
        client.send(now);
        self.clients.push(client);
        if self.stay_ns.is_some() {
            self.look_again(cx);
        }
    }

    /// Whether somebody is let in. Asked before anything is read of theirs.
    fn admits(&self, file: &OwnedFd, peer: Option<SocketAddr>) -> bool {
        let Some(only) = &self.only else { return true };
        let own: Option<SocketAddr> = rustix::net::getsockname(file).ok().and_then(|own| own.try_into().ok());
        only.policy.admits(peer.zip(own).and_then(|(peer, own)| only.peers.user(peer, own)))
    }

    /// Where time jumps nobody stands still.
    fn look_again(&self, cx: &mut Cx<'_>) {
        let Some(timer) = self.timer.filter(|_| !cx.time_jumps()) else { return };
        if cx.timer_due(timer).is_none() {
            cx.set_timer_after(timer, STALL_NS);
        }
    }

    /// The time has come to look who stands still; false when it is another timer's.
    pub(super) fn fire(&mut self, cx: &mut Cx<'_>, timer: TimerId) -> bool {
        if self.pause == Some(timer) {
            if let Some((listener, watch)) = &mut self.listener {
                *watch = cx.watch(listener.clone(), Until::Readable);
            }
            return true;
        }
        if self.timer != Some(timer) {
            return false;
        }
        let now = cx.now_ns();
        let (before, stay_ns) = (self.clients.len(), self.stay_ns);
        self.clients.retain(|client| {
            let stayed = stay_ns.is_some_and(|most| now - client.came_ns >= most);
            let stays = !client.is_stalled(now) && !stayed;
            if !stays {
                cx.unwatch(client.watch);
            }
            stays
        });
        self.counters.timed_out += (before - self.clients.len()) as u64;
        let amid = self.clients.iter().any(|c| !c.input.is_empty() || !c.output.is_empty());
        if amid || (stay_ns.is_some() && !self.clients.is_empty()) {
            cx.set_timer_after(timer, STALL_NS / 4);
        }
        true
    }

    /// The router ends.
    pub(super) fn close(&mut self, now: i64) {
        self.clients.iter_mut().for_each(|client| client.send(now));
        self.clients.clear();
        self.listener = None;
    }
}
