//! The mutations of one message: each field another value, the message itself refused, late,
//! missing, doubled or cut, and other files than those that belong to it.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, Mode, OFlags, ftruncate, memfd_create, open};
use rustix::pipe::{PipeFlags, pipe_with};

use super::protocol::{Field, MessageType, Protocol, Role};
use super::socket::Message;

/// Another value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    /// All bits clear.
    Zero,
    /// All bits set.
    Max,
    /// One less than the value was, modulo the field's size.
    Less,
    /// One more than the value was, modulo the field's size.
    More,
    /// A page more.
    Page,
    /// The highest bit is another.
    High,
    /// One bit is another.
    Flipped(u8),
    /// This very number; none of [`all`](Self::all).
    Is(u64),
}

impl Value {
    /// All, and one bit of those that flags mostly have.
    pub fn all(bit: u8) -> [Value; 7] {
        let flipped = Value::Flipped(bit);
        [Value::Zero, Value::Max, Value::Less, Value::More, Value::Page, Value::High, flipped]
    }

    /// What `value` of `bits` becomes.
    pub(super) fn of(self, value: u64, bits: usize) -> u64 {
        match self {
            Value::Zero => 0,
            Value::Max => u64::MAX,
            Value::Less => value.wrapping_sub(1),
            Value::More => value.wrapping_add(1),
            Value::Page => value.wrapping_add(4096),
            Value::High => value ^ 1 << (bits - 1),
            Value::Is(other) => other,
            Value::Flipped(bit) => value ^ 1 << (usize::from(bit) % bits),
        }
    }
}

/// Other file descriptors than those that belong to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileMutation {
    /// No file comes with the message.
    None,
    /// One file more than belongs to the message.
    More,
    /// As many as one message can carry.
    Many,
    /// The end of a pipe.
    Pipe,
    /// An end of a pair of sockets.
    Socket,
    /// A device that is endless.
    Device,
    /// A directory that is open.
    Directory,
    /// A file without a byte.
    Empty,
    /// A page, whatever was promised.
    Short,
    /// A file that can only be read.
    ReadOnly,
    /// An eventfd at which every write blocks.
    Full,
    /// A file that loses all its pages later.
    Shrunk,
}

impl FileMutation {
    /// All mutations of files.
    pub const ALL: [FileMutation; 12] = [
        FileMutation::None,
        FileMutation::More,
        FileMutation::Many,
        FileMutation::Pipe,
        FileMutation::Socket,
        FileMutation::Device,
        FileMutation::Directory,
        FileMutation::Empty,
        FileMutation::Short,
        FileMutation::ReadOnly,
        FileMutation::Full,
        FileMutation::Shrunk,
    ];
}

/// A mutation of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mutation {
    /// Nothing is changed: it is sent though nobody asked for it.
    Unsolicited,
    /// A field, by its number in the table, has another value.
    Field(u8, Value),
    /// A reply is a refusal; a request is answered by one, and never arrives.
    Refused,
    /// It never comes.
    Silent,
    /// It comes when nobody waits for it any more.
    Late,
    /// It comes twice.
    Twice,
    /// Half of it comes, then the end of the connection.
    Cut,
    /// Half of it comes, then nothing.
    Stalled,
    /// The connection ends instead.
    HangUp,
    /// It has no body, and says so.
    Bare,
    /// Its last byte is missing, and it says so.
    Shorter,
    /// It has some bytes too many, and says so.
    Longer,
    /// It comes byte by byte, which changes nothing.
    Pieces,
    /// Bytes that are no message come before it.
    Garbage,
    /// Other files come with it.
    Files(FileMutation),
}

/// The mutations that change more than a field.
const WHOLE: [Mutation; 13] = [
    Mutation::Refused,
    Mutation::Silent,
    Mutation::Late,
    Mutation::Twice,
    Mutation::Cut,
    Mutation::Stalled,
    Mutation::HangUp,
    Mutation::Bare,
    Mutation::Shorter,
    Mutation::Longer,
    Mutation::Pieces,
    Mutation::Garbage,
    Mutation::Unsolicited,
];

/// Every mutation of a message.
pub fn mutations(protocol: &Protocol, message: &MessageType, role: Role) -> Vec<Mutation> {
    let fields = protocol.fields(message, role).count() as u8;
    let fields = (0..fields).flat_map(|field| {
        let bit = (message.number as u8).wrapping_add(field) % 6;
        Value::all(bit).map(|value| Mutation::Field(field, value))
    });
    fields.chain(WHOLE).chain(FileMutation::ALL.map(Mutation::Files)).collect()
}

/// What is to be done so that a message is mutated.
#[derive(Debug)]
pub(super) enum Step {
    /// To the one who was to get the message.
    Send(Message),
    /// To the one who sent it.
    Answer(Message),
    /// Nobody waits for it any more when this is over.
    Wait,
    /// Nothing passes any more, either way.
    IgnoreAll,
    /// The connection ends.
    End,
    /// This file loses its pages with the next message.
    Doom(OwnedFd),
}

