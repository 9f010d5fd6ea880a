//! From ports' names to ports.

mod name;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use app::vlan::Restore;
use driver::ixgbe::{self, FixedRing};
use memory::{Backing, Dma};
use port::{Feature, Port, RxQueue, TxQueue};
use ports::{Found, Name};
use runtime::confine::{Confinement, Needs};
use rustix::process::Pid;
use serde::Serialize;
use testbed::inprocess::{self, Handle, InProcess};
use testbed::models::Setup;
use testbed::wire::{self, Cable, Ledger, Plug};
use testbed::{Finding, Idle, Stepper};

use crate::cli::{Hugepages, PortOptions};
use crate::janitor::{CleanUp, Janitor};
use crate::{Failure, serve};
use name::Wanted;
pub use name::{check_name, forms, look_for, model_form};

/// How long links may take to come up; a port without one is opened all the same.
const LINK: Duration = Duration::from_secs(10);

/// The linter of a port that is a model in this process.
pub struct Linter {
    port: usize,
    model: Handle,
}

impl Linter {
    /// What it found so far; when the port is closed, while closing as well.
    pub fn findings(&self) -> PortFindings {
        let report = self.model.report();
        let name = format!("model:{}", report.chip);
        PortFindings { port: self.port, name, findings: report.findings }
    }
}

/// What the linter found at a port that is a model.
#[derive(Clone, Debug, Serialize)]
pub struct PortFindings {
    /// The port's place in the command, from 0.
    pub port: usize,
    /// The port's name, as the command has it.
    pub name: String,
    /// The findings; none is good.
    pub findings: Vec<Finding>,
}

impl PortFindings {
    /// Prints them, if there are any.
    pub fn print(&self) {
        print!("{}", self.text());
    }

    /// In lines, if there are any.
    pub fn text(&self) -> String {
        let lines = serve::findings_text(&self.findings);
        if lines.is_empty() {
            return lines;
        }
        format!("the linter found at port {} ({}):\n{lines}", self.port, self.name)
    }
}

/// The queues that were taken, as ports' places and queues' numbers, in the order in which
/// they were.
#[derive(Clone, Debug, Default)]
pub struct Taken {
    pub rx: Vec<(usize, usize)>,
    pub tx: Vec<(usize, usize)>,
}

/// Some opened ports, their memory, and the models among them.
pub struct Ports {
    pub dma: Dma,
    pub list: Vec<Box<dyn Port>>,
    /// Which of their queues somebody has.
    pub taken: Taken,
    /// Steps the models of `model:` ports; drops after the ports.
    stepper: Option<Stepper>,
    extras: Extras,
    /// Tidies up after a process that no longer may; waited for at the very end.
    janitor: Option<Janitor>,
}

/// What comes with the devices.
struct Extras {
    /// Those that are models, and their ports' places in the list.
    models: Vec<(usize, Handle)>,
    /// Sockets that wires bound, and devices taken from the kernel.
    clean_up: CleanUp,
    /// Some ports are interfaces of the kernel's.
    interfaces: bool,
    /// Some wires are recorded in files.
    records: bool,
    /// Their command says when the sources of models' wires begin.
    sources_held: bool,
}

impl Extras {
    fn step(&self) -> Result<Option<Stepper>, Failure> {
        let failed = |error| Failure::new(format!("cannot start the model's thread: {error}"));
        let some = !self.models.is_empty();
        let models: Vec<Handle> = self.models.iter().map(|(_, model)| model.clone()).collect();
        some.then(|| inprocess::spawn(&models, None, Idle::Yield).map_err(failed)).transpose()
    }
}

impl Ports {
    /// All is open and no thread runs but this one: gives up what only opening
    /// needed, unless the user wants to keep it.
    pub fn confine(&mut self, options: &PortOptions, child: Option<Pid>) -> Result<Confinement, Failure> {
        self.confine_but(options, Needs { child, ..Needs::default() })
    }

    /// Likewise, but for what an application needs beside its ports.
    pub fn confine_but(&mut self, options: &PortOptions, mut needs: Needs) -> Result<Confinement, Failure> {
        if options.confine.no_confine {
            return Ok(Confinement::none());
        }
        self.janitor = Janitor::call(&self.extras.clean_up)?;
        self.pause();
        self.add_needs(&mut needs);
        let confinement = Confinement::begin(needs)?;
        self.resume()?;
        Ok(confinement)
    }

