//! Somebody writes to the rings in which the XL710's firmware tells of events, the firmware does not:
//! flags that say that an event is there, and flags that are gone. A driver that believed them would be
//! ahead of the firmware or behind it, and miss each answer from then on.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::sleep;
use std::time::Duration;

use crate::common::between::{Between, in_front_of};
use crate::common::limit::until;
use crate::common::vf::{Card, options};
use bus::{Bar, DmaRange, Pci, Result};
use driver::i40e::host::Policy;
use model::Dma as _;
use port::{Filters as _, Port as _};
use regs::i40e::admin::{DESCRIPTOR, flag};
use regs::i40e::*;
use regs::iavf::*;
use testbed::view::{Access, View};

/// Where the ring of events is told: base low and high, head; and where messages are sent.
#[derive(Debug, Clone, Copy)]
struct Registers {
    base: [u32; 2],
    head: u32,
    send: u32,
}

const PF: Registers =
    Registers { base: [PF_ARQBAL::AT, PF_ARQBAH::AT], head: PF_ARQH::AT, send: PF_ATQT::AT };
const VF: Registers =
    Registers { base: [VF_ARQBAL1::AT, VF_ARQBAH1::AT], head: VF_ARQH1::AT, send: VF_ATQT1::AT };

/// In front of a device: knows its memory and its ring of events.
#[derive(Debug)]
struct Forger {
    registers: Registers,
    memory: Mutex<View>,
    base: Mutex<[u32; 2]>,
    /// So many of the next events are taken out of the ring as soon as they are there.
    steals: AtomicU32,
}

impl Between for Forger {
    fn map_dma(&self, inner: &Pci, range: &DmaRange<'_>) -> Result<()> {
        let file = range.fd().unwrap().try_clone_to_owned().unwrap();
        let len = range.len() as u64;
        self.view().map(range.iova(), len, file, range.fd_offset(), Access::BOTH).unwrap();
        inner.map_dma(range)
    }

    fn unmap_dma(&self, inner: &Pci, iova: u64, len: usize) -> Result<()> {
        self.view().unmap(iova, len as u64).unwrap();
        inner.unmap_dma(iova, len)
    }

    fn write_bar(&self, inner: &Pci, index: usize, offset: u32, data: &[u8]) -> Result<()> {
        if let Some(half) = self.registers.base.iter().position(|at| *at == offset) {
            self.base.lock().unwrap()[half] = u32::from_le_bytes(data.try_into().unwrap());
        }
        let one_less = |left: u32| left.checked_sub(1);
        let steals = offset == self.registers.send
            && self.steals.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok();
        let bar = inner.bar(0)?;
        let before = self.head(&bar);
        inner.write_bar(index, offset, data)?;
        if steals {
            until("the answer", || self.head(&bar) != before);
            self.change(before, |flags| flags & !flag::DD);
        }
        Ok(())
    }
}

impl Forger {
    fn in_front_of(pci: Pci, registers: Registers) -> (Pci, Arc<Forger>) {
        let (base, steals) = (Mutex::default(), AtomicU32::new(0));
        let forger = Arc::new(Forger { registers, memory: Mutex::default(), base, steals });
        (in_front_of(pci, forger.clone()), forger)
    }

    fn view(&self) -> MutexGuard<'_, View> {
        self.memory.lock().unwrap()
    }

    /// The descriptor that the firmware writes next.
    fn head(&self, bar: &Bar) -> u32 {
        bar.read32(self.registers.head)
    }

    fn change(&self, n: u32, change: impl Fn(u16) -> u16) {
        let [low, high] = *self.base.lock().unwrap();
        let at = (u64::from(low) | u64::from(high) << 32) + u64::from(n) * DESCRIPTOR as u64;
        let mut flags = [0; 2];
        assert!(self.view().read(at, &mut flags));
        assert!(self.view().write(at, &change(u16::from_le_bytes(flags)).to_le_bytes()));
    }

    /// Says that there is an event that is not.
    fn forge(&self, pci: &Pci) {
        self.change(self.head(&pci.bar(0).unwrap()), |flags| flags | flag::DD);
    }
}

/// A card with a virtual function and a forger in front of that.
fn with_forged_vf() -> (Card, Arc<Forger>) {
    let mut card = Card::open(&[Policy { trust: true, ..Policy::default() }]);
    let (pci, forger) = Forger::in_front_of(card.vfs[0].clone(), VF);
    card.vfs[0] = pci;
    (card, forger)
}

#[test]
fn an_event_that_the_firmware_did_not_write_keeps_no_answer_away() {
    let (mut card, forger) = with_forged_vf();
    let mut vf = card.open_vf(0, &options());
    for n in 0..3 {
        // The answer that brings the counters is written over the forgery, so that one is made each
        // time, and the driver sees it for a while before.
        until("the forgery to be counted", || {
            forger.forge(&card.vfs[0]);
            for _ in 0..2 {
                vf.device.health().unwrap();
                sleep(Duration::from_millis(10));
            }
            vf.device.stats().counter("admin_forged") > n
        });
        vf.device.add_mac([2, 9, 9, 9, 9, n as u8]).expect("it is answered");
    }
    card.works_on(&mut vf);
    card.finish(vec![vf], &[]);
}

#[test]
fn events_that_are_gone_keep_no_later_answer_away() {
    let (mut card, forger) = with_forged_vf();
    let mut vf = card.open_vf(0, &options());
    forger.steals.store(2, Ordering::Relaxed);
    for _ in 0..2 {
        let error = vf.device.add_mac([2, 9, 9, 9, 9, 9]).unwrap_err().to_string();
        assert!(error.contains("did not answer ADD_ETH_ADDR"), "{error}");
    }
    vf.device.set_promiscuous(true).expect("the next message is answered");
    assert_eq!(vf.device.stats().counter("admin_forged"), 2);
    card.works_on(&mut vf);
    card.finish(vec![vf], &[]);
}

#[test]
fn a_host_hears_its_virtual_functions_whatever_is_forged() {
    let mut forger = None;
    let mut card = Card::with(["pair"; 2], &[Policy::default()], 0, |pci| {
        let (pci, in_front) = Forger::in_front_of(pci, PF);
        forger = Some(in_front);
        pci
    });
    let forger = forger.unwrap();
    for n in 0..3 {
        let pci = card.pcis[0].clone();
        card.host(|_| forger.forge(&pci));
        until("the forgery to be counted", || card.pf().0.device.stats().counter("admin_forged") > n);
        let mut vf = card.open_vf(0, &options());
        card.works_on(&mut vf);
        drop(vf);
    }
    card.finish(Vec::new(), &[]);
}
