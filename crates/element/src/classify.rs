//! Classifiers: patterns, and expressions about IP.

mod classifier;
mod expression;
mod ip_filter;
mod names;
mod parser;
mod primitive;
mod program;

use graph::Class;

/// The classes of this folder.
pub(crate) const CLASSES: &[&Class] = &[&classifier::CLASS, &ip_filter::CLASSIFIER, &ip_filter::FILTER];

/// Other names of them.
pub(crate) const ALIASES: &[(&str, &str)] = &[];
