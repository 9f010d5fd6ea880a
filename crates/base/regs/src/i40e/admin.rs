//! The admin queue (datasheet chapter 7): descriptors of 32 bytes with commands to the
//! firmware and its events, their opcodes and errors, and the bytes of the buffers that
//! some of them have.

pub mod element;
pub mod profile;
pub mod vsi;

/// Bytes of a descriptor.
pub const DESCRIPTOR: usize = 32;

/// The most bytes of a command's buffer.
pub const BUFFER: usize = 4096;

/// Flags of a descriptor.
pub mod flag {
    /// The firmware is done with it.
    pub const DD: u16 = 1 << 0;
    /// The command was completed.
    pub const CMP: u16 = 1 << 1;
    /// The command failed; the return value tells how.
    pub const ERR: u16 = 1 << 2;
    /// The buffer has more than 512 bytes.
    pub const LB: u16 = 1 << 9;
    /// The firmware reads the buffer.
    pub const RD: u16 = 1 << 10;
    /// There is a buffer.
    pub const BUF: u16 = 1 << 12;
    /// No interrupt when done.
    pub const SI: u16 = 1 << 13;
}

/// The largest buffer that needs no [`flag::LB`].
pub const SMALL_BUFFER: usize = 512;

/// A descriptor: a command, its completion, or an event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Descriptor {
    /// Bits of [`flag`].
    pub flags: u16,
    /// One of [`opcode`].
    pub opcode: u16,
    /// Bytes in the buffer.
    pub datalen: u16,
    /// The error, one of [`ERRORS`]; zero for none.
    pub retval: u16,
    /// What the driver likes; it comes back.
    pub cookie: u64,
    /// Parameters; with a buffer the last eight bytes are its address.
    pub params: [u8; 16],
}

impl Descriptor {
    /// A command without a buffer.
    pub fn new(opcode: u16) -> Descriptor {
        Descriptor { opcode, ..Descriptor::default() }
    }

    /// As it stands in memory.
    pub fn words(&self) -> [u64; 4] {
        let head = [self.flags, self.opcode, self.datalen, self.retval];
        let head = head.iter().rev().fold(0, |word, half| word << 16 | u64::from(*half));
        [head, self.cookie, self.param64(0), self.param64(8)]
    }

    /// From what stands in memory.
    pub fn from_words([head, cookie, low, high]: [u64; 4]) -> Descriptor {
        let half = |n: u32| (head >> (16 * n)) as u16;
        let mut params = [0; 16];
        params[..8].copy_from_slice(&low.to_le_bytes());
        params[8..].copy_from_slice(&high.to_le_bytes());
        Descriptor { flags: half(0), opcode: half(1), datalen: half(2), retval: half(3), cookie, params }
    }

    /// The buffer's address: its upper half stands first.
    pub fn address(&self) -> u64 {
        self.param64(8).rotate_left(32)
    }

    /// Sets the buffer's address.
    pub fn set_address(&mut self, address: u64) {
        self.params[8..].copy_from_slice(&address.rotate_left(32).to_le_bytes());
    }

    /// 16 bits of the parameters.
    pub fn param16(&self, at: usize) -> u16 {
        self.params.get(at..at + 2).map_or(0, |bytes| u16::from_le_bytes([bytes[0], bytes[1]]))
    }

    /// 32 bits of the parameters.
    pub fn param32(&self, at: usize) -> u32 {
        u32::from(self.param16(at)) | u32::from(self.param16(at + 2)) << 16
    }

    fn param64(&self, at: usize) -> u64 {
        u64::from(self.param32(at)) | u64::from(self.param32(at + 4)) << 32
    }

    /// Sets bytes of the parameters; what goes beyond them is left out.
    pub fn set_param(&mut self, at: usize, bytes: &[u8]) {
        self.params.iter_mut().skip(at).zip(bytes).for_each(|(to, from)| *to = *from);
    }
}

