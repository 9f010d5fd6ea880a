//! Names of losses: which a working forwarder has, and where to look for the cause
//! of the others. Sections are those of the 82599's datasheet, rev. 3.4.

/// The losses of a forwarder that works, but is slower than the generators: a full
/// packet buffer (RXMPC), no descriptor (QPRDC; of virtio no buffer), a full transmit ring.
pub const WORKING: [&str; 4] = ["rx_fifo_full", "rx_no_descriptor", "rx_no_buffer", "tx_ring_full"];

/// Where to look when packets stop.
pub const STALLED: &str = "whether used receive descriptors are given back (RDT, 8.2.3.8.5), sent packets are announced \
     (TDT) and reported (RS, 7.2.3.5), and their buffers freed";

/// Where to look when packets are lost by this name.
pub fn look_at(name: &str) -> &'static str {
    match name {
        "rx_bad_descriptor" => {
            "which receive descriptors are read, and when: DD, EOP, errors, length (7.1.6)"
        }
        "tx_unsendable" => "lengths and numbers of segments of packets that are sent (7.2.1)",
        "rx_filtered_mac" => "FCTRL, and the address filters RAL and RAH (7.1.1, 8.2.3.7.1)",
        "rx_filtered_flow" => "filters for flows that drop what they match (Filters::add_flow)",
        "rx_filtered_vlan" => "VLNCTRL and VFTA (7.1.1.3)",
        "rx_crc" => "nothing of the driver's: the demo's wires damage no frame",
        "rx_undersize" | "rx_oversize" => "HLREG0.JUMBOEN and MAXFRS, and the --size of the demo (8.2.3.22)",
        "rx_ring_too_small" => "RDLEN, and the buffer size in SRRCTL (8.2.3.8.3, 8.2.3.8.7)",
        "rx_dma_fault" => "addresses in receive descriptors, and whether they are mapped (7.1.5)",
        "rx_queue_disabled" => "RXDCTL.ENABLE of the queues that packets are led to (4.6.7.1)",
        "rx_disabled" => "RXCTRL.RXEN, and receive turned off before the end (4.6.7)",
        "rx_reset" => "a reset while packets wait: receive is stopped before (5.2.5.3.2)",
        "rx_link_down" => "the link's set-up: AUTOC, LINKS (4.6.4)",
        "tx_bad_descriptor" => "types and fields of transmit descriptors (7.2.3.2)",
        "tx_dma_fault" => "addresses in transmit descriptors, and buffers freed before they are sent (7.2.3)",
        "tx_oversize" => "lengths in transmit descriptors, MAXFRS, DTXMXSZRQ (7.2.1)",
        "tx_bad_crc" => "IFCS in transmit descriptors, HLREG0.TXCRCEN (7.2.3.2.4)",
        "tx_disabled" => "queues disabled before all was sent: TDH has to reach TDT (4.6.8.1.2)",
        _ => "the counter of this name in the table above, and who counts it",
    }
}
