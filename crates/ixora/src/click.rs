//! `ixora click`: runs configurations written in Click's language, with Click's own
//! flags, exit codes and output.

mod account;
mod assembled;
mod clp;
mod configuration;
mod confine;
mod denied;
mod doc;
mod dpdk;
mod endpoint;
mod flattened;
mod inspect;
mod interfaces;
mod lint;
mod options;
mod ports;
mod report;
mod unopened_port;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use element::io::router_ports::RouterPorts;
use graph::lang::{Problem, Problems, Source};
use graph::plan::Planned;
use graph::run::shared::Hotswap;
use graph::{Clock, Console, Registry, Router, Services};
use runtime::confine::Confinement;

use crate::janitor::Janitor;
use crate::open::PortFindings;
use crate::{Failure, signal};
use account::{Counted, Tally};
pub use assembled::assemble;
pub use configuration::sources;
pub use options::Click;
use ports::{Linters, RouterResources};

/// A router that is to take the place of the one that runs.
type Successor = Arc<Mutex<Option<Router>>>;

/// The classes that configurations may use.
pub fn classes() -> Registry {
    element::registry().with(analysis::registry())
}

/// Does what Click's programs do with the words of this command line: those after
/// `click --compat`, or `click --flatten`. `None` for any other.
pub fn run_as_click(words: &[String]) -> Option<Result<(), Failure>> {
    let flattens = match words {
        [first, second, ..] if first == "click" && second == "--compat" => false,
        [first, second, ..] if first == "click" && second == "--flatten" => true,
        _ => return None,
    };
    let (asked, shown) =
        if flattens { clp::flatten(&words[2..]) } else { (clp::click(&words[2..]), Default::default()) };
    Some(match asked {
        clp::Asked::Run(click) if flattens => as_click(flattened::run(&click, shown)),
        clp::Asked::Run(click) => as_click(run(&click)),
        clp::Asked::Print(text) => {
            print!("{text}");
            Ok(())
        }
        clp::Asked::Wrong(text) => {
            eprint!("{text}");
            Err(Failure::status(1))
        }
    })
}

/// A failure in Click's words.
fn as_click(done: Result<(), Failure>) -> Result<(), Failure> {
    done.map_err(|failure| {
        if failure.is_silent() {
            return failure;
        }
        eprintln!("{}", failure.cause().split(" (os error").next().unwrap_or_default());
        Failure::status(1)
    })
}

/// Runs the command.
pub fn run(click: &Click) -> Result<(), Failure> {
    if click.version {
        println!("click (Ixora) {}", env!("CARGO_PKG_VERSION"));
        return Ok(());
    }
    let click = &click.with_ports_numbered()?;
    if let Some(name) = &click.doc {
        return doc::print(name, click.markdown);
    }
    match serve(click) {
        Ok(status) => {
            if status == 0 {
                Ok(())
            } else {
                Err(Failure::status(status))
            }
        }
        Err(Stop::Unread(problems)) => {
            print_problems(click, &problems);
            Err(Failure::status(1))
        }
        Err(Stop::Problems(problems)) => {
            print_problems(click, &problems);
            if click.compat {
                eprintln!("Router could not be initialized!");
            }
            Err(Failure::status(1))
        }
        Err(Stop::Failure(failure)) => Err(failure),
    }
}

/// Why a configuration does not run.
enum Stop {
    /// The text is none of the language's.
    Unread(Problems),
    /// The elements cannot be made, or joined.
    Problems(Problems),
    Failure(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Stop {
        Stop::Failure(failure)
    }
}

impl From<Problems> for Stop {
    fn from(problems: Problems) -> Stop {
        Stop::Unread(problems)
    }
}

fn print_problems(click: &Click, problems: &Problems) {
    if click.compat {
        eprint!("{}", problems.compat());
    } else {
        eprint!("{}", problems.render());
    }
}

/// Builds the router, runs it, and what comes after; the exit status.
fn serve(click: &Click) -> Result<u8, Stop> {
    let sources = configuration::sources(click)?;
    if click.only_looks() {
        return Ok(inspect::run(click, sources)?);
    }
    if !click.compat {
        let cores = runtime::cores::check(&click.cores());
        cores.map_err(|error| Failure::core("--affinity", &error))?;
    }
    let clock = Arc::new(match click.simtime {
        Some(start) => Clock::simulated((start * 1e9) as i64),
        None => Clock::real(),
    });
    let successor = Successor::default();
    let name = sources.first().map_or(String::new(), |source| source.name.clone());
    let linters = Linters::default();
    let (mut router, resources) = build(click, sources, &clock, &successor, ResourcesFrom::New(&linters))?;
    let mut unwritten = false;
    let written = click.output.as_ref().map_or(Ok(()), |file| write_flat(&mut router, file));
    if !click.compat {
        written?;
    } else if as_click(written).is_err() {
        unwritten = true;
    }
    let start = (Instant::now(), rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime));
    let (mut lost, mut janitor, mut before) = (None, None, Tally::default());
    if !click.quit {
        Driven { router, lost, janitor, before } =
            run_until_end(click, (router, &resources), &successor, &name)?;
    }
    if click.time && !click.json {
        report::time(start);
    }
    let (answers, handlers) = report::handlers(click, &mut router);
    let counted = Counted::of(&mut router, before).filter(|_| !click.compat && !click.quit);
    if !click.json {
        report::print(&answers, counted.as_ref());
    }
    let status = match (&lost, &click.exit_handler) {
        (None, Some(handler)) => report::exit_status(handler, &mut router),
        // Click itself tells what failed, and no more.
        _ => u8::from(!handlers || unwritten || (router.shared().failure().is_some() && !click.compat)),
    };
    // The process ends soon: to free the plan of a million elements would only delay that.
    let plan = router.shared().plan.clone();
    let failed = router.shared().failure().map(str::to_owned);
    drop((router, resources));
    std::mem::forget(plan);
    drop(janitor);
    let error = lost.as_ref().map(Failure::cause).or(failed.as_deref());
    match click.json {
        true => report::json(start.0, &answers, counted.as_ref(), &linters.findings(), error),
        false if !click.compat => linters.findings().iter().for_each(PortFindings::print),
        false => {}
    }
    lost.map_or(Ok(status), |lost| Err(lost.into()))
}

