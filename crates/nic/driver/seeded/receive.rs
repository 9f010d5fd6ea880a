//! Receiving: descriptors taken and given back.

use super::{Blind, Bug, Reports, edit};

pub(super) const BUGS: &[Bug] = &[
    Bug {
        name: "receive-tail-written-once",
        about: "RDT is written after the first refill only: the device runs out of descriptors and stays so.",
        linter: Reports("RxTailRests", "7.1.9"),
        test: "driver_completion::single_packets_are_cleaned_and_none_stays_behind",
        demo: true,
        edits: &[edit(
            "intel/rx.rs",
            "self.tail.write(self.ring.offset(self.filled));",
            "if self.filled == count {
                self.tail.write(self.ring.offset(self.filled));
            }",
        )],
    },
    Bug {
        name: "receive-tail-off-by-one",
        about: "RDT is written one too far: with a full ring it meets the head, which means an empty one.",
        linter: Reports("RxTailRests", "7.1.9"),
        test: "driver_completion::single_packets_are_cleaned_and_none_stays_behind",
        demo: true,
        edits: &[edit(
            "intel/rx.rs",
            "self.tail.write(self.ring.offset(self.filled));",
            "self.tail.write(self.ring.offset(self.filled.wrapping_add(1)));",
        )],
    },
    Bug {
        name: "receive-ring-filled-completely",
        about: "No descriptor stays empty: the tail meets the head, which means an empty ring.",
        linter: Reports("RxTailRests", "7.1.9"),
        test: "driver_completion::single_packets_are_cleaned_and_none_stays_behind",
        demo: true,
        edits: &[edit(
            "intel/rx.rs",
            "let missing = self.ring.size() - 1 - self.owned();",
            "let missing = self.ring.size() - self.owned();",
        )],
    },
    Bug {
        name: "receive-tail-not-wrapped",
        about: "RDT is written with a count that never wraps around the ring.",
        linter: Reports("TailOutOfRange", "7.1.9"),
        test: "driver_completion::single_packets_are_cleaned_and_none_stays_behind",
        demo: true,
        edits: &[edit(
            "intel/rx.rs",
            "self.tail.write(self.ring.offset(self.filled));",
            "self.tail.write(self.filled);",
        )],
    },
    Bug {
        name: "receive-tail-in-bytes",
        about: "RDT is written in bytes, not in descriptors.",
        linter: Reports("TailOutOfRange", "7.1.9"),
        test: "driver_completion::single_packets_are_cleaned_and_none_stays_behind",
        demo: true,
        edits: &[edit(
            "intel/rx.rs",
            "self.tail.write(self.ring.offset(self.filled));",
            "self.tail.write(16 * self.ring.offset(self.filled));",
        )],
    },
    Bug {
        name: "receive-doorbell-before-descriptors",
        about: "RDT is written before the descriptors that it gives to the device.",
        linter: Reports("DescriptorReusedWhileOwned", "7.1.9"),
        test: "driver_descriptor::a_ring_that_ran_dry_is_filled_before_its_doorbell",
        demo: true,
        edits: &[
            edit(
                "intel/rx.rs",
                "let (mut filled, mut fresh) = (self.filled, pool.fresh(missing as usize));",
                "let (mut filled, mut fresh) = {
            let fresh = pool.fresh(missing as usize);
            self.tail.write(self.ring.offset(self.filled.wrapping_add(fresh.len() as u32)));
            (self.filled, fresh)
        };",
            ),
            edit("intel/rx.rs", "self.tail.write(self.ring.offset(self.filled));", ""),
        ],
    },
    Bug {
        name: "receive-done-not-awaited",
        about: "Descriptors are taken without looking at DD, and given back while the device owns them.",
        linter: Reports("TailPassedHead", "7.1.9"),
        test: "driver_completion::single_packets_are_cleaned_and_none_stays_behind",
        demo: true,
        edits: &[edit("intel/rx.rs", "high & L::DONE == 0", "high & L::DONE & 0 != 0")],
    },
    Bug {
        name: "receive-done-not-cleared",
        about: "A descriptor is given back with its done bit still set, and taken again at once.",
        linter: Reports("DoneBitInRxDescriptor", "7.1.6.1"),
        test: "driver_completion::single_packets_are_cleaned_and_none_stays_behind",
        demo: true,
        edits: &[edit("intel/rx.rs", "descriptor[1].store(0, Relaxed);", "")],
    },
    Bug {
        name: "receive-address-low-half",
        about: "A buffer's address is cut to 32 bits.",
        linter: Reports("BufferAddressUnmapped", "7.1.5"),
        test: "driver_completion::single_packets_are_cleaned_and_none_stays_behind",
        demo: true,
        edits: &[edit(
            "intel/rx.rs",
            "descriptor[0].store(packet.rx_iova(), Relaxed);",
            "descriptor[0].store(u64::from(packet.rx_iova() as u32), Relaxed);",
        )],
    },
    Bug {
        name: "receive-buffer-given-twice",
        about: "All descriptors of a refill get the address of the same buffer.",
        linter: Reports("RxBuffersOverlap", "8.2.3.8.7"),
        test: "driver_completion::a_full_ring_leaves_packets_in_the_batch_in_order",
        demo: true,
        edits: &[edit(
            "intel/rx.rs",
            "for ((descriptor, place), packet) in descriptors.iter().zip(packets).zip(&mut fresh) {
                descriptor[0].store(packet.rx_iova(), Relaxed);
                descriptor[1].store(0, Relaxed); // the done bit (7.1.6.1: header address)
                // Not assigned, so that no drop of an old value is compiled in.
                mem::forget(place.replace(packet));
            }",
            "let mut first = None;
            for ((descriptor, place), packet) in descriptors.iter().zip(packets).zip(&mut fresh) {
                descriptor[0].store(*first.get_or_insert(packet.rx_iova()), Relaxed);
                descriptor[1].store(0, Relaxed);
                mem::forget(place.replace(packet));
            }",
        )],
    },
    Bug {
        name: "length-from-the-wrong-field",
        about: "A frame's length is read from the VLAN tag's bits of the descriptor.",
        linter: Blind("what the driver makes of a descriptor that it was given back stays in the host"),
        test: "driver_completion::a_full_ring_leaves_packets_in_the_batch_in_order",
        demo: true,
        edits: &[edit(
            "intel/rx.rs",
            "packet.set_received(low, high);",
            "packet.set_received(low, high & !(0xFFFF << 32) | (high >> 48) << 32);",
        )],
    },
    Bug {
        name: "errors-ignored",
        about: "A descriptor's error bit is not looked at.",
        linter: Blind("what the driver makes of a descriptor that it was given back stays in the host"),
        test: "driver_descriptor::a_frame_with_an_error_is_dropped_and_counted",
        demo: false,
        edits: &[edit(
            "intel/rx.rs",
            "(L::EOP | L::SUSPECT, self.scatter.takes_all())",
            "(L::EOP, self.scatter.takes_all())",
        )],
    },
    Bug {
        name: "verdicts-swapped",
        about: "The error bits of the IPv4 and the L4 checksum are taken for each other.",
        linter: Blind("what the driver makes of a descriptor that it was given back stays in the host"),
        test: "driver_offload::checksum_status_tells_right_from_wrong_from_not_looked_at",
        demo: false,
        edits: &[edit(
            "intel/rx.rs",
            "packet.set_received(low, high);",
            "packet.set_received(low, high & !(3 << 30) | (high >> 1 & 1 << 30) | (high & 1 << 30) << 1);",
        )],
    },
    Bug {
        name: "chain-not-closed",
        about: "After a frame of several buffers the next one is taken for its continuation.",
        linter: Blind("what the driver makes of a descriptor that it was given back stays in the host"),
        test: "driver_scatter::jumbo_frames_cross_in_as_many_buffers_as_they_take",
        demo: false,
        edits: &[edit("intel/scatter.rs", "self.segments = 0;", "")],
    },
    Bug {
        name: "receive-doorbell-to-the-head",
        about: "The doorbell writes RDH, not RDT.",
        linter: Reports("HeadWrittenWhileEnabled", "7.1.9"),
        test: "driver_completion::single_packets_are_cleaned_and_none_stays_behind",
        demo: true,
        edits: &[edit(
            "intel/rx.rs",
            "device.bar.register(device.info.rdt.at(index))",
            "device.bar.register(device.info.rdt.at(index) - 8)",
        )],
    },
];
