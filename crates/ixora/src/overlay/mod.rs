//! `ixora overlay`: virtual networks in tunnels, as `overlay.toml` says. The crate `vtep` is
//! what moves their packets.

mod accounts;
mod asking;
mod demo;
mod explain;
mod host;
mod links;
mod metrics;
mod reconcile;
mod run;
mod show;

use clap::Subcommand;

use crate::{Failure, control_socket};

/// What starts an endpoint that can be asked.
pub const START: &str = "ixora overlay run FILE";

/// What to do with overlays.
#[derive(Subcommand, Debug)]
pub enum Overlay {
    /// Run a tunnel endpoint: the networks of a configuration file.
    Run(run::Run),
    /// Two tunnel endpoints on device models, and traffic through a tunnel between them: no
    /// root, no NIC.
    Demo(demo::Demo),
    /// What a running endpoint holds: entries, next hops, counters.
    Show(control_socket::Show),
    /// Why packets of a capture go where they go: the entry, the outer headers, or the
    /// reason of the drop.
    Explain(explain::Explain),
    /// What a running endpoint, or a configuration, has otherwise than the kernel.
    Reconcile(reconcile::Reconcile),
}

/// Does what the command line asks for.
pub fn run(what: &Overlay) -> Result<(), Failure> {
    match what {
        Overlay::Run(arguments) => run::run(arguments),
        Overlay::Demo(arguments) => demo::run(arguments),
        Overlay::Show(arguments) => show::run(arguments),
        Overlay::Explain(arguments) => explain::run(arguments),
        Overlay::Reconcile(arguments) => reconcile::run(arguments),
    }
}

impl From<vtep::Error> for Failure {
    fn from(error: vtep::Error) -> Failure {
        let fix = error.fix.clone();
        Failure::usage(error.to_string()).fix(fix)
    }
}

impl From<overlay::Error> for Failure {
    fn from(error: overlay::Error) -> Failure {
        Failure::usage(error.to_string())
    }
}