/// What a router stands on.
enum ResourcesFrom<'a> {
    /// Nothing yet; the linters of its models are put there.
    New(&'a Linters),
    /// What another one stands on, whose place it takes, because an element of it said so.
    Of(&'a RouterResources, Option<&'a Planned>),
}

/// What elements find beside the graph, in a router that runs and in one that is looked at.
fn services(click: &Click, router_ports: Arc<RouterPorts>) -> Services {
    let mut services = Services::default();
    services.add(interfaces::known(&router_ports));
    services.add(router_ports);
    services.add(Arc::new(click.numbers.clone()));
    services
}

/// Reads and builds a configuration.
fn build(
    click: &Click,
    sources: Vec<Source>,
    clock: &Arc<Clock>,
    successor: &Successor,
    place: ResourcesFrom<'_>,
) -> Result<(Router, RouterResources), Stop> {
    let registry = classes();
    let mut flat = configuration::flatten(click, sources, &registry)?;
    let text = flat.sources.first().unwrap_or_default();
    let takes_over = matches!(place, ResourcesFrom::Of(..));
    configuration::add_driver(click, &mut flat, takes_over);
    if let ResourcesFrom::Of(_, Some(from)) = place {
        configuration::add_continued(&mut flat, from);
    }
    let texts = flat.sources.clone();
    if !flat.warnings.is_empty() && !click.no_warnings {
        print_problems(click, &Problems { list: flat.warnings.clone(), sources: texts.clone() });
    }
    // A configuration that takes another's place was not compiled.
    let regions = click.compiled.filter(|_| !takes_over).map_or(&[][..], |compiled| compiled.regions);
    let resources = match place {
        ResourcesFrom::New(linters) => RouterResources::new(click, &flat, linters),
        ResourcesFrom::Of(resources, _) => resources.clone(),
    };
    let router_ports = resources.router_ports(click);
    let mut services = services(click, router_ports.clone());
    services.add(Arc::new(click.control_policy()));
    resources.running().into_iter().for_each(|running| services.add(running));
    let series = router_ports.series();
    let options = graph::Options {
        services,
        dma: resources.dma.clone(),
        prepare: Some(Box::new(opening(&resources, router_ports))),
        threads: click.threads,
        cores: click.cores(),
        clock: clock.clone(),
        measure: click.measure,
        console: if click.json { Console::Errors } else { Console::Process },
        batching: click.batches.into(),
        buffers: click.buffers.map(|most| most as usize),
        thorough: !click.compat,
        ports: Some(series),
        hotswap: click.allow_reconfigure.then(|| hotswap(click, clock, successor, &resources)),
        fused: regions,
        chains: !click.no_chains,
    };
    let wrong = |list| Stop::Problems(Problems { list, sources: texts.clone() });
    let router = Router::build(text, flat, &registry, options).map_err(wrong)?;
    if !router.warnings().is_empty() && !click.no_warnings {
        print_problems(click, &Problems { list: router.warnings().to_vec(), sources: texts });
    }
    Ok((router, resources))
}

/// Opens the ports of a configuration, if the process still may do what its elements need.
fn opening(
    resources: &RouterResources,
    router_ports: Arc<RouterPorts>,
) -> impl FnOnce(&[Planned]) -> Result<(), Box<Problem>> + use<> {
    let (given_up, running) = (resources.given_up(), resources.running());
    move |elements: &[Planned]| {
        if let Some(given_up) = given_up {
            confine::refuse(elements, given_up, running.as_deref())?;
        }
        let lacks = match given_up {
            Some(_) => "; if it needs privileges: this process gave them up, --no-confine keeps them",
            None => "",
        };
        router_ports.open(elements).map_err(|mut problem| {
            problem.message += lacks;
            problem
        })
    }
}

