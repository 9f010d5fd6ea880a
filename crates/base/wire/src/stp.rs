//! Bridge protocol data units of the spanning tree protocol (IEEE 802.1D-1998, 9.3), in frames of
//! Ethernet with LLC (802.2). Those of the rapid protocol are not read.

use std::borrow::{Borrow, BorrowMut};

use crate::MacAddress;

/// Bytes of a frame with its padding.
pub const FRAME_LEN: usize = 60;
/// Bytes of a frame up to the message's type, with which one that tells of a change ends.
const TYPE_END: usize = 21;
/// Bytes of a frame up to a configuration message's end.
const CONFIGURATION_LEN: usize = 52;
/// The group that all bridges are in.
pub const BRIDGE_GROUP: MacAddress = MacAddress([0x01, 0x80, 0xC2, 0, 0, 0]);

/// LLC's service access points of the protocol, and that what follows is unnumbered information;
/// then the protocol's identifier and version.
const START: [u8; 6] = [0x42, 0x42, 0x03, 0, 0, 0];
/// Types of messages.
const CONFIGURATION: u8 = 0;
const TOPOLOGY_CHANGE: u8 = 0x80;
/// Flags of a configuration message.
const CHANGED: u8 = 0x01;
const ACKNOWLEDGED: u8 = 0x80;

/// Where the fields are, in bytes from the start of the frame.
mod offset {
    pub(super) const DST: usize = 0;
    pub(super) const SRC: usize = 6;
    pub(super) const LENGTH: usize = 12;
    pub(super) const START: usize = 14;
    pub(super) const TYPE: usize = 20;
    pub(super) const FLAGS: usize = 21;
    pub(super) const ROOT: usize = 22;
    pub(super) const COST: usize = 30;
    pub(super) const BRIDGE: usize = 34;
    pub(super) const PORT: usize = 42;
    pub(super) const AGE: usize = 44;
    pub(super) const MAX_AGE: usize = 46;
    pub(super) const HELLO_TIME: usize = 48;
    pub(super) const FORWARD_DELAY: usize = 50;
}

/// Bytes that the length field counts: LLC and the message.
const LENGTHS: [u16; 2] = [38, 7];

/// Times are in parts of a second.
pub const SECOND: u16 = 256;

/// The identifier of a bridge: of two the lower is better.
pub fn bridge_id(priority: u16, address: MacAddress) -> u64 {
    let [a, b, c, d, e, f] = address.0;
    let [high, low] = priority.to_be_bytes();
    u64::from_be_bytes([high, low, a, b, c, d, e, f])
}

/// What a bridge says of the root, and of itself. The better of two is less (8.6.2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Priority {
    /// The root's identifier.
    pub root: u64,
    /// What the way to the root costs.
    pub cost: u32,
    /// The identifier of who says so.
    pub bridge: u64,
    /// The number of its port.
    pub port: u16,
}

/// Times that the root sets, in parts of a second ([`SECOND`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// How old a message may get.
    pub max_age: u16,
    /// Time between messages of the root.
    pub hello: u16,
    /// How long a port listens, and then learns, before it forwards.
    pub forward_delay: u16,
}

/// A configuration message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Configuration {
    /// What is said.
    pub priority: Priority,
    /// How long ago the root said it, in parts of a second.
    pub age: u16,
    /// The root's times.
    pub times: Times,
    /// The tree has changed.
    pub changed: bool,
    /// Who told of a change is heard.
    pub acknowledged: bool,
}

/// A message of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// What a bridge knows of the tree.
    Configuration(Configuration),
    /// A bridge further from the root says that the tree has changed.
    TopologyChange,
}

header! {
    /// The frame up to the message's type.
    Start[TYPE_END]
}

impl<T: Borrow<[u8; TYPE_END]>> Start<T> {
    /// The type of a message of the protocol.
    fn message_type(&self) -> Option<u8> {
        let is_ours = self.get::<{ offset::START }, [u8; 6]>() == START;
        is_ours.then(|| self.get::<{ offset::TYPE }, u8>())
    }
}

header! {
    /// The frame up to a configuration message's end.
    Frame[CONFIGURATION_LEN]
}

impl<T: Borrow<[u8; CONFIGURATION_LEN]>> Frame<T> {
    fn wide<const AT: usize>(&self) -> u64 {
        u64::from_be_bytes(self.get::<AT, _>())
    }

    fn configuration(&self) -> Configuration {
        let flags = self.get::<{ offset::FLAGS }, u8>();
        Configuration {
            priority: Priority {
                root: self.wide::<{ offset::ROOT }>(),
                cost: self.get::<{ offset::COST }, _>(),
                bridge: self.wide::<{ offset::BRIDGE }>(),
                port: self.get::<{ offset::PORT }, _>(),
            },
            age: self.get::<{ offset::AGE }, _>(),
            times: Times {
                max_age: self.get::<{ offset::MAX_AGE }, _>(),
                hello: self.get::<{ offset::HELLO_TIME }, _>(),
                forward_delay: self.get::<{ offset::FORWARD_DELAY }, _>(),
            },
            changed: flags & CHANGED != 0,
            acknowledged: flags & ACKNOWLEDGED != 0,
        }
    }
}

