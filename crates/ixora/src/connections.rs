//! `ixora tcp`: the connections of a server that runs, asked by its control socket, and which cores
//! they are on.

mod answer;
mod capture;
mod cores;
mod filter;
mod listing;
mod metrics;
mod show;
mod top;

use clap::Subcommand;

use crate::Failure;
pub use answer::Asking;
pub use cores::Spreading;

/// What starts a server that can be asked.
const START: &str = "ixora serve SERVICE";

/// What to do with connections.
#[derive(Subcommand, Debug)]
pub enum Tcp {
    /// List connections: states, queues, round trips, windows, what was sent again.
    Show(show::ShowConnections),
    /// Who moves most, once a second.
    Top(top::Top),
    /// Write the frames of one connection, or of one peer, to a file that Wireshark opens.
    Capture(capture::Capture),
    /// Serve by more or fewer cores: connections move between them while they are served.
    Cores(cores::Cores),
}

/// Does what the command line asks for.
pub fn run(what: &Tcp) -> Result<(), Failure> {
    match what {
        Tcp::Show(arguments) => show::run(arguments),
        Tcp::Top(arguments) => top::run(arguments),
        Tcp::Capture(arguments) => capture::run(arguments),
        Tcp::Cores(arguments) => cores::run(arguments),
    }
}