macro_rules! opcodes {
    ($($name:ident = $value:literal, $what:literal;)*) => {
        /// Commands and events.
        pub mod opcode {
            $(
                #[doc = $what]
                pub const $name: u16 = $value;
            )*

            /// Every command and event here, with its name.
            pub const TABLE: &[(u16, &str)] = &[$(($name, stringify!($name))),*];
        }
    };
}

opcodes! {
    GET_VERSION = 0x0001, "Versions of firmware and of its interface.";
    DRIVER_VERSION = 0x0002, "The driver tells its version.";
    QUEUE_SHUTDOWN = 0x0003, "The driver is about to stop using the queue.";
    REQUEST_RESOURCE = 0x0008, "Takes ownership of a resource for a while.";
    RELEASE_RESOURCE = 0x0009, "Gives it back.";
    LIST_FUNC_CAPABILITIES = 0x000A, "What the function has.";
    LIST_DEV_CAPABILITIES = 0x000B, "What the device has.";
    MAC_ADDRESS_READ = 0x0107, "The function's addresses.";
    MAC_ADDRESS_WRITE = 0x0108, "Changes one of them.";
    CLEAR_PXE_MODE = 0x0110, "The driver takes over from the boot agent.";
    GET_SWITCH_CONFIG = 0x0200, "Elements of the switch.";
    SET_PORT_PARAMETERS = 0x0203, "What the port does with short and tagged frames.";
    SET_SWITCH_CONFIG = 0x0205, "What the switch does for all of the port's functions.";
    RX_CTL_REG_READ = 0x0206, "Reads a receive register under load.";
    RX_CTL_REG_WRITE = 0x0207, "Writes one.";
    ADD_VSI = 0x0210, "Makes a VSI.";
    UPDATE_VSI = 0x0211, "Changes a VSI's properties.";
    GET_VSI = 0x0212, "A VSI's properties.";
    ADD_VEB = 0x0230, "Makes a bridge inside the card.";
    GET_VEB_PARAMETERS = 0x0232, "A bridge's properties.";
    DELETE_ELEMENT = 0x0243, "Removes an element of the switch.";
    ADD_MACVLAN = 0x0250, "Adds filters by address and VLAN.";
    REMOVE_MACVLAN = 0x0251, "Removes some.";
    SET_VSI_PROMISCUOUS = 0x0254, "What a VSI receives without a filter.";
    ADD_CONTROL_PACKET_FILTER = 0x025A, "Adds a filter by address and EtherType.";
    CONFIGURE_VSI_BW_LIMIT = 0x0400, "How fast a VSI may send.";
    CONFIGURE_VSI_TC_BW = 0x0407, "Which share of it each traffic class has.";
    QUERY_VSI_BW_CONFIG = 0x0408, "How fast a VSI may send, and its queue sets.";
    QUERY_VSI_ETS_SLA_CONFIG = 0x040A, "Which share each traffic class has.";
    QUERY_SWITCHING_COMP_ETS_CONFIG = 0x0418, "How fast a bridge's uplink may send.";
    QUERY_SWITCHING_COMP_BW_CONFIG = 0x041A, "Which share each traffic class of a bridge has.";
    GET_PHY_ABILITIES = 0x0600, "What the port's PHY can do.";
    SET_PHY_CONFIG = 0x0601, "What it shall do.";
    SET_MAC_CONFIG = 0x0603, "The longest frame, and the CRC.";
    RESTART_AN = 0x0605, "Starts the link anew.";
    GET_LINK_STATUS = 0x0607, "The link as it is; also the event that it has changed.";
    SET_PHY_INT_MASK = 0x0613, "Which changes of the link are events.";
    SET_LB_MODES = 0x0618, "Whether what is sent comes back.";
    NVM_READ = 0x0701, "Reads the non-volatile memory.";
    SEND_MSG_TO_PF = 0x0801, "A message of a virtual function's to its physical one; there, the event.";
    SEND_MSG_TO_VF = 0x0802, "A message to a virtual function; there, the event.";
    SET_RSS_KEY = 0x0B02, "The key of a VSI's hash (X722).";
    SET_RSS_LUT = 0x0B03, "The table of the hash: the function's, or a VSI's own (X722).";
    GET_RSS_KEY = 0x0B04, "The key as it is (X722).";
    GET_RSS_LUT = 0x0B05, "The table as it is (X722).";
    LLDP_GET_MIB = 0x0A00, "What the firmware's LLDP agent knows.";
    LLDP_STOP = 0x0A05, "Stops the firmware's LLDP agent.";
    LLDP_START = 0x0A06, "Starts the firmware's LLDP agent.";
    LLDP_SET_LOCAL_MIB = 0x0A08, "What the firmware's LLDP agent tells others.";
    SET_DCB_PARAMETERS = 0x0303, "Who configures data center bridging.";
    DEBUG_READ_REG = 0xFF03, "Reads a register of the whole card.";
    DEBUG_WRITE_REG = 0xFF04, "Writes one.";
    WRITE_PERSONALIZATION_PROFILE = 0x0270, "Loads a part of a profile by which packets are taken apart.";
    GET_PERSONALIZATION_PROFILE_LIST = 0x0271, "Which profiles are loaded.";
}

