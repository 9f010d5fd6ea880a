//! What all receive queues share: filters, packet buffers, CRC, RSS; and the
//! transmit side's likewise.

use super::{Bug, Reports, edit};

pub(super) const BUGS: &[Bug] = &[
    Bug {
        name: "mac-without-valid",
        about: "The port's address is written without RAH.AV.",
        linter: Reports("ReceiveAddressNotValid", "8.2.3.7.9"),
        test: "driver_filter::a_port_hears_its_own_address_and_broadcast_and_what_it_was_told",
        demo: true,
        edits: &[edit(
            "ixgbe/init.rs",
            "bar.write32(RAH::at(0), high | RAH::AV);",
            "bar.write32(RAH::at(0), high);",
        )],
    },
    Bug {
        name: "unicast-without-valid",
        about: "A further address is written without RAH.AV.",
        linter: Reports("ReceiveAddressNotValid", "8.2.3.7.9"),
        test: "driver_filter::a_port_hears_its_own_address_and_broadcast_and_what_it_was_told",
        demo: false,
        edits: &[edit(
            "intel/ring_registers/filter.rs",
            "bar.write32(info.rah.at(n), high | VALID);",
            "bar.write32(info.rah.at(n), high);",
        )],
    },
    Bug {
        name: "multicast-table-not-cleared",
        about: "MTA keeps whatever it holds after power-on.",
        linter: Reports("MulticastTableNotCleared", "4.6.7"),
        test: "driver_filter::a_port_hears_its_own_address_and_broadcast_and_what_it_was_told",
        demo: true,
        edits: &[edit("ixgbe/init.rs", "(0..MTA::COUNT).for_each(|n| bar.write32(MTA::at(n), 0));", "")],
    },
    Bug {
        name: "vlan-table-not-cleared",
        about: "VFTA keeps whatever it holds after power-on.",
        linter: Reports("VlanTableNotCleared", "4.6.7"),
        test: "driver_filter::only_vlans_that_were_let_in_pass_the_filter",
        demo: true,
        edits: &[edit("ixgbe/init.rs", "(0..VFTA::COUNT).for_each(|n| bar.write32(VFTA::at(n), 0));", "")],
    },
    Bug {
        name: "promiscuous-bits-wrong",
        about: "Promiscuous mode sets bits 10 and 11 of FCTRL, counted one too far; 11 is reserved.",
        linter: Reports("ReservedBitsWritten", "8.1"),
        test: "driver_filter::leaving_promiscuous_mode_keeps_all_multicast",
        demo: true,
        edits: &[
            edit(
                "ixgbe/init.rs",
                "if options.promiscuous { FCTRL::UPE | FCTRL::MPE } else { 0 }",
                "if options.promiscuous { 1 << 10 | 1 << 11 } else { 0 }",
            ),
            edit(
                "ixgbe/device.rs",
                "if unicast { FCTRL::UPE } else { 0 }",
                "if unicast { 1 << 11 } else { 0 }",
            ),
        ],
    },
    Bug {
        name: "filter-changed-while-receiving",
        about: "FCTRL and the filter tables are changed while RXCTRL.RXEN is set.",
        linter: Reports("FilterChangedWhileReceiving", "8.2.3.7.1"),
        test: "driver_filter::leaving_promiscuous_mode_keeps_all_multicast",
        demo: false,
        edits: &[edit(
            "ixgbe/device.rs",
            "self.halt_rx(|bar| {
            change(bar);
            None
        })",
            "{
            change(&self.bar);
            Ok(())
        }",
        )],
    },
    Bug {
        name: "receive-path-not-emptied",
        about: "RXCTRL.RXEN goes off while frames are inside: SECRXSTAT.SECRX_RDY is not awaited.",
        linter: Reports("RxPathNotHalted", "4.6.7"),
        test: "driver_error::a_receive_path_that_never_empties_is_named",
        demo: true,
        edits: &[edit(
            "ixgbe/device.rs",
            r#"let emptied = self.wait(100, "SECRXSTAT", SECRXSTAT::AT, ready, ready, meaning);"#,
            "let emptied = { let _ = (ready, meaning); Ok(()) };",
        )],
    },
    Bug {
        name: "receive-buffer-overbooked",
        about: "Each of RXPBSIZE 1 to 7 asks for 64 KiB beside the first's 512.",
        linter: Reports("PacketBufferOverbooked", "8.2.3.8.9"),
        test: "driver_lifecycle::a_port_opens_again_and_again_and_leaks_nothing",
        demo: true,
        edits: &[edit(
            "ixgbe/init.rs",
            "bar.write32(RXPBSIZE::at(n), 0)",
            "bar.write32(RXPBSIZE::at(n), 64 << RXPBSIZE::SIZE_SHIFT)",
        )],
    },
    Bug {
        name: "transmit-buffer-overbooked",
        about: "Each of TXPBSIZE 1 to 7 asks for 20 KiB beside the first's 160.",
        linter: Reports("PacketBufferOverbooked", "8.2.3.9.13"),
        test: "driver_lifecycle::a_port_opens_again_and_again_and_leaks_nothing",
        demo: true,
        edits: &[edit(
            "ixgbe/init.rs",
            "bar.write32(TXPBSIZE::at(n), 0)",
            "bar.write32(TXPBSIZE::at(n), 20 << TXPBSIZE::SIZE_SHIFT)",
        )],
    },
    Bug {
        name: "one-past-the-table",
        about: "A loop over TXPBSIZE goes one register too far.",
        linter: Reports("UnknownRegister", "8.1"),
        test: "driver_lifecycle::a_port_opens_again_and_again_and_leaks_nothing",
        demo: true,
        edits: &[edit(
            "ixgbe/init.rs",
            "(1..TXPBSIZE::COUNT).for_each(|n| bar.write32(TXPBSIZE::at(n), 0));",
            "(1..=TXPBSIZE::COUNT as u32).for_each(|n| bar.write32(TXPBSIZE::at(0) + 4 * n, 0));",
        )],
    },
    Bug {
        name: "crc-stripped-by-the-mac-only",
        about: "HLREG0.RXCRCSTRP is set, RDRXCTL.CRCSTRIP is not.",
        linter: Reports("DrxWithoutCrcAgreement", "8.2.3.8.8"),
        test: "driver_completion::single_packets_are_cleaned_and_none_stays_behind",
        demo: true,
        edits: &[edit("ixgbe/init.rs", "bar.set32(RDRXCTL::AT, RDRXCTL::CRCSTRIP);", "")],
    },
    Bug {
        name: "crc-stripped-by-the-dma-only",
        about: "RDRXCTL.CRCSTRIP is set, HLREG0.RXCRCSTRP is not.",
        linter: Reports("DrxWithoutCrcAgreement", "8.2.3.8.8"),
        test: "driver_completion::single_packets_are_cleaned_and_none_stays_behind",
        demo: true,
        edits: &[edit(
            "ixgbe/init.rs",
            "bar.set32(HLREG0::AT, HLREG0::RXCRCSTRP | HLREG0::TXCRCEN | HLREG0::TXPADEN);",
            "bar.clear32(HLREG0::AT, HLREG0::RXCRCSTRP);
        bar.set32(HLREG0::AT, HLREG0::TXCRCEN | HLREG0::TXPADEN);",
        )],
    },
    Bug {
        name: "rscfrstsize-left",
        about: "RDRXCTL.RSCFRSTSIZE keeps its default, which software must clear.",
        linter: Reports("RscFirstSizeNotZero", "4.6.7"),
        test: "driver_lifecycle::a_port_opens_again_and_again_and_leaks_nothing",
        demo: true,
        edits: &[edit("ixgbe/init.rs", "bar.clear32(RDRXCTL::AT, RDRXCTL::RSCFRSTSIZE_MASK);", "")],
    },
    Bug {
        name: "maxfrs-missing",
        about: "For jumbo frames MAXFRS is not written.",
        linter: Reports("TxAboveMaxFrame", "8.2.3.22.13"),
        test: "driver_scatter::jumbo_frames_cross_in_as_many_buffers_as_they_take",
        demo: false,
        edits: &[edit(
            "ixgbe/info.rs",
            "bar.write32(MAXFRS::AT, with_crc << MAXFRS::MFS_SHIFT);",
            "let _ = with_crc;",
        )],
    },
    Bug {
        name: "jumboen-missing",
        about: "For jumbo frames MAXFRS is written, but HLREG0.JUMBOEN is not set.",
        linter: Reports("JumboNotEnabled", "8.2.3.22.8"),
        test: "driver_scatter::jumbo_frames_cross_in_as_many_buffers_as_they_take",
        demo: false,
        edits: &[edit("ixgbe/info.rs", "bar.set32(HLREG0::AT, HLREG0::JUMBOEN);", "")],
    },
    Bug {
        name: "pcsd-missing",
        about: "RXCSUM.PCSD is clear, so that a fragment's checksum stands where the hash should.",
        linter: Reports("RssHashNotReported", "8.2.3.7.5"),
        test: "driver_multiqueue::each_kind_of_packet_is_hashed_over_its_own_fields",
        demo: false,
        edits: &[edit("ixgbe/info.rs", "RXCSUM::PCSD | checksums", "checksums")],
    },
    Bug {
        name: "rss-key-zero",
        about: "The hash key is all zeroes.",
        linter: Reports("RssWithoutKey", "7.1.2.8"),
        test: "driver_multiqueue::each_kind_of_packet_is_hashed_over_its_own_fields",
        demo: false,
        edits: &[edit(
            "intel/ring_registers/rss.rs",
            "u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])",
            "{ let _ = bytes; 0 }",
        )],
    },
    Bug {
        name: "rss-key-half",
        about: "Five of the ten RSSRK registers are written.",
        linter: Reports("RssKeyIncomplete", "8.2.3.7.14"),
        test: "driver_multiqueue::each_kind_of_packet_is_hashed_over_its_own_fields",
        demo: false,
        edits: &[edit(
            "intel/ring_registers/rss.rs",
            "bar.write32(info.rssrk.at(n), u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));",
            "if n < 5 {
            bar.write32(info.rssrk.at(n), u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
        }",
        )],
    },
    Bug {
        name: "table-names-queues-that-are-off",
        about: "The redirection table deals out all 16 queues, however many are enabled.",
        linter: Reports("RedirectionToDisabledQueue", "7.1.2.8"),
        test: "driver_multiqueue::each_kind_of_packet_is_hashed_over_its_own_fields",
        demo: false,
        edits: &[edit(
            "intel/ring_registers/rss.rs",
            "rss.entries(TABLE, queues)",
            "rss.entries(TABLE, QUEUES)",
        )],
    },
    Bug {
        name: "queue-stays-in-the-table",
        about: "A queue is disabled while the redirection table still names it.",
        linter: Reports("RedirectionToDisabledQueue", "7.1.2.8"),
        test: "driver_lifecycle::a_queue_dropped_under_traffic_lets_go_of_its_buffers",
        demo: false,
        edits: &[edit(
            "intel/ring_registers/rss.rs",
            "*entry = others[(4 * n + byte) % others.len()] as u8;",
            "let _ = (entry, byte);",
        )],
    },
    Bug {
        name: "arbiter-not-disabled",
        about: "MTQC, TXPBSIZE and DTXMXSZRQ are written with RTTDCS.ARBDIS clear.",
        linter: Reports("ArbiterNotDisabled", "8.2.3.9.15"),
        test: "driver_lifecycle::a_port_opens_again_and_again_and_leaks_nothing",
        demo: true,
        edits: &[edit("ixgbe/init.rs", "bar.set32(RTTDCS::AT, RTTDCS::ARBDIS);", "")],
    },
    Bug {
        name: "arbiter-left-disabled",
        about: "RTTDCS.ARBDIS is not cleared again.",
        linter: Reports("ArbiterLeftDisabled", "4.6.8"),
        test: "driver_completion::single_packets_are_cleaned_and_none_stays_behind",
        demo: true,
        edits: &[edit("ixgbe/init.rs", "bar.clear32(RTTDCS::AT, RTTDCS::ARBDIS);", "")],
    },
    Bug {
        name: "transmit-never-enabled",
        about: "DMATXCTL.TE is not set.",
        linter: Reports("TxEnableBeforeDma", "4.6.8"),
        test: "driver_completion::single_packets_are_cleaned_and_none_stays_behind",
        demo: true,
        edits: &[edit("ixgbe/init.rs", "bar.set32(DMATXCTL::AT, DMATXCTL::TE);", "")],
    },
    Bug {
        name: "transmit-enabled-after-queues",
        about: "DMATXCTL.TE is set after TXDCTL.ENABLE of the queues, which are not awaited.",
        linter: Reports("TxEnableBeforeDma", "4.6.8"),
        test: "driver_init::initialisation_is_in_the_datasheets_order",
        demo: true,
        edits: &[
            edit("ixgbe/init.rs", "bar.set32(DMATXCTL::AT, DMATXCTL::TE);", ""),
            edit(
                "ixgbe/init.rs",
                r#"self.wait(100, "TXDCTL", TXDCTL::at(n), TXDCTL::ENABLE, TXDCTL::ENABLE, meaning)?;"#,
                "let _ = meaning;
        sleep(Duration::from_millis(1));
        bar.set32(DMATXCTL::AT, DMATXCTL::TE);",
            ),
        ],
    },
    Bug {
        name: "receive-enabled-before-queues",
        about: "RXCTRL.RXEN is set before any receive queue is enabled.",
        linter: Reports("EnableBeforeGlobal", "4.6.7"),
        test: "driver_init::initialisation_is_in_the_datasheets_order",
        demo: true,
        edits: &[edit(
            "ixgbe/init.rs",
            "bar.set32(CTRL_EXT::AT, CTRL_EXT::NS_DIS);",
            "bar.set32(CTRL_EXT::AT, CTRL_EXT::NS_DIS);
        bar.set32(RXCTRL::AT, RXCTRL::RXEN);",
        )],
    },
    Bug {
        name: "no-snoop-left-on",
        about: "CTRL_EXT.NS_DIS is not set.",
        linter: Reports("NoSnoopLeftOn", "4.6.7"),
        test: "driver_lifecycle::a_port_opens_again_and_again_and_leaks_nothing",
        demo: true,
        edits: &[edit("ixgbe/init.rs", "bar.set32(CTRL_EXT::AT, CTRL_EXT::NS_DIS);", "")],
    },
    Bug {
        name: "padding-off",
        about: "HLREG0.TXPADEN is cleared though frames of less than 60 bytes are sent.",
        linter: Reports("TxRunt", "8.2.3.22.8"),
        test: "driver_descriptor::a_short_frame_is_padded",
        demo: false,
        edits: &[edit(
            "ixgbe/init.rs",
            "bar.set32(HLREG0::AT, HLREG0::RXCRCSTRP | HLREG0::TXCRCEN | HLREG0::TXPADEN);",
            "bar.set32(HLREG0::AT, HLREG0::RXCRCSTRP | HLREG0::TXCRCEN);
        bar.clear32(HLREG0::AT, HLREG0::TXPADEN);",
        )],
    },
    Bug {
        name: "transmit-crc-off",
        about: "HLREG0.TXCRCEN is cleared, so that frames leave without a CRC.",
        linter: Reports("TransmitCrcOff", "8.2.3.22.8"),
        test: "driver_completion::single_packets_are_cleaned_and_none_stays_behind",
        demo: true,
        edits: &[edit(
            "ixgbe/init.rs",
            "bar.set32(HLREG0::AT, HLREG0::RXCRCSTRP | HLREG0::TXCRCEN | HLREG0::TXPADEN);",
            "bar.set32(HLREG0::AT, HLREG0::RXCRCSTRP | HLREG0::TXPADEN);
        bar.clear32(HLREG0::AT, HLREG0::TXCRCEN);",
        )],
    },
    Bug {
        name: "table-half-written",
        about: "The second half of the redirection table keeps what it holds.",
        linter: Reports("RedirectionIncomplete", "8.2.3.7.15"),
        test: "driver_multiqueue::each_kind_of_packet_is_hashed_over_its_own_fields",
        demo: false,
        edits: &[edit(
            "intel/ring_registers/rss.rs",
            "bar.write32(info.reta.at(n), word);",
            "if n < info.reta.len() / 2 {
            bar.write32(info.reta.at(n), word);
        }",
        )],
    },
    Bug {
        name: "table-offset-not-times-four",
        about: "A register's number is added to the table's offset without the factor four.",
        linter: Reports("UnalignedAccess", "8.1"),
        test: "driver_multiqueue::each_kind_of_packet_is_hashed_over_its_own_fields",
        demo: true,
        edits: &[edit(
            "intel/ring_registers/rss.rs",
            "bar.write32(info.reta.at(n), word);",
            "bar.write32(info.reta.at(0) + n as u32, word);",
        )],
    },
    Bug {
        name: "receive-buffer-unshifted",
        about: "RXPBSIZE is written with its size in the wrong bits.",
        linter: Reports("PacketBufferMissing", "8.2.3.8.9"),
        test: "driver_lifecycle::a_port_opens_again_and_again_and_leaks_nothing",
        demo: true,
        edits: &[edit("ixgbe/init.rs", "512 << RXPBSIZE::SIZE_SHIFT", "512")],
    },
    Bug {
        name: "transmit-buffer-unshifted",
        about: "TXPBSIZE is written with its size in the wrong bits.",
        linter: Reports("PacketBufferMissing", "8.2.3.9.13"),
        test: "driver_lifecycle::a_port_opens_again_and_again_and_leaks_nothing",
        demo: true,
        edits: &[edit("ixgbe/init.rs", "160 << TXPBSIZE::SIZE_SHIFT", "160")],
    },
];
