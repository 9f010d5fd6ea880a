//! Interrupts: vectors, moderation, masks.

use super::{Blind, Bug, Reports, edit};

pub(super) const BUGS: &[Bug] = &[
    Bug {
        name: "eitr-out-of-range",
        about: "EITR is written with 16,000, nanoseconds, where it has 2 us units in bits 11:3.",
        linter: Reports("EitrOutOfRange", "8.2.3.5.12"),
        test: "driver_init::eitr_has_the_value_asked_for",
        demo: false,
        edits: &[edit(
            "ixgbe/interrupt.rs",
            "bar.write32(EITR::at(signal.vector), INTERVAL);",
            "bar.write32(EITR::at(signal.vector), 16_000);",
        )],
    },
    Bug {
        name: "ivar-without-valid",
        about: "IVAR names the vector without its valid bit.",
        linter: Reports("InterruptWithoutVector", "8.2.3.5.14"),
        test: "driver_interrupt::a_packet_after_arming_wakes_and_one_before_does_not_stay_hidden",
        demo: false,
        edits: &[edit(
            "ixgbe/interrupt.rs",
            "(signal.vector as u32 | IVAR::VALID) << shift",
            "(signal.vector as u32) << shift",
        )],
    },
    Bug {
        name: "msix-mode-left-off",
        about: "GPIE.MULTIPLE_MSIX stays clear though IVAR names several vectors.",
        linter: Reports("AutoMaskWithoutMsix", "8.2.3.5.18"),
        test: "driver_interrupt::each_queue_has_a_vector_of_its_own",
        demo: false,
        edits: &[edit(
            "ixgbe/interrupt.rs",
            "GPIE::MULTIPLE_MSIX | GPIE::PBA_SUPPORT | GPIE::EIAME | GPIE::OCD",
            "GPIE::PBA_SUPPORT | GPIE::EIAME | GPIE::OCD",
        )],
    },
    Bug {
        name: "eicr-not-cleared",
        about: "EIAC stays zero and nobody clears EICR, so that a cause stays after its interrupt.",
        linter: Reports("CauseNotCleared", "8.2.3.5.5"),
        test: "driver_interrupt::a_packet_after_arming_wakes_and_one_before_does_not_stay_hidden",
        demo: false,
        edits: &[edit("ixgbe/interrupt.rs", "bar.write32(EIAC::AT, 0xFFFF);", "")],
    },
    Bug {
        name: "eimc-instead-of-eims",
        about: "Arming writes EIMC, so that the vector stays masked.",
        linter: Blind(
            "masking what is masked is allowed, and a driver may poll a queue whose vector it never unmasks",
        ),
        test: "driver_interrupt::a_packet_after_arming_wakes_and_one_before_does_not_stay_hidden",
        demo: false,
        edits: &[edit("intel/ring_registers/mod.rs", "[info.eims, info.eimc]", "[info.eimc, info.eimc]")],
    },
    Bug {
        name: "another-vector-unmasked",
        about: "Arming unmasks the vector behind the queue's own.",
        linter: Reports("InterruptWithoutVector", "8.2.3.5.14"),
        test: "driver_interrupt::a_packet_after_arming_wakes_and_one_before_does_not_stay_hidden",
        demo: false,
        edits: &[edit(
            "intel/interrupt.rs",
            "self.unmask.register.write(self.unmask.value);",
            "self.unmask.register.write(self.unmask.value << 1);",
        )],
    },
];