    /// Ends the thread that steps models, which would keep its privileges.
    pub fn pause(&mut self) {
        self.stepper = None;
    }

    /// Has models stepped again, by a thread with what this one has left.
    pub fn resume(&mut self) -> Result<(), Failure> {
        self.stepper = self.extras.step()?;
        Ok(())
    }

    /// Has ports of several queues receive, whose rings have buffers now, and then the sources of
    /// models' wires begin.
    pub fn start(&mut self) -> port::Result<()> {
        self.list.iter_mut().try_for_each(|port| port.start())?;
        self.start_sources();
        Ok(())
    }

    /// Lets the sources of models' wires begin, but where their command does that.
    pub fn start_sources(&self) {
        let models = self.extras.models.iter().filter(|_| !self.extras.sources_held);
        models.for_each(|(_, model)| model.with_cable(Cable::start_source));
    }

    /// The failure to record what passed a model's wire, if there was one.
    pub fn not_recorded(&self) -> Option<Failure> {
        let report = |(_, model): &(usize, Handle)| {
            model.with_cable(Cable::flush);
            serve::not_recorded(&model.report().wire)
        };
        self.extras.models.iter().find_map(report)
    }

    /// The models among them, with their ports' places in the list.
    pub fn models(&self) -> &[(usize, Handle)] {
        &self.extras.models
    }

    /// What must be put in order when the process has ended.
    pub fn clean_up(&self) -> &CleanUp {
        &self.extras.clean_up
    }

    /// Adds what the ports need while they are used.
    pub fn add_needs(&self, needs: &mut Needs) {
        needs.datagrams |= !self.extras.clean_up.sockets.is_empty();
        needs.interfaces |= self.extras.interfaces;
        needs.captures |= self.extras.records;
    }

    /// Takes a receive queue. Tags that the device takes off are put back when a packet
    /// is sent.
    pub fn rx(&mut self, port: usize, queue: usize) -> Result<Box<dyn RxQueue>, Failure> {
        let by_device = self.list.iter().all(|port| port.capabilities().has(Feature::VlanInsert));
        self.take_rx(port, queue, by_device)
    }

    /// Likewise, with the tags in the packets' bytes.
    pub fn rx_whole(&mut self, port: usize, queue: usize) -> Result<Box<dyn RxQueue>, Failure> {
        self.take_rx(port, queue, false)
    }

    fn take_rx(&mut self, place: usize, queue: usize, by_device: bool) -> Result<Box<dyn RxQueue>, Failure> {
        let port = &mut self.list[place];
        let missing = || Failure::new(format!("port has no receive queue {queue}"));
        let rx = port.rx_queue(queue).ok_or_else(missing)?;
        self.taken.rx.push((place, queue));
        Ok(match port.capabilities().has(Feature::VlanStrip) {
            true => Box::new(Restore { rx, by_device }),
            false => rx,
        })
    }

    /// Takes a transmit queue.
    pub fn tx(&mut self, place: usize, queue: usize) -> Result<Box<dyn TxQueue>, Failure> {
        let missing = || Failure::new(format!("port has no transmit queue {queue}"));
        let tx = self.list[place].tx_queue(queue).ok_or_else(missing)?;
        self.taken.tx.push((place, queue));
        Ok(tx)
    }

    /// Takes the queues that forward in fixed buffers from one port to another.
    pub fn join_fixed(&mut self, from: usize, to: usize) -> Result<FixedRing<1>, Failure> {
        let [rx, tx] = self.list.get_disjoint_mut([from, to]).map_err(|_| Failure::new("no such ports"))?;
        let ring = ixgbe::join(&mut **rx, [&mut **tx])?;
        self.taken.rx.push((from, 0));
        self.taken.tx.push((to, 0));
        Ok(ring)
    }

    /// The linters of the models among them.
    pub fn linters(&self) -> Vec<Linter> {
        let linter = |(port, model): &(usize, Handle)| Linter { port: *port, model: model.clone() };
        self.extras.models.iter().map(linter).collect()
    }

    /// A port's own address.
    pub fn mac(&self, port: usize) -> [u8; 6] {
        self.list[port].mac()
    }
}

