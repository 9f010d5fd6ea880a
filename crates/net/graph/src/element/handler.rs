//! Handlers: what can be read and written while an element runs, each a row of its
//! class in which the name stands beside the function that is called.
//!
//! ```
//! use graph::class::{Handlers, action, both, read};
//! struct Counter { packets: u64, active: bool }
//! const HANDLERS: Handlers<Counter> = Handlers(&[
//!     read("count", "packets", |counter| counter.packets.to_string()),
//!     both("active", "whether it counts", |counter| counter.active.to_string(), |counter, cx, value| {
//!         counter.active = value.trim().parse().map_err(|_| "expected boolean")?;
//!         Ok(())
//!     }),
//!     action("reset", "counts from zero", |counter, _| counter.packets = 0),
//! ]);
//! ```

use std::any::{Any, TypeId};

use crate::element::{Element, Refused};
use crate::run::cx::Cx;

/// What is known of a handler without its element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handler {
    /// The name by which it is asked for behind the element's: `ELEMENT.NAME`.
    pub name: &'static str,
    /// It can be read.
    pub read: bool,
    /// It can be written.
    pub write: bool,
    /// What else there is to it, as Click's `handlers` lists it: `+` it is asked with a
    /// parameter, `%` it is raw, `.` it changes rarely, `$` reading it is expensive, `U` it is uncommon,
    /// `D` it is an old one, `b` a button, `c` a check box;
    /// and two that are not listed: `-`, it is not for those outside the configuration to
    /// read; `/`, a file is written whose name is what is written to it.
    pub marks: &'static str,
    /// What it tells or does, in a few words for the documentation.
    pub about: &'static str,
}

impl Handler {
    /// The same handler with these [`marks`](Handler::marks).
    pub const fn marked(self, marks: &'static str) -> Handler {
        Handler { marks, ..self }
    }

    /// Whether it may be asked with a parameter.
    pub fn takes_parameter(&self) -> bool {
        self.marks.contains('+')
    }

    /// Whether what it says is printed as it is, without a line's end added.
    pub fn is_raw(&self) -> bool {
        self.marks.contains('%')
    }

    /// Whether writing it writes a file, of the name that is written to it.
    pub fn names_file(&self) -> bool {
        self.marks.contains('/')
    }

    /// Whether those outside the configuration can read it.
    pub fn is_public(&self) -> bool {
        self.read && !self.marks.contains('-')
    }
}

/// An argument that gets another value when a handler is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// Where the argument stands.
    pub place: usize,
    /// The keyword by which the argument is given.
    pub key: &'static str,
    /// The `config` handler tells of it.
    pub is_told: bool,
    /// The number at the end of the handler's name is the argument's place, and it has no keyword.
    pub is_numbered: bool,
}

impl Setting {
    /// What the handler of this name changes.
    pub(crate) fn of(self, name: &str) -> Setting {
        let place = number_in(name).filter(|_| self.is_numbered).unwrap_or(self.place);
        Setting { place, ..self }
    }
}

/// The number at the end of a handler's name: 3 of `pattern3`.
pub fn number_in(name: &str) -> Option<usize> {
    name[name.trim_end_matches(|c: char| c.is_ascii_digit()).len()..].parse().ok()
}

