//! A conversation of honest peers, taken down once and said again with mutations in it: all that
//! one side says, at once, so that the other is driven without a thread.

use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, poll};

use super::mutation::{Step, mutations};
use super::protocol::{Head, Protocol, Role, Side};
use super::socket::{Message, receive, send};

/// A change of what is said.
#[derive(Clone, Copy, Debug)]
pub enum Edit {
    /// A field of a message holds this.
    Field {
        /// The message's number in the conversation.
        at: u8,
        /// Which of its fields.
        field: u8,
        /// What it holds.
        value: u64,
    },
    /// A mutation of a message.
    Mutation {
        /// The message's number in the conversation.
        at: u8,
        /// Which of its mutations.
        mutation: u8,
    },
    /// A message that nobody asked for comes before one.
    Unsolicited {
        /// Before which message.
        at: u8,
        /// Which of the protocol's messages.
        kind: u8,
        /// A reply, not a request.
        reply: bool,
        /// Which of its fields holds something else.
        field: u8,
        /// What it holds.
        value: u64,
    },
}

/// What two honest peers said.
#[derive(Debug)]
pub struct Conversation {
    protocol: &'static Protocol,
    said: Vec<(Side, Head, Message)>,
}

impl Conversation {
    /// Takes down what passes between the peers at the other ends of `client` and `server`
    /// until one hangs up.
    ///
    /// # Errors
    /// What reading and writing say.
    pub fn between(
        protocol: &'static Protocol,
        mut client: UnixStream,
        mut server: UnixStream,
    ) -> io::Result<Conversation> {
        let mut said = Vec::new();
        loop {
            let mut fds = [&client, &server].map(|stream| PollFd::new(stream, PollFlags::IN));
            poll(&mut fds, None)?;
            let is_server = !fds[1].revents().is_empty();
            let (from, to, side) = match is_server {
                true => (&mut server, &client, Side::Server),
                false => (&mut client, &server, Side::Client),
            };
            let Some((head, message)) = receive(from, protocol)? else { break };
            send(to, &message)?;
            said.push((side, head, message));
        }
        client.shutdown(Shutdown::Both)?;
        server.shutdown(Shutdown::Both)?;
        Ok(Conversation { protocol, said })
    }

    /// Says to `stream` all that `side` said, with these changes, and nothing after it.
    ///
    /// # Errors
    /// What writing says: the peer does not read.
    pub fn say(&self, side: Side, stream: &UnixStream, edits: &[Edit]) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        let mine = self.said.iter().filter(|(from, ..)| *from == side);
        for (n, (_, head, message)) in mine.enumerate() {
            if !self.say_one(stream, n, head, message.try_clone()?, edits)? {
                break;
            }
        }
        stream.shutdown(Shutdown::Write)
    }

    /// Says one message; whether it goes on.
    fn say_one(
        &self,
        stream: &UnixStream,
        n: usize,
        head: &Head,
        mut message: Message,
        edits: &[Edit],
    ) -> io::Result<bool> {
        let protocol = self.protocol;
        let Some(kind) = protocol.message(head.number) else { return Ok(true) };
        let mut told = None;
        for edit in edits {
            match *edit {
                Edit::Field { at, field, value } if usize::from(at) == n => {
                    protocol.set(&mut message.bytes, kind, head.role, field, value);
                }
                Edit::Mutation { at, mutation } if usize::from(at) == n => {
                    let mutations = mutations(protocol, kind, head.role);
                    told = Some(mutations[usize::from(mutation) % mutations.len()]);
                }
                Edit::Unsolicited { at, kind, reply, field, value } if usize::from(at) == n => {
                    let role = if reply { Role::Reply } else { Role::Request };
                    let kind = &protocol.types[usize::from(kind) % protocol.types.len()];
                    let mut bytes = protocol.sample(kind, role);
                    protocol.set(&mut bytes, kind, role, field, value);
                    send(stream, &Message { bytes, files: Vec::new() })?;
                }
                _ => {}
            }
        }
        let Some(mutation) = told else { return send(stream, &message).map(|()| true) };
        for step in mutation.told(protocol, kind, head.role, message)? {
            match step {
                Step::Send(message) => send(stream, &message)?,
                Step::End | Step::IgnoreAll => return Ok(false),
                Step::Answer(_) | Step::Wait | Step::Doom(_) => {}
            }
        }
        Ok(true)
    }
}
