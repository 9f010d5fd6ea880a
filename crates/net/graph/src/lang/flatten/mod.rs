//! Statements to a flat graph, in three passes.
//!
//! `elaborate` turns each statement into elements and connections of the scope it is
//! in (`body::Body`), where names become indices and classes are found. `expand`
//! replaces compound elements by what is in them, from the outside in, as the
//! variables and overloads have it. `splice` joins the connections that run through
//! the edges of compound elements and groups, which then are gone.
//!
//! Names, numbers and order are Click's. What Click leaves unbounded has a limit:
//! [`Limits`](crate::lang::Limits).

mod body;
mod class;
mod elaborate;
mod expand;
mod formals;
mod item;
mod reader;
mod splice;
mod wire;

pub use reader::{read, read_anyway};
