//! The messages of vfio-user 0.1, with the names of its specification.

use bus::vfio_user::message::{HEADER, decode_header, flags};

use super::protocol::{Field, Head, MessageType, Protocol, Role, field};

/// The id of messages that nobody asked for.
pub(super) const UNASKED_ID: u16 = 0xEEEE;
/// Where samples of messages have their memory.
pub const SAMPLE_IOVA: u64 = 0x10_0000;

const INFO: &[Field] =
    &[field("argsz", 0, 4, 16), field("flags", 4, 4, 0), field("index", 8, 4, 2), field("count", 12, 4, 1)];
const REGION: &[Field] = &[
    field("argsz", 0, 4, 32),
    field("flags", 4, 4, 3),
    field("index", 8, 4, 0),
    field("cap_offset", 12, 4, 0),
    field("size", 16, 8, 4096),
    field("offset", 24, 8, 0),
];
const REGION_REPLY: &[Field] = &[
    field("argsz", 0, 4, 64),
    field("flags", 4, 4, 15),
    field("index", 8, 4, 0),
    field("cap_offset", 12, 4, 32),
    field("size", 16, 8, 4096),
    field("offset", 24, 8, 0),
    field("cap.id", 32, 2, 1),
    field("cap.version", 34, 2, 1),
    field("cap.next", 36, 4, 0),
    field("nr_areas", 40, 4, 1),
    field("area.offset", 48, 8, 0),
    field("area.size", 56, 8, 4096),
];
const ACCESS: &[Field] = &[field("offset", 0, 8, 0), field("region", 8, 4, 0), field("count", 12, 4, 4)];
const ACCESS_DATA: &[Field] =
    &[field("offset", 0, 8, 0), field("region", 8, 4, 0), field("count", 12, 4, 4), field("data", 16, 4, 0)];
const UNMAP: &[Field] = &[
    field("argsz", 0, 4, 24),
    field("flags", 4, 4, 0),
    field("address", 8, 8, SAMPLE_IOVA),
    field("size", 16, 8, 4096),
];
const DMA: &[Field] = &[field("address", 0, 8, SAMPLE_IOVA), field("count", 8, 8, 8)];
const DMA_DATA: &[Field] =
    &[field("address", 0, 8, SAMPLE_IOVA), field("count", 8, 8, 8), field("data", 16, 8, u64::MAX)];
const VERSION: &[Field] =
    &[field("major", 0, 2, 0), field("minor", 2, 2, 1), field("version data", 4, 3, 0x7D_7B)];

const fn message(
    number: u32,
    name: &'static str,
    request: &'static [Field],
    reply: &'static [Field],
) -> MessageType {
    MessageType { number, name, request, reply }
}

/// Sections "Header" and the message types of the specification.
pub const PROTOCOL: Protocol = Protocol {
    name: "vfio-user",
    header: &[
        field("id", 0, 2, UNASKED_ID as u64),
        field("command", 2, 2, 0),
        field("size", 4, 4, 0),
        field("flags", 8, 4, 0),
        field("errno", 12, 4, 0),
    ],
    header_len: HEADER,
    types: &[
        message(1, "VERSION", VERSION, VERSION),
        message(
            2,
            "DMA_MAP",
            &[
                field("argsz", 0, 4, 32),
                field("flags", 4, 4, 3),
                field("offset", 8, 8, 0),
                field("address", 16, 8, SAMPLE_IOVA),
                field("size", 24, 8, 4096),
            ],
            &[],
        ),
        message(3, "DMA_UNMAP", UNMAP, UNMAP),
        message(4, "DEVICE_GET_INFO", INFO, INFO),
        message(5, "DEVICE_GET_REGION_INFO", REGION, REGION_REPLY),
        message(6, "DEVICE_GET_REGION_IO_FDS", INFO, INFO),
        message(7, "DEVICE_GET_IRQ_INFO", INFO, INFO),
        message(
            8,
            "DEVICE_SET_IRQS",
            &[
                field("argsz", 0, 4, 20),
                field("flags", 4, 4, 0x24),
                field("index", 8, 4, 2),
                field("start", 12, 4, 0),
                field("count", 16, 4, 1),
            ],
            &[],
        ),
        message(9, "REGION_READ", ACCESS, ACCESS_DATA),
        message(10, "REGION_WRITE", ACCESS_DATA, ACCESS),
        message(11, "DMA_READ", DMA, DMA_DATA),
        message(12, "DMA_WRITE", DMA_DATA, DMA),
        message(13, "DEVICE_RESET", &[], &[]),
        // 14 was VFIO_USER_DIRTY_PAGES, and is nothing now.
        message(14, "DIRTY_PAGES", INFO, INFO),
        message(
            15,
            "REGION_WRITE_MULTI",
            &[
                field("wr_cnt", 0, 8, 1),
                field("offset", 8, 8, 0),
                field("region", 16, 4, 0),
                field("count", 20, 4, 4),
                field("data", 24, 8, 0),
            ],
            &[field("wr_cnt", 0, 8, 1)],
        ),
        message(16, "DEVICE_FEATURE", INFO, INFO),
        message(17, "MIG_DATA_READ", DMA, DMA_DATA),
        message(18, "MIG_DATA_WRITE", DMA_DATA, DMA),
        message(999, "(unknown)", INFO, INFO),
    ],
    head: |bytes| {
        let header = decode_header(bytes).unwrap_or_default();
        let role = if header.is_reply() { Role::Reply } else { Role::Request };
        let wants_reply = role == Role::Request && header.wants_reply();
        Head { number: header.command.into(), role, wants_reply, len: header.size as usize }
    },
    begin: |number, role| {
        let kind = if role == Role::Reply { flags::REPLY } else { 0 };
        let mut bytes = Vec::with_capacity(64);
        bytes.extend(UNASKED_ID.to_le_bytes());
        bytes.extend((number as u16).to_le_bytes());
        bytes.extend(0_u32.to_le_bytes());
        bytes.extend(kind.to_le_bytes());
        bytes.extend(0_u32.to_le_bytes());
        bytes
    },
    set_len: |bytes| {
        let len = bytes.len() as u32;
        bytes[4..8].copy_from_slice(&len.to_le_bytes());
    },
    refuse: |bytes| {
        const EINVAL: u32 = 22;
        bytes.truncate(HEADER);
        bytes[8..12].copy_from_slice(&(flags::REPLY | flags::ERROR).to_le_bytes());
        bytes[12..16].copy_from_slice(&EINVAL.to_le_bytes());
    },
};