/// The name of a command; `unknown` for one that is not here.
pub fn name(opcode: u16) -> &'static str {
    opcode::TABLE.iter().find(|(value, _)| *value == opcode).map_or("unknown", |(_, name)| name)
}

/// The firmware's errors: value, name, meaning.
pub const ERRORS: &[(u16, &str, &str)] = &[
    (0, "OK", "success"),
    (1, "EPERM", "not permitted"),
    (2, "ENOENT", "no such element"),
    (3, "ESRCH", "bad opcode"),
    (4, "EINTR", "interrupted"),
    (5, "EIO", "I/O error"),
    (6, "ENXIO", "no such resource"),
    (7, "E2BIG", "argument too long"),
    (8, "EAGAIN", "try again"),
    (9, "ENOMEM", "out of memory"),
    (10, "EACCES", "permission denied"),
    (11, "EFAULT", "bad address"),
    (12, "EBUSY", "busy"),
    (13, "EEXIST", "exists already"),
    (14, "EINVAL", "invalid argument"),
    (15, "ENOTTY", "not such a device"),
    (16, "ENOSPC", "no space left"),
    (17, "ENOSYS", "not implemented"),
    (18, "ERANGE", "parameter out of range"),
    (19, "EFLUSHED", "flushed because a command before failed"),
    (20, "BAD_ADDR", "bad pointer in the descriptor"),
    (21, "EMODE", "not allowed in this mode"),
    (22, "EFBIG", "too big"),
];

/// Values of [`ERRORS`] by name.
pub mod error {
    /// The operation is not permitted.
    pub const EPERM: u16 = 1;
    /// No such element.
    pub const ENOENT: u16 = 2;
    /// The opcode is none that the firmware has.
    pub const ESRCH: u16 = 3;
    /// No such resource.
    pub const ENXIO: u16 = 6;
    /// An argument of the command is too long.
    pub const E2BIG: u16 = 7;
    /// Out of memory.
    pub const ENOMEM: u16 = 9;
    /// Busy with something else.
    pub const EBUSY: u16 = 12;
    /// What is to be added exists already.
    pub const EEXIST: u16 = 13;
    /// An argument of the command is not valid.
    pub const EINVAL: u16 = 14;
    /// No space left.
    pub const ENOSPC: u16 = 16;
    /// The firmware has not implemented what the command asks.
    pub const ENOSYS: u16 = 17;
    /// Bad pointer in the descriptor.
    pub const BAD_ADDR: u16 = 20;
}

