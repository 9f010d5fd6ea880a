//! The options of a port that a user sets by name, one row for each. The command line
//! makes its arguments of the rows and a router the keywords of `FromDevice` and
//! `ToDevice`, so that an option of [`Options`] is named, read and set in one place.

use std::fmt;

use crate::{Capabilities, Completion, Feature, Offload, Options};

/// Bytes of an Ethernet header: what an MTU leaves out of a frame.
const ETHERNET: usize = 14;

/// The value of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub enum Value {
    /// It is on or off.
    Flag(bool),
    /// It is a number.
    Number(usize),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Flag(on) => on.fmt(f),
            Value::Number(number) => number.fmt(f),
        }
    }
}

/// The numbers that the command line takes; the driver has limits of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbers {
    /// The driver alone decides.
    Any,
    /// From 1 to this one.
    UpTo(usize),
    /// The powers of two between these two.
    PowersOfTwo(usize, usize),
}

impl Numbers {
    /// Descriptors of a ring.
    pub const RING: Numbers = Numbers::PowersOfTwo(64, 4096);

    /// Reads one of them.
    ///
    /// # Errors
    /// What to write instead.
    pub fn parse(self, text: &str) -> Result<usize, String> {
        let fits = |number: &usize| match self {
            Numbers::Any => true,
            Numbers::UpTo(most) => (1..=most).contains(number),
            Numbers::PowersOfTwo(low, high) => number.is_power_of_two() && (low..=high).contains(number),
        };
        text.parse().ok().filter(fits).ok_or_else(|| match self {
            Numbers::Any => "write a number".to_owned(),
            Numbers::UpTo(most) => format!("write 1 to {most}"),
            Numbers::PowersOfTwo(low, high) => format!("write a power of two from {low} to {high}"),
        })
    }
}

/// How a setting is written into [`Options`] and read from them.
#[derive(Debug, Clone, Copy)]
pub enum Field {
    /// On or off; the argument's name alone turns it on.
    Flag {
        /// Whether it is on.
        get: fn(&Options) -> bool,
        /// Turns it on or off.
        set: fn(&mut Options, bool),
    },
    /// A number within a range.
    Number {
        /// Those that the command line takes.
        numbers: Numbers,
        /// Reads the number from options.
        get: fn(&Options) -> usize,
        /// Sets the number in options.
        set: fn(&mut Options, usize),
    },
}

/// A row of the table.
#[derive(Debug)]
pub struct Setting {
    /// The argument of the command line, without its dashes.
    pub argument: Option<&'static str>,
    /// The keyword of an element that receives, by FastClick's name where it has one.
    pub rx_keyword: Option<&'static str>,
    /// The keyword of an element that sends.
    pub tx_keyword: Option<&'static str>,
    /// What the command line's help says of it.
    pub about: &'static str,
    /// Whether the help tells its default.
    pub tells_default: bool,
    /// Where it stands in the options.
    pub field: Field,
    /// What an open port has of it; `None` where the port does not tell.
    pub granted: fn(&Capabilities) -> Option<Value>,
}

const BASE: Setting = Setting {
    argument: None,
    rx_keyword: None,
    tx_keyword: None,
    about: "",
    tells_default: false,
    field: Field::Flag { get: |_| false, set: |_, _| () },
    granted: |_| None,
};

