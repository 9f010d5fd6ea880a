//! Properties of a VSI, 128 bytes: [`super::opcode::GET_VSI`], [`super::opcode::UPDATE_VSI`],
//! [`super::opcode::ADD_VSI`]. Sections of them are valid or not: those of the switch, of security, of
//! tags, of queues. Places are in bytes, numbers are little endian.

/// Where [`super::opcode::ADD_VSI`] has the kind of connection.
pub const CONNECTION: usize = 2;
/// The kind of a data port.
pub const CONNECTION_NORMAL: u8 = 1;
/// Where it has its flags.
pub const FLAGS: usize = 6;
/// The type of the VSI among the flags.
pub const TYPE_MASK: u16 = 3;
/// The type of a physical function's own VSI.
pub const TYPE_PF: u16 = 2;
/// The type of a virtual function's VSI.
pub const TYPE_VF: u16 = 0;
/// Where it has the virtual function's number.
pub const VF_ID: usize = 4;
/// Where its answer has the VSI's number, behind its SEID.
pub const NUMBER: usize = 2;
/// Bytes of the properties.
pub const LEN: usize = 128;
/// Which sections are valid.
pub const VALID_SECTIONS: usize = 0;
/// The section of the switch is valid.
pub const SWITCH_VALID: u16 = 1 << 0;
/// The section of security is valid.
pub const SECURITY_VALID: u16 = 1 << 1;
/// The section with VLANs is valid.
pub const VLAN_VALID: u16 = 1 << 2;
/// The section with the queue map is valid.
pub const QUEUE_MAP_VALID: u16 = 1 << 6;
/// The section with queueing options is valid.
pub const QUEUE_OPT_VALID: u16 = 1 << 7;
/// Which switch it is at, and what comes to it.
pub const SWITCH_ID: usize = 2;
/// What it sends may come to other VSIs of the port.
pub const ALLOW_LB: u16 = 0x2000;
/// What is refused of frames that it sends.
pub const SECURITY: usize = 6;
/// Those of a VLAN without a filter of it.
pub const ENABLE_VLAN_CHK: u8 = 2;
/// Those from an address without a filter of it.
pub const ENABLE_MAC_CHK: u8 = 4;
/// The tag that is put into what it sends, and taken out of what it receives.
pub const PVID: usize = 8;
/// What is done to tags.
pub const PORT_VLAN_FLAGS: usize = 12;
/// Which frames are sent: those that have the VSI's tag then.
pub const PVLAN_MODE_TAGGED: u8 = 1;
/// The tag is put into them.
pub const PVLAN_INSERT_PVID: u8 = 4;
/// Tagged and untagged frames are sent.
pub const PVLAN_MODE_ALL: u8 = 3;
/// What is done to the tag of a received frame: two bits.
pub const PVLAN_EMOD_MASK: u8 = 3 << 3;
/// It is stripped.
pub const PVLAN_EMOD_STRIP: u8 = 0;
/// It is stripped and told nowhere.
pub const PVLAN_EMOD_STRIP_UNTOLD: u8 = 2 << 3;
/// It is left where it is.
pub const PVLAN_EMOD_NOTHING: u8 = 3 << 3;
/// Whether queues are contiguous (0).
pub const MAPPING_FLAGS: usize = 28;
/// They are not: each has its place in the mapping.
pub const MAPPING_LIST: u16 = 1;
/// Queues in such a mapping, 16 bits each.
pub const MAPPED: usize = 16;
/// The first queue.
pub const QUEUE_MAPPING: usize = 30;
/// Queues of each traffic class: the first (bits 8:0), and how many as a power of two.
pub const TC_MAPPING: usize = 62;
/// How many queues, as a power of two.
pub const TC_NUMBER_SHIFT: u32 = 9;
/// Options of queues.
pub const QUEUE_OPTIONS: usize = 78;
/// Flows are spread by the VSI's own table, not by its function's (X722).
pub const RSS_LUT_VSI: u8 = 0x40;
/// The first byte that is the firmware's.
pub const SOFTWARE: usize = 96;
/// Queue set handles of the traffic classes.
pub const QS_HANDLE: usize = 96;
/// Which of the VSIs' counters are its own.
pub const STAT_COUNTER: usize = 112;
