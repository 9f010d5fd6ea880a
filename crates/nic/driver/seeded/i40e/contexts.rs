//! The host memory cache, and the contexts of queues in it.

use super::{Bug, Reports, edit};

pub(super) const BUGS: &[Bug] = &[
    Bug {
        name: "xl710-segment-pages-in-bytes",
        about: "The segment descriptor has the size of the segment where it has the number of pages.",
        linter: Reports("SegmentInvalid", "7"),
        test: "i40e_driver::frames_cross_in_either_direction_and_are_counted",
        demo: false,
        edits: &[edit(
            "i40e/context.rs",
            "((SEGMENT / PAGE) as u32) << PFHMC_SDDATALOW::BPCOUNT_SHIFT",
            "(SEGMENT as u32) << PFHMC_SDDATALOW::BPCOUNT_SHIFT",
        )],
    },
    Bug {
        name: "xl710-segment-pages-not-shifted",
        about: "The number of pages stands two bits too low: the segment has a quarter of its pages.",
        linter: Reports("ContextUnreachable", "7"),
        test: "i40e_driver::frames_cross_in_either_direction_and_are_counted",
        demo: false,
        edits: &[edit(
            "i40e/context.rs",
            "((SEGMENT / PAGE) as u32) << PFHMC_SDDATALOW::BPCOUNT_SHIFT",
            "(SEGMENT / PAGE) as u32",
        )],
    },
    Bug {
        name: "xl710-segment-low-half",
        about: "The high half of the address of the segment stays zero.",
        linter: Reports("SegmentUnmapped", "7"),
        test: "i40e_driver::frames_cross_in_either_direction_and_are_counted",
        demo: false,
        edits: &[edit(
            "i40e/context.rs",
            "bar.write32(PFHMC_SDDATAHIGH::AT, (iova >> 32) as u32);",
            "bar.write32(PFHMC_SDDATAHIGH::AT, 0);",
        )],
    },
    Bug {
        name: "xl710-segment-commanded-first",
        about: "The segment descriptor is made before its address is in the registers.",
        linter: Reports("ContextUnreachable", "7"),
        test: "i40e_driver::frames_cross_in_either_direction_and_are_counted",
        demo: false,
        edits: &[
            edit(
                "i40e/context.rs",
                "bar.write32(PFHMC_SDDATAHIGH::AT, (iova >> 32) as u32);",
                "bar.write32(PFHMC_SDCMD::AT, PFHMC_SDCMD::PMSDWR);
        bar.write32(PFHMC_SDDATAHIGH::AT, (iova >> 32) as u32);",
            ),
            edit("i40e/context.rs", "bar.write32(PFHMC_SDCMD::AT, PFHMC_SDCMD::PMSDWR);", ""),
        ],
    },
    Bug {
        name: "xl710-context-base-in-bytes",
        about: "The places of contexts are given in bytes, not in 512 of them.",
        linter: Reports("ContextUnreachable", "7"),
        test: "i40e_driver::frames_cross_in_either_direction_and_are_counted",
        demo: false,
        edits: &[edit(
            "i40e/context.rs",
            "bar.write32(base, (at / BASE_UNIT) as u32);",
            "bar.write32(base, at as u32);",
        )],
    },
    Bug {
        name: "xl710-context-count-missing",
        about: "The number of receive contexts stays zero.",
        linter: Reports("ContextUnreachable", "7"),
        test: "i40e_driver::frames_cross_in_either_direction_and_are_counted",
        demo: false,
        edits: &[edit("i40e/context.rs", "bar.write32(GLHMC_LANRXCNT::at(function), queues as u32);", "")],
    },
    Bug {
        name: "xl710-context-of-queue-0",
        about: "All receive queues have their contexts at the place of the first.",
        linter: Reports("BufferSizeInvalid", "8"),
        test: "i40e_driver::flows_come_to_the_queues_that_the_port_names",
        demo: false,
        edits: &[edit(
            "i40e/context.rs",
            "RX_AT + queue * context::rx::LEN",
            "RX_AT + (queue & 0) * context::rx::LEN",
        )],
    },
    Bug {
        name: "xl710-context-too-near",
        about: "Transmit contexts follow each other after 32 bytes, as receive contexts do, not after 128.",
        linter: Reports("RingBaseInvalid", "8"),
        test: "i40e_rings::every_transmit_queue_sends",
        demo: false,
        edits: &[edit("i40e/context.rs", "queue * context::tx::LEN", "queue * context::rx::LEN")],
    },
    Bug {
        name: "xl710-context-after-enable",
        about: "The context of a transmit queue is written after the queue was enabled.",
        linter: Reports("RingBaseInvalid", "8"),
        test: "i40e_driver::frames_cross_in_either_direction_and_are_counted",
        demo: false,
        edits: &[
            edit(
                "i40e/init.rs",
                "self.state().contexts.iter().for_each(|contexts| contexts.put_tx(n, words));",
                "",
            ),
            edit(
                "i40e/init.rs",
                "bar.write32(QTX_ENA::at(n), QTX_ENA::QENA_REQ);",
                "bar.write32(QTX_ENA::at(n), QTX_ENA::QENA_REQ);
        self.state().contexts.iter().for_each(|contexts| contexts.put_tx(n, words));",
            ),
        ],
    },
    Bug {
        name: "xl710-receive-base-in-bytes",
        about: "The address of the receive ring is given in bytes, not in 128 of them.",
        linter: Reports("RingUnmapped", "8"),
        test: "i40e_driver::frames_cross_in_either_direction_and_are_counted",
        demo: false,
        edits: &[edit(
            "i40e/init.rs",
            "(context::rx::BASE, ring.iova() / UNIT)",
            "(context::rx::BASE, ring.iova())",
        )],
    },
    Bug {
        name: "xl710-receive-length-in-bytes",
        about: "The length of the receive ring is given in bytes.",
        linter: Reports("RingLengthInvalid", "8"),
        test: "i40e_driver::frames_cross_in_either_direction_and_are_counted",
        demo: false,
        edits: &[edit(
            "i40e/init.rs",
            "(context::rx::QLEN, ring.size().into())",
            "(context::rx::QLEN, ring.bytes().into())",
        )],
    },
    Bug {
        name: "xl710-buffer-size-in-bytes",
        about: "The size of buffers is given in bytes, of which its seven bits keep none.",
        linter: Reports("BufferSizeInvalid", "8"),
        test: "i40e_driver::frames_cross_in_either_direction_and_are_counted",
        demo: false,
        edits: &[edit(
            "i40e/init.rs",
            "(context::rx::DBUFF, DATA_ROOM as u64 / UNIT)",
            "(context::rx::DBUFF, DATA_ROOM as u64)",
        )],
    },
    Bug {
        name: "xl710-buffer-size-in-kib",
        about: "The size of buffers is given in KiB, as the 82599 has it.",
        linter: Reports("BufferSizeInvalid", "8"),
        test: "i40e_driver::frames_cross_in_either_direction_and_are_counted",
        demo: false,
        edits: &[edit(
            "i40e/init.rs",
            "(context::rx::DBUFF, DATA_ROOM as u64 / UNIT)",
            "(context::rx::DBUFF, DATA_ROOM as u64 >> 10)",
        )],
    },
    Bug {
        name: "xl710-longest-frame-missing",
        about: "The context does not say how long a frame may be.",
        linter: Reports("RxMaxInvalid", "8"),
        test: "i40e_driver::frames_cross_in_either_direction_and_are_counted",
        demo: false,
        edits: &[edit(
            "i40e/init.rs",
            "(context::rx::RXMAX, options.max_frame as u64 + 12)",
            "(context::rx::RXMAX, 0)",
        )],
    },
    Bug {
        name: "xl710-tag-bit-mistaken",
        about: "The context has SHOWIV set where L2TSEL should be.",
        linter: Reports("InnerTagStripped", "8"),
        test: "i40e_driver::tags_are_stripped_where_asked_and_inserted_with_checksums",
        demo: false,
        edits: &[edit("i40e/init.rs", "(context::rx::L2TSEL, 1)", "(context::rx::SHOWIV, 1)")],
    },
    Bug {
        name: "xl710-queue-set-of-number",
        about: "The context of a transmit queue names the VSI, not its queue set.",
        linter: Reports("QueueSetWrong", "8"),
        test: "i40e_driver::frames_cross_in_either_direction_and_are_counted",
        demo: false,
        edits: &[edit(
            "i40e/init.rs",
            "put(context::tx::RDYLIST, self.state().vsi.queue_set.into());",
            "put(context::tx::RDYLIST, self.state().vsi.number.into());",
        )],
    },
    Bug {
        name: "xl710-transmit-length-missing",
        about: "The length of the transmit ring stays zero.",
        linter: Reports("RingLengthInvalid", "8"),
        test: "i40e_driver::frames_cross_in_either_direction_and_are_counted",
        demo: false,
        edits: &[edit("i40e/init.rs", "put(context::tx::QLEN, ring.size().into());", "")],
    },
    Bug {
        name: "xl710-head-address-missing",
        about: "The head is to be written back, and nobody says where to.",
        linter: Reports("BufferUnmapped", "8"),
        test: "i40e_driver::many_frames_go_round_both_rings",
        demo: false,
        edits: &[edit("i40e/init.rs", "put(context::tx::HEAD_WB_ADDR, head.iova());", "")],
    },
];
