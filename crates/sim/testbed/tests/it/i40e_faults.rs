//! Our XL710 driver on devices that misbehave: firmware that answers late, never, or with garbage, and
//! write-backs likewise. Each ends in an error with a name or in a port that works, and no
//! buffer is lost.

use crate::common::between::{Between, in_front_of};
use crate::common::frames::{self, Sums};
use crate::common::run_until_idle;
use driver::i40e::{I40e, I40eFault};
use memory::{Batch, Dma, Pool, TxOffload};
use port::{Options, RxQueue as _, TxQueue as _};
use regs::i40e::*;
use std::sync::Arc;
use testbed::inprocess::{Handle, InProcess, while_stepping};
use testbed::{i40e, ixgbe};

/// A device on a looped cable that does some of what `fault` says.
fn device(fault: &str) -> (bus::Pci, Handle) {
    let fault = Some(fault.parse().unwrap());
    let options = i40e::Options { fault, ..i40e::Options::with_mac(ixgbe::mac(0)) };
    let cable = testbed::wire::Cable::open(&"loop".parse().unwrap()).unwrap();
    InProcess::new(i40e::open(&options, cable).unwrap())
}

fn open(pci: &bus::Pci, handle: &Handle, dma: &Dma) -> driver::Result<I40e> {
    let handles = [handle.clone()];
    while_stepping(&handles, || I40e::open(pci.clone(), dma, Options::default())).unwrap()
}

fn refused(fault: &str) -> I40eFault {
    let (pci, handle) = device(fault);
    let dma = Dma::new(Default::default());
    match open(&pci, &handle, &dma) {
        Err(driver::Error::I40e(fault)) => fault,
        Err(other) => panic!("{fault}: {other}"),
        Ok(_) => panic!("{fault}: it opens"),
    }
}

#[test]
fn firmware_that_never_answers_is_named_with_its_command() {
    let fault = refused("stuck=1");
    assert!(matches!(fault, I40eFault::NoAnswer { command: "GET_VERSION", opcode: 1, .. }), "{fault}");
}

#[test]
fn an_answer_that_is_garbage_is_an_error() {
    for seed in 0..8 {
        let fault = refused(&format!("garbage=1,seed={seed}"));
        assert!(matches!(fault, I40eFault::Nonsense { .. } | I40eFault::Refused { .. }), "{fault}");
    }
}

#[test]
fn firmware_that_is_late_is_waited_for() {
    let (pci, handle) = device("late=1");
    let dma = Dma::new(Default::default());
    let port = open(&pci, &handle, &dma).unwrap();
    while_stepping(&[handle], || drop(port)).unwrap();
}

/// Ports that open in spite of some faults, and those that do not: frames go round, and every
/// buffer comes back.
#[test]
fn whatever_comes_back_wrong_no_buffer_is_lost() {
    let mut opened = 0;
    for (seed, kind) in (0..40).zip(["garbage", "length", "stuck", "late"].into_iter().cycle()) {
        let (pci, handle) = device(&format!("{kind}=0.01,seed={seed}"));
        let dma = Dma::new(Default::default());
        let mut pool = Pool::new(&dma, 2048).unwrap();
        let Ok(port) = open(&pci, &handle, &dma) else { continue };
        opened += 1;
        let (port, mut rx, mut tx) = port.split();
        let mut batch = Batch::default();
        for _ in 0..300 {
            let bytes = frames::udp4(b"round and round", Sums::Full);
            let mut packet = pool.alloc().unwrap();
            packet.copy_from(&bytes).unwrap();
            packet.set_tx_offload(TxOffload::default());
            batch.push(packet);
            tx[0].send(&mut pool, &mut batch);
            pool.free_batch(&mut batch);
            handle.step_now();
            rx[0].recv(&mut pool, &mut batch);
            pool.free_batch(&mut batch);
        }
        run_until_idle(std::slice::from_ref(&handle));
        while_stepping(&[handle], || drop((port, rx, tx))).unwrap();
        assert_eq!(pool.available(), pool.capacity(), "{kind} {seed}");
    }
    assert!(opened > 5, "{opened} opened");
}

/// A register that never says what is waited for.
#[derive(Debug)]
struct Frozen(u32, u32);

impl Between for Frozen {
    fn read_bar(&self, inner: &bus::Pci, index: usize, offset: u32, data: &mut [u8]) -> bus::Result<()> {
        inner.read_bar(index, offset, data)?;
        if (index, offset) == (0, self.0) {
            data.copy_from_slice(&self.1.to_le_bytes());
        }
        Ok(())
    }
}

#[test]
fn a_wait_that_ends_in_vain_names_its_register() {
    for (register, value) in [
        (GLGEN_RSTAT::REGISTER, 1),
        (GLNVM_ULD::REGISTER, 0),
        (PFGEN_CTRL::REGISTER, PFGEN_CTRL::PFSWR),
        (QRX_ENA::REGISTER, 0),
        (QTX_ENA::REGISTER, 0),
    ] {
        let (inner, handle) = device("");
        let pci = in_front_of(inner, Arc::new(Frozen(register.offset, value)));
        let dma = Dma::new(Default::default());
        match open(&pci, &handle, &dma) {
            Err(driver::Error::Timeout { register: name, offset, .. }) => {
                assert_eq!((name, offset), (register.name, register.offset));
            }
            Err(other) => panic!("{}: {other}", register.name),
            Ok(_) => panic!("{}: it opens", register.name),
        }
    }
}