/// Finds and starts the ports, until `stop` says that nobody wants them.
pub fn ports(names: &[&str], options: &PortOptions, stop: &Arc<AtomicBool>) -> Result<Ports, Failure> {
    let each: Vec<(&str, &port::Options)> = names.iter().map(|name| (*name, &options.open.0)).collect();
    ports_each(|devices| memory_of(options, devices), &each, stop)
}

/// As [`ports`], for a command that cuts segments which are longer than frames.
pub fn ports_with_segments(
    names: &[&str],
    options: &PortOptions,
    stop: &Arc<AtomicBool>,
) -> Result<Ports, Failure> {
    let each: Vec<(&str, &port::Options)> = names.iter().map(|name| (*name, &options.open.0)).collect();
    open_any(|devices| memory_of(options, devices), &each, stop)
}

/// As [`ports`], but the sources of models' wires that are to hold their frames do so.
pub fn ports_held(names: &[&str], options: &PortOptions, stop: &Arc<AtomicBool>) -> Result<Ports, Failure> {
    let mut ports = ports(names, options, stop)?;
    ports.extras.sources_held = true;
    Ok(ports)
}

/// As [`ports`], each port with options of its own, in memory that is made for them or
/// is there already.
pub fn ports_each(
    memory: impl FnOnce(&[Found]) -> Dma,
    each: &[(&str, &port::Options)],
    stop: &Arc<AtomicBool>,
) -> Result<Ports, Failure> {
    each.iter().try_for_each(|(name, _)| gives_frames(name))?;
    open_any(memory, each, stop)
}

/// A device that its command opens itself, with the memory for it; and what ports have otherwise,
/// of which the list is empty.
pub fn device(
    name: &str,
    options: &PortOptions,
    stop: &Arc<AtomicBool>,
) -> Result<(bus::Pci, Ports), Failure> {
    let (devices, extras) = devices(&[name], stop)?;
    let dma = memory_of(options, &devices);
    let Some(pci) = devices.first().and_then(Found::pci).cloned() else {
        return Err(Failure::usage(format!("{name} is no device on PCI")).fix("name one by its address"));
    };
    let stepper = extras.step()?;
    let ports = Ports { dma, list: Vec::new(), taken: Taken::default(), stepper, extras, janitor: None };
    Ok((pci, ports))
}

/// Refuses a port whose packets may be longer than a frame and have no checksums yet, which a
/// sender would have to cut and fill in.
fn gives_frames(name: &str) -> Result<(), Failure> {
    let Ok(Name::Interface(medium, interface)) = name.parse::<Name>() else { return Ok(()) };
    let Some(plain) = medium.with_segments(&interface) else { return Ok(()) };
    let cause = format!(
        "{name} gives segments that are longer than a frame, which the inner ports of `ixora overlay run` \
         cut and nothing else"
    );
    Err(Failure::usage(cause).fix(format!("write {}:{plain}", medium.prefix())))
}

/// As [`ports_each`], of any ports.
fn open_any(
    memory: impl FnOnce(&[Found]) -> Dma,
    each: &[(&str, &port::Options)],
    stop: &Arc<AtomicBool>,
) -> Result<Ports, Failure> {
    let names: Vec<&str> = each.iter().map(|(name, _)| *name).collect();
    let (devices, extras) = devices(&names, stop)?;
    let mut pairs = devices.iter().zip(each);
    let mute =
        pairs.find_map(|(found, (_, o))| found.pci().filter(|p| o.interrupts && p.interrupt_vectors() == 0));
    if let Some(mute) = mute {
        return Err(Failure::new(format!("{} has no interrupts this way", mute.name()))
            .fix("bind the device to vfio-pci, or leave --interrupts out"));
    }
    let dma = memory(&devices);
    let stepper = extras.step()?;
    let options: Vec<port::Options> = each.iter().map(|(_, options)| together(options)).collect();
    let list = open_all(devices, &dma, &options, stop)?;
    await_links(&list, stop)?;
    Ok(Ports { dma, list, taken: Taken::default(), stepper, extras, janitor: None })
}

