//! Names of ports as the command line has them: those of [`ports`], and models in this
//! process.

use ports::Name;
use testbed::wire;
use testbed::{MODELS, Model};

use crate::Failure;

/// A port's name, taken apart: a port of [`ports`], or a model in this process, with entries of its
/// table of tunnels and its wire.
pub(super) enum Wanted {
    Port(Name),
    Model(&'static Model, Option<u32>, Box<wire::Spec>),
}

impl Wanted {
    pub(super) fn parse(name: &str) -> Result<Wanted, Failure> {
        if let Some(model) = name.strip_prefix("model:") {
            let (named, wire) = model.split_once(",wire=").unwrap_or((model, "loop"));
            let (model, entries) = named.split_once(",encap-offload=").unzip();
            let entries = entries.map(|entries: &str| entries.parse()).transpose();
            let entries = entries.map_err(|_| Failure::usage(format!("{name}: how many entries?")))?;
            let model = Model::named(model.unwrap_or(named))?;
            return Ok(Wanted::Model(model, entries, Box::new(wire.parse()?)));
        }
        let name = name.parse::<Name>();
        name.map(Wanted::Port).map_err(|error| Failure::usage(error.to_string()).fix(instead_of(&error.0)))
    }
}

/// Whether a name is a port's; nothing is looked for.
///
/// # Errors
/// How ports are written.
pub fn check_name(name: &str) -> Result<(), Failure> {
    Wanted::parse(name).map(drop)
}

/// Whether a port is there, as far as that can be seen without opening it.
///
/// # Errors
/// How ports are written, or what is missing.
pub fn look_for(name: &str) -> Result<(), Failure> {
    match Wanted::parse(name)? {
        Wanted::Port(name) => Ok(name.look_for()?),
        Wanted::Model(..) => Ok(()),
    }
}

/// What to write instead of a name that is no port's: an interface of Linux's may be meant.
fn instead_of(name: &str) -> String {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'@');
    if let Some(variable) = name.strip_prefix('$') {
        return format!("set the variable, {variable}=PORT on the command line; PORT is {}", forms());
    }
    let begins = name.starts_with(|first: char| first.is_ascii_alphabetic());
    if !begins || name.len() > 15 || !name.bytes().all(fits) {
        return format!("write {}", forms());
    }
    format!(
        "write af_packet:{name} for the interface beside Linux's network stack, af_xdp:{name} for it past the \
         stack; other ports: {}",
        forms()
    )
}

/// How ports are written.
pub fn forms() -> String {
    let known: Vec<String> =
        ports::FORMS.iter().map(|form| format!("{} ({})", form.syntax(), form.about)).collect();
    let (model, about) = model_form();
    format!("{}, or {model} ({about})", known.join(", "))
}

/// The form of a port's name that only this program knows, and what it is.
pub fn model_form() -> (String, String) {
    let names: Vec<String> = MODELS.iter().map(|model| format!("model:{}", model.name)).collect();
    let about = format!("a device model in this process; {} likewise", names[1..].join(", "));
    (format!("{}[,encap-offload=ENTRIES][,wire=WIRE]", names[0]), about)
}
