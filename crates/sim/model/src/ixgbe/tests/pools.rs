//! Virtual functions against their physical one, by registers alone: the switch between pools, the
//! mailbox's linter, and what a driver of either may write without harm.

use regs::ixgbe::*;
use regs::ixgbevf::{self, VFCTRL, VFMAILBOX, VFMBMEM, VFRDBAL, VFRDLEN, VFRDT, VFRXDCTL};

use super::super::lint::Rule;
use super::super::sriov::{SharedSlot, Vf};
use super::super::{Ixgbe, Options};
use super::{IOVA, LINK_NS};
use crate::Chip;
use crate::fixture::{Bar, Cable, Memory};

type Pf = Ixgbe<Memory, Bar>;
type Of = Vf<Memory, Bar>;

/// A port with virtual functions, each with a receive ring of 64 descriptors that it lent, in a
/// memory of its own.
fn card(vfs: usize) -> (Pf, Vec<(Of, Memory)>) {
    let slots: Vec<SharedSlot> = (0..vfs).map(|_| SharedSlot::default()).collect();
    let mut pf = Ixgbe::with_vfs(Memory::new(IOVA, 4096), Bar::default(), &Options::default(), &slots);
    let with = |slot| {
        let memory = Memory::new(IOVA, 1 << 20);
        (Vf::new(memory.clone(), Bar::default(), slot), memory)
    };
    let mut all: Vec<(Of, Memory)> = slots.into_iter().map(with).collect();
    for (at, value) in [
        (PFVTCTL::AT, PFVTCTL::VT_ENA | PFVTCTL::REPLEN | PFVTCTL::DIS_DEF_POOL),
        (PFDTXGSWC::AT, PFDTXGSWC::LPE),
        (MRQC::AT, MRQC::MRQE_POOLS),
        (PFVFRE::at(0), u32::MAX),
        (PFVFTE::at(0), u32::MAX),
        (RXCTRL::AT, RXCTRL::RXEN),
        (CTRL_EXT::AT, CTRL_EXT::PFRSTD),
    ] {
        pf.write(at, value);
    }
    for n in 0..vfs {
        pf.write(PFVML2FLT::at(n), PFVML2FLT::AUPE | PFVML2FLT::BAM);
        pf.write(RAL::at(n), u32::from_le_bytes([2, 0, 0, n as u8]));
        pf.write(RAH::at(n), RAH::AV);
        pf.write(MPSAR_LO::at(n), 1 << n);
    }
    let mut cable = Cable::default();
    for n in 0..3 {
        pf.step(&mut cable, n * LINK_NS);
    }
    for (vf, memory) in &mut all {
        for n in 0..64 {
            memory.store(IOVA + 16 * n, IOVA + 4096 + 2048 * n);
        }
        for (at, value) in [
            (VFRDBAL::at(0), IOVA as u32),
            (VFRDLEN::at(0), 1024),
            (VFRXDCTL::at(0), RXDCTL::ENABLE),
            (VFRDT::at(0), 63),
        ] {
            Chip::<Cable>::write(vf, at, value);
        }
    }
    (pf, all)
}

/// A frame to one of them, or to all.
fn frame(to: Option<u8>) -> Vec<u8> {
    let to = to.map_or([0xFF; 6], |n| [2, 0, 0, n, 0, 0]);
    [&to[..], &[2, 9, 9, 9, 9, 9, 0x88, 0xB5], &[7; 50]].concat()
}

/// Frames that a virtual function has delivered.
fn delivered(vf: &mut Of, now: u64) -> u64 {
    Chip::<Cable>::step(vf, &mut Cable::default(), now);
    Chip::<Cable>::counters(vf).iter().find(|(name, _)| *name == "rx_packets").map_or(0, |(_, count)| *count)
}

#[test]
fn a_frame_goes_to_its_pool_and_a_broadcast_to_all_that_may_receive() {
    let (mut pf, mut vfs) = card(3);
    let (mut cable, now) = (Cable::default(), 4 * LINK_NS);
    pf.write(PFVFRE::at(0), 0b011);
    for to in [Some(1), Some(2), None, Some(9)] {
        cable.send(&frame(to));
    }
    pf.step(&mut cable, now);
    let got: Vec<u64> = vfs.iter_mut().map(|(vf, _)| delivered(vf, now)).collect();
    assert_eq!(got, [1, 2, 0]);
    assert_eq!(pf.drops().rx_pool_disabled, 2, "the third may not receive");
    assert_eq!(pf.drops().rx_no_pool, 1, "the last is to nobody's address");
    assert_eq!(vfs[1].1.bytes(IOVA + 4096, 64), frame(Some(1)), "in its own client's memory");
}

