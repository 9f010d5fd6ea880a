//! Sends back what arrives on a port. The loop is `app::Echo`.

use app::Echo;
use neighbor::Responder;
use runtime::Poller;
use wire::MacAddress;

use crate::{Failure, cli, open, run, signal};

/// `ixora echo A`.
pub fn run(arguments: &cli::Echo) -> Result<(), Failure> {
    let options = &arguments.port;
    let stop = signal::stop_flag()?;
    let mut ports = open::ports(&[&arguments.a], options, &stop)?;
    let mut pollers: Vec<Box<dyn Poller>> = Vec::new();
    let mac = MacAddress(ports.mac(0));
    let host = arguments.ip.map(|ip| Responder { mac, addresses: vec![ip.into()] });
    for n in 0..options.open.rx_queues {
        let host = host.clone();
        pollers.push(Box::new(Echo { rx: ports.rx(0, n)?, tx: ports.tx(0, n)?, host }));
    }
    run::run("echo", ports, pollers, options, &stop)
}
