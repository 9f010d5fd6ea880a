//! Forwards between two ports, both ways: what arrives on one leaves on the
//! other. The loop is `app::Forward`.

use app::{FixedForward, Forward};
use clap::Args;
use driver::ixgbe;
use port::{Feature, Options};
use runtime::Poller;

use crate::cli::PortOptions;
use crate::open::Ports;
use crate::{Failure, open, run, signal};

#[derive(Args, Debug)]
pub struct Fwd {
    /// The one port.
    pub a: String,
    /// The other port.
    pub b: String,
    /// Change one byte of each packet, so that its data must be fetched.
    #[arg(long)]
    pub touch: bool,
    /// Send each packet from the buffer in which it came, with no pool on its way: the quickest,
    /// for ports of an 82599 with one queue. A slow port then holds up the other.
    #[arg(long)]
    pub fixed_buffers: bool,
    #[command(flatten)]
    pub port: PortOptions,
}

/// `ixora fwd A B`: queue n of one port goes to queue n of the other.
pub fn run(arguments: &Fwd) -> Result<(), Failure> {
    let options = &arguments.port;
    let stop = signal::stop_flag()?;
    let asked = Options { fixed_buffers: arguments.fixed_buffers, ..options.open.0.clone() };
    let each = [&arguments.a, &arguments.b].map(|name| (name.as_str(), &asked));
    let mut ports = open::ports_each(|devices| open::memory_of(options, devices), &each, &stop)?;
    let pollers = match arguments.fixed_buffers {
        true => fixed(&mut ports, arguments.touch)?,
        false => pooled(&mut ports, options.open.rx_queues, arguments.touch)?,
    };
    run::run("fwd", ports, pollers, options, &stop)
}

/// Both ways, from each queue to the other port's of the same number.
fn pooled(ports: &mut Ports, queues: usize, touch: bool) -> Result<Vec<Box<dyn Poller>>, Failure> {
    let mut pollers: Vec<Box<dyn Poller>> = Vec::new();
    for n in 0..queues {
        for (from, to) in [(0, 1), (1, 0)] {
            let (rx, tx) = (ports.rx(from, n)?, ports.tx(to, n)?);
            pollers.push(Box::new(Forward { rx, tx, touch }));
        }
    }
    Ok(pollers)
}

/// Both ways, each in buffers of its own.
fn fixed(ports: &mut Ports, touch: bool) -> Result<Vec<Box<dyn Poller>>, Failure> {
    if let Some(port) = ports.list.iter().find(|port| !port.capabilities().has(Feature::FixedBuffers)) {
        let cause =
            format!("{} cannot forward in fixed buffers: only ports of {} can", port.name(), ixgbe::NAME);
        return Err(Failure::new(cause).fix("leave --fixed-buffers out"));
    }
    let mut pollers: Vec<Box<dyn Poller>> = Vec::new();
    for (from, to) in [(0, 1), (1, 0)] {
        let ring = ports.join_fixed(from, to)?;
        pollers.push(Box::new(FixedForward { ring, touch }));
    }
    Ok(pollers)
}