/// Where the answer to [`opcode::GET_VERSION`] has what.
pub mod version {
    /// The build of the firmware, 32 bits.
    pub const BUILD: usize = 4;
    /// Its version: major, then minor, 16 bits each.
    pub const FIRMWARE: usize = 8;
    /// The version of its interface, likewise.
    pub const API: usize = 12;
    /// The first version of the interface that has [`super::opcode::RX_CTL_REG_READ`] and
    /// [`super::opcode::RX_CTL_REG_WRITE`].
    pub const RX_CTL_SINCE: (u16, u16) = (1, 5);
}

/// What drivers give as the count of receive descriptors, of [`opcode::CLEAR_PXE_MODE`].
pub const PXE_RX_COUNT: u8 = 2;
/// The non-volatile memory, of [`opcode::REQUEST_RESOURCE`].
pub const RESOURCE_NVM: u16 = 1;
/// To read it.
pub const ACCESS_READ: u16 = 1;
/// Where the answer has the time for which the resource is lent, or that its owner has left,
/// in milliseconds.
pub const RESOURCE_TIME: usize = 4;
/// This is the last command of a series, of [`opcode::NVM_READ`].
pub const NVM_LAST: u8 = 1;

/// An element of [`opcode::LIST_FUNC_CAPABILITIES`]: bytes, and its kinds.
pub mod capability {
    /// Bytes of an element, which begins with its kind (16 bits).
    pub const LEN: usize = 32;
    /// Where its number stands.
    pub const NUMBER: usize = 4;
    /// Where its second number stands.
    pub const LOGICAL: usize = 8;
    /// Where its third number stands.
    pub const PHYSICAL: usize = 12;
    /// Virtual functions: how many, and the first.
    pub const VF: u16 = 0x13;
    /// VSIs of the function.
    pub const VSI: u16 = 0x17;
    /// Data center bridging: there is some, traffic classes, a bit each, and the most.
    pub const DCB: u16 = 0x18;
    /// Entries of the hash's table, and bits of each.
    pub const RSS: u16 = 0x40;
    /// Receive queues, and the first.
    pub const RXQ: u16 = 0x41;
    /// Transmit queues, and the first.
    pub const TXQ: u16 = 0x42;
    /// Interrupt vectors, and the first.
    pub const MSIX: u16 = 0x43;
    /// Filters of Flow Director: those that the function always has, and those that it shares
    /// with others.
    pub const FLOW_DIRECTOR: u16 = 0x45;
    /// Interrupt vectors of each virtual function.
    pub const VF_MSIX: u16 = 0x44;
}

/// The function's own address is valid, of [`opcode::MAC_ADDRESS_READ`].
pub const LAN_ADDR_VALID: u16 = 0x10;
/// The port's address is valid; it stands behind two others.
pub const PORT_ADDR_VALID: u16 = 0x40;

/// A bridge inside the card: [`opcode::ADD_VEB`], [`opcode::GET_VEB_PARAMETERS`].
pub mod veb {
    /// Where a command has the SEID of the element above; the VSI below stands behind it.
    pub const UPLINK: usize = 0;
    /// Where it has its flags.
    pub const FLAGS: usize = 4;
    /// Flag: the port is an ordinary one.
    pub const PORT_DATA: u16 = 4;
    /// Flag: no statistics.
    pub const NO_STATISTICS: u16 = 0x10;
    /// Where it has its traffic classes, a bit each.
    pub const CLASSES: usize = 6;
    /// Where the answer to [`super::opcode::ADD_VEB`] has the SEID.
    pub const SEID: usize = 8;
    /// Bytes of the answer about its uplink.
    pub const UPLINK_LEN: usize = 64;
    /// Bytes of the answer about its traffic classes.
    pub const CLASSES_LEN: usize = 32;
    /// Where the latter has the classes' shares.
    pub const SHARES: usize = 4;
}

