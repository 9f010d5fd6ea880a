//! Handing rings to the device, and taking them back.

use super::{Bug, Reports, edit};

pub(super) const BUGS: &[Bug] = &[
    Bug {
        name: "receive-length-in-descriptors",
        about: "RDLEN is given in descriptors, not in bytes.",
        linter: Reports("TailOutOfRange", "7.1.9"),
        test: "driver_completion::single_packets_are_cleaned_and_none_stays_behind",
        demo: true,
        edits: &[edit(
            "ixgbe/init.rs",
            "bar.write32(RDLEN::at(n), ring.bytes());",
            "bar.write32(RDLEN::at(n), ring.size());",
        )],
    },
    Bug {
        name: "transmit-length-in-descriptors",
        about: "TDLEN is given in descriptors, not in bytes.",
        linter: Reports("TailOutOfRange", "7.1.9"),
        test: "driver_completion::single_packets_are_cleaned_and_none_stays_behind",
        demo: true,
        edits: &[edit(
            "ixgbe/init.rs",
            "bar.write32(TDLEN::at(n), ring.bytes());",
            "bar.write32(TDLEN::at(n), ring.size());",
        )],
    },
    Bug {
        name: "receive-base-low-half",
        about: "RDBAH stays zero: the high half of the ring's address is lost.",
        linter: Reports("RingUnmapped", "8.2.3.8.1"),
        test: "driver_completion::single_packets_are_cleaned_and_none_stays_behind",
        demo: true,
        edits: &[edit(
            "ixgbe/init.rs",
            "bar.write32(RDBAH::at(n), (ring.iova() >> 32) as u32);",
            "bar.write32(RDBAH::at(n), 0);",
        )],
    },
    Bug {
        name: "transmit-base-low-half",
        about: "TDBAH stays zero: the high half of the ring's address is lost.",
        linter: Reports("RingUnmapped", "8.2.3.8.1"),
        test: "driver_completion::single_packets_are_cleaned_and_none_stays_behind",
        demo: true,
        edits: &[edit(
            "ixgbe/init.rs",
            "bar.write32(TDBAH::at(n), (ring.iova() >> 32) as u32);",
            "bar.write32(TDBAH::at(n), 0);",
        )],
    },
    Bug {
        name: "receive-base-unaligned",
        about: "The receive ring begins 64 bytes into its region, not at a multiple of 128.",
        linter: Reports("RingBaseUnaligned", "8.2.3.8.1"),
        test: "driver_lifecycle::a_port_opens_again_and_again_and_leaks_nothing",
        demo: true,
        edits: &[edit(
            "ixgbe/init.rs",
            "bar.write32(RDBAL::at(n), ring.iova() as u32);",
            "bar.write32(RDBAL::at(n), ring.iova() as u32 + 64);",
        )],
    },
    Bug {
        name: "buffer-size-in-bytes",
        about: "SRRCTL.BSIZEPACKET is given in bytes, of which its five bits keep none.",
        linter: Reports("SrrctlBufferInvalid", "8.2.3.8.7"),
        test: "driver_completion::single_packets_are_cleaned_and_none_stays_behind",
        demo: true,
        edits: &[edit(
            "ixgbe/init.rs",
            "(memory::DATA_ROOM as u32 >> 10) << SRRCTL::BSIZEPACKET_SHIFT",
            "(memory::DATA_ROOM as u32 & 0x1F) << SRRCTL::BSIZEPACKET_SHIFT",
        )],
    },
    Bug {
        name: "buffer-size-16k",
        about: "SRRCTL.BSIZEPACKET says 16 KiB, but the buffers have 2.",
        linter: Reports("RxBuffersOverlap", "8.2.3.8.7"),
        test: "driver_scatter::jumbo_frames_cross_in_as_many_buffers_as_they_take",
        demo: true,
        edits: &[edit(
            "ixgbe/init.rs",
            "(memory::DATA_ROOM as u32 >> 10) << SRRCTL::BSIZEPACKET_SHIFT",
            "16 << SRRCTL::BSIZEPACKET_SHIFT",
        )],
    },
    Bug {
        name: "descriptor-type-legacy",
        about: "SRRCTL.DESCTYPE stays zero: the device writes legacy descriptors, the driver reads advanced ones.",
        linter: Reports("LegacyDescriptorWithRss", "8.2.3.8.7"),
        test: "driver_completion::single_packets_are_cleaned_and_none_stays_behind",
        demo: true,
        edits: &[edit("ixgbe/init.rs", "descriptor_type(options) | size | drop", "size | drop")],
    },
    Bug {
        name: "descriptor-type-reserved",
        about: "SRRCTL.DESCTYPE is 3, which is reserved.",
        linter: Reports("UnsupportedRxDescriptorType", "8.2.3.8.7"),
        test: "driver_completion::single_packets_are_cleaned_and_none_stays_behind",
        demo: true,
        edits: &[edit("ixgbe/init.rs", "descriptor_type(options) | size | drop", "3 << 25 | size | drop")],
    },
    Bug {
        name: "dca-bit-12-left",
        about: "Bit 12 of DCA_RXCTRL stays set, as it is after reset.",
        linter: Reports("DcaRxctrlBitSet", "4.6.7.1"),
        test: "driver_init::dca_bits_are_as_the_datasheet_wants",
        demo: true,
        edits: &[edit("ixgbe/init.rs", "bar.clear32(DCA_RXCTRL::at(n), DCA_RXCTRL::MUST_CLEAR);", "")],
    },
    Bug {
        name: "receive-tail-before-enable",
        about: "RDT is set to the ring's last descriptor before RXDCTL.ENABLE.",
        linter: Reports("TailBeforeEnable", "4.6.7"),
        test: "driver_init::initialisation_is_in_the_datasheets_order",
        demo: false,
        edits: &[edit(
            "ixgbe/init.rs",
            "bar.write32(RDT::at(n), 0);",
            "bar.write32(RDT::at(n), ring.size() - 1);",
        )],
    },
    Bug {
        name: "receive-head-after-enable",
        about: "RDH is written with the ring's end after RXDCTL.ENABLE.",
        linter: Reports("HeadWrittenWhileEnabled", "7.1.9"),
        test: "driver_init::initialisation_is_in_the_datasheets_order",
        demo: true,
        edits: &[edit(
            "ixgbe/init.rs",
            r#"self.wait(100, "RXDCTL", RXDCTL::at(n), RXDCTL::ENABLE, RXDCTL::ENABLE, meaning)?;"#,
            r#"self.wait(100, "RXDCTL", RXDCTL::at(n), RXDCTL::ENABLE, RXDCTL::ENABLE, meaning)?;
        sleep(Duration::from_millis(1));
        bar.write32(RDH::at(n), ring.size() - 1);"#,
        )],
    },
    Bug {
        name: "receive-enable-not-awaited",
        about: "RXDCTL.ENABLE is written, but not read until it is set.",
        linter: Reports("TailBeforeEnable", "4.6.7"),
        test: "driver_error::queues_that_never_start_are_named",
        demo: false,
        edits: &[edit(
            "ixgbe/init.rs",
            r#"self.wait(100, "RXDCTL", RXDCTL::at(n), RXDCTL::ENABLE, RXDCTL::ENABLE, meaning)?;"#,
            "let _ = meaning;",
        )],
    },
    Bug {
        name: "transmit-enable-not-awaited",
        about: "TXDCTL.ENABLE is written, but not read until it is set.",
        linter: Reports("TailBeforeEnable", "4.6.7"),
        test: "driver_error::queues_that_never_start_are_named",
        demo: false,
        edits: &[edit(
            "ixgbe/init.rs",
            r#"self.wait(100, "TXDCTL", TXDCTL::at(n), TXDCTL::ENABLE, TXDCTL::ENABLE, meaning)?;"#,
            "let _ = meaning;",
        )],
    },
    Bug {
        name: "threshold-with-head-write-back",
        about: "TXDCTL.WTHRESH is 4 while the head is written back.",
        linter: Reports("WthreshWithHeadWriteBack", "7.2.3.5.2"),
        test: "driver_completion::head_write_back_gives_the_same_results_as_reports",
        demo: false,
        edits: &[edit(
            "ixgbe/init.rs",
            "36 << TXDCTL::PTHRESH_SHIFT | 8 << TXDCTL::HTHRESH_SHIFT",
            "36 << TXDCTL::PTHRESH_SHIFT | 8 << TXDCTL::HTHRESH_SHIFT | if head == 0 { 0 } else { 4 << 16 }",
        )],
    },
    Bug {
        name: "threshold-without-reports",
        about: "TXDCTL.WTHRESH is 4 though not every descriptor asks for a report.",
        linter: Reports("ReportStatusBelowWthresh", "7.2.3.5.1"),
        test: "driver_completion::a_full_ring_leaves_packets_in_the_batch_in_order",
        demo: true,
        edits: &[edit(
            "ixgbe/init.rs",
            "36 << TXDCTL::PTHRESH_SHIFT | 8 << TXDCTL::HTHRESH_SHIFT",
            "36 << TXDCTL::PTHRESH_SHIFT | 8 << TXDCTL::HTHRESH_SHIFT | if head == 0 { 4 << 16 } else { 0 }",
        )],
    },
    Bug {
        name: "head-write-back-unaligned",
        about: "The head is written back to an address that is no multiple of four.",
        linter: Reports("HeadWriteBackUnaligned", "8.2.3.9.11"),
        test: "driver_completion::head_write_back_gives_the_same_results_as_reports",
        demo: false,
        edits: &[edit(
            "ixgbe/init.rs",
            "head.iova() | u64::from(TDWBAL::HEAD_WB_EN)",
            "(head.iova() + 2) | u64::from(TDWBAL::HEAD_WB_EN)",
        )],
    },
    Bug {
        name: "receive-queue-never-disabled",
        about: "A receive ring is freed with RXDCTL.ENABLE still set.",
        linter: Reports("RingFreedWhileEnabled", "4.6.7.1.2"),
        test: "driver_lifecycle::a_queue_dropped_under_traffic_lets_go_of_its_buffers",
        demo: true,
        edits: &[edit(
            "intel/rx.rs",
            "if !self.owner.disable_rx(self.index) {
            self.owner.device().retire(self.ring.take_memory());
        }",
            "",
        )],
    },
    Bug {
        name: "transmit-queue-never-disabled",
        about: "A transmit ring is freed with TXDCTL.ENABLE still set.",
        linter: Reports("RingFreedWhileEnabled", "4.6.8.1.2"),
        test: "driver_lifecycle::packets_that_were_handed_over_are_sent_before_a_queue_goes",
        demo: true,
        edits: &[edit(
            "intel/tx.rs",
            "if !self.owner.disable_tx(self.index) {
            let device = self.owner.device();
            device.retire(self.ring.take_memory());
            self.head.take().into_iter().for_each(|head| device.retire(Box::new(head)));
        }",
            "",
        )],
    },
    Bug {
        name: "receive-disable-not-awaited",
        about: "RXDCTL.ENABLE is cleared, but the ring is freed without reading that it is.",
        linter: Reports("DisableNotAwaited", "4.6.7.1.2"),
        test: "driver_error::a_queue_that_never_stops_keeps_its_memory_for_good",
        demo: false,
        edits: &[edit(
            "ixgbe/device.rs",
            r#"let stopped = self.wait(100, "RXDCTL", RXDCTL::at(n), RXDCTL::ENABLE, 0, meaning);
        self.flush_dma();
        self.has_released(stopped)"#,
            "{ let _ = meaning; true }",
        )],
    },
    Bug {
        name: "transmit-disable-not-awaited",
        about: "TXDCTL.ENABLE is cleared, but the ring is freed without reading that it is.",
        linter: Reports("DisableNotAwaited", "4.6.8.1.2"),
        test: "driver_descriptor::a_transmit_queue_that_never_stops_keeps_its_buffers_for_good",
        demo: false,
        edits: &[edit(
            "intel/chip.rs",
            r#"let stopped = self.wait(100, control.name, control.at(n), TXDCTL::ENABLE, 0, meaning);
        self.flush_dma();
        self.has_released(stopped)"#,
            "{ let _ = meaning; true }",
        )],
    },
    Bug {
        name: "receive-length-odd",
        about: "RDLEN leaves out the ring's last descriptor, and is no multiple of 128.",
        linter: Reports("RingLengthInvalid", "8.2.3.8.3"),
        test: "driver_lifecycle::a_port_opens_again_and_again_and_leaks_nothing",
        demo: true,
        edits: &[edit(
            "ixgbe/init.rs",
            "bar.write32(RDLEN::at(n), ring.bytes());",
            "bar.write32(RDLEN::at(n), ring.bytes() - 16);",
        )],
    },
    Bug {
        name: "transmit-length-missing",
        about: "TDLEN stays zero.",
        linter: Reports("RingLengthInvalid", "8.2.3.9.7"),
        test: "driver_completion::single_packets_are_cleaned_and_none_stays_behind",
        demo: true,
        edits: &[edit("ixgbe/init.rs", "bar.write32(TDLEN::at(n), ring.bytes());", "")],
    },
    Bug {
        name: "transmit-base-unaligned",
        about: "The transmit ring begins 64 bytes into its region, not at a multiple of 128.",
        linter: Reports("RingBaseUnaligned", "8.2.3.9.5"),
        test: "driver_lifecycle::a_port_opens_again_and_again_and_leaks_nothing",
        demo: true,
        edits: &[edit(
            "ixgbe/init.rs",
            "bar.write32(TDBAL::at(n), ring.iova() as u32);",
            "bar.write32(TDBAL::at(n), ring.iova() as u32 + 64);",
        )],
    },
    Bug {
        name: "queue-index-forgotten",
        about: "Every receive ring's address is written to the registers of queue 0.",
        linter: Reports("RingsOverlap", "8.2.3.8.1"),
        test: "driver_multiqueue::each_kind_of_packet_is_hashed_over_its_own_fields",
        demo: false,
        edits: &[edit(
            "ixgbe/init.rs",
            "bar.write32(RDBAL::at(n), ring.iova() as u32);",
            "bar.write32(RDBAL::at(0), ring.iova() as u32);",
        )],
    },
];
