//! From ports' names to ports.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use driver::ixgbe::{Completion, Options};
use memory::{Backing, Dma};
use port::ixgbe::IxgbePort;
use port::{Port, RxQueue, TxQueue};
use testbed::inprocess::{self, Handle, InProcess};
use testbed::wire::{self, Cable, Ledger, Plug};
use testbed::{Idle, Stepper};

use crate::Failure;
use crate::cli::{Hugepages, PortOptions};

/// How long links may take to come up; a port without one is opened all the same.
const LINK: Duration = Duration::from_secs(10);

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
    join(Cable::open(&wire.parse()?)?, testbed::ixgbe::mac(0))
}

/// A device that gives the same packet of `len` bytes again and again.
pub fn lean(len: usize) -> Result<(bus::Pci, Handle), Failure> {
    let cable = Cable::open(&"sink".parse()?)?; // nothing comes out of its port
    Ok(InProcess::new(testbed::lean::open(testbed::ixgbe::mac(0), len, cable).map_err(no_pages)?))
}

fn no_pages(error: std::io::Error) -> Failure {
    Failure::new(format!("cannot make a model's pages: {error}"))
}

fn join(cable: Cable, mac: [u8; 6]) -> Result<(bus::Pci, Handle), Failure> {
    let options = testbed::ixgbe::Options::with_mac(mac);
    Ok(InProcess::new(testbed::ixgbe::open(&options, cable).map_err(no_pages)?))
}

/// Finds and starts the ports, until `stop` says that nobody wants them.
pub fn ports(names: &[&str], options: &PortOptions, stop: &AtomicBool) -> Result<Ports, Failure> {
    let (devices, handles) = devices(names, stop)?;
    if options.interrupts
        && let Some(mute) = devices.iter().find(|pci| pci.interrupt_vectors() == 0)
    {
        return Err(Failure::new(format!("{} has no interrupts this way", mute.name()))
            .fix("bind the device to vfio-pci, or leave --interrupts out"));
    }
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
    let mut list: Vec<Box<dyn Port>> = Vec::new();
    for pci in devices {
        go_on(stop)?;
        list.push(Box::new(IxgbePort::open(pci, &dma, driver_options(options))?));
    }
    await_links(&list, stop)?;
    for handle in &handles {
        handle.with_cable(Cable::start_source);
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
        link_wait_ms: 0, // all links at once, and a signal ends the wait
        ..Options::default()
    }
}

/// A signal that comes before there is anything to end ends the command.
fn go_on(stop: &AtomicBool) -> Result<(), Failure> {
    match stop.load(Ordering::Relaxed) {
        true => Err(Failure::new("interrupted before the ports were open")),
        false => Ok(()),
    }
}

fn await_links(ports: &[Box<dyn Port>], stop: &AtomicBool) -> Result<(), Failure> {
    let limit = Instant::now() + LINK;
    for port in ports {
        while !port.link().up {
            go_on(stop)?;
            port.health()?;
            if Instant::now() > limit {
                tracing::warn!("{}: no link after {LINK:?}: check cable and peer", port.name());
                break;
            }
            sleep(Duration::from_millis(5));
        }
    }
    Ok(())
}

/// A port's name, taken apart.
enum Name<'a> {
    VfioUser(&'a Path),
    Pci(bus::Address),
    Model(Box<wire::Spec>),
}

impl Name<'_> {
    fn parse(name: &str) -> Result<Name<'_>, Failure> {
        if let Some(path) = name.strip_prefix("vfio-user:").filter(|path| !path.is_empty()) {
            return Ok(Name::VfioUser(Path::new(path)));
        }
        if let Some(chip) = name.strip_prefix("model:") {
            let (chip, wire) = chip.split_once(",wire=").unwrap_or((chip, "loop"));
            known_chip(chip)?;
            return Ok(Name::Model(Box::new(wire.parse()?)));
        }
        let address = name.parse().map_err(|_| {
            Failure::usage(format!("{name:?} is no port"))
                .fix("write a PCI address (0000:03:00.0), vfio-user:/path.sock, or model:82599[,wire=WIRE]")
        })?;
        Ok(Name::Pci(address))
    }
}

/// The devices and, of those that are models, what steps them. Nothing is
/// touched before all names make sense.
fn devices(names: &[&str], stop: &AtomicBool) -> Result<(Vec<bus::Pci>, Vec<Handle>), Failure> {
    let parsed = names.iter().map(|name| Name::parse(name)).collect::<Result<Vec<_>, _>>()?;
    for (n, name) in names.iter().enumerate() {
        if !matches!(parsed[n], Name::Model(_)) && names[..n].contains(name) {
            return Err(Failure::usage(format!("{name} is given twice")).fix("name two different ports"));
        }
    }
    let mut plugs = Vec::new();
    for name in &parsed {
        if let Name::Model(spec) = name {
            plugs.push(Plug { spec: (**spec).clone(), mac: testbed::ixgbe::mac(plugs.len() as u8) });
        }
    }
    let cables = wire::plug(&plugs, &Arc::new(Ledger::default()))?;
    let mut models = cables.into_iter().zip(&plugs);
    let (mut devices, mut handles) = (Vec::new(), Vec::new());
    for name in parsed {
        go_on(stop)?;
        devices.push(match name {
            Name::VfioUser(path) => bus::Pci::connect(path)?,
            Name::Pci(address) => bus::Pci::open_address(address)?,
            Name::Model(_) => {
                let (cable, plug) = models.next().expect("a plug was made for each model");
                let (pci, handle) = join(cable, plug.mac)?;
                handles.push(handle);
                pci
            }
        });
    }
    Ok((devices, handles))
}

/// Refuses chips there is no model of.
pub fn known_chip(chip: &str) -> Result<(), Failure> {
    match chip {
        "82599" => Ok(()),
        _ => Err(Failure::usage(format!("there is no model of {chip:?}")).fix("use 82599")),
    }
}
