//! How elements of a class are part of programs that `ixora compile` writes: by type,
//! and where it is known, with the numbers of their configuration in the code.

use std::any::Any;

use crate::element::{Each, Element, PerPacket};
use crate::run::fused::Single;

/// Whether elements of a class are part of programs. One that is not stays an element
/// among others, and packets leave the program for it.
#[derive(Debug, Clone, Copy)]
pub enum Kernel {
    /// Nobody did it yet.
    Unwritten,
    /// They are none: why.
    Excluded(&'static str),
    /// They are, in this way.
    Inside(Inside),
}

/// How elements are part of programs.
#[derive(Debug, Clone, Copy)]
pub struct Inside {
    /// Their type in code, where `kernels` is the module of all of them; empty for those
    /// that stay outside and have [`Code::Aside`] in their place.
    pub path: &'static str,
    /// They emit packets beside those that come in.
    pub emits: bool,
    /// Whether packets that come in go on at an output, of so many: not where the only
    /// ones are those it emits, or the element itself sends.
    pub through: fn(usize, usize) -> bool,
    /// Code for an element as it is configured.
    pub code: fn(&dyn Element) -> Code,
    /// Whether an element is of the type.
    fits: fn(&dyn Element) -> bool,
}

/// Code for an element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Code {
    /// It is asked as it is ([`Single`]).
    Asked,
    /// The action of `packet`, an expression in which `kernel` is the element and
    /// `cx.at(element)` its view: made only where it is used, which should not be for most
    /// packets.
    Action(String),
    /// The action of `packet` as an `Option`, without the element; where there is none the
    /// packet leaves the program for it.
    Aside(String),
    /// It cannot be part of a program as it is configured: why.
    Excluded(&'static str),
}

fn is<T: Element>(element: &dyn Element) -> bool {
    (element as &dyn Any).is::<T>()
}

impl Inside {
    /// Elements of a type, which has this path.
    pub const fn single<T: Single>(path: &'static str) -> Inside {
        Inside { path, emits: false, through: |_, _| true, code: |_| Code::Asked, fits: is::<T> }
    }

    /// Elements that look at one packet at a time, by the path of [`Each`] of the type.
    pub const fn each<K: PerPacket>(path: &'static str) -> Inside {
        Inside::single::<Each<K>>(path)
    }

    /// Elements that stay outside, while code in their place sends most packets on.
    pub const fn aside<T: Element>(code: fn(&dyn Element) -> Code) -> Inside {
        Inside { path: "", emits: false, through: |_, _| true, code, fits: is::<T> }
    }

    /// With code that depends on how an element is configured.
    pub const fn coded(self, code: fn(&dyn Element) -> Code) -> Inside {
        Inside { code, ..self }
    }

    /// With outputs that packets go on at which came in.
    pub const fn through(self, through: fn(usize, usize) -> bool) -> Inside {
        Inside { through, ..self }
    }

    /// They emit copies at an output of their own; packets that came in go on at others.
    pub const fn emitting(self, through: fn(usize, usize) -> bool) -> Inside {
        Inside { emits: true, through, ..self }
    }
}

impl Kernel {
    /// How elements are part of programs, if they are.
    pub fn inside(&self) -> Option<Inside> {
        match self {
            Kernel::Inside(inside) => Some(*inside),
            Kernel::Unwritten | Kernel::Excluded(_) => None,
        }
    }

    /// Whether an element is of the type that programs would have it by.
    pub fn fits(&self, element: &dyn Element) -> bool {
        self.inside().is_none_or(|inside| (inside.fits)(element))
    }
}

/// The code that `write` makes of an element, if it is a `T`.
pub fn of_type<T: Element>(element: &dyn Element, write: impl FnOnce(&T) -> Option<Code>) -> Code {
    (element as &dyn Any).downcast_ref().and_then(write).unwrap_or(Code::Asked)
}
