//! From names to ports. [`DRIVERS`] is the one list of what this build drives, and
//! [`FORMS`] the one list of how a port can be written: opening, error messages,
//! `ixora doctor` and `--help` read them.
//!
//! A name is parsed once ([`Name`]), the device found and taken ([`Found`]), and then
//! opened with the memory and the options of the program.
#![forbid(unsafe_code)]

mod drivers;
mod name;

pub use drivers::{DRIVERS, Driver, OpenHost, driver_of, drives, host, open};
pub use name::{FORMS, Form, Found, Name, NameError};
