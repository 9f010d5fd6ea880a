//! `ixora overlay reconcile`: what a running endpoint, or a configuration alone, has otherwise
//! than this machine's kernel.

use std::path::{Path, PathBuf};

use clap::Args;
use control::reconcile::{Asker, compare};
use control::{Options, Origin};
use serde_json::Value as Json;
use vtep::Held;
use wire::MacAddress;

use super::asking::told_of;
use super::run::read;
use crate::Failure;
use crate::control_socket;

/// A comparison with the kernel.
#[derive(Args, Debug)]
pub struct Reconcile {
    /// The socket of a running endpoint (`run --control`).
    #[arg(required_unless_present_any = ["control", "config"], conflicts_with_all = ["control", "config"])]
    pub socket: Option<PathBuf>,
    /// The same, as `run` and `explain` have it.
    #[arg(long, conflicts_with = "config")]
    pub control: Option<PathBuf>,
    /// A configuration: its VXLAN networks, entries and flood lists.
    #[arg(long)]
    pub config: Option<PathBuf>,
    /// Have the running endpoint take over what the kernel has.
    #[arg(long, conflicts_with = "config")]
    pub fix: bool,
    /// Print the differences as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Compares, and ends with status 1 when something is different.
pub fn run(arguments: &Reconcile) -> Result<(), Failure> {
    let control = arguments.socket.as_ref().or(arguments.control.as_ref());
    let told = match (control, &arguments.config) {
        (Some(control), _) => by_control(control, arguments.fix)?,
        (None, Some(config)) => by_config(config)?,
        (None, None) => Json::Null,
    };
    match arguments.json {
        true => println!("{told:#}"),
        false => {
            print!("{}", told["text"].as_str().unwrap_or_default());
            let fixed = told["fixed"].as_u64().filter(|fixed| *fixed > 0);
            fixed.iter().for_each(|fixed| println!("{fixed} places were mended"));
        }
    }
    match told["clean"].as_bool() {
        Some(true) => Ok(()),
        _ => Err(Failure::status(1)),
    }
}

fn by_control(control: &Path, fix: bool) -> Result<Json, Failure> {
    let answer = control_socket::ask(control, if fix { "reconcile fix" } else { "reconcile" }, super::START)?;
    let told: Json = serde_json::from_str(&answer)
        .map_err(|error| Failure::new(format!("{} answers something else: {error}", control.display())))?;
    match told["error"].as_str() {
        Some(error) => Err(Failure::new(error)),
        None => Ok(told),
    }
}

fn by_config(path: &Path) -> Result<Json, Failure> {
    let config = read(path)?;
    // The underlay is not compared, and neither are its Ethernet addresses.
    let desired = config.desired(&vec![MacAddress::default(); config.underlay.len()]);
    let mut held = Held::default();
    held.apply(desired, 0)?;
    let options = Options { ports: Vec::new(), entries: Origin::Kernel, ..config.mirror() };
    let now = Asker::open().and_then(|mut asker| asker.now(&options));
    let now = now.map_err(|error| Failure::new(error.to_string()))?;
    Ok(told_of(&compare(held.program(), &held.table, &options, &now), 0))
}
