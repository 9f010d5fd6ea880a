//! Ports on devices of this process, whichever driver drives them: opened while the devices
//! step, virtual functions while their hosts answer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use bus::Pci;
use driver::i40e::I40e;
use driver::iavf::Iavf;
use driver::ixgbe::Ixgbe;
use driver::ixgbevf::Ixgbevf;
use driver::vf_host::{Hosting, Policy};
use driver::{i40e, ixgbe};
use memory::Dma;
use port::{Options, Port};
use testbed::inprocess::{self, Handle};

use crate::device;
use crate::two_cores::no_thread;
use crate::{DeviceName, Result};

/// A port, its devices, and who hosts it if it is a virtual function's.
pub struct Opened {
    /// The port, whichever driver drives it.
    pub port: Box<dyn Port>,
    /// Its devices, to be stepped.
    pub handles: Vec<Handle>,
    host: Option<Box<dyn Hosting + Send>>,
}

/// What a port of [`open`] receives.
#[derive(Debug, Clone)]
pub struct Given {
    /// The wire of a full model.
    pub wire: String,
    /// The frames of a minimal device.
    pub frames: Vec<Vec<u8>>,
}

/// Opens a port of a kind.
///
/// # Errors
/// When the device cannot be made, or what the driver says.
pub fn open(device: DeviceName, given: Given, dma: &Dma, options: Options) -> Result<Opened> {
    let Given { wire, frames } = given;
    match device {
        DeviceName::Minimal => {
            plain(device::minimal(frames)?, |pci| Ok(Box::new(Ixgbe::open(pci, dma, options)?)))
        }
        DeviceName::Full => plain(device::model(&wire)?, |pci| Ok(Box::new(Ixgbe::open(pci, dma, options)?))),
        DeviceName::MinimalXl710 => {
            plain(device::minimal_xl710(frames)?, |pci| Ok(Box::new(I40e::open(pci, dma, options)?)))
        }
        DeviceName::Xl710 => plain(device::xl710(&wire)?, |pci| Ok(Box::new(I40e::open(pci, dma, options)?))),
        DeviceName::Vf82599 => {
            let host = |pci, asked, policies: &[Policy]| -> Result<Box<dyn Hosting + Send>> {
                Ok(Box::new(ixgbe::host::Host::open(pci, dma, asked, policies)?))
            };
            hosted(device::card_82599(&wire)?, host, |pci| Ok(Box::new(Ixgbevf::open(pci, dma, options)?)))
        }
        DeviceName::Xl710Vf => {
            let host = |pci, asked, policies: &[Policy]| -> Result<Box<dyn Hosting + Send>> {
                Ok(Box::new(i40e::host::Host::open(pci, dma, asked, policies)?))
            };
            hosted(device::card_xl710(&wire)?, host, |pci| Ok(Box::new(Iavf::open(pci, dma, options)?)))
        }
    }
}

fn plain((pci, handle): (Pci, Handle), open: impl FnOnce(Pci) -> Result<Box<dyn Port>>) -> Result<Opened> {
    let handles = vec![handle];
    let port = inprocess::while_stepping(&handles, || open(pci)).map_err(no_thread)??;
    Ok(Opened { port, handles, host: None })
}

/// A virtual function that may do everything, so that the device's filters let all through.
fn hosted(
    [(card, of_card), (function, of_function)]: [(Pci, Handle); 2],
    host: impl FnOnce(Pci, Options, &[Policy]) -> Result<Box<dyn Hosting + Send>>,
    open: impl FnOnce(Pci) -> Result<Box<dyn Port>>,
) -> Result<Opened> {
    let handles = vec![of_card, of_function];
    let asked = Options { promiscuous: false, link_wait_ms: 0, ..Options::default() };
    let policy = Policy { mac: Some(device::vf_mac()), trust: true, spoof_check: false, ..Policy::default() };
    let opened = inprocess::while_stepping(&handles, || -> Result<_> {
        let mut hosts = [host(card, asked, &[policy])?];
        let port = while_answering(&mut hosts, || open(function))??;
        let [host] = hosts;
        Ok((port, host))
    });
    let (port, host) = opened.map_err(no_thread)??;
    Ok(Opened { port, handles, host: Some(host) })
}

/// Does something that waits for the answers of hosts.
fn while_answering<T>(hosts: &mut [Box<dyn Hosting + Send>], work: impl FnOnce() -> T) -> Result<T> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let answering = scope.spawn(|| -> Result<()> {
            while !over.load(Ordering::Relaxed) {
                hosts.iter_mut().try_for_each(|host| host.poll().map(|_| ()))?;
                thread::yield_now();
            }
            Ok(())
        });
        let done = work();
        over.store(true, Ordering::Relaxed);
        // A panic there has been told already.
        answering.join().unwrap_or(Ok(())).map(|()| done)
    })
}

/// Closes ports, and before them `queues` of theirs, while their devices step and their hosts
/// answer.
pub fn close<T>(all: Vec<Opened>, queues: T) {
    let handles: Vec<Handle> = all.iter().flat_map(|opened| opened.handles.clone()).collect();
    let (ports, hosts): (Vec<_>, Vec<_>) = all.into_iter().map(|opened| (opened.port, opened.host)).unzip();
    let mut hosts: Vec<_> = hosts.into_iter().flatten().collect();
    // What a device does that was measured is of no interest any more.
    let _ = inprocess::while_stepping(&handles, || {
        let _ = while_answering(&mut hosts, || drop((queues, ports)));
        drop(hosts);
    });
}