impl Mutation {
    /// What comes of `message`, which has the type `kind`.
    pub(super) fn told(
        self,
        protocol: &Protocol,
        kind: &MessageType,
        role: Role,
        mut message: Message,
    ) -> io::Result<Vec<Step>> {
        let half = message.bytes.len() / 2;
        Ok(match self {
            Mutation::Unsolicited => vec![Step::Send(message)],
            Mutation::Field(index, value) => {
                if let Some(field) = protocol.fields(kind, role).nth(index.into()) {
                    change(&mut message.bytes, field, value);
                }
                vec![Step::Send(message)]
            }
            Mutation::Refused => {
                (protocol.refuse)(&mut message.bytes);
                message.files.clear();
                let answers = role == Role::Reply;
                vec![if answers { Step::Send(message) } else { Step::Answer(message) }]
            }
            Mutation::Silent => Vec::new(),
            Mutation::Late => vec![Step::Wait, Step::Send(message)],
            Mutation::Twice => vec![Step::Send(message.try_clone()?), Step::Send(message)],
            Mutation::Cut | Mutation::Stalled => {
                message.bytes.truncate(half);
                vec![Step::Send(message), if self == Mutation::Cut { Step::End } else { Step::IgnoreAll }]
            }
            Mutation::HangUp => vec![Step::End],
            Mutation::Bare => vec![Step::Send(resized(protocol, message, |_| protocol.header_len))],
            Mutation::Shorter => vec![Step::Send(resized(protocol, message, |len| len - 1))],
            Mutation::Longer => vec![Step::Send(resized(protocol, message, |len| len + 24))],
            Mutation::Pieces => {
                let mut files = std::mem::take(&mut message.files);
                let piece = |&byte| Message { bytes: vec![byte], files: std::mem::take(&mut files) };
                message.bytes.iter().map(piece).map(Step::Send).collect()
            }
            Mutation::Garbage => {
                let garbage = Message { bytes: vec![0xA5; 40], files: Vec::new() };
                vec![Step::Send(garbage), Step::Send(message)]
            }
            Mutation::Files(mutation) => mutation.told(message)?,
        })
    }
}

impl FileMutation {
    fn told(self, mut message: Message) -> io::Result<Vec<Step>> {
        let len = message.file_len();
        let memfd = |len: u64| {
            // Sealed against seals, as files are that nobody prepares.
            let file = memfd_create("twin", MemfdFlags::CLOEXEC)?;
            ftruncate(&file, len).map(|()| file)
        };
        let file = match self {
            FileMutation::None => {
                message.files.clear();
                return Ok(vec![Step::Send(message)]);
            }
            FileMutation::More | FileMutation::Many => {
                let count = if self == FileMutation::More { message.files.len() + 1 } else { 200 };
                message.files = (0..count).map(|_| memfd(len)).collect::<Result<_, _>>()?;
                return Ok(vec![Step::Send(message)]);
            }
            FileMutation::Pipe => pipe_with(PipeFlags::CLOEXEC)?.1,
            FileMutation::Socket => UnixStream::pair()?.0.into(),
            FileMutation::Device => open("/dev/zero", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?,
            FileMutation::Directory => open("/", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?,
            FileMutation::Empty => memfd(0)?,
            FileMutation::Short => memfd(4096)?,
            FileMutation::ReadOnly => {
                open("/proc/self/exe", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?
            }
            FileMutation::Full => {
                let event = eventfd(0, EventfdFlags::CLOEXEC)?;
                rustix::io::write(&event, &(u64::MAX - 1).to_ne_bytes())?;
                event
            }
            FileMutation::Shrunk => {
                let file = memfd(len)?;
                let doomed = file.try_clone()?;
                message.files = vec![file];
                return Ok(vec![Step::Send(message), Step::Doom(doomed)]);
            }
        };
        message.files = vec![file];
        Ok(vec![Step::Send(message)])
    }
}

/// Another value in a field, if the message has it.
fn change(bytes: &mut [u8], field: Field, value: Value) {
    let Some(place) = bytes.get_mut(field.at..field.at + field.len) else { return };
    let mut word = [0; 8];
    word[..field.len].copy_from_slice(place);
    let word = value.of(u64::from_le_bytes(word), 8 * field.len);
    place.copy_from_slice(&word.to_le_bytes()[..field.len]);
}

/// The message with another length, which its header tells.
fn resized(protocol: &Protocol, mut message: Message, len: impl Fn(usize) -> usize) -> Message {
    let len = len(message.bytes.len()).max(protocol.header_len);
    message.bytes.resize(len, 0xA5);
    (protocol.set_len)(&mut message.bytes);
    message
}
