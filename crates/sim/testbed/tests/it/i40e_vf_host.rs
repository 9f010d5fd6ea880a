//! Our host of virtual functions where others make it hard: a port that is not the card's first, a reset
//! that does not end, a mailbox that floods, frames and addresses that are not a virtual function's to send or
//! have.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::between::{Between, in_front_of};
use crate::common::frames::{ethernet, payload};
use crate::common::limit::{Limit, until};
use crate::common::mailbox::Raw;
use crate::common::vf::{Card, expect, options, send, to};
use bus::Pci;
use driver::i40e::host::Policy;
use memory::TxOffload;
use port::{Filters as _, Port as _};
use regs::i40e::{VPGEN_VFRSTAT, VPGEN_VFRTRIG};
use regs::virtchnl::message::Select;
use regs::virtchnl::op;
use testbed::ixgbe;
use wire::ethernet::EtherType;

/// After a reset has begun, until the device tells its end: Linux's driver waits as long.
const DRAINED: Duration = Duration::from_millis(10);

#[test]
fn a_cards_second_port_hosts_its_own_virtual_functions() {
    // Their numbers are on both sides of a block of the register that tells of resets.
    let mut card = Card::with(["pair"; 2], &[Policy::default(); 2], 31, |pci| pci);
    let mut vfs = [0, 1].map(|n| card.open_vf(n, &options()));
    for n in 0..2 {
        card.works_on(&mut vfs[n]);
        let frame = to(vfs[1 - n].device.mac(), vfs[n].device.mac(), b"to the other");
        send(&mut vfs[n].tx[0], &mut card.pool, &frame, TxOffload::default());
        assert_eq!(expect(&mut vfs[1 - n].rx, &mut card.pool, 1), [(0, frame)]);
    }
    for n in 0..2 {
        let resets = |card: &Card| [0, 1].map(|n| card.host(|host| host.counters(n).resets));
        let before = resets(&card);
        card.vfs[n].reset().unwrap();
        until("the reset by its driver to be taken up", || resets(&card)[n] == before[n] + 1);
        assert_eq!(resets(&card)[1 - n], before[1 - n], "the other's bit is another");
        assert!(vfs[n].device.health().is_err());
    }
    drop(vfs);
    let mut vf = card.open_vf(1, &options());
    card.works_on(&mut vf);
    assert_eq!(card.host(|host| host.lost()), 0);
    card.finish(vec![vf], &[]);
}

/// The end of virtual function 0's reset is not told while this is on.
#[derive(Debug, Default)]
struct Held {
    on: AtomicBool,
    begun: Mutex<Option<Instant>>,
    /// It was looked at too early.
    early: AtomicBool,
}

impl Between for Held {
    fn write_bar(&self, inner: &Pci, index: usize, offset: u32, data: &[u8]) -> bus::Result<()> {
        let begins = u32::from(data[0]) & VPGEN_VFRTRIG::VFSWR != 0;
        if (index, offset) == (0, VPGEN_VFRTRIG::at(0)) && begins {
            *self.begun.lock().unwrap() = Some(Instant::now());
        }
        inner.write_bar(index, offset, data)
    }

    fn read_bar(&self, inner: &Pci, index: usize, offset: u32, data: &mut [u8]) -> bus::Result<()> {
        inner.read_bar(index, offset, data)?;
        if (index, offset) == (0, VPGEN_VFRSTAT::at(0)) {
            let early = self.begun.lock().unwrap().is_none_or(|begun| begun.elapsed() < DRAINED);
            self.early.fetch_or(early, Ordering::Relaxed);
            if self.on.load(Ordering::Relaxed) {
                data.fill(0);
            }
        }
        Ok(())
    }
}

#[test]
fn a_reset_that_does_not_end_is_its_own_virtual_functions_alone() {
    let held = Arc::new(Held::default());
    let front = held.clone();
    let mut card = Card::with(["pair"; 2], &[Policy::default(); 2], 0, |pci| in_front_of(pci, front));
    let mut other = card.open_vf(1, &options());
    held.on.store(true, Ordering::Relaxed);
    card.host(|host| {
        host.reset(0).unwrap();
        assert_eq!(host.counters(0).not_brought_up, 0, "nobody has waited for its end");
    });
    other.device.add_mac([1, 0, 0x5E, 0, 0, 1]).expect("others are answered meanwhile");
    until("it to be given up and tried again", || card.host(|host| host.counters(0).not_brought_up) > 1);
    card.works_on(&mut other);
    assert!(other.device.health().is_ok());
    held.on.store(false, Ordering::Relaxed);
    let mut vf = card.open_vf(0, &options());
    card.works_on(&mut vf);
    assert!(!held.early.load(Ordering::Relaxed), "its end is not looked for too early");
    card.finish(vec![vf, other], &[]);
}