/// As a port is opened together with others. All links are waited for at once, and a signal ends
/// the wait. Frames of several queues do not wait in the NIC until each queue has buffers, so that
/// such a port starts later ([`Ports::start`]).
fn together(options: &port::Options) -> port::Options {
    port::Options { link_wait_ms: 0, deferred_start: options.rx_queues > 1, ..options.clone() }
}

/// Memory for packets, on the first port's node.
pub fn memory_of(options: &PortOptions, devices: &[Found]) -> Dma {
    let node = || devices.first().and_then(|found| found.pci()?.numa_node());
    let backing = match options.hugepages {
        Hugepages::Auto => Backing::Auto,
        Hugepages::Hugetlbfs => Backing::Hugetlbfs,
        Hugepages::Memfd => Backing::MemfdHuge,
        Hugepages::None => Backing::Memfd,
    };
    Dma::new(memory::Options { backing, numa_node: options.numa.or_else(node) })
}

/// Opens the ports, in their order in the list: devices first, because those that
/// see physical memory must be there before any is handed out.
fn open_all(
    devices: Vec<Found>,
    dma: &Dma,
    options: &[port::Options],
    stop: &AtomicBool,
) -> Result<Vec<Box<dyn Port>>, Failure> {
    let mut opened: Vec<Option<Box<dyn Port>>> = devices.iter().map(|_| None).collect();
    let (last, first): (Vec<_>, Vec<_>) =
        devices.into_iter().enumerate().partition(|(_, found)| found.pci().is_none());
    for (place, found) in first.into_iter().chain(last) {
        go_on(stop)?;
        opened[place] = Some(found.open(dma, &options[place])?);
    }
    Ok(opened.into_iter().flatten().collect())
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
                tracing::warn!("{}: no link after {LINK:?}: {}", port.name(), port.link().advice());
                break;
            }
            sleep(Duration::from_millis(5));
        }
        tracing::debug!(port = port.name(), "link {}", port.link());
    }
    Ok(())
}

/// The devices, and what comes with them. Nothing is touched before all names
/// make sense.
fn devices(names: &[&str], stop: &Arc<AtomicBool>) -> Result<(Vec<Found>, Extras), Failure> {
    let parsed = names.iter().map(|name| Wanted::parse(name)).collect::<Result<Vec<_>, _>>()?;
    for (n, name) in names.iter().enumerate() {
        if !matches!(parsed[n], Wanted::Model(..)) && names[..n].contains(name) {
            return Err(Failure::usage(format!("{name} is given twice")).fix("name two different ports"));
        }
    }
    let mut plugs = Vec::new();
    for name in &parsed {
        if let Wanted::Model(.., spec) = name {
            plugs.push(Plug { spec: (**spec).clone(), mac: testbed::ixgbe::mac(plugs.len() as u8) });
        }
    }
    let cables = wire::plug(&plugs, &Arc::new(Ledger::default()))?;
    let mut plugged = cables.into_iter().zip(&plugs);
    let sockets = plugs.iter().filter_map(|plug| plug.spec.socket()).map(Path::to_owned).collect();
    let clean_up = CleanUp { sockets, ..CleanUp::default() };
    let records = plugs.iter().any(|plug| plug.spec.records());
    let (mut devices, mut extras) = (
        Vec::new(),
        Extras { models: Vec::new(), clean_up, interfaces: false, records, sources_held: false },
    );
    for name in parsed {
        go_on(stop)?;
        let found = match name {
            Wanted::Port(name) => {
                extras.interfaces |= matches!(name, Name::Interface(..));
                // Interrupted while it waited: that is what happened.
                let found = name.clone().find(stop).or_else(|error| go_on(stop).and(Err(error.into())))?;
                if let (Name::Pci(address, _), Some(pci)) = (name, found.pci())
                    && pci.addressing() == bus::Addressing::Physical
                {
                    extras.clean_up.devices.push(address); // by sysfs
                }
                found
            }
            Wanted::Model(model, encap, _) => {
                let (cable, plug) = plugged.next().expect("a plug was made for each model");
                let setup = Setup { mac: plug.mac, encap, ..Setup::default() };
                let (pci, handle) = InProcess::new(model.open(&setup, cable)?);
                extras.models.push((devices.len(), handle));
                Found::Pci(pci)
            }
        };
        devices.push(found);
    }
    Ok((devices, extras))
}
