//! A configuration with its elements made and nothing opened: what programs are
//! compiled from.

use std::sync::{Arc, Mutex};

use element::io::router_ports::{OpenPorts, Opener, RouterPorts, Wanted};
use graph::lang::{Flat, Problems, Source};
use graph::plan::Instances;
use graph::plan::Plan;
use graph::{Console, Router};

use super::{Click, configuration, ports, unopened_port};

/// A configuration, flattened to a text of its own, and its elements.
pub struct Whole {
    /// The flat configuration.
    pub text: String,
    /// What is known of it.
    pub plan: Plan,
    /// Its elements, by number.
    pub made: Instances,
    /// What its author is warned of.
    pub problems: Problems,
}

/// Reads a configuration and makes its elements. Elements have the numbers they have
/// when the flat configuration is read.
///
/// # Errors
/// All that is wrong with it.
pub fn assemble(click: &Click, sources: Vec<Source>) -> Result<Whole, Problems> {
    let registry = super::classes();
    let given = configuration::flatten(click, sources, &registry)?;
    // What was written is what people know; only if it is right the flat one counts.
    make(click, given.clone(), "")?;
    let problems = Problems { list: given.warnings.clone(), sources: given.sources.clone() };
    let text = given.unparse();
    let flat = configuration::flatten(click, vec![Source::new("flat", text.as_str())], &registry)?;
    let (plan, made) = make(click, flat, &text)?;
    Ok(Whole { text, plan, made, problems })
}

fn make(click: &Click, flat: Flat, text: &str) -> Result<(Plan, Instances), Problems> {
    let opener: Opener = Box::new(|wanted: &[Wanted]| Ok(wanted.iter().map(unopened_port::port).collect()));
    let open_ports = Arc::new(OpenPorts::new(click.port_options(), opener));
    let router_ports = Arc::new(RouterPorts::of(open_ports, ports::topology(click)));
    let options = graph::Options {
        services: super::services(click, router_ports),
        console: Console::Memory(Arc::new(Mutex::new(String::new()))),
        thorough: true,
        ..graph::Options::default()
    };
    let sources = flat.sources.clone();
    let made = Router::configure(text, flat, &super::classes(), options);
    made.map_err(|list| Problems { list, sources })
}
