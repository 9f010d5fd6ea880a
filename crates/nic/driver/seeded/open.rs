//! Opening and closing the port: bus mastering, reset, counters, interrupts off.

use super::{Blind, Bug, Reports, edit};

pub(super) const BUGS: &[Bug] = &[
    Bug {
        name: "bus-master-off",
        about: "The device is never allowed to reach memory: bit 2 of the PCI command register stays clear.",
        linter: Reports("BusMasterOff", "9.3.3.3"),
        test: "driver_completion::single_packets_are_cleaned_and_none_stays_behind",
        demo: true,
        edits: &[edit("intel/chip.rs", "pci.set_bus_master(true)?;", "pci.set_bus_master(false)?;")],
    },
    Bug {
        name: "master-disable-missing-at-open",
        about: "The device is reset at open without CTRL.PCIE_MASTER_DISABLE first.",
        linter: Reports("ResetWithoutMasterDisable", "5.2.5.3.2"),
        test: "driver_init::master_is_disabled_before_reset_and_on_close",
        demo: true,
        edits: &[edit(
            "ixgbe/init.rs",
            "self.mask_interrupts();\n        self.quiesce();",
            "self.mask_interrupts();",
        )],
    },
    Bug {
        name: "master-disable-not-awaited",
        about: "The device is reset without waiting until STATUS says that no request of it is under way.",
        linter: Reports("ResetWithoutMasterDisable", "5.2.5.3.2"),
        test: "driver_init::master_is_disabled_before_reset_and_on_close",
        demo: true,
        edits: &[edit(
            "intel/ring_registers/mod.rs",
            r#"let idle = self.wait(100, "STATUS", STATUS::AT, STATUS::PCIE_MASTER_ENABLE, 0, meaning);"#,
            r#"let idle = { let _ = meaning; Ok::<(), Error>(()) };"#,
        )],
    },
    Bug {
        name: "master-disable-missing-at-close",
        about: "The device is reset on close without CTRL.PCIE_MASTER_DISABLE first.",
        linter: Reports("ResetWithoutMasterDisable", "5.2.5.3.2"),
        test: "driver_init::master_is_disabled_before_reset_and_on_close",
        demo: true,
        edits: &[edit(
            "intel/ring_registers/mod.rs",
            "self.quiesce();\n        reset(&self.bar);",
            "reset(&self.bar);",
        )],
    },
    Bug {
        name: "no-sleep-after-reset",
        about: "Registers are read and written at once after CTRL.RST.",
        linter: Reports("ResetNotWaited", "4.6.3.2"),
        test: "driver_init::initialisation_is_in_the_datasheets_order",
        demo: true,
        edits: &[edit("ixgbe/init.rs", "sleep(Duration::from_millis(10));", "sleep(Duration::ZERO);")],
    },
    Bug {
        name: "interrupts-not-masked-after-reset",
        about: "EIMC is written before the reset only.",
        linter: Reports("InterruptsBeforeReset", "4.6.3.1"),
        test: "driver_init::initialisation_is_in_the_datasheets_order",
        demo: true,
        edits: &[edit(
            "ixgbe/init.rs",
            r#"self.wait(1000, "CTRL", CTRL::AT, CTRL::RST | CTRL::LRST, 0, meaning)?;
        self.mask_interrupts();"#,
            r#"self.wait(1000, "CTRL", CTRL::AT, CTRL::RST | CTRL::LRST, 0, meaning)?;"#,
        )],
    },
    Bug {
        name: "eeprom-not-awaited",
        about: "Nobody looks whether the EEPROM was loaded (EEC.AUTO_RD).",
        linter: Reports("EepromNotAwaited", "4.6.3.2"),
        test: "driver_error::an_eeprom_that_is_never_read_is_named",
        demo: true,
        edits: &[edit(
            "ixgbe/init.rs",
            r#"self.wait(1000, "EEC", EEC::AT, EEC::AUTO_RD, EEC::AUTO_RD, meaning)?;"#,
            "let _ = meaning;",
        )],
    },
    Bug {
        name: "receive-memory-not-awaited",
        about: "RDRXCTL is written whole, without a look whether the receive DMA unit has initialised (DMAIDONE).",
        linter: Reports("DmaInitNotAwaited", "4.6.3.2"),
        test: "driver_error::receive_memory_that_never_initialises_is_named",
        demo: true,
        edits: &[
            edit(
                "ixgbe/init.rs",
                r#"self.wait(1000, "RDRXCTL", RDRXCTL::AT, RDRXCTL::DMAIDONE, RDRXCTL::DMAIDONE, meaning)?;"#,
                "let _ = meaning;",
            ),
            edit(
                "ixgbe/init.rs",
                "bar.set32(RDRXCTL::AT, RDRXCTL::CRCSTRIP);",
                "bar.write32(RDRXCTL::AT, RDRXCTL::CRCSTRIP);",
            ),
            edit("ixgbe/init.rs", "bar.clear32(RDRXCTL::AT, RDRXCTL::RSCFRSTSIZE_MASK);", ""),
        ],
    },
    Bug {
        name: "wait-ignores-its-limit",
        about: "A wait that was in vain ends like one that was not: the time-out is no error.",
        linter: Blind(
            "only a device that is broken needs the limit; this one comes to the state that is waited for",
        ),
        test: "driver_error::queues_that_never_start_are_named",
        demo: false,
        edits: &[edit(
            "wait.rs",
            "Err(Error::Timeout { device, register, offset, last, mask, wanted, waited_ms, meaning })",
            "{ let _ = Error::Timeout { device, register, offset, last, mask, wanted, waited_ms, meaning }; Ok(()) }",
        )],
    },
    Bug {
        name: "counters-not-cleared",
        about: "The statistics registers are not read at open, so that the first report has what came before.",
        linter: Reports("CountersNotCleared", "4.6.5"),
        test: "driver_init::counters_start_at_zero",
        demo: false,
        edits: &[edit("ixgbe/init.rs", "self.clear_counters();", "")],
    },
    Bug {
        name: "counters-cleared-by-writing",
        about: "The statistics registers are written with zero instead of read.",
        linter: Reports("CountersNotCleared", "4.6.5"),
        test: "driver_init::counters_start_at_zero",
        demo: true,
        edits: &[edit(
            "ixgbe/init.rs",
            "self.clear_counters();",
            "[CRCERRS::AT, GPRC::AT, GPTC::AT, TPR::AT].map(|at| self.bar.write32(at, 0));",
        )],
    },
    Bug {
        name: "waits-look-once",
        about: "A wait looks at its register once, and goes on whatever it saw.",
        linter: Reports("TailBeforeEnable", "4.6.7"),
        test: "driver_error::queues_that_never_start_are_named",
        demo: false,
        edits: &[edit(
            "wait.rs",
            "last & until.mask == until.wanted",
            "last & until.mask == until.wanted || true",
        )],
    },
    Bug {
        name: "master-disabled-in-status",
        about: "STATUS.PCIE_MASTER_ENABLE is cleared, which software may only read, instead of setting the bit in CTRL.",
        linter: Reports("ReadOnlyWritten", "8.2.2"),
        test: "driver_init::master_is_disabled_before_reset_and_on_close",
        demo: true,
        edits: &[edit(
            "intel/ring_registers/mod.rs",
            "self.bar.set32(CTRL::AT, CTRL::PCIE_MASTER_DISABLE);",
            "self.bar.clear32(STATUS::AT, STATUS::PCIE_MASTER_ENABLE);",
        )],
    },
    Bug {
        name: "mask-read-modify-written",
        about: "EIMC, which software may only write, is read to set bits in it.",
        linter: Reports("WriteOnlyRead", "8.2.2"),
        test: "driver_init::initialisation_is_in_the_datasheets_order",
        demo: true,
        edits: &[edit(
            "ixgbe/device.rs",
            "self.bar.write32(EIMC::AT, 0x7FFF_FFFF);",
            "self.bar.set32(EIMC::AT, 0x7FFF_FFFF);",
        )],
    },
];
