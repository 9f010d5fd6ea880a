//! The ixgbe driver on two 82599 models: all there is to check with registers trapped, so that
//! all of them behave as the datasheet has it, and many frames with the queues' pages mapped.

use super::{Nic, basics, filters, flood, offloads, run};
use crate::Result;
use crate::scenario::Bench;
use crate::vm::Outcome;

/// Rules of the linter that DPDK 22.11 breaks at a register, each with the reason
/// why it works all the same.
const EXPLAINED: &[(&str, &str)] = &[
    // Section 8.2.3.1.1 wants 1 ms without any access after CTRL.RST. The driver
    // reads STATUS at once to push the posted write out, and CTRL each
    // microsecond until the bit is clear. Then it waits for 50 ms.
    ("ResetNotWaited", "STATUS"),
    ("ResetNotWaited", "CTRL"),
    // It looks at the link a second or four after an interrupt said that it changed,
    // from a thread of its own, and does not cancel that when a port stops or closes
    // (ixgbe_dev_interrupt_delayed_handler): this may fall into a reset.
    ("ResetNotWaited", "EIMC"),
    ("ResetNotWaited", "EICR"),
    ("ResetNotWaited", "LINKS"),
    ("ResetNotWaited", "ESDP"),
    ("ResetNotWaited", "EIMS"),
    // 8.2.3.7.1 wants RXEN off while FCTRL changes. The driver switches
    // promiscuous mode under traffic; a frame or two may be filtered by the old rule.
    ("FilterChangedWhileReceiving", "FCTRL"),
    // Bits 12 and 13, pause frames on the 82598: the driver shares the code.
    ("ReservedBitsWritten", "FCTRL"),
    // Bit 24, the hash of UDP behind extension headers of IPv6, which the 82599 does not have.
    ("ReservedBitsWritten", "MRQC"),
    // The threshold of packet buffers that are not used is their size, nothing, less 24 KiB: all high
    // bits. These buffers send no pause frames.
    ("ReservedBitsWritten", "FCRTH"),
    // 4.6.3.1 has interrupts masked once more after a reset. The driver does so
    // only before; the reset itself leaves none enabled.
    ("InterruptsBeforeReset", "RXCTRL"),
    // 4.6.3.2 has the driver wait for EEC.AUTO_RD. This one waits for 50 ms after
    // the reset and does not look.
    ("EepromNotAwaited", "EEC"),
    // 4.6.7.1 wants bit 12 cleared. The driver clears the bits of relaxed ordering
    // (13 and 15) and leaves this one as the reset does.
    ("DcaRxctrlBitSet", "DCA_RXCTRL"),
    // 7.1.9 has heads written before a queue is enabled. The driver writes 0 over
    // the 0 that is there once it is.
    ("HeadWrittenWhileEnabled", "RDH"),
    ("HeadWrittenWhileEnabled", "TDH"),
    // Counters of MACsec (LSECTXUT to LSECTXOCTP, LSECRXUT to LSECRXUNSA), read
    // with all others. The model has no MACsec, the register table none of it.
    ("UnknownRegister", "0x08a"),
    ("UnknownRegister", "0x08f"),
];

const NIC: Nic = Nic {
    model: "82599",
    driver: "net_ixgbe",
    plugin: None,
    speed: "10 Gbps",
    packets: &[
        "rx_good_packets",
        "tx_good_packets",
        "rx_q0_packets",
        "tx_q0_packets",
        "rx_total_packets",
        "tx_total_packets",
    ],
    largest: "size_1024_to_max_packets",
    explained: EXPLAINED,
    hosted: None,
    may_crash_at_exit: false,
};

/// Each access reaches the model: all there is to check.
pub fn all(bench: &Bench, name: &str) -> Result<Outcome> {
    run(bench, name, &NIC, &["--trap"], |rig| {
        rig.start("--rxq=1 --txq=1 --forward-mode=io")?;
        basics::up(rig, &NIC)?;
        rig.say("start")?;
        basics::counted(rig, &NIC, 60_000)?;
        basics::restarted(rig)?;
        basics::darkened(rig)?;
        flood::flooded(rig)?;
        filters::addresses(rig)?;
        filters::groups(rig)?;
        rig.quit("testpmd ends well")?;
        rig.start("--rxq=2 --txq=2 --rss-udp --max-pkt-len=9018 --enable-scatter --tx-offloads=0x8000")?;
        rig.say("start")?;
        offloads::spread(rig)?;
        offloads::scattered(rig);
        offloads::stripped(rig)?;
        filters::vlans(rig)?;
        offloads::inserted(rig)?;
        rig.quit("testpmd with two queues ends well")?;
        // The 82599 may call a datagram without checksum wrong, so the driver uses its verdict for TCP only.
        offloads::completed(rig, 4)
    })
}

/// The pages of the queues are mapped: many frames through them. A backplane's
/// adapter, which has no module.
pub fn mapped(bench: &Bench, name: &str) -> Result<Outcome> {
    run(bench, name, &NIC, &["--device-id", "10f7"], |rig| {
        rig.start("--rxq=1 --txq=1 --forward-mode=io")?;
        basics::up(rig, &NIC)?;
        rig.say("start")?;
        basics::forward(rig, "mapped", 250_000);
        basics::restarted(rig)?;
        rig.quit("testpmd ends well")
    })
}
