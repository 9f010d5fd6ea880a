//! Transmitting: descriptors, reports, doorbells.

use super::{Bug, Reports, edit};

pub(super) const BUGS: &[Bug] = &[
    Bug {
        name: "report-status-missing",
        about: "No descriptor asks for a report: the ring fills up for good.",
        linter: Reports("TxReportStatusMissing", "7.2.3.5"),
        test: "driver_completion::single_packets_are_cleaned_and_none_stays_behind",
        demo: true,
        edits: &[edit(
            "intel/tx.rs",
            "command.store(command.load(Relaxed) | L::REPORT, Relaxed);",
            "command.store(command.load(Relaxed) | L::REPORT & 0, Relaxed);",
        )],
    },
    Bug {
        name: "report-status-after-doorbell",
        about: "RS is set in the last descriptor after TDT gave it to the device.",
        linter: Reports("TxReportStatusMissing", "7.2.3.5"),
        test: "driver_descriptor::descriptors_are_written_before_their_doorbell",
        demo: false,
        edits: &[
            edit(
                "intel/tx.rs",
                "self.report_last();
        self.stats.bursts += 1;",
                "self.stats.bursts += 1;",
            ),
            edit(
                "intel/tx.rs",
                "self.tail.write(self.ring.offset(self.next));",
                "self.tail.write(self.ring.offset(self.next));
        self.report_last();",
            ),
        ],
    },
    Bug {
        name: "transmit-done-not-awaited",
        about: "Buffers are freed and descriptors reused as soon as a report was asked for.",
        linter: Reports("TailPassedHead", "7.2.3.3"),
        test: "driver_completion::a_full_ring_leaves_packets_in_the_batch_in_order",
        demo: true,
        edits: &[edit(
            "intel/tx.rs",
            "!L::done(self.ring.at(report)[1].load(Relaxed))",
            "self.ring.at(report)[1].load(Relaxed) == 0 && false",
        )],
    },
    Bug {
        name: "transmit-ring-filled-completely",
        about: "No descriptor stays empty: the tail meets the head, which means an empty ring.",
        linter: Reports("TailPassedHead", "7.2.3.3"),
        test: "driver_completion::a_full_ring_leaves_packets_in_the_batch_in_order",
        demo: true,
        edits: &[edit(
            "intel/tx.rs",
            "self.ring.size() - 1 - self.in_flight()",
            "self.ring.size() - self.in_flight()",
        )],
    },
    Bug {
        name: "transmit-tail-off-by-one",
        about: "TDT is written one too far: the device takes a descriptor that nobody wrote.",
        linter: Reports("ZeroLengthDescriptor", "7.2.3.2"),
        test: "driver_completion::single_packets_are_cleaned_and_none_stays_behind",
        demo: true,
        edits: &[edit(
            "intel/tx.rs",
            "self.tail.write(self.ring.offset(self.next));",
            "self.tail.write(self.ring.offset(self.next.wrapping_add(1)));",
        )],
    },
    Bug {
        name: "transmit-tail-in-bytes",
        about: "TDT is written in bytes, not in descriptors.",
        linter: Reports("TailOutOfRange", "7.1.9"),
        test: "driver_completion::single_packets_are_cleaned_and_none_stays_behind",
        demo: true,
        edits: &[edit(
            "intel/tx.rs",
            "self.tail.write(self.ring.offset(self.next));",
            "self.tail.write(16 * self.ring.offset(self.next));",
        )],
    },
    Bug {
        name: "transmit-doorbell-before-descriptors",
        about: "TDT is written before the descriptors that it gives to the device.",
        linter: Reports("ZeroLengthDescriptor", "7.2.3.2"),
        test: "driver_descriptor::descriptors_are_written_before_their_doorbell",
        demo: true,
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
    Bug {
        name: "ifcs-missing",
        about: "Descriptors do not ask for a CRC (IFCS).",
        linter: Reports("FrameWithoutCrc", "7.2.3.2.4"),
        test: "driver_completion::single_packets_are_cleaned_and_none_stays_behind",
        demo: true,
        edits: &[edit(
            "intel/layout.rs",
            "TX_DATA | tx::EOP | len | len << tx::PAYLEN_SHIFT",
            "TX_DATA & !(1 << 25) | tx::EOP | len | len << tx::PAYLEN_SHIFT",
        )],
    },
    Bug {
        name: "eop-missing",
        about: "No descriptor ends its packet.",
        linter: Reports("ChainWithoutEop", "7.2.1"),
        test: "driver_completion::single_packets_are_cleaned_and_none_stays_behind",
        demo: true,
        edits: &[edit(
            "intel/layout.rs",
            "TX_DATA | tx::EOP | len | len << tx::PAYLEN_SHIFT",
            "TX_DATA | tx::EOP & 0 | len | len << tx::PAYLEN_SHIFT",
        )],
    },
    Bug {
        name: "paylen-missing",
        about: "PAYLEN is zero.",
        linter: Reports("PaylenWrong", "7.2.3.2.4"),
        test: "driver_completion::single_packets_are_cleaned_and_none_stays_behind",
        demo: true,
        edits: &[edit(
            "intel/layout.rs",
            "TX_DATA | tx::EOP | len | len << tx::PAYLEN_SHIFT",
            "TX_DATA | tx::EOP | len | (len & 0) << tx::PAYLEN_SHIFT",
        )],
    },
    Bug {
        name: "transmit-address-low-half",
        about: "A buffer's address is cut to 32 bits.",
        linter: Reports("BufferAddressUnmapped", "7.1.5"),
        test: "driver_completion::single_packets_are_cleaned_and_none_stays_behind",
        demo: true,
        edits: &[edit(
            "intel/tx.rs",
            "descriptor[0].store(packet.iova(), Relaxed);",
            "descriptor[0].store(u64::from(packet.iova() as u32), Relaxed);",
        )],
    },
    Bug {
        name: "transmit-doorbell-to-the-head",
        about: "The doorbell writes TDH, not TDT.",
        linter: Reports("HeadWrittenWhileEnabled", "7.1.9"),
        test: "driver_completion::single_packets_are_cleaned_and_none_stays_behind",
        demo: true,
        edits: &[edit(
            "intel/tx.rs",
            "device.bar.register(device.info.tdt.at(index))",
            "device.bar.register(device.info.tdt.at(index) - 8)",
        )],
    },
    Bug {
        name: "transmit-tail-not-wrapped",
        about: "TDT is written with a count that never wraps around the ring.",
        linter: Reports("TailOutOfRange", "7.1.9"),
        test: "driver_completion::a_full_ring_leaves_packets_in_the_batch_in_order",
        demo: true,
        edits: &[edit(
            "intel/tx.rs",
            "self.tail.write(self.ring.offset(self.next));",
            "self.tail.write(self.next);",
        )],
    },
    Bug {
        name: "bit-of-an-older-chip",
        about: "Descriptors have bit 28 set, which meant something in older chips and is reserved here.",
        linter: Reports("ReservedBitsWritten", "8.1"),
        test: "driver_completion::single_packets_are_cleaned_and_none_stays_behind",
        demo: true,
        edits: &[edit(
            "intel/layout.rs",
            "TX_DATA | tx::EOP | len | len << tx::PAYLEN_SHIFT",
            "TX_DATA | 1 << 28 | tx::EOP | len | len << tx::PAYLEN_SHIFT",
        )],
    },
];