impl<T: BorrowMut<[u8; CONFIGURATION_LEN]>> Frame<T> {
    fn fill(&mut self, src: MacAddress, message: &Message) {
        self.set::<{ offset::DST }, _>(BRIDGE_GROUP);
        self.set::<{ offset::SRC }, _>(src);
        self.set::<{ offset::START }, _>(START);
        let Message::Configuration(configuration) = message else {
            self.set::<{ offset::LENGTH }, _>(LENGTHS[1]);
            return self.set::<{ offset::TYPE }, _>(TOPOLOGY_CHANGE);
        };
        let Configuration { priority, age, times, changed, acknowledged } = configuration;
        self.set::<{ offset::LENGTH }, _>(LENGTHS[0]);
        self.set::<{ offset::TYPE }, _>(CONFIGURATION);
        let flags = if *changed { CHANGED } else { 0 } | if *acknowledged { ACKNOWLEDGED } else { 0 };
        self.set::<{ offset::FLAGS }, _>(flags);
        self.set::<{ offset::ROOT }, _>(priority.root.to_be_bytes());
        self.set::<{ offset::COST }, _>(priority.cost);
        self.set::<{ offset::BRIDGE }, _>(priority.bridge.to_be_bytes());
        self.set::<{ offset::PORT }, _>(priority.port);
        self.set::<{ offset::AGE }, _>(*age);
        self.set::<{ offset::MAX_AGE }, _>(times.max_age);
        self.set::<{ offset::HELLO_TIME }, _>(times.hello);
        self.set::<{ offset::FORWARD_DELAY }, _>(times.forward_delay);
    }
}

/// The message in a frame; `None` if it has none, or ends within it. One that tells of a change may lack
/// its padding, as Linux sends it where no wire asks for it.
pub fn read(frame: &[u8]) -> Option<Message> {
    match Start::of(frame)?.message_type()? {
        TOPOLOGY_CHANGE => Some(Message::TopologyChange),
        CONFIGURATION => Some(Message::Configuration(Frame::of(frame)?.configuration())),
        _ => None,
    }
}

/// A frame with a message, of the bridge with this address.
pub fn frame(src: MacAddress, message: &Message) -> [u8; FRAME_LEN] {
    let mut bytes = [0; FRAME_LEN];
    if let Some(mut frame) = Frame::of_mut(&mut bytes) {
        frame.fill(src, message);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The root is 8000-00:01:02:03:04:05, at cost 4.
    const FRAME: &str = "0180c2000000000102030406 0026 424203 0000 00 00 01 8000000102030405 00000004 \
                         9000000102030406 8003 0100 1400 0200 0f00 0000000000000000";

    fn bytes() -> Vec<u8> {
        let digits: String = FRAME.split_whitespace().collect();
        let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("two digits");
        (0..digits.len()).step_by(2).map(byte).collect()
    }

    #[test]
    fn messages_are_written_as_they_are_read() {
        let src = MacAddress([0, 1, 2, 3, 4, 6]);
        let expected = Configuration {
            priority: Priority {
                root: 0x8000_0001_0203_0405,
                cost: 4,
                bridge: bridge_id(0x9000, src),
                port: 0x8003,
            },
            age: SECOND,
            times: Times { max_age: 20 * SECOND, hello: 2 * SECOND, forward_delay: 15 * SECOND },
            changed: true,
            acknowledged: false,
        };
        let message = Message::Configuration(expected);
        assert_eq!((read(&bytes()), &frame(src, &message)[..]), (Some(message), &bytes()[..]));
        let message =
            Message::Configuration(Configuration { changed: false, acknowledged: true, ..expected });
        assert_eq!((read(&frame(src, &message)), frame(src, &message)[21]), (Some(message), 0x80));
        let change = frame(src, &Message::TopologyChange);
        assert_eq!(
            (read(&change), &change[12..22]),
            (Some(Message::TopologyChange), &[0, 7, 0x42, 0x42, 3, 0, 0, 0, 0x80, 0][..])
        );
    }

    #[test]
    fn what_tells_of_a_change_needs_no_padding() {
        let change = frame(MacAddress([2; 6]), &Message::TopologyChange);
        assert_eq!((read(&change[..21]), read(&change[..20])), (Some(Message::TopologyChange), None));
    }

    #[test]
    fn what_is_no_message_is_not_read() {
        for at in [14, 15, 16, 17, 19, 20] {
            let mut other = bytes();
            other[at] ^= 2;
            assert_eq!(read(&other), None, "{at}");
        }
        assert_eq!((read(&bytes()[..51]), read(&bytes()[..52]).is_some()), (None, true));
    }
}