/// All settings. The command line sets them in this order.
pub const SETTINGS: &[Setting] = &[
    Setting {
        argument: Some("ring"),
        about: "Descriptors in each ring: a power of two, 64 to 4096",
        tells_default: true,
        field: Field::Number {
            numbers: Numbers::RING,
            get: |options| options.rx_ring,
            set: |options, ring| (options.rx_ring, options.tx_ring) = (ring, ring),
        },
        ..BASE
    },
    Setting {
        argument: Some("rx-ring"),
        rx_keyword: Some("NDESC"),
        about: "Descriptors in receive rings, if not as --ring",
        field: Field::Number {
            numbers: Numbers::RING,
            get: |options| options.rx_ring,
            set: |options, ring| options.rx_ring = ring,
        },
        ..BASE
    },
    Setting {
        argument: Some("tx-ring"),
        tx_keyword: Some("NDESC"),
        about: "Descriptors in transmit rings, if not as --ring",
        field: Field::Number {
            numbers: Numbers::RING,
            get: |options| options.tx_ring,
            set: |options, ring| options.tx_ring = ring,
        },
        ..BASE
    },
    Setting {
        argument: Some("queues"),
        about: "Queues of each port; flows spread over them by RSS",
        tells_default: true,
        field: Field::Number {
            numbers: Numbers::UpTo(128),
            get: |options| options.rx_queues,
            set: |options, queues| (options.rx_queues, options.tx_queues) = (queues, queues),
        },
        ..BASE
    },
    Setting {
        argument: Some("max-frame"),
        about: "Largest frame in bytes, without CRC; above 2048, frames span buffers",
        tells_default: true,
        field: Field::Number {
            numbers: Numbers::Any,
            get: |options| options.max_frame,
            set: |options, bytes| options.max_frame = bytes,
        },
        granted: |can| Some(Value::Number(can.max_frame)),
        ..BASE
    },
    Setting {
        rx_keyword: Some("MTU"),
        tx_keyword: Some("MTU"),
        field: Field::Number {
            numbers: Numbers::Any,
            get: |options| options.max_frame.saturating_sub(ETHERNET),
            set: |options, bytes| options.max_frame = bytes.saturating_add(ETHERNET),
        },
        granted: |can| Some(Value::Number(can.max_frame.saturating_sub(ETHERNET))),
        ..BASE
    },
    Setting {
        argument: Some("promiscuous"),
        rx_keyword: Some("PROMISC"),
        about: "Receive everything, whatever its destination; this is the default",
        field: Field::Flag {
            get: |options| options.promiscuous,
            set: |options, on| options.promiscuous = on,
        },
        ..BASE
    },
    Setting {
        argument: Some("no-promiscuous"),
        about: "Receive only what is addressed to the port",
        field: Field::Flag {
            get: |options| !options.promiscuous,
            set: |options, on| options.promiscuous = !on,
        },
        ..BASE
    },
    Setting {
        argument: Some("interrupts"),
        about: "Sleep on interrupts when there is nothing to do",
        field: Field::Flag { get: |options| options.interrupts, set: |options, on| options.interrupts = on },
        granted: |can| Some(Value::Flag(can.has(Feature::Interrupts))),
        ..BASE
    },
    Setting {
        argument: Some("head-writeback"),
        about: "Let the device report sent packets by head write-back",
        field: Field::Flag {
            get: |options| options.completion == Completion::Head,
            set: |options, on| options.completion = if on { Completion::Head } else { Completion::Report },
        },
        granted: |can| Some(Value::Flag(can.has(Feature::HeadWriteback))),
        ..BASE
    },
    Setting {
        argument: Some("vlan-strip"),
        rx_keyword: Some("VLAN_STRIP"),
        about: "Let the device take VLAN tags off received frames into their metadata; they are put back \
                where a frame is sent or written",
        field: Field::Flag { get: |options| options.vlan_strip, set: |options, on| options.vlan_strip = on },
        granted: |can| Some(Value::Flag(can.has(Feature::VlanStrip))),
        ..BASE
    },
    Setting {
        rx_keyword: Some("VLAN_FILTER"),
        field: Field::Flag {
            get: |options| options.vlan_filter,
            set: |options, on| options.vlan_filter = on,
        },
        granted: |can| Some(Value::Flag(can.has(Feature::VlanFilter))),
        ..BASE
    },
    Setting {
        argument: Some("checksums"),
        about: "Let the device verify and fill in checksums where that costs the driver something",
        field: Field::Flag {
            get: |options| options.rx_checksum == Offload::On && options.tx_checksum == Offload::On,
            set: |options, on| {
                let offload = if on { Offload::On } else { Offload::WhereFree };
                (options.rx_checksum, options.tx_checksum) = (offload, offload);
            },
        },
        granted: |can| Some(Value::Flag(can.has(Feature::RxChecksum) && can.has(Feature::TxChecksum))),
        ..BASE
    },
];

impl Setting {
    /// What the options say.
    pub fn get(&self, options: &Options) -> Value {
        match self.field {
            Field::Flag { get, .. } => Value::Flag(get(options)),
            Field::Number { get, .. } => Value::Number(get(options)),
        }
    }

    /// Writes it into the options. A value of the other kind changes nothing.
    pub fn set(&self, options: &mut Options, value: Value) {
        match (self.field, value) {
            (Field::Flag { set, .. }, Value::Flag(on)) => set(options, on),
            (Field::Number { set, .. }, Value::Number(number)) => set(options, number),
            _ => debug_assert!(false, "{self:?} is not set to {value:?}"),
        }
    }

    /// Whether an open port has at least what was asked for.
    pub fn is_granted(&self, asked: Value, capabilities: &Capabilities) -> bool {
        (self.granted)(capabilities).is_none_or(|granted| granted >= asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_read_back_and_names_are_unique() {
        for (n, setting) in SETTINGS.iter().enumerate() {
            let values = match setting.field {
                Field::Flag { .. } => [Value::Flag(true), Value::Flag(false)],
                Field::Number { .. } => [Value::Number(1024), Value::Number(64)],
            };
            for value in values {
                let mut options = Options::default();
                setting.set(&mut options, value);
                assert_eq!(setting.get(&options), value, "{setting:?}");
            }
            let names = |s: &Setting| [s.argument, s.rx_keyword, s.tx_keyword];
            assert_ne!(names(setting), [None; 3]);
            for (mine, other) in
                SETTINGS[..n].iter().flat_map(|other| names(setting).into_iter().zip(names(other)))
            {
                assert!(mine.is_none() || mine != other, "{mine:?} stands twice");
            }
        }
    }

    #[test]
    fn numbers_have_their_limits() {
        let ring = |text| Numbers::RING.parse(text).ok();
        assert_eq!(
            ["64", "4096", "63", "96", "8192", "x", "-1"].map(ring),
            [Some(64), Some(4096), None, None, None, None, None]
        );
        assert_eq!(
            ["0", "1", "128", "129"].map(|text| Numbers::UpTo(128).parse(text).is_ok()),
            [false, true, true, false]
        );
        assert_eq!(
            Numbers::RING.parse("9").expect_err("it is refused"),
            "write a power of two from 64 to 4096"
        );
    }

    #[test]
    fn a_port_grants_what_it_has() {
        let named = |keyword| SETTINGS.iter().find(|s| s.rx_keyword == Some(keyword)).expect("a row");
        let features = [(Feature::VlanStrip, crate::Support::On)].into();
        let can = Capabilities { max_frame: 1514, features, ..Capabilities::default() };
        assert!(named("VLAN_STRIP").is_granted(Value::Flag(true), &can));
        assert!(!named("VLAN_STRIP").is_granted(Value::Flag(true), &Capabilities::default()));
        assert!(named("VLAN_STRIP").is_granted(Value::Flag(false), &can), "more than was asked for");
        assert!(named("MTU").is_granted(Value::Number(1500), &can));
        assert!(!named("MTU").is_granted(Value::Number(1501), &can));
        assert!(named("NDESC").is_granted(Value::Number(1), &can), "no port tells");
    }
}
