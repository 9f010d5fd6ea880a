//! Classifiers: patterns, and expressions about IP.

mod classifier;
mod expression;
mod ip_filter;
mod listing;
pub(crate) mod names;
mod parser;
mod primitive;
mod program;
pub(crate) mod straight;
mod tree;

pub use classifier::Classifier;
pub use ip_filter::IpFilter;
pub use straight::{headers, holds, holds_in};

use graph::Class;

/// The classes of this folder.
pub(crate) const CLASSES: &[&Class] = &[&classifier::CLASS, &ip_filter::CLASSIFIER, &ip_filter::FILTER];

/// Other names of them.
pub(crate) const ALIASES: &[(&str, &str)] = &[];
