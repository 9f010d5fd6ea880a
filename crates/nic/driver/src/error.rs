//! What can go wrong while a device is set up. On the packet path nothing
//! fails: there, losses are counters.

/// Why a device could not be driven.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The way to the device failed.
    #[error(transparent)]
    Bus(#[from] bus::Error),
    /// Memory for rings or buffers could not be had.
    #[error(transparent)]
    Memory(#[from] memory::Error),
    /// A virtio device is not what it should be.
    #[error(transparent)]
    Virtio(#[from] crate::virtio::VirtioFault),
    /// The firmware of an XL710 refused a command or did not answer.
    #[error(transparent)]
    I40e(#[from] crate::i40e::I40eFault),
    /// The physical function behind a virtual one refused a message or did not answer.
    #[error(transparent)]
    Vf(#[from] crate::vf_fault::VfFault),
    /// No driver knows the device.
    #[error("{device}: no driver for {vendor:04x}:{id:04x}; {known}")]
    UnknownDevice {
        /// The device's name.
        device: String,
        /// The PCI vendor id.
        vendor: u16,
        /// PCI device id.
        id: u16,
        /// Which devices are known.
        known: String,
    },
    /// The register window is smaller than the chip's.
    #[error(
        "{device}: BAR{bar} has {len} bytes, the registers need {needed}: this is not the device its id says, or its server is wrong"
    )]
    BarTooSmall {
        /// The device's name.
        device: String,
        /// The number of the BAR.
        bar: usize,
        /// Its size in bytes.
        len: u32,
        /// What the driver will touch.
        needed: u32,
    },
    /// A register did not reach the state the datasheet promises.
    #[error(
        "{device}: {register} ({offset:#07x}) still reads {last:#010x} after {waited_ms} ms, expected {mask:#010x} to be {wanted:#010x}: {meaning}"
    )]
    Timeout {
        /// The device's name.
        device: String,
        /// The register, as the datasheet names it.
        register: &'static str,
        /// Its offset in BAR0.
        offset: u32,
        /// The last value read.
        last: u32,
        /// Bits waited for.
        mask: u32,
        /// What they should have become.
        wanted: u32,
        /// How long was waited.
        waited_ms: u64,
        /// What it means and what to do.
        meaning: &'static str,
    },
    /// An option is outside what the device can do.
    #[error(transparent)]
    Option(#[from] port::OptionError),
    /// The device has no valid address of its own.
    #[error(
        "{device}: the EEPROM gave no valid MAC address ({mac:02x?}): the NIC's EEPROM is blank or was not read"
    )]
    NoMacAddress {
        /// The device's name.
        device: String,
        /// What RAL0 and RAH0 held.
        mac: [u8; 6],
    },
    /// The system gave no eventfd for an interrupt.
    #[error("cannot create an eventfd for an interrupt: {source}; raise the limit on open files (ulimit -n)")]
    EventFd {
        /// The system's answer.
        source: std::io::Error,
    },
    /// The device has fewer virtual functions than were asked for.
    #[error(
        "{device}: the device has {has} virtual functions, and {wanted} are asked for: ask for fewer, or enable them (sriov_numvfs; --vfs of a model)"
    )]
    FewVfs {
        /// The device's name.
        device: String,
        /// How many it has.
        has: usize,
        /// How many were asked for.
        wanted: usize,
    },
    /// The table of tunnels beside a device model did not do what it should.
    #[error("{device}: the table of tunnels: {what} {value:#x}: the device or its server is wrong")]
    Encap {
        /// The device's name.
        device: String,
        /// What it did, and what the value is.
        what: &'static str,
        /// What was read.
        value: u32,
    },
    /// A table of the device is full.
    #[error("{device}: all {capacity} entries of {table} are in use")]
    TableFull {
        /// The device's name.
        device: String,
        /// Which table is full, in words.
        table: &'static str,
        /// How many it holds.
        capacity: usize,
    },
}

/// The result of setting something up.
pub type Result<T> = std::result::Result<T, Error>;

impl From<Error> for port::Error {
    fn from(error: Error) -> port::Error {
        match error {
            Error::Option(error) => error.into(),
            Error::TableFull { device: port, table, capacity } => {
                port::Error::TableFull { port, table, capacity }
            }
            error => port::Error::Driver(Box::new(error)),
        }
    }
}

/// A driver's error that came through the interface of all ports.
impl TryFrom<port::Error> for Error {
    type Error = port::Error;

    fn try_from(error: port::Error) -> std::result::Result<Error, port::Error> {
        match error {
            port::Error::Option(error) => Ok(error.into()),
            port::Error::Memory(error) => Ok(error.into()),
            port::Error::TableFull { port: device, table, capacity } => {
                Ok(Error::TableFull { device, table, capacity })
            }
            port::Error::Driver(error) => match error.downcast() {
                Ok(error) => Ok(*error),
                Err(other) => Err(port::Error::Driver(other)),
            },
            other => Err(other),
        }
    }
}