#[test]
fn frames_are_lost_by_a_reset_and_come_again_when_the_pool_is_given_back() {
    let (mut pf, mut vfs) = card(1);
    let (mut cable, now) = (Cable::default(), 4 * LINK_NS);
    cable.send(&frame(Some(0)));
    pf.step(&mut cable, now);
    Chip::<Cable>::write(&mut vfs[0].0, VFCTRL::AT, VFCTRL::RST);
    assert!(Chip::<Cable>::drops(&vfs[0].0).contains(&("vf_reset", 1)));
    assert_eq!(pf.read(PFVFLRE::at(0)), 1);
    pf.step(&mut cable, now);
    assert_eq!(pf.read(PFVFRE::at(0)) & 1, 0, "its pool is gone");
    assert_ne!(pf.read(EICR::AT) & EICR::MAILBOX, 0, "and that is told");
    pf.write(PFVFLREC::at(0), 1);
    assert_eq!(pf.read(PFVFLRE::at(0)), 0);
}

#[test]
fn a_message_goes_over_the_mailbox_and_one_without_the_buffer_is_reported() {
    let (mut pf, mut vfs) = card(2);
    let vf = &mut vfs[1].0;
    let mut write = |at: u32, value: u32| Chip::<Cable>::write(vf, at, value);
    write(VFMAILBOX::AT, VFMAILBOX::VFU);
    write(VFMBMEM::at(3), 0x1234);
    write(VFMAILBOX::AT, VFMAILBOX::REQ);
    assert_eq!((pf.read(PFMBICR::at(0)), pf.read(PFMBMEM::at(16 + 3))), (0b10, 0x1234));
    pf.write(PFMBICR::at(0), 0b10);
    pf.write(PFMAILBOX::at(1), PFMAILBOX::PFU);
    pf.write(PFMBMEM::at(16), 5);
    assert_eq!(pf.lint().count(Rule::MailboxNotHeld), 0);
    pf.write(PFMAILBOX::at(1), PFMAILBOX::ACK | PFMAILBOX::STS);
    let told = Chip::<Cable>::read(vf, VFMAILBOX::AT);
    assert_eq!(told & (VFMAILBOX::PFSTS | VFMAILBOX::PFACK), VFMAILBOX::PFSTS | VFMAILBOX::PFACK);
    assert_eq!((Chip::<Cable>::read(vf, VFMBMEM::at(0)), pf.read(PFMBICR::at(0))), (5, 0));
    pf.write(PFMBMEM::at(16), 6);
    assert_eq!(pf.lint().count(Rule::MailboxNotHeld), 1);
    Chip::<Cable>::write(vf, VFMBMEM::at(0), 7);
    assert!(Chip::<Cable>::findings(vf).iter().any(|found| found.rule == "MailboxNotHeld"));
}

#[test]
fn a_buffer_that_a_reset_took_from_its_holder_is_no_fault_of_the_holder() {
    let (mut pf, mut vfs) = card(2);
    pf.write(PFMAILBOX::at(1), PFMAILBOX::PFU);
    Chip::<Cable>::write(&mut vfs[1].0, VFCTRL::AT, VFCTRL::RST);
    pf.write(PFMBMEM::at(16), 5);
    assert_eq!(pf.lint().count(Rule::MailboxNotHeld), 0);
    assert_eq!(pf.read(PFMAILBOX::at(1)), 0, "it is told here");
    pf.write(PFMBMEM::at(16), 6);
    assert_eq!(pf.lint().count(Rule::MailboxNotHeld), 1);
}

/// Whatever either driver writes anywhere: no panic, and the other goes on.
#[test]
fn any_value_in_any_register_does_no_harm() {
    let (mut pf, mut vfs) = card(2);
    let mut seed = 1u64;
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 32) as u32
    };
    let of_pools = [
        PFVTCTL::REGISTER,
        PFMAILBOX::REGISTER,
        PFMBMEM::REGISTER,
        PFMBICR::REGISTER,
        PFVFLREC::REGISTER,
        PFVFRE::REGISTER,
        PFVFTE::REGISTER,
        PFVFSPOOF::REGISTER,
        PFDTXGSWC::REGISTER,
        PFVMVIR::REGISTER,
        PFVML2FLT::REGISTER,
        PFVLVF::REGISTER,
        PFVLVFB::REGISTER,
        MRQC::REGISTER,
        RETA::REGISTER,
        MPSAR_LO::REGISTER,
        MPSAR_HI::REGISTER,
        RAH::REGISTER,
        MCSTCTRL::REGISTER,
        CTRL_EXT::REGISTER,
    ];
    let mut cable = Cable::default();
    for round in 0..3_000u64 {
        let now = 4 * LINK_NS + round * 10_000;
        let register = of_pools[next() as usize % of_pools.len()];
        pf.write(register.at(next() as usize % register.len()), next());
        for (vf, _) in &mut vfs {
            let register = ixgbevf::TABLE[next() as usize % ixgbevf::TABLE.len()];
            let at = register.at(next() as usize % register.len());
            Chip::<Cable>::write(vf, at, next());
            Chip::<Cable>::read(vf, at);
            Chip::<Cable>::step(vf, &mut Cable::default(), now);
        }
        cable.send(&frame([None, Some(0), Some(1)][next() as usize % 3]));
        pf.step(&mut cable, now);
    }
}
