//! Queues: what is told of them, interrupts, the hash, descriptors.

use super::{Bug, Reports, edit};

pub(super) const BUGS: &[Bug] = &[
    Bug {
        name: "iavf-receive-base-low-half",
        about: "The address of the receive ring is cut to 32 bits.",
        linter: Reports("RingUnmapped", "8"),
        test: "i40e_vf_rings::many_frames_go_round_small_rings",
        demo: false,
        edits: &[edit(
            "iavf/init.rs",
            "(queue.ring.size(), queue.ring.iova())",
            "(queue.ring.size(), u64::from(queue.ring.iova() as u32))",
        )],
    },
    Bug {
        name: "iavf-receive-base-unaligned",
        about: "The receive ring begins 64 bytes into its region, not at a multiple of 128.",
        linter: Reports("RingBaseUnaligned", "8"),
        test: "i40e_vf_rings::many_frames_go_round_small_rings",
        demo: false,
        edits: &[edit(
            "iavf/init.rs",
            "(queue.ring.size(), queue.ring.iova())",
            "(queue.ring.size(), queue.ring.iova() + 64)",
        )],
    },
    Bug {
        name: "iavf-receive-length-in-bytes",
        about: "The length of the receive ring is given in bytes, not in descriptors.",
        linter: Reports("RingLengthInvalid", "8"),
        test: "i40e_vf::frames_go_between_virtual_functions_the_port_and_the_wire",
        demo: false,
        edits: &[edit(
            "iavf/init.rs",
            "(queue.ring.size(), queue.ring.iova())",
            "(32 * queue.ring.size(), queue.ring.iova())",
        )],
    },
    Bug {
        name: "iavf-buffer-size-in-units",
        about: "The size of buffers is given in units of 128 bytes, as contexts have it, not in bytes.",
        linter: Reports("BufferSizeInvalid", "8"),
        test: "i40e_vf_rings::many_frames_go_round_small_rings",
        demo: false,
        edits: &[edit(
            "iavf/init.rs",
            "(DATA_ROOM as u32, options.max_frame as u32 + 12)",
            "(DATA_ROOM as u32 / 128, options.max_frame as u32 + 12)",
        )],
    },
    Bug {
        name: "iavf-longest-frame-missing",
        about: "The longest frame of the receive queue is zero.",
        linter: Reports("RxMaxInvalid", "8"),
        test: "i40e_vf_rings::many_frames_go_round_small_rings",
        demo: false,
        edits: &[edit(
            "iavf/init.rs",
            "(DATA_ROOM as u32, options.max_frame as u32 + 12)",
            "(DATA_ROOM as u32, 0)",
        )],
    },
    Bug {
        name: "iavf-transmit-base-unaligned",
        about: "The transmit ring begins 64 bytes into its region, not at a multiple of 128.",
        linter: Reports("RingBaseUnaligned", "8"),
        test: "i40e_vf_rings::many_frames_go_round_small_rings",
        demo: false,
        edits: &[edit(
            "iavf/init.rs",
            "(queue.ring.size() as u16, queue.ring.iova())",
            "(queue.ring.size() as u16, queue.ring.iova() + 64)",
        )],
    },
    Bug {
        name: "iavf-transmit-length-missing",
        about: "The length of the transmit ring is zero, which means that there is no such queue.",
        linter: Reports("TxTailBeforeEnable", "8"),
        test: "i40e_vf_rings::many_frames_go_round_small_rings",
        demo: false,
        edits: &[edit(
            "iavf/init.rs",
            "(queue.ring.size() as u16, queue.ring.iova())",
            "(0, queue.ring.iova())",
        )],
    },
    Bug {
        name: "iavf-head-address-missing",
        about: "The head is to be written back, to address zero.",
        linter: Reports("BufferUnmapped", "8"),
        test: "i40e_vf_rings::heads_that_are_written_back_free_what_was_sent",
        demo: false,
        edits: &[edit(
            "iavf/init.rs",
            "queue.head.as_ref().map(|head| head.iova())",
            "queue.head.as_ref().map(|_| 0)",
        )],
    },
    Bug {
        name: "iavf-queues-of-another-vsi",
        about: "CONFIG_VSI_QUEUES names the VSI with the next number.",
        linter: Reports("MessageArgumentInvalid", "AVF 6"),
        test: "i40e_vf_rings::many_frames_go_round_small_rings",
        demo: false,
        edits: &[edit(
            "iavf/init.rs",
            "self.ask(op::CONFIG_VSI_QUEUES, &Queues { vsi, pairs }.encode())?;",
            "self.ask(op::CONFIG_VSI_QUEUES, &Queues { vsi: vsi + 1, pairs }.encode())?;",
        )],
    },
];
