//! A frame on its way out: its tag, its padding, and what is counted (datasheet 332464, chapter 8).

use regs::i40e::descriptor::tx;
use wire::ethernet::{ADDRESSES_LEN, EtherType};

use crate::MIN_FRAME;
use crate::i40e::host::Host;
use crate::i40e::statistics::TX;

/// Sends a frame, tagged and padded. `out` tells whether it went to the wire.
pub fn emit<D, P>(
    host: &mut Host<D, P>,
    command: u64,
    frame: &mut Vec<u8>,
    out: &mut impl FnMut(&mut Host<D, P>, &[u8]) -> bool,
) {
    if command & tx::IL2TAG1 != 0 && frame.len() >= ADDRESSES_LEN {
        let tag = ((command >> tx::L2TAG1_SHIFT) as u16).to_be_bytes();
        let kind = EtherType::VLAN.0.to_be_bytes();
        frame.splice(ADDRESSES_LEN..ADDRESSES_LEN, kind.into_iter().chain(tag));
    }
    if frame.len() < MIN_FRAME {
        frame.resize(MIN_FRAME, 0);
    }
    let counters = &mut host.counters;
    counters.tx_offered += 1;
    counters.statistics.of_vsi(TX, frame);
    counters.statistics.packets[TX] += 1;
    counters.statistics.bytes[TX] += frame.len() as u64;
    if out(host, frame) {
        host.counters.statistics.frame(TX, frame);
    }
}
