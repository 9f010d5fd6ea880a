//! The messages of vhost-user (QEMU 10.0, "Vhost-user Protocol"), with the names of
//! its specification, those of features that nobody here offers among them.

use bus::vhost_user::message::{HEADER, Header, flags};

use super::protocol::{Field, Head, MessageType, Protocol, Role, field};

const NONE: &[Field] = &[];
const NUMBER: &[Field] = &[field("u64", 0, 8, 0)];
const STATE: &[Field] = &[field("index", 0, 4, 0), field("num", 4, 4, 256)];
const ADDRESS: &[Field] = &[
    field("index", 0, 4, 0),
    field("flags", 4, 4, 0),
    field("descriptors", 8, 8, 0),
    field("used", 16, 8, 0),
    field("available", 24, 8, 0),
    field("logging", 32, 8, 0),
];
const TABLE: &[Field] = &[
    field("num", 0, 4, 1),
    field("padding", 4, 4, 0),
    field("guest address", 8, 8, 0),
    field("size", 16, 8, 4096),
    field("user address", 24, 8, 0),
    field("mmap offset", 32, 8, 0),
];
const REGION: &[Field] = &[
    field("padding", 0, 8, 0),
    field("guest address", 8, 8, 0),
    field("size", 16, 8, 4096),
    field("user address", 24, 8, 0),
    field("mmap offset", 32, 8, 0),
];
const CONFIG: &[Field] =
    &[field("offset", 0, 4, 0), field("size", 4, 4, 6), field("flags", 8, 4, 0), field("config", 12, 6, 0)];
const INFLIGHT: &[Field] = &[
    field("mmap size", 0, 8, 4096),
    field("mmap offset", 8, 8, 0),
    field("num queues", 16, 2, 2),
    field("queue size", 18, 2, 256),
];
const LOG: &[Field] = &[field("log size", 0, 8, 4096), field("log offset", 8, 8, 0)];
const IOTLB: &[Field] = &[
    field("iova", 0, 8, 0),
    field("size", 8, 8, 4096),
    field("user address", 16, 8, 0),
    field("permissions", 24, 1, 3),
    field("type", 25, 1, 2),
];
const UUID: &[Field] = &[field("uuid", 0, 8, 1), field("uuid (end)", 8, 8, 2)];
const TRANSFER: &[Field] = &[field("direction", 0, 4, 0), field("phase", 4, 4, 0)];
const VRING_AREA: &[Field] = &[field("u64", 0, 8, 0), field("size", 8, 8, 4096), field("offset", 16, 8, 0)];

const fn message(
    number: u32,
    name: &'static str,
    request: &'static [Field],
    reply: &'static [Field],
) -> MessageType {
    MessageType { number, name, request, reply }
}

/// Where a reply is an acknowledgement, it is a number.
pub const PROTOCOL: Protocol = Protocol {
    name: "vhost-user",
    header: &[field("request", 0, 4, 0), field("flags", 4, 4, 0), field("size", 8, 4, 0)],
    header_len: HEADER,
    types: &[
        message(1, "GET_FEATURES", NONE, NUMBER),
        message(2, "SET_FEATURES", NUMBER, NUMBER),
        message(3, "SET_OWNER", NONE, NUMBER),
        message(4, "RESET_OWNER", NONE, NUMBER),
        message(5, "SET_MEM_TABLE", TABLE, NUMBER),
        message(6, "SET_LOG_BASE", LOG, NUMBER),
        message(7, "SET_LOG_FD", NONE, NUMBER),
        message(8, "SET_VRING_NUM", STATE, NUMBER),
        message(9, "SET_VRING_ADDR", ADDRESS, NUMBER),
        message(10, "SET_VRING_BASE", STATE, NUMBER),
        message(11, "GET_VRING_BASE", STATE, STATE),
        message(12, "SET_VRING_KICK", NUMBER, NUMBER),
        message(13, "SET_VRING_CALL", NUMBER, NUMBER),
        message(14, "SET_VRING_ERR", NUMBER, NUMBER),
        message(15, "GET_PROTOCOL_FEATURES", NONE, NUMBER),
        message(16, "SET_PROTOCOL_FEATURES", NUMBER, NUMBER),
        message(17, "GET_QUEUE_NUM", NONE, NUMBER),
        message(18, "SET_VRING_ENABLE", STATE, NUMBER),
        message(19, "SEND_RARP", NUMBER, NUMBER),
        message(20, "NET_SET_MTU", NUMBER, NUMBER),
        message(21, "SET_BACKEND_REQ_FD", NONE, NUMBER),
        message(22, "IOTLB_MSG", IOTLB, NUMBER),
        message(23, "SET_VRING_ENDIAN", STATE, NUMBER),
        message(24, "GET_CONFIG", CONFIG, CONFIG),
        message(25, "SET_CONFIG", CONFIG, NUMBER),
        message(26, "CREATE_CRYPTO_SESSION", UUID, NUMBER),
        message(27, "CLOSE_CRYPTO_SESSION", NUMBER, NUMBER),
        message(28, "POSTCOPY_ADVISE", NONE, NUMBER),
        message(29, "POSTCOPY_LISTEN", NONE, NUMBER),
        message(30, "POSTCOPY_END", NONE, NUMBER),
        message(31, "GET_INFLIGHT_FD", INFLIGHT, INFLIGHT),
        message(32, "SET_INFLIGHT_FD", INFLIGHT, NUMBER),
        message(33, "GPU_SET_SOCKET", NONE, NUMBER),
        message(34, "RESET_DEVICE", NONE, NUMBER),
        message(35, "VRING_KICK", VRING_AREA, NUMBER),
        message(36, "GET_MAX_MEM_SLOTS", NONE, NUMBER),
        message(37, "ADD_MEM_REG", REGION, NUMBER),
        message(38, "REM_MEM_REG", REGION, NUMBER),
        message(39, "SET_STATUS", NUMBER, NUMBER),
        message(40, "GET_STATUS", NONE, NUMBER),
        message(41, "GET_SHARED_OBJECT", UUID, NONE),
        message(42, "SET_DEVICE_STATE_FD", TRANSFER, NUMBER),
        message(43, "CHECK_DEVICE_STATE", NONE, NUMBER),
        message(44, "GET_SHMEM_CONFIG", NONE, STATE),
        message(999, "(unknown)", NUMBER, NUMBER),
    ],
    head: |bytes| {
        let header = bytes.first_chunk().map(Header::decode);
        let header = header.unwrap_or(Header { request: 0, flags: 0, size: 0 });
        let role = if header.flags & flags::REPLY != 0 { Role::Reply } else { Role::Request };
        let answered = matches!(header.request, 1 | 11 | 15 | 17 | 24 | 31 | 36 | 40);
        let wants_reply = role == Role::Request && (answered || header.flags & flags::NEED_REPLY != 0);
        Head { number: header.request, role, wants_reply, len: HEADER + header.size as usize }
    },
    begin: |number, role| {
        let kind = if role == Role::Reply { flags::REPLY } else { flags::NEED_REPLY };
        [number, flags::VERSION | kind, 0].map(u32::to_le_bytes).concat()
    },
    set_len: |bytes| {
        let len = (bytes.len() - HEADER) as u32;
        bytes[8..12].copy_from_slice(&len.to_le_bytes());
    },
    refuse: |bytes| {
        bytes.truncate(HEADER);
        bytes.extend(1_u64.to_le_bytes());
        bytes[4..8].copy_from_slice(&(flags::VERSION | flags::REPLY).to_le_bytes());
        bytes[8..12].copy_from_slice(&8_u32.to_le_bytes());
    },
};
