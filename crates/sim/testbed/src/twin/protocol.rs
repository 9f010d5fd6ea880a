//! What the messages of a protocol are made of: a table for each protocol, from which
//! every mutation of a message is made.

/// Who says something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// The one that has the driver: vfio-user's client, vhost-user's front end.
    Client,
    /// The one that has the device: vfio-user's server, vhost-user's back end.
    Server,
}

impl Side {
    /// Both sides of a connection.
    pub const ALL: [Side; 2] = [Side::Client, Side::Server];

    /// Who is spoken to.
    pub fn peer(self) -> Side {
        match self {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        }
    }
}

/// What a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// It asks for something.
    Request,
    /// It answers a request.
    Reply,
}

impl Role {
    /// Both roles that a message can have.
    pub const ALL: [Role; 2] = [Role::Request, Role::Reply];
}

/// Bytes of a message that mean something, little endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name in the specification.
    pub name: &'static str,
    /// Where it begins: in the header, or for fields of a body, behind the header.
    pub at: usize,
    /// Bytes it has, at most 8.
    pub len: usize,
    /// What it holds in a message that nobody sent.
    pub sample: u64,
}

/// A field of `len` bytes at `at`.
pub(super) const fn field(name: &'static str, at: usize, len: usize, sample: u64) -> Field {
    Field { name, at, len, sample }
}

/// One of a protocol's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageType {
    /// The number by which headers name it.
    pub number: u32,
    /// The specification's name.
    pub name: &'static str,
    /// The request's body.
    pub request: &'static [Field],
    /// The reply's body.
    pub reply: &'static [Field],
}

/// What the begin of a message tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The type's number.
    pub number: u32,
    /// Request or reply.
    pub role: Role,
    /// Whether the sender of a request waits for a reply.
    pub wants_reply: bool,
    /// Bytes of the whole message.
    pub len: usize,
}

/// A protocol, as far as mutations need it.
#[derive(Clone, Copy, Debug)]
pub struct Protocol {
    /// The name by which tests and messages call it.
    pub name: &'static str,
    /// Fields of every message's header.
    pub header: &'static [Field],
    /// Bytes of a header.
    pub header_len: usize,
    /// Every message that the specification has.
    pub types: &'static [MessageType],
    /// Reads a header.
    pub(super) head: fn(&[u8]) -> Head,
    /// Header of a message with that number, its length not yet told.
    pub(super) begin: fn(u32, Role) -> Vec<u8>,
    /// Tells in the header how long the message is.
    pub(super) set_len: fn(&mut [u8]),
    /// Makes a refusal of a reply.
    pub(super) refuse: fn(&mut Vec<u8>),
}

impl Protocol {
    /// The message with that number.
    pub fn message(&self, number: u32) -> Option<&'static MessageType> {
        self.types.iter().find(|message| message.number == number)
    }

    /// Name, place in the message and length of each of its fields.
    pub fn fields(&self, message: &MessageType, role: Role) -> impl Iterator<Item = Field> + use<> {
        let body = match role {
            Role::Request => message.request,
            Role::Reply => message.reply,
        };
        let header_len = self.header_len;
        let body = body.iter().map(move |field| Field { at: header_len + field.at, ..*field });
        self.header.iter().copied().chain(body)
    }

    /// A message as the table describes it, which nobody asked for.
    pub fn sample(&self, message: &MessageType, role: Role) -> Vec<u8> {
        let mut bytes = (self.begin)(message.number, role);
        for field in self.fields(message, role).skip(self.header.len()) {
            let end = field.at + field.len;
            bytes.resize(bytes.len().max(end), 0);
            bytes[field.at..end].copy_from_slice(&field.sample.to_le_bytes()[..field.len]);
        }
        (self.set_len)(&mut bytes);
        bytes
    }

    /// Sets the field with that number in the table, if the message has it.
    pub(super) fn set(&self, bytes: &mut [u8], message: &MessageType, role: Role, field: u8, value: u64) {
        let fields = self.fields(message, role).count();
        let Some(Field { at, len, .. }) = self.fields(message, role).nth(usize::from(field) % fields) else {
            return;
        };
        if let Some(place) = bytes.get_mut(at..at + len) {
            place.copy_from_slice(&value.to_le_bytes()[..len]);
        }
    }
}
