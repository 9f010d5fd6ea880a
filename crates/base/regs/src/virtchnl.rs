//! virtchnl 1.1, what a virtual function and its physical one tell each other through the
//! mailbox (Intel's Adaptive Virtual Function specification, document 331954, chapter 6; Linux's
//! `include/linux/avf/virtchnl.h`): opcodes, statuses, what can be negotiated. The bytes of
//! messages are in [`message`]. All numbers are little endian.

pub mod message;

/// The version: major, minor.
pub const VERSION: (u32, u32) = (1, 1);

macro_rules! opcodes {
    ($($name:ident = $value:literal, $what:literal;)*) => {
        /// Kinds of messages, in the lower half of the cookie of a mailbox's descriptor.
        pub mod op {
            $(
                #[doc = $what]
                pub const $name: u32 = $value;
            )*

            /// Every kind here, with its name.
            pub const TABLE: &[(u32, &str)] = &[$(($name, stringify!($name))),*];
        }
    };
}

opcodes! {
    VERSION = 1, "Which version either side speaks.";
    RESET_VF = 2, "The virtual function asks to be reset; nobody answers.";
    GET_VF_RESOURCES = 3, "What the virtual function has, and what it may.";
    CONFIG_VSI_QUEUES = 6, "Where rings are, and how long.";
    CONFIG_IRQ_MAP = 7, "Which queues have which vector.";
    ENABLE_QUEUES = 8, "Starts queues.";
    DISABLE_QUEUES = 9, "Stops queues.";
    ADD_ETH_ADDR = 10, "Receives frames to some addresses.";
    DEL_ETH_ADDR = 11, "Receives none to them any more.";
    ADD_VLAN = 12, "Receives frames of some VLANs.";
    DEL_VLAN = 13, "Receives none of them any more.";
    CONFIG_PROMISCUOUS_MODE = 14, "Which frames are received without a filter.";
    GET_STATS = 15, "Counters of the VSI.";
    EVENT = 17, "The physical function tells of a change, unsolicited.";
    CONFIG_RSS_KEY = 23, "The key of the hash.";
    CONFIG_RSS_LUT = 24, "The table of the hash.";
    GET_RSS_HENA_CAPS = 25, "Which packet classes can be hashed.";
    SET_RSS_HENA = 26, "Which packet classes are hashed.";
    ENABLE_VLAN_STRIPPING = 27, "Tags are taken out of received frames.";
    DISABLE_VLAN_STRIPPING = 28, "Tags stay in received frames.";
}

/// The name of a message's kind; `unknown` for one that is not here.
pub fn name(opcode: u32) -> &'static str {
    op::TABLE.iter().find(|(value, _)| *value == opcode).map_or("unknown", |(_, name)| name)
}

/// Statuses by name, in the upper half of the cookie of an answer.
pub mod status {
    /// It was done.
    pub const SUCCESS: i32 = 0;
    /// An argument makes no sense, or is not for this virtual function.
    pub const ERR_PARAM: i32 = -5;
    /// There is no room.
    pub const ERR_NO_MEMORY: i32 = -18;
    /// The message's length does not fit its kind.
    pub const ERR_OPCODE_MISMATCH: i32 = -38;
    /// There is no such virtual function.
    pub const ERR_INVALID_VF_ID: i32 = -40;
    /// The physical function's firmware refused what was asked for.
    pub const ERR_ADMIN_QUEUE_ERROR: i32 = -53;
    /// The physical function has no such thing, or did not offer it.
    pub const ERR_NOT_SUPPORTED: i32 = -64;

    /// Value, name, meaning.
    pub const TABLE: &[(i32, &str, &str)] = &[
        (SUCCESS, "SUCCESS", "done"),
        (ERR_PARAM, "ERR_PARAM", "an argument was refused"),
        (ERR_NO_MEMORY, "ERR_NO_MEMORY", "there is no room"),
        (ERR_OPCODE_MISMATCH, "ERR_OPCODE_MISMATCH", "the message has a wrong length"),
        (ERR_INVALID_VF_ID, "ERR_INVALID_VF_ID", "there is no such virtual function"),
        (ERR_ADMIN_QUEUE_ERROR, "ERR_ADMIN_QUEUE_ERROR", "the firmware refused it"),
        (ERR_NOT_SUPPORTED, "ERR_NOT_SUPPORTED", "it was not offered"),
    ];
}

/// What both sides agree on in [`op::GET_VF_RESOURCES`].
pub mod capability {
    /// Queues, checksums, segmentation: what every virtual function has.
    pub const L2: u32 = 1 << 0;
    /// Descriptors are written back by the vector's time, too.
    pub const WB_ON_ITR: u32 = 1 << 5;
    /// Filters of VLANs, and tags that are stripped.
    pub const VLAN: u32 = 1 << 16;
    /// Packets of UDP and TCP are in more classes than an XL710 has: the X722's.
    pub const RSS_PCTYPE_V2: u32 = 1 << 18;
    /// The hash is set up by messages.
    pub const RSS_PF: u32 = 1 << 19;
}

/// The kind of a VSI that a virtual function has.
pub const VSI_SRIOV: u32 = 6;

/// Bits of [`op::CONFIG_PROMISCUOUS_MODE`].
pub mod promiscuous {
    /// All unicast frames.
    pub const UNICAST: u16 = 1;
    /// All multicast frames.
    pub const MULTICAST: u16 = 2;
}

/// What an event is about.
pub mod event {
    /// The link has changed.
    pub const LINK_CHANGE: u32 = 1;
    /// The virtual function is about to be reset.
    pub const RESET_IMPENDING: u32 = 2;
    /// The driver of the physical function goes.
    pub const PF_DRIVER_CLOSE: u32 = 3;
    /// Nothing is lost by it.
    pub const SEVERITY_INFO: i32 = 0;
    /// All that was set up is lost.
    pub const SEVERITY_CERTAIN: i32 = 255;
}

/// Speeds of a link: value, Mbit/s. The first and the last are later than the others: a driver may
/// not know them.
pub const SPEEDS: &[(u32, u32)] = &[
    (1 << 0, 2_500),
    (1 << 1, 100),
    (1 << 2, 1_000),
    (1 << 3, 10_000),
    (1 << 4, 40_000),
    (1 << 5, 20_000),
    (1 << 6, 25_000),
    (1 << 7, 5_000),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_speed_that_a_port_may_have_can_be_told() {
        // The bits of the firmware are those of messages.
        let of_port = crate::i40e::admin::link::SPEEDS.map(|(bit, mbps)| (u32::from(bit), mbps));
        assert_eq!(SPEEDS, of_port);
    }
}