/// A filter of [`opcode::ADD_MACVLAN`] and [`opcode::REMOVE_MACVLAN`]: address, VLAN, flags.
pub mod macvlan {
    /// Bytes of a filter.
    pub const LEN: usize = 16;
    /// Where its VLAN stands.
    pub const VLAN: usize = 6;
    /// Where its flags stand.
    pub const FLAGS: usize = 8;
    /// Where the firmware's answer stands.
    pub const ANSWER: usize = 12;
    /// The address as a whole.
    pub const PERFECT: u16 = 1;
    /// Any VLAN, when adding.
    pub const ADD_ANY_VLAN: u16 = 1 << 2;
    /// Any VLAN, when removing.
    pub const REMOVE_ANY_VLAN: u16 = 1 << 3;
    /// The SEID in the command is one.
    pub const SEID_VALID: u16 = 1 << 15;
    /// The answer that there was no room, or no such filter.
    pub const FAILED: u8 = 0xFF;
}

/// Bits of [`opcode::SET_VSI_PROMISCUOUS`], in both of its fields.
pub mod promiscuous {
    /// The VSI receives all unicast frames.
    pub const UNICAST: u16 = 1 << 0;
    /// The VSI receives all multicast frames.
    pub const MULTICAST: u16 = 1 << 1;
    /// The VSI receives broadcast frames.
    pub const BROADCAST: u16 = 1 << 2;
    /// Frames that no VSI at the bridge has a filter for.
    pub const DEFAULT: u16 = 1 << 3;
    /// The VSI receives frames of any VLAN.
    pub const VLAN: u16 = 1 << 4;
    /// Unicast frames from the wire only, not those that other VSIs send; since version 1.5 of
    /// the firmware's interface.
    pub const RX_ONLY: u16 = 1 << 15;
    /// The first version with [`RX_ONLY`]: major, minor.
    pub const RX_ONLY_SINCE: (u16, u16) = (1, 5);
}

/// The hash of an X722: [`opcode::SET_RSS_KEY`], [`opcode::SET_RSS_LUT`] and those that read them.
pub mod hash {
    /// Where a command has the VSI's number.
    pub const VSI: usize = 0;
    /// The number's bits.
    pub const VSI_MASK: u16 = 0x3FF;
    /// There is a number.
    pub const VSI_VALID: u16 = 1 << 15;
    /// Where a command about the table has its flags.
    pub const FLAGS: usize = 2;
    /// It is the function's table, with 512 entries or 128; else the VSI's own.
    pub const TABLE_PF: u16 = 1;
    /// Bytes of a key: those of RSS, and more for longer packet headers.
    pub const KEY: usize = 52;
    /// Entries of a VSI's own table, a byte each.
    pub const VSI_TABLE: usize = 64;
}

/// What a VSI may send: [`opcode::QUERY_VSI_BW_CONFIG`],
/// [`opcode::QUERY_VSI_ETS_SLA_CONFIG`] and those that set it.
pub mod bandwidth {
    /// Bytes of the answer about a VSI.
    pub const LEN: usize = 64;
    /// Where that has the queue sets of the traffic classes.
    pub const QUEUE_SETS: usize = 16;
    /// Bytes of the answer about its traffic classes, and of what sets them.
    pub const CLASSES_LEN: usize = 32;
    /// Where that has their shares.
    pub const SHARES: usize = 4;
    /// Where what sets them has the queue sets, which the firmware fills in.
    pub const SET_QUEUE_SETS: usize = 16;
    /// Where [`super::opcode::CONFIGURE_VSI_BW_LIMIT`] has its limit, two bytes, in units of
    /// [`UNIT_MBPS`]; zero for none.
    pub const LIMIT: usize = 4;
    /// Where it has how much a VSI that was idle may send beyond that.
    pub const MOST_CREDIT: usize = 8;
    /// A unit of a limit, in Mbit/s.
    pub const UNIT_MBPS: u32 = 50;
    /// The highest limit: what the port carries.
    pub const HIGHEST: u16 = 800;
}

