//! Descriptors, doorbells and reports, both ways.

use super::{Bug, Reports, edit};

pub(super) const BUGS: &[Bug] = &[
    Bug {
        name: "xl710-receive-address-low-half",
        about: "The address of a buffer is cut to 32 bits.",
        linter: Reports("BufferUnmapped", "8"),
        test: "i40e_driver::frames_cross_in_either_direction_and_are_counted",
        demo: false,
        edits: &[edit(
            "intel/rx.rs",
            "descriptor[0].store(packet.rx_iova(), Relaxed);",
            "descriptor[0].store(u64::from(packet.rx_iova() as u32), Relaxed);",
        )],
    },
    Bug {
        name: "xl710-receive-tail-in-bytes",
        about: "The receive tail is written in bytes, not in descriptors.",
        linter: Reports("TailOutOfRange", "8"),
        test: "i40e_driver::frames_cross_in_either_direction_and_are_counted",
        demo: false,
        edits: &[edit(
            "intel/rx.rs",
            "self.tail.write(self.ring.offset(self.filled));",
            "self.tail.write(16 * self.ring.offset(self.filled));",
        )],
    },
    Bug {
        name: "xl710-receive-tail-stale",
        about: "The receive tail is written after the first refill only.",
        linter: Reports("RxTailRests", "8"),
        test: "i40e_rings::a_ring_that_ran_dry_is_filled_again",
        demo: false,
        edits: &[edit(
            "intel/rx.rs",
            "self.tail.write(self.ring.offset(self.filled));",
            "if self.filled == count {
                self.tail.write(self.ring.offset(self.filled));
            }",
        )],
    },
    Bug {
        name: "xl710-receive-ring-filled-completely",
        about: "No receive descriptor stays empty: the tail meets the head, which means an empty ring.",
        linter: Reports("RxTailRests", "8"),
        test: "i40e_driver::frames_cross_in_either_direction_and_are_counted",
        demo: false,
        edits: &[edit(
            "intel/rx.rs",
            "let missing = self.ring.size() - 1 - self.owned();",
            "let missing = self.ring.size() - self.owned();",
        )],
    },
    Bug {
        name: "xl710-end-missing",
        about: "No descriptor ends its packet (EOP).",
        linter: Reports("ReportWithoutEnd", "8"),
        test: "i40e_driver::frames_cross_in_either_direction_and_are_counted",
        demo: false,
        edits: &[edit(
            "i40e/layout.rs",
            "tx::EOP | tx::ICRC | Self::buffer(len)",
            "tx::ICRC | Self::buffer(len)",
        )],
    },
    Bug {
        name: "xl710-length-missing",
        about: "Descriptors of whole packets have no length.",
        linter: Reports("ZeroLengthDescriptor", "8"),
        test: "i40e_driver::frames_cross_in_either_direction_and_are_counted",
        demo: false,
        edits: &[edit("i40e/layout.rs", "tx::EOP | tx::ICRC | Self::buffer(len)", "tx::EOP | tx::ICRC")],
    },
    Bug {
        name: "xl710-length-two-bits-low",
        about: "The length of a buffer stands two bits too low.",
        linter: Reports("TxLengthInvalid", "8"),
        test: "i40e_driver::frames_cross_in_either_direction_and_are_counted",
        demo: false,
        edits: &[edit("i40e/layout.rs", "len << tx::SIZE_SHIFT", "len << (tx::SIZE_SHIFT - 2)")],
    },
    Bug {
        name: "xl710-short-packets",
        about: "Packets of fewer than 17 bytes are given to the device.",
        linter: Reports("TxLengthInvalid", "8"),
        test: "i40e_driver::packets_too_short_for_the_chip_are_counted_and_not_sent",
        demo: false,
        edits: &[
            edit("intel/tx.rs", "packet.len() >= L::SHORTEST", "packet.len() >= 1"),
            edit("intel/offload.rs", "total >= L::SHORTEST as u64", "total >= 1"),
        ],
    },
    Bug {
        name: "xl710-too-many-buffers",
        about: "Packets of more than eight buffers are given to the device.",
        linter: Reports("TooManyBuffers", "8"),
        test: "i40e_rings::chains_of_more_buffers_than_the_chip_takes_are_dropped_and_counted",
        demo: false,
        edits: &[edit("intel/offload.rs", "segments <= L::MAX_SEGMENTS", "segments <= 38")],
    },
    Bug {
        name: "xl710-report-in-every-buffer",
        about: "Each buffer of a packet asks for a report, and not the last one alone.",
        linter: Reports("ReportWithoutEnd", "8"),
        test: "i40e_driver::long_frames_come_in_several_buffers",
        demo: false,
        edits: &[edit(
            "intel/tx/special.rs",
            "bits | end | L::buffer(len)",
            "bits | L::REPORT | end | L::buffer(len)",
        )],
    },
    Bug {
        name: "xl710-reports-too-rare",
        about: "No descriptor asks for a report: the ring fills up for good.",
        linter: Reports("ReportsTooRare", "8"),
        test: "i40e_rings::a_full_ring_leaves_packets_in_the_batch_until_some_are_sent",
        demo: false,
        edits: &[edit(
            "intel/tx.rs",
            "command.store(command.load(Relaxed) | L::REPORT, Relaxed);",
            "command.store(command.load(Relaxed) | L::REPORT & 0, Relaxed);",
        )],
    },
    Bug {
        name: "xl710-done-misread",
        about: "The type of a descriptor is compared so that any type means that it is done.",
        linter: Reports("TailPassedHead", "8"),
        test: "i40e_rings::a_full_ring_leaves_packets_in_the_batch_until_some_are_sent",
        demo: false,
        edits: &[edit(
            "i40e/layout.rs",
            "command & tx::DTYPE_MASK == tx::DTYPE_DONE",
            "command & tx::DTYPE_DONE == command & tx::DTYPE_MASK",
        )],
    },
    Bug {
        name: "xl710-transmit-ring-filled-completely",
        about: "No transmit descriptor stays empty: the tail meets the head, which means an empty ring.",
        linter: Reports("TailPassedHead", "8"),
        test: "i40e_rings::a_full_ring_leaves_packets_in_the_batch_until_some_are_sent",
        demo: false,
        edits: &[edit(
            "intel/tx.rs",
            "self.ring.size() - 1 - self.in_flight()",
            "self.ring.size() - self.in_flight()",
        )],
    },
    Bug {
        name: "xl710-transmit-tail-not-wrapped",
        about: "The transmit tail is a count that never wraps around the ring.",
        linter: Reports("TailOutOfRange", "8"),
        test: "i40e_driver::many_frames_go_round_both_rings",
        demo: false,
        edits: &[edit(
            "intel/tx.rs",
            "self.tail.write(self.ring.offset(self.next));",
            "self.tail.write(self.next);",
        )],
    },
    Bug {
        name: "xl710-doorbell-before-descriptors",
        about: "The transmit tail is written before the descriptors that it gives to the device.",
        linter: Reports("ZeroLengthDescriptor", "8"),
        test: "i40e_rings::descriptors_are_written_before_their_doorbell",
        demo: false,
        edits: &[edit(
            "intel/tx.rs",
            "let (start, offered) = (self.next, batch.len());",
            "let (start, offered) = {
            let ahead = self.next.wrapping_add(self.room().min(batch.len() as u32));
            self.tail.write(self.ring.offset(ahead));
            (self.next, batch.len())
        };",
        )],
    },
];
