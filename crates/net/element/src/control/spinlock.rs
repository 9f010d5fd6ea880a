//! `SpinlockInfo`, `SpinlockAcquire`, `SpinlockRelease`, `SpinlockPush`, `PathSpinlock`: locks that Click's
//! configurations put around elements which several threads reach.

use graph::class::{mandatory, positional, rest};
use graph::value::{NameKind, Value};
use graph::{Action, Class, Conf, ConfFault, Cx, Each, Element, PerPacket};
use memory::Packet;

use super::sched::Nothing;

/// The kind of names that these are.
const SPINLOCK: NameKind = NameKind::Number("spinlock");

/// Names of locks.
pub static INFO: Class = Class {
    name: "SpinlockInfo",
    brief: "gives locks names",
    doc: "Each argument is the name of a lock, for SpinlockAcquire, SpinlockRelease and SpinlockPush. It holds \
          in the compound element it is declared in, and within.",
    ports: "0/0",
    arguments: &[rest("NAME", "a lock")],
    phase: Class::INFORMATION,
    example: "SpinlockInfo(one)",
    see: &["SpinlockAcquire", "SpinlockRelease", "SpinlockPush"],
    make: |setup, conf| {
        let scope = *conf.scope();
        for argument in conf.rest() {
            let name = String::parse(&argument, &scope)?;
            setup.declare(SPINLOCK, &name, String::new());
        }
        Ok(Box::new(Nothing))
    },
    ..Class::BASE
};

/// From here on.
pub static ACQUIRE: Class = Class {
    name: "SpinlockAcquire",
    brief: "takes a lock of Click's, which nothing needs here",
    doc: "Packets pass. What a lock is for in Click is so without one: each thread has elements of its own, and \
          what there is only once is behind a lock (`--explain` tells). That LOCK was declared is checked.",
    arguments: &[mandatory("LOCK", "the name of a lock, of a SpinlockInfo")],
    example: "SpinlockInfo(one); src -> SpinlockAcquire(one) -> Counter -> SpinlockRelease(one) -> dst;",
    see: &["SpinlockInfo", "SpinlockRelease", "SpinlockPush"],
    make: pass,
    ..Class::BASE
};

/// Up to here.
pub static RELEASE: Class = Class {
    name: "SpinlockRelease",
    brief: "gives a lock of Click's back, which nothing needs here",
    doc: "Packets pass, as in SpinlockAcquire.",
    ..ACQUIRE
};

/// As far as packets are pushed.
pub static PUSH: Class = Class {
    name: "SpinlockPush",
    brief: "has a lock of Click's as far as packets are pushed, which nothing needs here",
    doc: "Packets pass, as in SpinlockAcquire.",
    processing: "h/h",
    example: "SpinlockInfo(one); src -> SpinlockPush(one) -> Counter -> dst;",
    ..ACQUIRE
};

/// As far as packets are pushed or pulled, on several paths.
pub static PATH: Class = Class {
    name: "PathSpinlock",
    brief: "has a lock of FastClick's while packets are pushed or pulled, which nothing needs here",
    doc: "Packets pass from each input to the output of its number, as in SpinlockAcquire.",
    ports: "1-/=",
    flow: "#/#",
    arguments: &[positional("LOCK", "the name of a lock, of a SpinlockInfo; one of its own")],
    example: "src -> PathSpinlock -> Counter -> dst;",
    make: |_, conf| {
        let lock: Option<String> = conf.positional("LOCK")?;
        conf.complete()?;
        lock.map_or(Ok(Each::boxed(Spinlock)), |lock| named(conf, &lock))
    },
    ..ACQUIRE
};

fn pass(_: &mut graph::Setup<'_>, conf: &mut Conf<'_>) -> Result<Box<dyn Element>, ConfFault> {
    let lock: String = conf.mandatory("LOCK")?;
    conf.complete()?;
    named(conf, &lock)
}

/// An element for a lock that a SpinlockInfo gave a name.
fn named(conf: &Conf<'_>, lock: &str) -> Result<Box<dyn Element>, ConfFault> {
    match conf.scope().lookup(SPINLOCK, lock) {
        Some(_) => Ok(Each::boxed(Spinlock)),
        None => Err(format!("cannot locate spinlock {lock}").into()),
    }
}

/// A `SpinlockAcquire`, `SpinlockRelease`, `SpinlockPush` or `PathSpinlock` element; [`ACQUIRE`] and
/// [`PATH`] say what it does.
#[derive(Debug, Clone)]
pub struct Spinlock;

impl PerPacket for Spinlock {
    fn packet(&mut self, _: &mut Cx<'_>, input: usize, _: &mut Packet) -> Action {
        Action::out(input)
    }

    fn replicate(&self) -> Option<Spinlock> {
        Some(Spinlock)
    }
}
