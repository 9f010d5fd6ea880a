//! What is set for a measurement of the driver.

use serde::Serialize;

/// A value of an option: its name in configurations and what it means.
pub type Choice<T> = (T, &'static str, &'static str);

/// What the driver is made to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Workload {
    /// Receive and free.
    Rx,
    /// Allocate and send.
    Tx,
    /// Forward between two ports, both ways, without looking at packets.
    Fwd,
    /// Forward and change one byte of each packet.
    Touch,
    /// Forward and swap each packet's Ethernet addresses.
    Macswap,
    /// Forward in fixed buffers, without looking at packets.
    Fixed,
    /// Forward in fixed buffers, and change one byte of each packet.
    #[serde(rename = "fixed-touch")]
    FixedTouch,
}

impl Workload {
    /// All choices, with their names on the command line.
    pub const ALL: &[Choice<Workload>] = &[
        (Workload::Rx, "rx", "Receive and free"),
        (Workload::Tx, "tx", "Allocate and send"),
        (Workload::Fwd, "fwd", "Forward between two ports, both ways, without looking at packets"),
        (Workload::Touch, "touch", "Forward and change one byte of each packet"),
        (Workload::Macswap, "macswap", "Forward and swap each packet's Ethernet addresses"),
        (Workload::Fixed, "fixed", "Forward in fixed buffers, without looking at packets; 82599, one queue"),
        (Workload::FixedTouch, "fixed-touch", "Forward in fixed buffers and change one byte of each packet"),
    ];

    /// The name by which commands and figures call it.
    pub fn name(self) -> &'static str {
        name(Workload::ALL, self)
    }

    /// Whether packets stay in fixed buffers.
    pub fn is_fixed(self) -> bool {
        matches!(self, Workload::Fixed | Workload::FixedTouch)
    }
}

/// What a driver is measured on, and with that which driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum DeviceName {
    /// As little of an 82599 as possible: what is left is the driver.
    #[serde(rename = "minimal")]
    Minimal,
    /// The model of the 82599, with all that it checks; on two cores a driver
    /// waits for it.
    #[serde(rename = "82599")]
    Full,
    /// A virtual function of that model.
    #[serde(rename = "82599-vf")]
    Vf82599,
    /// As little of an XL710 as possible.
    #[serde(rename = "xl710-minimal")]
    MinimalXl710,
    /// The model of the XL710.
    #[serde(rename = "xl710")]
    Xl710,
    /// A virtual function of that model.
    #[serde(rename = "xl710-vf")]
    Xl710Vf,
}

impl DeviceName {
    /// All choices, with their names on the command line.
    pub const ALL: &[Choice<DeviceName>] = &[
        (
            DeviceName::Minimal,
            "minimal",
            "As little of an 82599 as possible: what is left is the driver, ixgbe",
        ),
        (
            DeviceName::Full,
            "82599",
            "The model of the 82599, with all that it checks; on two cores a driver waits for it",
        ),
        (DeviceName::Vf82599, "82599-vf", "A virtual function of that model: ixgbevf"),
        (DeviceName::MinimalXl710, "xl710-minimal", "As little of an XL710 as possible: i40e"),
        (DeviceName::Xl710, "xl710", "The model of the XL710, with all that it checks: i40e"),
        (DeviceName::Xl710Vf, "xl710-vf", "A virtual function of that model: iavf"),
    ];

    /// The name by which commands and figures call it.
    pub fn name(self) -> &'static str {
        name(DeviceName::ALL, self)
    }
}

/// How sent packets are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CompletionName {
    /// By a bit in some descriptors.
    Report,
    /// By head write-back.
    Head,
}

impl CompletionName {
    /// All choices, with their names on the command line.
    pub const ALL: &[Choice<CompletionName>] = &[
        (CompletionName::Report, "report", "By a bit in some descriptors"),
        (CompletionName::Head, "head", "By head write-back"),
    ];

    /// The name by which commands and figures call it.
    pub fn name(self) -> &'static str {
        name(CompletionName::ALL, self)
    }
}

fn name<T: PartialEq>(all: &[Choice<T>], value: T) -> &'static str {
    all.iter().find(|(one, ..)| *one == value).map_or("", |(_, name, _)| name)
}

/// One line of the table: what was set.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Setting {
    /// What it was done on.
    pub device: DeviceName,
    /// What was done.
    pub workload: Workload,
    /// Packets a call, at most.
    pub batch: usize,
    /// Descriptors in each ring.
    pub ring: usize,
    /// Pairs of queues of each port, which one thread serves.
    pub queues: usize,
    /// Frame size with CRC.
    pub size: usize,
    /// How sent packets are reported.
    pub completion: CompletionName,
}
