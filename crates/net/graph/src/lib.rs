//! Click's language, and routers made of it.
//!
//! Three floors, and an interface between the second and the third:
//!
//! * [`lang`] reads a configuration: lexer, parser, flattening, and problems with
//!   places in them.
//! * [`plan`] decides what a router of it will be before anything runs: which ports
//!   push and which pull, which threads reach which elements, what is wrong with it
//!   and what it costs.
//! * [`element`] is what an element is to the graph: its class, its configuration,
//!   its functions and handlers.
//! * [`run`] runs it: a lane for each thread, tasks, timers, signals, handlers, and
//!   one router in the place of another.
//!
//! `lang` imports none of the others. `plan` imports `lang` and `element`, never `run`.
//! `run` imports all. `element` imports `lang`, and of the floors beside it only what an
//! element's functions are given: [`Setup`] of `plan` while it is made, [`Cx`] of `run`
//! while it works, with tasks, timers, files and signals, and the trait by which it is
//! part of a compiled program. A test below keeps it so.
//!
//! What runs in a router is written elsewhere: this crate knows what an [`Element`]
//! is, not which there are. The crate's root has what the author of an element needs.
//! Read [`element`] first, then [`run::lane`], which carries packets from one element
//! to the next.
#![forbid(unsafe_code)]

pub mod annotation;
pub mod chain;
pub mod clock;
pub mod element;
pub mod ip_header;
pub mod lang;
mod names;
pub mod per_thread_counter;
pub mod plan;
pub mod random;
pub mod run;

pub use clock::Clock;
pub use element::{
    Action, Class, Complaint, Conf, ConfFault, Each, Element, Next, PerPacket, Ran, Refused, Registry, class,
    value, well_known,
};
pub use per_thread_counter::{PerThreadCounter, PerThreadCounters};
pub use plan::setup::{Predecessor, Services, Setup};
pub use plan::single::Batching;
pub use run::cx::{Cx, LONGEST};
pub use run::fused;
pub use run::handlers::Named;
pub use run::options::Options;
pub use run::router::Router;
pub use run::shared::{Console, RouterShared};
pub use run::signal::{self, Notice, Signal, Signals};
pub use run::task::TaskId;
pub use run::timer::TimerId;
pub use run::watch::{Until, WatchId};

#[cfg(test)]
mod floors {
    use std::path::Path;

    /// What `element` may name of `plan` and `run`: what its functions are given.
    const VIEWS: [&str; 8] = [
        "plan::setup::",
        "run::cx::",
        "run::fused::",
        "run::handlers::Named",
        "run::signal::",
        "run::task::",
        "run::timer::",
        "run::watch::",
    ];

    /// Calls `look` with each line of a folder's files that names another module.
    fn imports(folder: &Path, look: &mut dyn FnMut(&str, &str)) {
        for entry in std::fs::read_dir(folder).expect("a folder of this crate") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                imports(&path, look);
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("a source file");
            let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            for line in code {
                line.split("crate::").skip(1).for_each(|named| look(&path.to_string_lossy(), named));
            }
        }
    }

    #[test]
    fn imports_go_from_the_language_to_what_runs() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut looked = 0;
        for (floor, refused) in
            [("lang", &["element", "plan", "run"][..]), ("plan", &["run"]), ("element", &["plan", "run"])]
        {
            imports(&source.join(floor), &mut |file, named| {
                looked += 1;
                let is_view = floor == "element" && VIEWS.iter().any(|view| named.starts_with(view));
                let other = refused.iter().any(|other| named.starts_with(&format!("{other}::")));
                assert!(!other || is_view, "{file} names crate::{named}");
            });
        }
        assert!(looked > 50, "{looked} lines were found");
    }
}
