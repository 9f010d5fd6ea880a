//! What a virtual function of the 82576 and its physical one tell each other in the mailbox's sixteen
//! words. The form is that of the 82599's first version ([`crate::ixgbevf::message`]), without
//! negotiation; here are the kinds and what is beside one of them. They are Intel's drivers', as Linux's
//! `drivers/net/ethernet/intel/igb` and `igbvf` tell them.

use crate::ixgbevf::message::{INFO_SHIFT, kinds};

kinds! {
    RESET = 0x01, "The virtual function begins anew; the answer has its address.";
    SET_MAC_ADDR = 0x02, "Its address, in the second and third word; or another one, by what is beside it.";
    SET_MULTICAST = 0x03, "Multicast addresses by their hash, 16 bits each; how many is told beside it.";
    SET_VLAN = 0x04, "Receives a VLAN, in the second word, or no longer: 1 or 0 beside it.";
    SET_LPE = 0x05, "The longest frame, in bytes with CRC and tag.";
    SET_PROMISC = 0x06, "Which frames are received without a filter, by what is beside it.";
    PF_CONTROL_MSG = 0x100, "The physical function tells, unsolicited, whether this one is clear to send.";
}

/// Beside [`kind::SET_MAC_ADDR`]: all addresses but its own are received no more.
pub const MAC_FILTER_CLR: u32 = 1 << INFO_SHIFT;
/// Beside it: one more address is received.
pub const MAC_FILTER_ADD: u32 = 2 << INFO_SHIFT;
/// Beside [`kind::SET_PROMISC`]: all unicast frames. Linux's igb refuses it.
pub const PROMISC_UNICAST: u32 = 1 << INFO_SHIFT;
/// Beside it: all multicast frames.
pub const PROMISC_MULTICAST: u32 = 2 << INFO_SHIFT;
