//! The tests of the language, its values and lanes in one program, a module for a subject.
#![allow(clippy::unwrap_used)]

mod lanes;
mod lang_archive;
mod lang_args;
mod lang_click;
mod lang_hostile;
mod lang_props;
mod lang_render;
mod values;
