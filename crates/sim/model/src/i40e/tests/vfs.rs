//! What virtual functions have sent, as the physical function's steps forward it.

use regs::i40e::admin::vsi;

use super::{BASE, MAC, Tails};
use crate::fixture::{Cable, Memory};
use crate::i40e::switch::{Switch, Vsi};
use crate::i40e::{I40e, MOST_VFS, QUEUES, SharedSlot};

/// Bytes of a frame.
const LEN: usize = 9000;

/// A card whose virtual functions all send broadcasts to each other.
fn card(slots: &[SharedSlot]) -> I40e<Memory, Tails> {
    let mut chip = I40e::with_vfs(Memory::new(BASE, 4096), Tails::default(), MAC, slots);
    let mut properties = [0; vsi::LEN];
    for (at, half) in [(vsi::VALID_SECTIONS, vsi::SWITCH_VALID), (vsi::SWITCH_ID, vsi::ALLOW_LB)] {
        properties[at..at + 2].copy_from_slice(&half.to_le_bytes());
    }
    for vf in chip.sriov.iter_mut().flat_map(|sriov| &mut sriov.vfs) {
        let mut own = Switch::of_vf(0);
        assert!(own.update(Vsi::Main, &properties, QUEUES) && own.add([0xFF; 6], None));
        vf.vsi = Some(own);
    }
    chip
}

/// Each frame is copied for all others, and sent to the wire.
#[test]
fn a_step_forwards_some_bytes_of_each_in_turn() {
    let slots = [(); MOST_VFS].map(|()| SharedSlot::default());
    let mut chip = card(&slots);
    for slot in &slots {
        slot.lock().frames.send((0..64).map(|_| vec![0xFF; LEN]));
    }
    let moved = chip.forward(&mut Cable::default());
    assert_eq!(moved, (4 << 20) / (LEN * (MOST_VFS + 1)) + 1);
    let left = |slot: &SharedSlot| std::iter::from_fn(|| slot.lock().frames.sent()).count();
    let sent: Vec<usize> = slots.iter().map(|slot| 64 - left(slot)).collect();
    let share = moved / MOST_VFS;
    assert!(sent.iter().all(|count| (share..=share + 1).contains(count)), "{sent:?}");
}
