//! From a port's name to a port.

use std::path::Path;

use driver::ixgbe::{Completion, Options};
use memory::{Backing, Dma};
use port::ixgbe::IxgbePort;
use port::{Port, RxQueue, TxQueue};
use testbed::inprocess::{self, Handle, InProcess};
use testbed::{Idle, Stepper, wire};

use crate::Failure;
use crate::cli::{Hugepages, PortOptions};

/// Some opened ports, their memory, and the models among them.
pub struct Ports {
    pub dma: Dma,
    pub list: Vec<Box<dyn Port>>,
    /// Steps the models of `model:` ports; drops after the ports.
    _stepper: Option<Stepper>,
}

impl Ports {
    /// Takes a receive queue.
    pub fn rx(&mut self, port: usize, queue: usize) -> Result<Box<dyn RxQueue>, Failure> {
        let port = &mut self.list[port];
        let missing = || Failure::new(format!("port has no receive queue {queue}"));
        port.rx_queue(queue).ok_or_else(missing)
    }

    /// Takes a transmit queue.
    pub fn tx(&mut self, port: usize, queue: usize) -> Result<Box<dyn TxQueue>, Failure> {
        let port = &mut self.list[port];
        let missing = || Failure::new(format!("port has no transmit queue {queue}"));
        port.tx_queue(queue).ok_or_else(missing)
    }

    /// A port's own address.
    pub fn mac(&self, port: usize) -> [u8; 6] {
        self.list[port].mac()
    }
}

/// A device in this process, with a wire in its port.
pub fn model(wire: &str) -> Result<(bus::Pci, Handle), Failure> {
    let spec: wire::Spec = wire.parse()?;
    let cable = wire::Cable::open(&spec)?;
    let options = testbed::ixgbe::Options::with_mac(testbed::ixgbe::mac(0));
    let device = testbed::ixgbe::open(&options, cable)
        .map_err(|error| Failure::new(format!("cannot make a model's pages: {error}")))?;
    Ok(InProcess::new(device))
}

/// Finds and starts the ports.
pub fn ports(names: &[&String], options: &PortOptions) -> Result<Ports, Failure> {
    let mut handles = Vec::new();
    let devices = names.iter().map(|name| device(name, &mut handles)).collect::<Result<Vec<_>, _>>()?;
    let numa_node = options.numa.or_else(|| devices.first().and_then(|pci| pci.numa_node()));
    let backing = match options.hugepages {
        Hugepages::Auto => Backing::Auto,
        Hugepages::Hugetlbfs => Backing::Hugetlbfs,
        Hugepages::Memfd => Backing::MemfdHuge,
        Hugepages::None => Backing::Memfd,
    };
    let dma = Dma::new(memory::Options { backing, numa_node });
    let stepper = match handles.as_slice() {
        [] => None,
        handles => Some(
            inprocess::spawn(handles, None, Idle::Yield)
                .map_err(|error| Failure::new(format!("cannot start the model's thread: {error}")))?,
        ),
    };
    let driver_options = driver_options(options);
    let mut list: Vec<Box<dyn Port>> = Vec::new();
    for pci in devices {
        list.push(Box::new(IxgbePort::open(pci, &dma, driver_options.clone())?));
    }
    Ok(Ports { dma, list, _stepper: stepper })
}

fn driver_options(options: &PortOptions) -> Options {
    Options {
        rx_queues: options.queues,
        tx_queues: options.queues,
        rx_ring: options.rx_ring.unwrap_or(options.ring),
        tx_ring: options.tx_ring.unwrap_or(options.ring),
        max_frame: options.max_frame,
        promiscuous: !options.no_promiscuous,
        interrupts: options.interrupts,
        completion: if options.head_writeback { Completion::Head } else { Completion::Report },
        ..Options::default()
    }
}

fn device(name: &str, handles: &mut Vec<Handle>) -> Result<bus::Pci, Failure> {
    if let Some(path) = name.strip_prefix("vfio-user:") {
        return Ok(bus::Pci::connect(Path::new(path))?);
    }
    if let Some(chip) = name.strip_prefix("model:") {
        let (chip, wire) = chip.split_once(",wire=").unwrap_or((chip, "loop"));
        known_chip(chip)?;
        let (pci, handle) = model(wire)?;
        handles.push(handle);
        return Ok(pci);
    }
    let address = name.parse::<bus::Address>().map_err(|_| {
        Failure::usage(format!("{name:?} is no port"))
            .fix("write a PCI address (0000:03:00.0), vfio-user:/path.sock, or model:82599[,wire=WIRE]")
    })?;
    Ok(bus::Pci::open_address(address)?)
}

/// Refuses chips there is no model of.
pub fn known_chip(chip: &str) -> Result<(), Failure> {
    match chip {
        "82599" => Ok(()),
        _ => Err(Failure::usage(format!("there is no model of {chip:?}")).fix("use 82599")),
    }
}
