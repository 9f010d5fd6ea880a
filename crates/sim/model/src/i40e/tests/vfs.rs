//! What virtual functions have sent, as the physical function's steps forward it.

use regs::i40e::admin::{Descriptor, error, flag, macvlan, opcode, vsi};

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use regs::i40e::Family;
use regs::i40e::context::{rx, tx};
use regs::i40e::descriptor::tx as descriptor;
use regs::iavf::{QTX_TAIL1, VF_ATQLEN1};

use super::{BASE, DATA, Guest, MAC, RX_RING, TX_RING, Tails};
use crate::fixture::{Cable, Memory};
use crate::i40e::switch::{FILTERS, Switch, Vsi};
use crate::i40e::{I40e, MOST_VFS, QUEUES, SharedSlot, Vf};
use crate::{Chip, Pages};

/// Bytes of a frame.
const LEN: usize = 9000;

/// A card whose virtual functions all send broadcasts to each other.
fn card(slots: &[SharedSlot]) -> I40e<Memory, Tails> {
    let mut chip = I40e::with_vfs(Family::Xl710, Memory::new(BASE, 4096), Tails::default(), MAC, slots);
    let mut properties = [0; vsi::LEN];
    for (at, half) in [(vsi::VALID_SECTIONS, vsi::SWITCH_VALID), (vsi::SWITCH_ID, vsi::ALLOW_LB)] {
        properties[at..at + 2].copy_from_slice(&half.to_le_bytes());
    }
    for vf in chip.sriov.iter_mut().flat_map(|sriov| &mut sriov.vfs) {
        let mut own = Switch::of_vf(0);
        assert!(own.update(Vsi::Main, &properties, QUEUES) && own.add([0xFF; 6], None, true));
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

/// Pages at which the client makes its function wait: how often they were touched, and how often
/// while the slot was held.
struct Slow {
    slot: SharedSlot,
    touched: Arc<[AtomicUsize; 2]>,
}

impl Slow {
    fn touch(&self) {
        self.touched[0].fetch_add(1, Ordering::Relaxed);
        self.touched[1].fetch_add(self.slot.is_held().into(), Ordering::Relaxed);
    }
}

impl Pages for Slow {
    fn load(&self, _: u32) -> u32 {
        self.touch();
        0
    }

    fn store(&self, _: u32, _: u32) {
        self.touch();
    }
}

/// The physical function's device waits for who holds the slot.
#[test]
fn a_virtual_function_that_waits_at_its_pages_holds_nothing() {
    let slot = SharedSlot::default();
    let touched = Arc::<[AtomicUsize; 2]>::default();
    let pages = Slow { slot: slot.clone(), touched: Arc::clone(&touched) };
    let mut vf = Vf::new(Memory::new(BASE, 1 << 16), pages, slot.clone());
    Chip::<Cable>::set_bus_master(&mut vf, true);
    let (mut rx_context, mut tx_context) = ([0; rx::LEN / 8], [0; tx::LEN / 8]);
    for (field, value) in [(rx::BASE, RX_RING / 128), (rx::QLEN, 64), (rx::DBUFF, 16), (rx::RXMAX, 1518)] {
        field.put(&mut rx_context, value);
    }
    for (field, value) in [(tx::BASE, TX_RING / 128), (tx::QLEN, 64)] {
        field.put(&mut tx_context, value);
    }
    {
        let mut slot = slot.lock();
        slot.reset();
        slot.rx[1].want(Some((rx_context, 0)));
        slot.tx[2].want(Some((tx_context, 5)));
    }
    let [all, held] = [0, 1].map(|n| touched[n].load(Ordering::Relaxed));
    Chip::<Cable>::step(&mut vf, &mut Cable::default(), 0);
    let now = [0, 1].map(|n| touched[n].load(Ordering::Relaxed));
    assert!(now[0] > all, "the reset and the queues write pages");
    assert_eq!(now[1], held, "the slot was held meanwhile");
    let slot = slot.lock();
    assert_eq!((slot.rx[1].runs, slot.tx[2].runs, slot.failed), (true, true, false));
}

/// Linux gives its queues packets a moment before they run; and before it notices a reset, to the rings of
/// before.
#[test]
fn a_queue_that_starts_sends_what_it_was_given_since_its_mailbox_runs() {
    let slot = SharedSlot::default();
    let memory = Memory::new(BASE, 1 << 18);
    let mut vf = Vf::new(memory.clone(), Tails::default(), slot.clone());
    Chip::<Cable>::set_bus_master(&mut vf, true);
    let command = descriptor::EOP | descriptor::RS | 60 << descriptor::SIZE_SHIFT;
    let mut context = [0; tx::LEN / 8];
    for (field, value) in [(tx::BASE, TX_RING / 128), (tx::QLEN, 64)] {
        field.put(&mut context, value);
    }
    let mut after = |writes: &[(u32, u32)]| {
        for n in 0..3 {
            memory.store(TX_RING + 16 * n, DATA);
            memory.store(TX_RING + 16 * n + 8, command);
        }
        slot.lock().reset();
        Chip::<Cable>::step(&mut vf, &mut Cable::default(), 0);
        writes.iter().for_each(|(at, value)| Chip::<Cable>::write(&mut vf, *at, *value));
        slot.lock().tx[1].want(Some((context, 0)));
        Chip::<Cable>::step(&mut vf, &mut Cable::default(), 0);
        let sent = std::iter::from_fn(|| slot.lock().frames.sent()).count();
        assert!(slot.lock().tx[1].runs);
        sent
    };
    let (mailbox, tail) = (VF_ATQLEN1::AT, QTX_TAIL1::at(1));
    let on = VF_ATQLEN1::ENABLE | 32;
    assert_eq!(after(&[(mailbox, on), (tail, 3)]), 3);
    assert_eq!(after(&[(tail, 2), (mailbox, on)]), 0, "that was another ring");
}

/// Adds filters of addresses to a VSI, or removes them; what the firmware answers, and how many filters
/// it says are left.
fn filter(guest: &mut Guest, opcode: u16, vsi: Vsi, addresses: std::ops::Range<u16>) -> (u16, u16) {
    let one = |n: u16| {
        let mut filter = [0; macvlan::LEN];
        filter[..6].copy_from_slice(&[2, 0, 0, 0, (n >> 8) as u8, n as u8]);
        // The flags of both commands are the same here: any VLAN.
        let any =
            if opcode == opcode::ADD_MACVLAN { macvlan::ADD_ANY_VLAN } else { macvlan::REMOVE_ANY_VLAN };
        filter[macvlan::FLAGS..macvlan::FLAGS + 2].copy_from_slice(&(any | macvlan::PERFECT).to_le_bytes());
        filter
    };
    let data: Vec<u8> = addresses.clone().flat_map(one).collect();
    let mut command = Descriptor::new(opcode);
    command.set_param(0, &(addresses.len() as u16).to_le_bytes());
    command.set_param(2, &(vsi.seid() | macvlan::SEID_VALID).to_le_bytes());
    let long = if data.len() > 512 { flag::LB } else { 0 };
    let answer = guest.command(command, &data, flag::BUF | flag::RD | long);
    (answer.retval, answer.param16(2))
}

#[test]
fn the_table_of_filters_is_that_of_all_vsis() {
    let slots = [(); 2].map(|()| SharedSlot::default());
    let mut guest = Guest::with_vfs(Family::Xl710, &slots);
    for vf in guest.chip.sriov.iter_mut().flat_map(|sriov| &mut sriov.vfs) {
        vf.vsi = Some(Switch::of_vf(0));
    }
    // The function's own address has one.
    let room = FILTERS as u16 - 1;
    let (add, remove) = (opcode::ADD_MACVLAN, opcode::REMOVE_MACVLAN);
    for n in 0..5 {
        let added = filter(&mut guest, add, Vsi::Vf(0), 200 * n..200 * (n + 1));
        assert_eq!(added, (0, room - 200 * (n + 1)));
    }
    let rest = room - 1000;
    for from in (0..rest).step_by(200) {
        assert_eq!(filter(&mut guest, add, Vsi::Vf(1), from..(from + 200).min(rest)).0, 0);
    }
    assert_eq!(filter(&mut guest, add, Vsi::Vf(1), rest..rest + 1), (error::ENOSPC, 0));
    assert_eq!(filter(&mut guest, add, Vsi::Main, 0..1), (error::ENOSPC, 0), "nor has the function room");
    assert_eq!(filter(&mut guest, add, Vsi::Vf(1), 0..1), (0, 0), "it has that one");
    assert_eq!(filter(&mut guest, remove, Vsi::Vf(0), 0..1), (0, 1));
    assert_eq!(filter(&mut guest, add, Vsi::Vf(1), rest..rest + 1), (0, 0));
}
