//! Sends back what arrives on a port. The loop is `app::Echo`.

use std::net::Ipv4Addr;

use clap::Args;
use neighbor::Responder;
use runtime::Poller;
use wire::MacAddress;

use crate::cli::PortOptions;
use crate::{Failure, open, run, signal};

#[derive(Args, Debug)]
pub struct Echo {
    /// The port that frames come from and go back to.
    pub a: String,
    /// Answer ARP requests and pings for this IPv4 address; all else goes back
    /// with its addresses swapped.
    #[arg(long)]
    pub ip: Option<Ipv4Addr>,
    #[command(flatten)]
    pub port: PortOptions,
}

/// `ixora echo A`.
pub fn run(arguments: &Echo) -> Result<(), Failure> {
    let options = &arguments.port;
    let stop = signal::stop_flag()?;
    let mut ports = open::ports(&[&arguments.a], options, &stop)?;
    let mut pollers: Vec<Box<dyn Poller>> = Vec::new();
    let mac = MacAddress(ports.mac(0));
    let host = arguments.ip.map(|ip| Responder { mac, addresses: vec![ip.into()] });
    for n in 0..options.open.rx_queues {
        let host = host.clone();
        pollers.push(Box::new(app::Echo { rx: ports.rx(0, n)?, tx: ports.tx(0, n)?, host }));
    }
    run::run("echo", ports, pollers, options, &stop)
}
