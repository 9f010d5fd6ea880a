//! vhost-user's messages as the front end needs them: numbers, a header of 12
//! bytes, fields in the machine's order (little endian here).
//!
//! QEMU 10.0, "Vhost-user Protocol", sections "Message Specification" and
//! "Front-end message types".

/// Bytes of a header: request, flags, size of the body.
pub const HEADER: usize = 12;
/// Most bytes of a body that either side of ours takes.
pub const MAX_BODY: usize = 4096;
/// Most memory regions in one message, one file descriptor each.
pub const MAX_FDS: usize = 8;

/// Bits of a message's header.
pub mod flags {
    /// The protocol's version, in bits 0 and 1.
    pub const VERSION: u32 = 1;
    /// Bits of the version.
    pub const VERSION_MASK: u32 = 3;
    /// The message is a reply.
    pub const REPLY: u32 = 1 << 2;
    /// The message wants to be acknowledged.
    pub const NEED_REPLY: u32 = 1 << 3;
}

/// The feature bit that says: there are protocol features.
pub const F_PROTOCOL_FEATURES: u64 = 1 << 30;

/// Features of the protocol, negotiated apart from those of virtio.
pub mod protocol {
    /// Several queues, counted by `GET_QUEUE_NUM`.
    pub const MQ: u64 = 1 << 0;
    /// Every message may be acknowledged.
    pub const REPLY_ACK: u64 = 1 << 3;
    /// The back end answers for the configuration space.
    pub const CONFIG: u64 = 1 << 9;
    /// The device can be reset.
    pub const RESET_DEVICE: u64 = 1 << 13;
    /// Memory is told of region by region.
    pub const CONFIGURE_MEM_SLOTS: u64 = 1 << 15;
    /// The back end is told of the device status.
    pub const STATUS: u64 = 1 << 16;
    /// What our front end makes use of.
    pub const WANTED: u64 = MQ | REPLY_ACK | CONFIG | RESET_DEVICE | CONFIGURE_MEM_SLOTS | STATUS;
}

/// In the body of a ring's eventfd message: no file descriptor comes along.
pub const NO_FD: u64 = 1 << 8;

macro_rules! requests {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $shown:literal;)*) => {
        /// Requests of the front end.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub enum Request { $($(#[$doc])* $name = $number,)* }

        impl Request {
            /// The request's name in the protocol.
            pub fn name(self) -> &'static str {
                match self { $(Request::$name => $shown,)* }
            }
        }
    };
}

requests! {
    /// Which virtio features there are.
    GetFeatures = 1, "GET_FEATURES";
    /// Which virtio features are used.
    SetFeatures = 2, "SET_FEATURES";
    /// Begins a session.
    SetOwner = 3, "SET_OWNER";
    /// All memory regions.
    SetMemTable = 5, "SET_MEM_TABLE";
    /// A ring's size.
    SetVringNum = 8, "SET_VRING_NUM";
    /// A ring's addresses in the front end.
    SetVringAddr = 9, "SET_VRING_ADDR";
    /// Where a ring begins.
    SetVringBase = 10, "SET_VRING_BASE";
    /// Stops a ring and asks how far it came.
    GetVringBase = 11, "GET_VRING_BASE";
    /// The eventfd that the driver kicks; starts the ring.
    SetVringKick = 12, "SET_VRING_KICK";
    /// The eventfd that the device calls.
    SetVringCall = 13, "SET_VRING_CALL";
    /// The eventfd by which the device tells of an error.
    SetVringErr = 14, "SET_VRING_ERR";
    /// Which protocol features there are.
    GetProtocolFeatures = 15, "GET_PROTOCOL_FEATURES";
    /// Which protocol features are used.
    SetProtocolFeatures = 16, "SET_PROTOCOL_FEATURES";
    /// How many queue pairs there are.
    GetQueueNum = 17, "GET_QUEUE_NUM";
    /// Lets a ring pass data, or no longer.
    SetVringEnable = 18, "SET_VRING_ENABLE";
    /// Bytes of the configuration space.
    GetConfig = 24, "GET_CONFIG";
    /// Resets the device.
    ResetDevice = 34, "RESET_DEVICE";
    /// How many memory regions the back end takes.
    GetMaxMemSlots = 36, "GET_MAX_MEM_SLOTS";
    /// One more memory region.
    AddMemReg = 37, "ADD_MEM_REG";
    /// One memory region less.
    RemMemReg = 38, "REM_MEM_REG";
    /// The device status.
    SetStatus = 39, "SET_STATUS";
    /// Asks for the device status.
    GetStatus = 40, "GET_STATUS";
}

/// A header, as it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The request's number.
    pub request: u32,
    /// The header's bits, see [`flags`].
    pub flags: u32,
    /// Bytes that follow.
    pub size: u32,
}

impl Header {
    /// Reads a header.
    pub fn decode(bytes: &[u8; HEADER]) -> Header {
        let (fields, _) = bytes.as_chunks::<4>();
        let field = |n: usize| u32::from_le_bytes(fields[n]);
        Header { request: field(0), flags: field(1), size: field(2) }
    }

    /// Whether this is the reply to `request`, in our version.
    pub fn answers(&self, request: Request) -> bool {
        self.request == request as u32
            && self.flags & flags::REPLY != 0
            && self.flags & flags::VERSION_MASK == flags::VERSION
    }
}

/// A message being written: header first, then fields in order.
#[derive(Clone, Debug)]
pub struct Message(Vec<u8>);

impl Message {
    /// Begins a request.
    pub fn new(request: Request) -> Message {
        Message(Vec::with_capacity(64)).u32(request as u32).u32(flags::VERSION).u32(0)
    }

    /// Appends a field of 32 bits.
    pub fn u32(mut self, value: u32) -> Message {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Appends a field of 64 bits.
    pub fn u64(mut self, value: u64) -> Message {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Appends bytes as they are.
    pub fn bytes(mut self, bytes: &[u8]) -> Message {
        self.0.extend_from_slice(bytes);
        self
    }

    /// The whole message; `acknowledged` asks for an acknowledgement.
    pub fn finish(mut self, acknowledged: bool) -> Vec<u8> {
        let flags = flags::VERSION | if acknowledged { flags::NEED_REPLY } else { 0 };
        let size = (self.0.len() - HEADER) as u32;
        self.0[4..8].copy_from_slice(&flags.to_le_bytes());
        self.0[8..12].copy_from_slice(&size.to_le_bytes());
        self.0
    }
}