/// What becomes of a configuration that is written to `hotconfig`: a router that is
/// ready before the old one ends. One that is wrong is refused, and the old one goes
/// on. Ports that both name stay open.
fn hotswap(click: &Click, clock: &Arc<Clock>, successor: &Successor, resources: &RouterResources) -> Hotswap {
    let (click, clock, successor, resources) =
        (click.clone(), clock.clone(), successor.clone(), resources.clone());
    Arc::new(move |text: &str, from: Option<&Planned>| {
        let name = if click.compat { "config" } else { "hotconfig" };
        let source = configuration::unpacked(&click, name, text.as_bytes().to_vec());
        let sources = vec![source.map_err(|broken| format!("{name}: {broken}\n"))?];
        let router = build(&click, sources, &clock, &successor, ResourcesFrom::Of(&resources, from));
        let router = router.map_err(|stop| {
            let said = match stop {
                Stop::Unread(problems) | Stop::Problems(problems) => problems.compat(),
                Stop::Failure(failure) => failure.said(),
            };
            match resources.given_up().and_then(|given_up| given_up.user) {
                Some(user) => denied::explain(&said, user),
                None => said,
            }
        })?;
        *successor.lock().unwrap_or_else(PoisonError::into_inner) = Some(router.0);
        Ok(())
    })
}

fn write_flat(router: &mut Router, file: &Path) -> Result<(), Failure> {
    let flat = router.read("flatconfig", "").unwrap_or_default();
    if file == Path::new("-") {
        print!("{flat}");
        return Ok(());
    }
    let failed = |error| Failure::new(format!("{}: {error}", file.display()));
    std::fs::write(file, flat).map_err(failed)
}

/// What is left of routers that ran.
struct Driven {
    /// The last one.
    router: Router,
    /// Why it ended, if that was a device.
    lost: Option<Failure>,
    janitor: Option<Janitor>,
    /// What those counted that ran before it.
    before: Tally,
}

/// Runs a router, and those that take its place, until the last one stops or a port's
/// device is lost. The process is confined before the first packet, and ports of several
/// queues receive when all of these have buffers; what comes with confinement
/// stays until the router is gone.
fn run_until_end(
    click: &Click,
    (mut router, resources): (Router, &RouterResources),
    successor: &Successor,
    name: &str,
) -> Result<Driven, Failure> {
    if router.is_empty() {
        if !click.no_warnings {
            eprintln!("warning: {name}: configuration has no elements, exiting");
        }
        return Ok(Driven { router, lost: None, janitor: None, before: Tally::default() });
    }
    let stop = signal::stop_flag_but(element::control::signals::is_claimed)?;
    confine::provide(click, &mut router, resources);
    router.begin();
    let confine::Confined { confinement, janitor } = confine::begin(click, &router, resources)?;
    let (mut confinement, mut before) = (Some(confinement), Tally::default());
    loop {
        resources.set_running(&router);
        let watch = Watch::begin(&router, &stop);
        let (shared, ports) = (router.shared(), router.service::<RouterPorts>());
        let (mut failed, mut unstarted) = (None, None);
        router.run_and(|| {
            failed = confinement.take().map_or(Ok(()), Confinement::complete).err();
            if failed.is_none() {
                unstarted = ports.and_then(|ports| ports.start().err());
            }
            match failed.is_some() || unstarted.is_some() {
                true => shared.end(),
                false => resources.start_sources(),
            }
        });
        if let Some(error) = failed {
            return Err(error.into());
        }
        let lost = watch.lost().or_else(|| unstarted.map(Failure::from));
        let next = successor.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut next) = next.filter(|_| lost.is_none() && !stop.load(Ordering::Relaxed)) else {
            router.cleanup();
            return Ok(Driven { router, lost, janitor, before });
        };
        next.take_over(&mut router);
        router.cleanup();
        next.shared().inherit_failure(&router.shared());
        before.retire(&mut router, &next);
        // Its memory goes back while the next one runs already.
        let old = std::mem::replace(&mut router, next);
        drop(watch);
        let _gone = std::thread::Builder::new().name("retired".into()).spawn(move || drop(old));
    }
}

/// Ends a router when a signal comes, or when the device of a port is lost.
struct Watch {
    over: Arc<AtomicBool>,
    lost: Arc<Mutex<Option<Failure>>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Watch {
    fn begin(router: &Router, stop: &Arc<AtomicBool>) -> Watch {
        let (shared, stop, over) = (router.shared(), stop.clone(), Arc::new(AtomicBool::new(false)));
        let (ended, lost) = (over.clone(), Arc::<Mutex<Option<Failure>>>::default());
        let (ports, error) = (router.service::<RouterPorts>(), lost.clone());
        let watch = move || {
            while !ended.load(Ordering::Relaxed) {
                if stop.load(Ordering::Relaxed) {
                    return shared.halt();
                }
                if let Some(failure) = ports.as_ref().and_then(|ports| ports.lost()) {
                    *error.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure.into());
                    return shared.halt();
                }
                std::thread::park_timeout(Duration::from_millis(50));
            }
        };
        Watch { over, lost, thread: std::thread::Builder::new().name("watch".into()).spawn(watch).ok() }
    }

    /// Why the router was ended, if a device is lost.
    fn lost(&self) -> Option<Failure> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