#[test]
fn a_mailbox_that_floods_does_not_hold_up_another() {
    /// So many messages wait on the way to the host at most, with room for what comes meanwhile.
    const BEFORE: u64 = 128;
    let mut card = Card::open(&[Policy::default(); 2]);
    let mut flood = Raw::open(&card.vfs[0], &card.dma);
    let mut other = Raw::open(&card.vfs[1], &card.dma);
    let stats = Select { vsi: 1, rx: 0, tx: 0 }.encode();
    let stop = AtomicBool::new(false);
    let most = thread::scope(|scope| {
        scope.spawn(|| {
            let mut limit = Limit::time("the end of the flood");
            while !stop.load(Ordering::Relaxed) {
                limit.check();
                flood.tell(op::GET_STATS, &stats);
            }
        });
        let most = card.host(|host| {
            let mut limit = Limit::time("the others' answers");
            let before_each = |_: u8| {
                assert_eq!(other.tell(op::GET_STATS, &stats), 0);
                let [floods, own] = [0, 1].map(|n| host.counters(n).messages);
                while host.counters(1).messages == own {
                    limit.check();
                    host.poll().unwrap();
                }
                host.counters(0).messages - floods
            };
            (0..8).map(before_each).max()
        });
        stop.store(true, Ordering::Relaxed);
        most
    });
    assert!(most < Some(BEFORE), "{most:?} messages of the other before one");
    // What is left of the flood would be answered into memory that is gone.
    card.polling = None;
    drop((flood, other));
    // They ask without having said which version they speak.
    card.finish(Vec::new(), &["MessageTooEarly"]);
}

#[test]
fn control_frames_do_not_leave_the_card() {
    let mut card = Card::open(&[Policy::default()]);
    let mut vf = card.open_vf(0, &options());
    let (mac, none) = (vf.device.mac(), TxOffload::default());
    let control = |ethertype: EtherType, source: [u8; 6]| {
        let mut frame = ethernet([1, 0x80, 0xC2, 0, 0, 1], ethertype.0, &payload(60));
        frame[6..12].copy_from_slice(&source);
        frame
    };
    for ethertype in [EtherType::MAC_CONTROL, EtherType::LLDP] {
        send(&mut vf.tx[0], &mut card.pool, &control(ethertype, mac), none);
    }
    // The frame behind them comes, and they do not.
    card.works_on(&mut vf);
    let dropped = |card: &Card, n: usize| card.handles[n].report().drops["tx_control"];
    assert_eq!((dropped(&card, 0), dropped(&card, 2)), (2, 2));
    let frame = to(ixgbe::mac(1), ixgbe::mac(0), b"the port's own");
    let (side, pool) = card.pf();
    for frame in [&control(EtherType::MAC_CONTROL, ixgbe::mac(0)), &frame] {
        send(&mut side.tx[0], pool, frame, none);
    }
    let (side, pool) = card.peer();
    assert_eq!(expect(&mut side.rx, pool, 1), [(0, frame)]);
    assert_eq!(dropped(&card, 0), 3);
    card.finish(vec![vf], &[]);
}

#[test]
fn addresses_of_others_are_for_those_with_trust() {
    let trusted = Policy { trust: true, ..Policy::default() };
    let mut card = Card::open(&[Policy::default(), Policy::default(), trusted]);
    let [mut plain, mut other, mut free] = [0, 1, 2].map(|n| card.open_vf(n, &options()));
    let added = [2, 9, 9, 9, 9, 9];
    other.device.add_mac(added).unwrap();
    for mac in [ixgbe::mac(0), other.device.mac(), added] {
        let refused = plain.device.add_mac(mac).unwrap_err().to_string();
        assert!(refused.contains("ADD_ETH_ADDR (10): ERR_PARAM"), "{refused}");
        free.device.add_mac(mac).unwrap();
        assert!(free.device.remove_mac(mac).unwrap());
    }
    assert!(other.device.remove_mac(added).unwrap());
    plain.device.add_mac(added).expect("it is nobody's now");
    card.finish(vec![plain, other, free], &[]);
}
