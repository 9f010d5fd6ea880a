//! Mistakes in a driver of the 82599's virtual functions: the mailbox, rings, interrupts.

use super::{Bug, Reports, edit};

pub(super) const BUGS: &[Bug] = &[
    Bug {
        name: "ixgbevf-receive-base-low-half",
        about: "VFRDBAH stays zero: the high half of the address of the ring is lost.",
        linter: Reports("RingUnmapped", "8.2.3.8.1"),
        test: "ixgbe_vf_rings::many_frames_go_round_small_rings",
        demo: false,
        edits: &[edit(
            "intel/vf/init.rs",
            "bar.write32(r.rdbah.at(n), (ring.iova() >> 32) as u32);",
            "bar.write32(r.rdbah.at(n), 0);",
        )],
    },
    Bug {
        name: "ixgbevf-receive-base-unaligned",
        about: "The receive ring begins 64 bytes into its region, not at a multiple of 128.",
        linter: Reports("RingBaseUnaligned", "8.2.3.8.1"),
        test: "ixgbe_vf_rings::many_frames_go_round_small_rings",
        demo: false,
        edits: &[edit(
            "intel/vf/init.rs",
            "bar.write32(r.rdbal.at(n), ring.iova() as u32);",
            "bar.write32(r.rdbal.at(n), ring.iova() as u32 + 64);",
        )],
    },
    Bug {
        name: "ixgbevf-receive-length-in-descriptors",
        about: "VFRDLEN is given in descriptors, not in bytes.",
        linter: Reports("TailOutOfRange", "7.1.9"),
        test: "ixgbe_vf_rings::many_frames_go_round_small_rings",
        demo: false,
        edits: &[edit(
            "intel/vf/init.rs",
            "bar.write32(r.rdlen.at(n), ring.bytes());",
            "bar.write32(r.rdlen.at(n), ring.size());",
        )],
    },
    Bug {
        name: "ixgbevf-receive-length-odd",
        about: "VFRDLEN leaves out the last descriptor, and is no multiple of 128.",
        linter: Reports("RingLengthInvalid", "8.2.3.8.3"),
        test: "ixgbe_vf_rings::many_frames_go_round_small_rings",
        demo: false,
        edits: &[edit(
            "intel/vf/init.rs",
            "bar.write32(r.rdlen.at(n), ring.bytes());",
            "bar.write32(r.rdlen.at(n), ring.bytes() - 16);",
        )],
    },
    Bug {
        name: "ixgbevf-receive-tail-before-enable",
        about: "VFRDT is set to the last descriptor of the ring before VFRXDCTL.ENABLE.",
        linter: Reports("TailBeforeEnable", "4.6.7"),
        test: "ixgbe_vf_rings::a_device_that_acts_at_once_finds_all_in_order",
        demo: false,
        edits: &[edit(
            "intel/vf/init.rs",
            "bar.write32(r.rdt.at(n), 0);",
            "bar.write32(r.rdt.at(n), ring.size() - 1);",
        )],
    },
    Bug {
        name: "ixgbevf-receive-enable-not-awaited",
        about: "VFRXDCTL.ENABLE is written, but not read until it is set.",
        linter: Reports("TailBeforeEnable", "4.6.7"),
        test: "ixgbe_vf_rings::queues_that_never_start_are_named",
        demo: false,
        edits: &[edit(
            "intel/vf/init.rs",
            "self.wait(100, name, r.rxdctl.at(n), RXDCTL::ENABLE, RXDCTL::ENABLE, meaning)",
            "{ let _ = (name, meaning); Ok(()) }",
        )],
    },
    Bug {
        name: "ixgbevf-receive-disable-not-awaited",
        about: "VFRXDCTL.ENABLE is cleared, but the ring is freed without reading that it is.",
        linter: Reports("DisableNotAwaited", "4.6.7.1.2"),
        test: "ixgbe_vf_rings::a_queue_that_never_stops_keeps_its_buffers_for_good",
        demo: false,
        edits: &[edit(
            "intel/vf/mod.rs",
            "self.wait(100, control.name, control.at(n), RXDCTL::ENABLE, 0, meaning)",
            "{ let _ = meaning; Ok(()) }",
        )],
    },
    Bug {
        name: "ixgbevf-buffer-size-in-bytes",
        about: "VFSRRCTL.BSIZEPACKET is given in bytes, of which its five bits keep none.",
        linter: Reports("SrrctlBufferInvalid", "8.2.3.8.7"),
        test: "ixgbe_vf_rings::many_frames_go_round_small_rings",
        demo: false,
        edits: &[edit(
            "intel/vf/init.rs",
            "(memory::DATA_ROOM as u32 >> 10) << SRRCTL::BSIZEPACKET_SHIFT",
            "(memory::DATA_ROOM as u32 & 0x1F) << SRRCTL::BSIZEPACKET_SHIFT",
        )],
    },
    Bug {
        name: "ixgbevf-buffer-size-16k",
        about: "VFSRRCTL.BSIZEPACKET says 16 KiB, but the buffers have 2.",
        linter: Reports("RxBuffersOverlap", "8.2.3.8.7"),
        test: "ixgbe_vf_rings::many_frames_go_round_small_rings",
        demo: false,
        edits: &[edit(
            "intel/vf/init.rs",
            "(memory::DATA_ROOM as u32 >> 10) << SRRCTL::BSIZEPACKET_SHIFT",
            "16 << SRRCTL::BSIZEPACKET_SHIFT",
        )],
    },
    Bug {
        name: "ixgbevf-descriptor-type-reserved",
        about: "VFSRRCTL.DESCTYPE is 3, which is reserved.",
        linter: Reports("UnsupportedRxDescriptorType", "8.2.3.8.7"),
        test: "ixgbe_vf_rings::many_frames_go_round_small_rings",
        demo: false,
        edits: &[edit("intel/vf/init.rs", "r.descriptors | size", "3 << 25 | r.descriptors | size")],
    },
    Bug {
        name: "ixgbevf-dca-bit-12-left",
        about: "Bit 12 of VFDCA_RXCTRL stays set, as it is after reset.",
        linter: Reports("DcaRxctrlBitSet", "4.6.7.1"),
        test: "ixgbe_vf_rings::many_frames_go_round_small_rings",
        demo: false,
        edits: &[edit(
            "ixgbevf/function.rs",
            "bar.clear32(VFDCA_RXCTRL::at(n), DCA_RXCTRL::MUST_CLEAR);",
            "",
        )],
    },
    Bug {
        name: "ixgbevf-transmit-base-low-half",
        about: "VFTDBAH stays zero: the high half of the address of the ring is lost.",
        linter: Reports("RingUnmapped", "8.2.3.8.1"),
        test: "ixgbe_vf_rings::many_frames_go_round_small_rings",
        demo: false,
        edits: &[edit(
            "intel/vf/init.rs",
            "bar.write32(r.tdbah.at(n), (ring.iova() >> 32) as u32);",
            "bar.write32(r.tdbah.at(n), 0);",
        )],
    },
    Bug {
        name: "ixgbevf-transmit-base-unaligned",
        about: "The transmit ring begins 64 bytes into its region, not at a multiple of 128.",
        linter: Reports("RingBaseUnaligned", "8.2.3.9.5"),
        test: "ixgbe_vf_rings::many_frames_go_round_small_rings",
        demo: false,
        edits: &[edit(
            "intel/vf/init.rs",
            "bar.write32(r.tdbal.at(n), ring.iova() as u32);",
            "bar.write32(r.tdbal.at(n), ring.iova() as u32 + 64);",
        )],
    },
    Bug {
        name: "ixgbevf-transmit-length-missing",
        about: "VFTDLEN stays zero.",
        linter: Reports("RingLengthInvalid", "8.2.3.9.7"),
        test: "ixgbe_vf_rings::many_frames_go_round_small_rings",
        demo: false,
        edits: &[edit("intel/vf/init.rs", "bar.write32(r.tdlen.at(n), ring.bytes());", "")],
    },
    Bug {
        name: "ixgbevf-transmit-length-in-descriptors",
        about: "VFTDLEN is given in descriptors, not in bytes.",
        linter: Reports("TailOutOfRange", "7.1.9"),
        test: "ixgbe_vf_rings::many_frames_go_round_small_rings",
        demo: false,
        edits: &[edit(
            "intel/vf/init.rs",
            "bar.write32(r.tdlen.at(n), ring.bytes());",
            "bar.write32(r.tdlen.at(n), ring.size());",
        )],
    },
    Bug {
        name: "ixgbevf-transmit-enable-not-awaited",
        about: "VFTXDCTL.ENABLE is written, but not read until it is set.",
        linter: Reports("TailBeforeEnable", "4.6.7"),
        test: "ixgbe_vf_rings::queues_that_never_start_are_named",
        demo: false,
        edits: &[edit(
            "intel/vf/init.rs",
            "self.wait(100, name, r.txdctl.at(n), TXDCTL::ENABLE, TXDCTL::ENABLE, meaning)",
            "{ let _ = (name, meaning); Ok(()) }",
        )],
    },
    Bug {
        name: "ixgbevf-transmit-disable-not-awaited",
        about: "VFTXDCTL.ENABLE is cleared, but the ring is freed without reading that it is.",
        linter: Reports("DisableNotAwaited", "4.6.8.1.2"),
        test: "ixgbe_vf_rings::a_queue_that_never_stops_keeps_its_buffers_for_good",
        demo: false,
        edits: &[edit(
            "intel/chip.rs",
            r#"let stopped = self.wait(100, control.name, control.at(n), TXDCTL::ENABLE, 0, meaning);
        self.flush_dma();
        self.has_released(stopped)"#,
            "{ let _ = meaning; self.flush_dma(); self.has_released(Ok(())) }",
        )],
    },
    Bug {
        name: "ixgbevf-head-write-back-unaligned",
        about: "The head is written back to an address that is no multiple of four.",
        linter: Reports("HeadWriteBackUnaligned", "8.2.3.9.11"),
        test: "ixgbe_vf_rings::heads_that_are_written_back_free_what_was_sent",
        demo: false,
        edits: &[edit(
            "intel/vf/init.rs",
            "head.iova() | u64::from(TDWBAL::HEAD_WB_EN)",
            "(head.iova() + 2) | u64::from(TDWBAL::HEAD_WB_EN)",
        )],
    },
    Bug {
        name: "ixgbevf-threshold-with-head-write-back",
        about: "VFTXDCTL.WTHRESH is 4 while the head is written back.",
        linter: Reports("WthreshWithHeadWriteBack", "7.2.3.5.2"),
        test: "ixgbe_vf_rings::heads_that_are_written_back_free_what_was_sent",
        demo: false,
        edits: &[edit(
            "intel/vf/init.rs",
            "r.thresholds | TXDCTL::ENABLE",
            "r.thresholds | TXDCTL::ENABLE | if head == 0 { 0 } else { 4 << 16 }",
        )],
    },
    Bug {
        name: "ixgbevf-threshold-without-reports",
        about: "VFTXDCTL.WTHRESH is 4 though not every descriptor asks for a report.",
        linter: Reports("ReportStatusBelowWthresh", "7.2.3.5.1"),
        test: "ixgbe_vf_rings::bursts_are_sent_and_freed",
        demo: false,
        edits: &[edit(
            "intel/vf/init.rs",
            "r.thresholds | TXDCTL::ENABLE",
            "r.thresholds | TXDCTL::ENABLE | if head == 0 { 4 << 16 } else { 0 }",
        )],
    },
    Bug {
        name: "ixgbevf-mailbox-not-held",
        about: "A message is written to the mailbox without taking it first (VFU).",
        linter: Reports("MailboxNotHeld", "7.10.2.9"),
        test: "ixgbe_vf_rings::many_frames_go_round_small_rings",
        demo: false,
        edits: &[
            edit("intel/vf/mailbox.rs", "bar.write32(self.registers.mailbox.offset, VFMAILBOX::VFU);", ""),
            edit(
                "intel/vf/mailbox.rs",
                "self.read_status(bar) & VFMAILBOX::VFU != 0",
                "self.read_status(bar) & VFMAILBOX::VFU != 0 || true",
            ),
        ],
    },
    Bug {
        name: "ixgbevf-request-before-message",
        about: "The physical function is told of a message (REQ), which lets go of the mailbox, before the message is in it.",
        linter: Reports("MailboxNotHeld", "7.10.2.9"),
        test: "ixgbe_vf_rings::many_frames_go_round_small_rings",
        demo: false,
        edits: &[edit(
            "intel/vf/mailbox.rs",
            "for (n, word) in words.iter().enumerate() {
            bar.write32(self.registers.memory.at(n), *word);
        }",
            "bar.write32(self.registers.mailbox.offset, VFMAILBOX::REQ);
        for (n, word) in words.iter().enumerate() {
            bar.write32(self.registers.memory.at(n), *word);
        }",
        )],
    },
    Bug {
        name: "ixgbevf-status-written",
        about: "VFSTATUS, which software may only read, is written to push the reset out.",
        linter: Reports("ReadOnlyWritten", "8.2.2"),
        test: "ixgbe_vf_rings::many_frames_go_round_small_rings",
        demo: false,
        edits: &[edit(
            "intel/vf/mod.rs",
            "self.bar.read32(F::REGISTERS.status.offset);",
            "self.bar.write32(F::REGISTERS.status.offset, 0);",
        )],
    },
    Bug {
        name: "ixgbevf-mask-of-the-port",
        about: "Interrupts are masked by EIMC, which is a register of the physical function.",
        linter: Reports("UnknownRegister", "8.1"),
        test: "ixgbe_vf_rings::many_frames_go_round_small_rings",
        demo: false,
        edits: &[edit(
            "intel/vf/mod.rs",
            "self.bar.write32(F::REGISTERS.eimc.offset, u32::MAX);",
            "self.bar.write32(regs::ixgbe::EIMC::AT, u32::MAX);",
        )],
    },
    Bug {
        name: "ixgbevf-interval-out-of-range",
        about: "VTEITR is written with 16,000, nanoseconds, where it has 2 us units in bits 11:3.",
        linter: Reports("EitrOutOfRange", "8.2.3.5.12"),
        test: "ixgbe_vf_rings::queues_that_are_armed_break_no_rule",
        demo: false,
        edits: &[edit(
            "intel/vf/init.rs",
            "bar.write32(r.eitr.at(signal.vector), r.interval);",
            "bar.write32(r.eitr.at(signal.vector), 16_000);",
        )],
    },
    Bug {
        name: "ixgbevf-vector-without-valid",
        about: "VTIVAR names the vector without its valid bit.",
        linter: Reports("IvarEntryInvalid", "8.2.3.5.14"),
        test: "ixgbe_vf_rings::queues_that_are_armed_break_no_rule",
        demo: false,
        edits: &[edit(
            "intel/vf/init.rs",
            "(signal.vector as u32 | VTIVAR::VALID) << shift",
            "(signal.vector as u32) << shift",
        )],
    },
    Bug {
        name: "ixgbevf-causes-not-cleared",
        about: "VTEIAC stays zero and nobody clears VTEICR, so that a cause stays after its interrupt.",
        linter: Reports("CauseNotCleared", "8.2.3.5.5"),
        test: "ixgbe_vf_rings::queues_that_are_armed_break_no_rule",
        demo: false,
        edits: &[edit("intel/vf/init.rs", "bar.write32(r.eiac.offset, ALL_VECTORS);", "")],
    },
];
