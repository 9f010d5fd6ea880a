//! Forwards between two ports, both ways: what arrives on one leaves on the
//! other. The loop is `app::Forward`.

use app::Forward;
use clap::Args;
use runtime::Poller;

use crate::cli::PortOptions;
use crate::{Failure, open, run, signal};

#[derive(Args, Debug)]
pub struct Fwd {
    /// One port.
    pub a: String,
    /// The other port.
    pub b: String,
    /// Change one byte of each packet, so that its data must be fetched.
    #[arg(long)]
    pub touch: bool,
    #[command(flatten)]
    pub port: PortOptions,
}

/// `ixora fwd A B`: queue n of one port goes to queue n of the other.
pub fn run(arguments: &Fwd) -> Result<(), Failure> {
    let options = &arguments.port;
    let stop = signal::stop_flag()?;
    let mut ports = open::ports(&[&arguments.a, &arguments.b], options, &stop)?;
    let mut pollers: Vec<Box<dyn Poller>> = Vec::new();
    for n in 0..options.open.rx_queues {
        for (from, to) in [(0, 1), (1, 0)] {
            let (rx, tx) = (ports.rx(from, n)?, ports.tx(to, n)?);
            pollers.push(Box::new(Forward { rx, tx, touch: arguments.touch }));
        }
    }
    run::run("fwd", ports, pollers, options, &stop)
}
