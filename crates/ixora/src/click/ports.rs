//! The ports a configuration names, opened when it is known how many queues they
//! need.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use element::io::outlets::{Opener, Wanted};
use memory::{Backing, Dma};
use port::Port;

use super::Click;
use crate::open::{self, Ports};

/// What keeps the ports alive: the models behind some of them, and what must be
/// tidied up after others.
pub type Kept = Arc<std::sync::Mutex<Vec<Ports>>>;

/// Memory for packets: what devices see, where there are devices.
pub fn memory(flat: &graph::lang::Flat) -> Dma {
    let devices = flat.elements.iter().any(|e| e.class.contains("Device"));
    let backing = if devices { Backing::Auto } else { Backing::Memfd };
    Dma::new(memory::Options { backing, ..Default::default() })
}

/// Opens ports by their names, as all of ixora's commands do.
pub fn opener(click: &Click, dma: &Dma, kept: &Kept) -> Opener {
    let (click, dma, kept) = (click.clone(), dma.clone(), kept.clone());
    Box::new(move |wanted: &[Wanted]| open(&click, &dma, &kept, wanted))
}

fn open(click: &Click, dma: &Dma, kept: &Kept, wanted: &[Wanted]) -> Result<Vec<Box<dyn Port>>, String> {
    let names: Vec<&str> = wanted.iter().map(|w| w.name.as_str()).collect();
    let queues = wanted.iter().map(|w| w.queues).max().unwrap_or(1);
    let mut options = click.port_options(queues);
    options.no_promiscuous = wanted.iter().all(|w| !w.promiscuous);
    let never = Arc::new(AtomicBool::new(false));
    let mut ports =
        open::ports_in(Some(dma), &names, &options, &never).map_err(|failure| failure.to_string())?;
    let list = std::mem::take(&mut ports.list);
    kept.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(ports);
    Ok(list)
}
