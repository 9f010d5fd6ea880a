//! Element classes and what their names mean where.
//!
//! Names are scoped like variables: a compound element's classes end with it, and a
//! class is not known in its own definition. Classes that nobody defines are the
//! ones [`Options::known_class`](crate::lang::Options) knows.

use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::body::Body;
use crate::lang::Options;

/// A class: an index into [`Classes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassId(u32);

impl ClassId {
    /// No class: the outside or inside of a compound element or group.
    pub const TUNNEL: ClassId = ClassId(0);
    /// What stands for a class that is not known, already complained of.
    pub const ERROR: ClassId = ClassId(1);
}

/// What a class is.
#[derive(Clone, Debug)]
pub enum Class {
    /// The class of `connectiontunnel`, see [`ClassId::TUNNEL`].
    Tunnel,
    /// One the program knows; also `Error`.
    Plain(Arc<str>),
    /// One the configuration defines.
    Compound(Rc<Overloads>),
}

/// A compound class.
#[derive(Debug)]
pub struct Overloads {
    /// Its name, empty for an anonymous one.
    pub name: Arc<str>,
    /// The overloads, in order.
    pub bodies: Vec<Rc<Body>>,
    /// What it extends, to be tried after them.
    pub extends: Option<ClassId>,
}

/// All classes, and the scopes their names are in.
pub struct Classes<'o> {
    list: Vec<Class>,
    /// The classes that are visible, the innermost scope last.
    scopes: Vec<FxHashMap<Arc<str>, ClassId>>,
    /// Those of the program, as they turn up.
    plain: FxHashMap<Arc<str>, ClassId>,
    options: &'o Options<'o>,
}

impl<'o> Classes<'o> {
    /// The program's classes, and the file's scope.
    pub fn new(options: &'o Options<'o>) -> Classes<'o> {
        let list = vec![Class::Tunnel, Class::Plain("Error".into())];
        Classes { list, scopes: vec![FxHashMap::default()], plain: FxHashMap::default(), options }
    }

    /// What the name of an element means here as a class's. Elements are not named as the
    /// program's classes are, so these are not asked.
    pub fn lookup_element(&self, name: &str) -> Option<ClassId> {
        let defined = self.scopes.iter().rev().find_map(|s| s.get(name));
        defined.or_else(|| self.plain.get(name)).copied()
    }

    /// What a name means here.
    pub fn lookup(&mut self, name: &str) -> Option<ClassId> {
        if let Some(id) = self.lookup_element(name) {
            return Some(id);
        }
        if name == "Error" {
            return Some(ClassId::ERROR);
        }
        if name.is_empty() || !(self.options.known_class)(name) {
            return None;
        }
        let name: Arc<str> = name.into();
        let id = self.add(Class::Plain(name.clone()));
        self.plain.insert(name, id);
        Some(id)
    }

    /// A new class without a name.
    pub fn add(&mut self, class: Class) -> ClassId {
        self.list.push(class);
        ClassId(self.list.len() as u32 - 1)
    }

    /// Gives a class a name in this scope, instead of what it meant before.
    pub fn name(&mut self, name: &str, class: ClassId) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.into(), class);
        }
    }

    /// Makes a name that nobody knows the error class from here on, so that it is
    /// complained of once.
    pub fn give_up(&mut self, name: &str) {
        self.plain.insert(name.into(), ClassId::ERROR);
    }

    /// What a class is.
    pub fn class(&self, id: ClassId) -> &Class {
        self.list.get(id.0 as usize).unwrap_or(&Class::Tunnel)
    }

    /// A new scope inside the current one.
    pub fn open(&mut self) {
        self.scopes.push(FxHashMap::default());
    }

    /// Back to the scope around.
    pub fn close(&mut self) {
        if self.scopes.len() > 1 {
            self.scopes.pop();
        }
    }

    /// All names a class could have been meant by here.
    pub fn names(&self) -> Vec<String> {
        let mut names = (self.options.class_names)();
        names.extend(self.scopes.iter().flat_map(|s| s.keys()).map(|n| n.to_string()));
        names
    }
}