/// Reads a value, from a view of the lane and a parameter.
pub type ReadCall<T> = fn(&mut T, &mut Cx<'_>, &str) -> Result<String, Refused>;
/// Writes a value.
pub type WriteCall<T> = fn(&mut T, &mut Cx<'_>, &str) -> Result<(), Refused>;
/// As [`ReadCall`], of a handler whose name is given before the parameter.
pub type NamedRead<T> = fn(&mut T, &mut Cx<'_>, &str, &str) -> Result<String, Refused>;
/// As [`WriteCall`], of a handler whose name is given before the value.
pub type NamedWrite<T> = fn(&mut T, &mut Cx<'_>, &str, &str) -> Result<(), Refused>;

enum Read<T: 'static> {
    None,
    Value(fn(&T) -> String),
    Call(ReadCall<T>),
    Named(NamedRead<T>),
}

enum Write<T: 'static> {
    None,
    Call(WriteCall<T>),
    Action(fn(&mut T, &mut Cx<'_>)),
    Named(NamedWrite<T>),
    Setting(Setting),
}

/// Which elements of a class have a handler.
enum Presence<T: 'static> {
    All,
    If(fn(&T) -> bool),
    /// One for each of these names.
    Named(fn(&T) -> Vec<String>),
}

/// A handler of elements of type `T`: what is known of it, and its functions.
pub struct Row<T: 'static> {
    handler: Handler,
    read: Read<T>,
    write: Write<T>,
    presence: Presence<T>,
}

const fn row<T>(name: &'static str, about: &'static str, read: Read<T>, write: Write<T>) -> Row<T> {
    let handler = Handler {
        name,
        read: !matches!(read, Read::None),
        write: !matches!(write, Write::None),
        marks: "",
        about,
    };
    Row { handler, read, write, presence: Presence::All }
}

/// A handler that reads a value of the element.
pub const fn read<T>(name: &'static str, about: &'static str, value: fn(&T) -> String) -> Row<T> {
    row(name, about, Read::Value(value), Write::None)
}

/// A handler that is read, which changes the element, looks at its lane or may fail.
pub const fn call<T>(name: &'static str, about: &'static str, call: ReadCall<T>) -> Row<T> {
    row(name, about, Read::Call(call), Write::None)
}

/// A handler that is read with a parameter.
pub const fn ask<T>(name: &'static str, about: &'static str, ask: ReadCall<T>) -> Row<T> {
    row(name, about, Read::Call(ask), Write::None).marked("+")
}

/// A handler that is written.
pub const fn write<T>(name: &'static str, about: &'static str, write: WriteCall<T>) -> Row<T> {
    row(name, about, Read::None, Write::Call(write))
}

/// A handler that is written to have something done: whatever the value is.
pub const fn action<T>(name: &'static str, about: &'static str, action: fn(&mut T, &mut Cx<'_>)) -> Row<T> {
    row(name, about, Read::None, Write::Action(action))
}

/// A handler that is read and written.
pub const fn both<T>(
    name: &'static str,
    about: &'static str,
    value: fn(&T) -> String,
    write: WriteCall<T>,
) -> Row<T> {
    row(name, about, Read::Value(value), Write::Call(write))
}

/// A handler that reads the value of an argument and, when written, gives it another
/// one, in the configuration as well. Only for classes that are live.
pub const fn setting<T>(
    name: &'static str,
    about: &'static str,
    value: fn(&T) -> String,
    (place, key): (usize, &'static str),
) -> Row<T> {
    row(
        name,
        about,
        Read::Value(value),
        Write::Setting(Setting { place, key, is_told: true, is_numbered: false }),
    )
}

/// As [`setting`]; the configuration stays as it was written.
pub const fn datum<T>(
    name: &'static str,
    about: &'static str,
    value: fn(&T) -> String,
    (place, key): (usize, &'static str),
) -> Row<T> {
    row(
        name,
        about,
        Read::Value(value),
        Write::Setting(Setting { place, key, is_told: false, is_numbered: false }),
    )
}

/// Handlers that are read, one for each of the names that an element has when it was
/// made; `read` gets the name and the parameter.
pub const fn named<T>(about: &'static str, names: fn(&T) -> Vec<String>, read: NamedRead<T>) -> Row<T> {
    Row { presence: Presence::Named(names), ..row("", about, Read::Named(read), Write::None) }
}

impl<T> Row<T> {
    /// With marks ([`Handler::marks`]).
    pub const fn marked(self, marks: &'static str) -> Row<T> {
        Row { handler: self.handler.marked(marks), ..self }
    }

    /// Read as well, as [`call`] has it.
    pub const fn and_call(self, call: ReadCall<T>) -> Row<T> {
        Row { handler: Handler { read: true, ..self.handler }, read: Read::Call(call), ..self }
    }

    /// Written as well; `write` gets the name and the value.
    pub const fn and_write(self, write: NamedWrite<T>) -> Row<T> {
        Row { handler: Handler { write: true, ..self.handler }, write: Write::Named(write), ..self }
    }

    /// Written as well: the argument whose place is the number at the end of the handler's name gets
    /// another value. Only for classes that are live.
    pub const fn and_argument(self) -> Row<T> {
        let setting = Setting { place: 0, key: "", is_told: true, is_numbered: true };
        Row { handler: Handler { write: true, ..self.handler }, write: Write::Setting(setting), ..self }
    }

    /// Only of elements of which `is` is true when they were made.
    pub const fn only_if(self, is: fn(&T) -> bool) -> Row<T> {
        Row { presence: Presence::If(is), ..self }
    }

    /// The names of its handlers that this element has and others may not.
    fn own_names(&self, element: &T) -> Vec<String> {
        match self.presence {
            Presence::Named(names) => names(element),
            Presence::If(is) if is(element) => vec![self.handler.name.to_string()],
            _ => vec![],
        }
    }

    fn read(
        &self,
        element: &mut T,
        cx: &mut Cx<'_>,
        (name, parameter): (&str, &str),
    ) -> Result<String, Refused> {
        match self.read {
            Read::Value(value) => Ok(value(element)),
            Read::Call(call) => call(element, cx, parameter),
            Read::Named(call) => call(element, cx, name, parameter),
            Read::None => Err(no_handler(name)),
        }
    }

    fn write(&self, element: &mut T, cx: &mut Cx<'_>, (name, value): (&str, &str)) -> Result<(), Refused> {
        match self.write {
            Write::Call(write) => write(element, cx, value),
            Write::Named(write) => write(element, cx, name, value),
            Write::Action(action) => {
                action(element, cx);
                Ok(())
            }
            Write::None | Write::Setting(_) => Err(no_handler(name)),
        }
    }
}

/// The handlers of a class whose elements, or what looks at single packets in them
/// ([`PerPacket`](crate::PerPacket)), are of type `T`.
pub struct Handlers<T: 'static>(pub &'static [Row<T>]);

impl<T: 'static> Handlers<T> {
    /// The row of a handler that an element has.
    fn find(&self, element: &T, name: &str) -> Option<&Row<T>> {
        self.0.iter().find(|row| match row.presence {
            Presence::All => row.handler.name == name,
            Presence::If(is) => row.handler.name == name && is(element),
            Presence::Named(names) => names(element).iter().any(|own| own == name),
        })
    }

    /// What a handler reads that is a value of the element ([`read`], [`both`]).
    pub fn value(&self, element: &T, name: &str) -> Option<String> {
        match self.find(element, name)?.read {
            Read::Value(value) => Some(value(element)),
            _ => None,
        }
    }

    /// Reads a handler for the element itself, while it is at work.
    ///
    /// # Errors
    /// When there is none, or it cannot be read now.
    pub fn read_own(
        &self,
        element: &mut T,
        cx: &mut Cx<'_>,
        name: &str,
        parameter: &str,
    ) -> Result<String, Refused> {
        let row = self.find(element, name).ok_or_else(|| no_handler(name))?;
        row.read(element, cx, (name, parameter))
    }

    /// Writes a handler for the element itself, while it is at work.
    ///
    /// # Errors
    /// When there is none, or the value is none for it.
    pub fn write_own(
        &self,
        element: &mut T,
        cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), Refused> {
        let row = self.find(element, name).ok_or_else(|| no_handler(name))?;
        row.write(element, cx, (name, value))
    }
}

/// What a class without handlers has.
pub const NONE: &Handlers<()> = &Handlers(&[]);

/// The handlers of a class, whatever the type of its elements.
pub trait HandlerTable: Sync {
    /// How many rows there are.
    fn len(&self) -> usize;

    /// Whether there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What is known of a row's handler, if all elements have it under this name.
    fn common(&self, row: usize) -> Option<Handler>;

    /// What is known of a row's handler.
    fn handler(&self, row: usize) -> Handler;

    /// The argument that a row changes when it is written.
    fn setting(&self, row: usize) -> Option<Setting>;

    /// Whether the rows are of the element's type.
    fn fits(&self, element: &mut dyn Element) -> bool;

    /// Asks a row of its element, which is known to be of the rows' type.
    ///
    /// # Errors
    /// When it is not, or what a handler cannot do.
    fn ask(&self, row: usize, element: &mut dyn Element, asked: Asked<'_, '_>) -> Result<Answer, Refused>;
}

/// What a row of a [`HandlerTable`] is asked. One function for all of it, since a table is
/// compiled once for the type of each class's elements.
pub enum Asked<'a, 'lane> {
    /// The names of its handlers that this element has and others may not.
    Names,
    /// To read a handler: its name and the parameter.
    Read(&'a mut Cx<'lane>, (&'a str, &'a str)),
    /// To write a handler: its name and the value.
    Write(&'a mut Cx<'lane>, (&'a str, &'a str)),
}

/// What a row of a [`HandlerTable`] answers.
pub enum Answer {
    /// The names that [`Asked::Names`] asks for.
    Names(Vec<String>),
    /// The value of the handler that [`Asked::Read`] reads.
    Text(String),
    /// The handler of [`Asked::Write`] was written.
    Written,
}

impl dyn HandlerTable {
    /// The names of a row's handlers that this element has and others may not.
    pub fn own_names(&self, row: usize, element: &mut dyn Element) -> Vec<String> {
        match self.ask(row, element, Asked::Names) {
            Ok(Answer::Names(names)) => names,
            _ => vec![],
        }
    }

    /// Reads a handler, under the name by which it was found.
    ///
    /// # Errors
    /// When it cannot be read now.
    pub fn read(
        &self,
        row: usize,
        element: &mut dyn Element,
        cx: &mut Cx<'_>,
        call: (&str, &str),
    ) -> Result<String, Refused> {
        match self.ask(row, element, Asked::Read(cx, call))? {
            Answer::Text(text) => Ok(text),
            _ => Err(no_handler(call.0)),
        }
    }

    /// Writes a handler.
    ///
    /// # Errors
    /// When the value is none for it.
    pub fn write(
        &self,
        row: usize,
        element: &mut dyn Element,
        cx: &mut Cx<'_>,
        call: (&str, &str),
    ) -> Result<(), Refused> {
        self.ask(row, element, Asked::Write(cx, call)).map(drop)
    }
}

/// There is no handler of this name that does what is asked.
#[cold]
fn no_handler(name: &str) -> Refused {
    Refused::NoHandler(name.into())
}

/// The element as a `T`, or the `T` in it that looks at single packets.
pub(super) fn typed<T: 'static>(element: &mut dyn Element) -> Option<&mut T> {
    holder(element, TypeId::of::<T>())?.downcast_mut()
}

/// The element if it is of this type, or else what in it looks at single packets.
fn holder(element: &mut dyn Element, wanted: TypeId) -> Option<&mut dyn Any> {
    let is_element = (&*element as &dyn Any).type_id() == wanted;
    match is_element {
        true => Some(element),
        false => element.per_packet(),
    }
}

impl<T: 'static> HandlerTable for Handlers<T> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn common(&self, row: usize) -> Option<Handler> {
        matches!(self.0[row].presence, Presence::All).then_some(self.0[row].handler)
    }

    fn handler(&self, row: usize) -> Handler {
        self.0[row].handler
    }

    fn setting(&self, row: usize) -> Option<Setting> {
        match self.0[row].write {
            Write::Setting(setting) => Some(setting),
            _ => None,
        }
    }

    fn fits(&self, element: &mut dyn Element) -> bool {
        self.0.is_empty() || typed::<T>(element).is_some()
    }

    fn ask(&self, row: usize, element: &mut dyn Element, asked: Asked<'_, '_>) -> Result<Answer, Refused> {
        let row = &self.0[row];
        let Some(element) = typed::<T>(element) else { return Err(no_handler(row.handler.name)) };
        match asked {
            Asked::Names => Ok(Answer::Names(row.own_names(element))),
            Asked::Read(cx, call) => row.read(element, cx, call).map(Answer::Text),
            Asked::Write(cx, call) => row.write(element, cx, call).map(|()| Answer::Written),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Each;
    use crate::element::{Action, PerPacket};

    struct Ports(Vec<&'static str>);

    impl Element for Ports {}

    const OF_PORTS: Handlers<Ports> = Handlers(&[
        read("count", "ports", |ports| ports.0.len().to_string()),
        read("first", "the first port", |ports: &Ports| ports.0[0].to_string())
            .only_if(|ports| !ports.0.is_empty()),
        named(
            "a port",
            |ports| ports.0.iter().map(|port| format!("port_{port}")).collect(),
            |_, _, name, _| Ok(name.to_string()),
        ),
    ]);

    struct Paint(u8);

    impl PerPacket for Paint {
        fn packet(&mut self, _: &mut Cx<'_>, _: usize, _: &mut memory::Packet) -> Action {
            Action::ON
        }
    }

    const OF_PAINT: Handlers<Paint> = Handlers(&[read("color", "the colour", |paint| paint.0.to_string())]);

    #[test]
    fn an_element_has_the_rows_that_are_for_it() {
        let table: &dyn HandlerTable = &OF_PORTS;
        let common: Vec<&str> = (0..3).filter_map(|row| Some(table.common(row)?.name)).collect();
        assert_eq!(common, ["count"]);
        let names =
            |element: &mut Ports| (0..3).flat_map(|row| table.own_names(row, element)).collect::<Vec<_>>();
        assert_eq!(names(&mut Ports(vec![])), Vec::<String>::new());
        assert_eq!(names(&mut Ports(vec!["a", "b"])), ["first", "port_a", "port_b"]);
        assert_eq!(OF_PORTS.value(&Ports(vec!["a"]), "first").as_deref(), Some("a"));
        assert_eq!(OF_PORTS.value(&Ports(vec![]), "first"), None);
    }

    #[test]
    fn rows_fit_elements_of_their_type_and_no_others() {
        let (mut ports, mut paint) = (Ports(vec![]), Each(Paint(3)));
        assert!(OF_PORTS.fits(&mut ports) && OF_PAINT.fits(&mut paint));
        assert!(!OF_PORTS.fits(&mut paint) && !OF_PAINT.fits(&mut ports));
        assert!(NONE.fits(&mut ports), "no row, no type");
    }
}