/// The link: [`opcode::GET_LINK_STATUS`], [`opcode::GET_PHY_ABILITIES`] and others.
pub mod link {
    /// Turn events on, in the command's first field.
    pub const EVENTS_ON: u16 = 3;
    /// Where the type of the PHY stands.
    pub const PHY_TYPE: usize = 2;
    /// Where the speed stands, a bit of those below.
    pub const SPEED: usize = 3;
    /// Where the state stands.
    pub const INFO: usize = 4;
    /// Where the state of negotiation stands.
    pub const AN_INFO: usize = 5;
    /// Where the longest frame stands.
    pub const MAX_FRAME: usize = 8;
    /// Bit of [`INFO`]: the link is up.
    pub const UP: u8 = 1;
    /// State: there is a module.
    pub const MEDIA: u8 = 1 << 6;
    /// Bit of [`AN_INFO`]: auto-negotiation is complete.
    pub const AN_COMPLETED: u8 = 1;
    /// Negotiation: the module is one that the firmware takes.
    pub const QUALIFIED: u8 = 1 << 7;
    /// Speeds: bit, Mbit/s.
    pub const SPEEDS: [(u8, u32); 8] = [
        (1 << 0, 2_500),
        (1 << 1, 100),
        (1 << 2, 1_000),
        (1 << 3, 10_000),
        (1 << 4, 40_000),
        (1 << 5, 20_000),
        (1 << 6, 25_000),
        (1 << 7, 5_000),
    ];
    /// Bit of the speeds: 10 Gbit/s.
    pub const SPEED_10G: u8 = 1 << 3;
    /// Bit of the speeds: 40 Gbit/s.
    pub const SPEED_40G: u8 = 1 << 4;
    /// The type 10GBASE-SR.
    pub const PHY_10GBASE_SR: u8 = 0x14;
    /// The type 40GBASE-SR4.
    pub const PHY_40GBASE_SR4: u8 = 0x19;
    /// In a command that asks for the PHY's abilities: those that it has, not what is set.
    pub const REPORT_INITIAL: u32 = 1 << 1;
    /// Bytes of the PHY's abilities; first come the types, as in a command to set them.
    pub const ABILITIES_LEN: usize = 0x218;
    /// Where abilities have the speeds, and a command to set them too.
    pub const ABILITIES_SPEED: usize = 4;
    /// Where abilities have their flags, likewise.
    pub const ABILITIES_FLAGS: usize = 5;
    /// Flag: the link is enabled.
    pub const ENABLED: u8 = 1 << 3;
    /// Flag of a command: restart the link with what is set.
    pub const ATOMIC: u8 = 1 << 5;
    /// Restart: negotiate anew.
    pub const RESTART: u8 = 1 << 1;
    /// Restart: the link is enabled.
    pub const RESTART_ENABLE: u8 = 1 << 2;
    /// Where the mask of events stands in its command; a bit that is set is no event.
    pub const EVENT_MASK: usize = 8;
    /// Event: up or down.
    pub const EVENT_UP_DOWN: u16 = 1 << 1;
    /// The CRC is added to frames that are sent, of [`super::opcode::SET_MAC_CONFIG`].
    pub const CRC_ENABLE: u8 = 1 << 2;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_is_the_same_after_memory() {
        let mut command =
            Descriptor { flags: 0x1234, datalen: 77, retval: 5, cookie: 9, ..Descriptor::new(0x0250) };
        command.set_param(0, &[1, 2, 3, 4, 5, 6, 7, 8]);
        command.set_address(0x1122_3344_5566_7788);
        assert_eq!(Descriptor::from_words(command.words()), command);
        assert_eq!(command.words()[0], 5 << 48 | 77 << 32 | 0x0250 << 16 | 0x1234);
        assert_eq!(command.words()[3], 0x5566_7788_1122_3344, "the upper half first");
        assert_eq!((command.address(), command.param16(2)), (0x1122_3344_5566_7788, 0x0403));
        command.set_param(14, &[0xAA; 8]);
        assert_eq!(command.params[13..], [0x77, 0xAA, 0xAA], "nothing beyond the parameters");
    }
}
