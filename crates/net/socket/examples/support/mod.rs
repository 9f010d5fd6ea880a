//! What the examples share: a port by their arguments, and on two device models a second host
//! that talks to the first.
#![allow(dead_code, reason = "not every example needs all of it")]

use std::error::Error;
use std::future::Future;
use std::io::{Read, stdin};
use std::net::{IpAddr, Ipv4Addr};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use memory::{Backing, Dma};
use ports::Name;
use socket::{Limits, Network, Node, Setup};
use tcp::Service;
use testbed::inprocess::InProcess;
use testbed::wire::{Ledger, Plug};
use testbed::{Idle, Model, Stepper, inprocess, models, wire};

pub type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

/// The addresses of the two hosts on models.
const OURS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
const THEIRS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
/// Whoever waits for so long has failed.
pub const LIMIT: Duration = Duration::from_secs(60);

/// A port for an application, and who is at its other end.
pub struct ExamplePort {
    /// The address of the application's host.
    pub own: IpAddr,
    bits: u8,
    /// What else was written on the command line.
    pub arguments: Vec<String>,
    port: Option<Box<dyn port::Port>>,
    options: port::Options,
    dma: Dma,
    /// The other host, on a model of its own.
    peer: Option<(Network, Node)>,
    _stepper: Option<Stepper>,
}

impl ExamplePort {
    /// Two models of the 82599 with a wire between them, without arguments; else a port such as
    /// `tap:ixora0` and an address on it such as `10.9.9.2/24`.
    pub fn open() -> Result<ExamplePort> {
        let dma = Dma::new(memory::Options { backing: Backing::Memfd, numa_node: None });
        let options = port::Options { max_frame: 1514, ..port::Options::default() };
        let mut arguments = std::env::args().skip(1);
        let Some(name) = arguments.next() else { return ExamplePort::on_models(dma, options) };
        let address = arguments.next().ok_or("write an address behind the port: 10.9.9.2/24")?;
        let (own, bits) = address.split_once('/').ok_or("write the bits of the prefix: 10.9.9.2/24")?;
        let port = name.parse::<Name>()?.find(&Arc::default())?.open(&dma, &options)?;
        Ok(ExamplePort {
            own: own.parse()?,
            bits: bits.parse()?,
            arguments: arguments.collect(),
            port: Some(port),
            options,
            dma,
            peer: None,
            _stepper: None,
        })
    }

    fn on_models(dma: Dma, options: port::Options) -> Result<ExamplePort> {
        let model = Model::named("82599")?;
        let plug = |n| -> Result<Plug> { Ok(Plug { spec: "pair".parse()?, mac: testbed::ixgbe::mac(n) }) };
        let plugs = [plug(0)?, plug(1)?];
        let (mut devices, mut handles) = (Vec::new(), Vec::new());
        for (plug, cable) in plugs.iter().zip(wire::plug(&plugs, &Arc::new(Ledger::default()))?) {
            let setup = models::Setup { mac: plug.mac, ..models::Setup::default() };
            let (device, handle) = InProcess::new(model.open(&setup, cable)?);
            devices.push(device);
            handles.push(handle);
        }
        let stepper = inprocess::spawn(&handles, None, Idle::Yield)?;
        let mut open = || -> Result<_> {
            let device = devices.pop().ok_or("two devices")?;
            Ok(ports::open(device, &dma, options.clone())?)
        };
        let (ours, theirs) = (open()?, open()?);
        let (network, engine) = socket::network(&[THEIRS], Limits::default())?;
        let peer = Node::start(theirs, &options, &dma, &Setup::at(THEIRS, 24), Box::new(engine))?;
        Ok(ExamplePort {
            own: OURS,
            bits: 24,
            arguments: Vec::new(),
            port: Some(ours),
            options,
            dma,
            peer: Some((network, peer)),
            _stepper: Some(stepper),
        })
    }

    /// The network of the other host, which an example on models talks by to the first one.
    pub fn peer(&self) -> Option<&Network> {
        self.peer.as_ref().map(|(network, _)| network)
    }

    /// Starts the application's host, which listens on some ports.
    pub fn start(&mut self, listen: &[u16], service: Box<dyn Service>) -> Result<Node> {
        let port = self.port.take().ok_or("the port is in use")?;
        let setup = Setup { listen: listen.to_vec(), ..Setup::at(self.own, self.bits) };
        Ok(Node::start(port, &self.options, &self.dma, &setup, service)?)
    }

    /// Ends both hosts once `talk` is done by the second one; without a second one when standard
    /// input ends.
    pub fn finish(self, node: Node, talk: impl FnOnce(&Network, IpAddr) -> Result) -> Result {
        match &self.peer {
            Some((network, _)) => talk(network, self.own)?,
            None => {
                println!("serving at {}; the end of standard input ends it", self.own);
                stdin().read_to_end(&mut Vec::new())?;
            }
        }
        self.end(node)
    }

    /// Ends both hosts, of which all buffers must come back.
    pub fn end(mut self, node: Node) -> Result {
        let nodes = [Some(node), self.peer.take().map(|(_, peer)| peer)];
        let missing: usize = nodes.into_iter().flatten().map(|node| node.end().missing_buffers).sum();
        if missing > 0 {
            Err(format!("{missing} buffers did not come back"))?;
        }
        println!("passed");
        Ok(())
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Unpark>) {
        self.0.unpark();
    }
}

/// An executor of one future: any other would do.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(done) => return done,
            Poll::Pending => thread::park(),
        }
    }
}

/// Waits for something that another thread does.
pub fn wait_for(what: &str, is_so: impl Fn() -> bool) -> Result {
    let begin = Instant::now();
    while !is_so() {
        if begin.elapsed() > LIMIT {
            Err(format!("not {what} within {LIMIT:?}"))?;
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
