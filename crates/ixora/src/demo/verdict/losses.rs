//! Names of losses: which a working forwarder has, and where to look for the cause
//! of the others. Sections are those of the 82599's datasheet, rev. 3.4.

use port::Reason;

/// The losses of a forwarder that works, but is slower than the generators: a full
/// packet buffer (RXMPC), no descriptor (QPRDC), a full transmit ring.
const WORKING: [Reason; 3] = [Reason::RxFifoFull, Reason::RxNoDescriptor, Reason::TxRingFull];

/// What the model of virtio calls the same: no buffer.
const MODEL_WORKING: &str = "rx_no_buffer";

/// Whether a forwarder that works may lose packets by this name.
pub fn is_working(name: &str) -> bool {
    name == MODEL_WORKING || Reason::named(name).is_some_and(|reason| WORKING.contains(&reason))
}

/// Where to look when packets stop.
pub const STALLED: &str = "whether used receive descriptors are given back (RDT, 8.2.3.8.5), sent packets are announced \
     (TDT) and reported (RS, 7.2.3.5), and their buffers freed";

/// Where to look when packets are lost by this name.
pub fn look_at(name: &str) -> &'static str {
    match Reason::named(name) {
        Some(Reason::RxBadDescriptor) => {
            "which receive descriptors are read, and when: DD, EOP, errors, length (7.1.6)"
        }
        Some(Reason::TxUnsendable) => "lengths and numbers of segments of packets that are sent (7.2.1)",
        Some(Reason::RxCrc) => "nothing of the driver's: the demo's wires damage no frame",
        Some(Reason::RxUndersize | Reason::RxOversize) => {
            "HLREG0.JUMBOEN and MAXFRS, and the --size of the demo (8.2.3.22)"
        }
        Some(Reason::TxOversize) => "lengths in transmit descriptors, MAXFRS, DTXMXSZRQ (7.2.1)",
        _ => look_at_model(name),
    }
}

/// Likewise, of a name that only models have.
fn look_at_model(name: &str) -> &'static str {
    match name {
        "rx_filtered_mac" => "FCTRL, and the address filters RAL and RAH (7.1.1, 8.2.3.7.1)",
        "rx_filtered_flow" => "filters for flows that drop what they match (Filters::add_flow)",
        "rx_filtered_vlan" => "VLNCTRL and VFTA (7.1.1.3)",
        "rx_ring_too_small" => "RDLEN, and the buffer size in SRRCTL (8.2.3.8.3, 8.2.3.8.7)",
        "rx_dma_fault" => "addresses in receive descriptors, and whether they are mapped (7.1.5)",
        "rx_queue_disabled" => "RXDCTL.ENABLE of the queues that packets are led to (4.6.7.1)",
        "rx_disabled" => "RXCTRL.RXEN, and receive turned off before the end (4.6.7)",
        "rx_reset" => "a reset while packets wait: receive is stopped before (5.2.5.3.2)",
        "rx_link_down" => "the link's set-up: AUTOC, LINKS (4.6.4)",
        "tx_bad_descriptor" => "types and fields of transmit descriptors (7.2.3.2)",
        "tx_dma_fault" => "addresses in transmit descriptors, and buffers freed before they are sent (7.2.3)",
        "tx_bad_crc" => "IFCS in transmit descriptors, HLREG0.TXCRCEN (7.2.3.2.4)",
        "tx_disabled" => "queues disabled before all was sent: TDH has to reach TDT (4.6.8.1.2)",
        _ => "the counter of this name in the table above, and who counts it",
    }
}
