//! The arguments of `ixora vm`.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use lab::rig::Nic;
use lab::rig::load::{Numbered, Pace};

use crate::rate::{Rate, Size, duration};

/// What runs in the machine.
#[derive(Subcommand, Debug)]
pub enum Vm {
    /// Forward between two NICs; this host sends frames both ways and checks what
    /// comes back.
    Fwd(Fwd),
    /// Be a host; this host asks (ARP), pings, and sends UDP packets that must
    /// come back.
    Echo(Echo),
    /// Send generated packets; this host counts and checks them.
    Pktgen(Pktgen),
    /// Capture what this host sends; the file is brought out and checked.
    Pcap(Pcap),
    /// A shell, with two NICs on one cable, ready for the driver. Ctrl-] ends it.
    Shell(Shell),
}

/// What the virtual machine is made of.
#[derive(Args, Debug, Clone)]
pub struct Machine {
    /// The kind of NIC. virtio, virtio-packed, igb and ixgbe-model are driven by
    /// VFIO behind an IOMMU, as an ordinary user; the other two by physical
    /// addresses, as root. All are QEMU's but ixgbe-model, our 82599.
    #[arg(long, default_value = "virtio", value_parser = nics())]
    pub nic: Nic,
    /// Its memory in MiB.
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(384..=65536))]
    pub memory: u32,
    /// Give up when it has run so long.
    #[arg(long, default_value = "5m", value_parser = duration)]
    pub timeout: Duration,
    /// Where its console goes: the kernel's and QEMU's words.
    #[arg(long)]
    pub console: Option<PathBuf>,
    /// Keep the directory with console and sockets, and say where it is.
    #[arg(long)]
    pub keep: bool,
    /// Print what came of it as JSON, and nothing else.
    #[arg(long)]
    pub json: bool,
    /// No live line.
    #[arg(long, short)]
    pub quiet: bool,
    /// Options of the program in the machine, behind --, as in -- --batch 8.
    #[arg(last = true)]
    pub words: Vec<String>,
}

impl Machine {
    /// The words of the program: `given`, those of the command line, and that its
    /// statistics are JSON.
    pub fn program(&self, given: &[&str]) -> Vec<String> {
        let given = given.iter().map(|&word| word.to_owned());
        given.chain(self.words.iter().cloned()).chain(["--json".to_owned()]).collect()
    }
}

/// The NICs' names, as a parser.
fn nics() -> impl TypedValueParser<Value = Nic> {
    let names = PossibleValuesParser::new(Nic::ALL.map(Nic::name));
    names.map(|name| Nic::named(&name).expect("one of those that are possible"))
}

/// What this host sends.
#[derive(Args, Debug, Clone)]
pub struct Offer {
    /// Frames, in each direction.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000_000))]
    pub frames: u32,
    /// Frame size in bytes, with CRC, 64 to 1518; imix; or mix, eight sizes from
    /// the least to the largest.
    #[arg(long, default_value = "mix")]
    pub size: Sizes,
    /// Frames per second in each direction: 1000, 20k; auto follows what comes
    /// back; max sends as fast as they are taken, and named losses are no failure.
    #[arg(long, default_value = "auto")]
    pub rate: Speed,
}

#[derive(Args, Debug)]
pub struct Fwd {
    #[command(flatten)]
    pub offer: Offer,
    #[command(flatten)]
    pub machine: Machine,
}

#[derive(Args, Debug)]
pub struct Echo {
    #[command(flatten)]
    pub offer: Offer,
    #[command(flatten)]
    pub machine: Machine,
}

#[derive(Args, Debug)]
pub struct Pktgen {
    /// Packets to send.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000_000))]
    pub frames: u32,
    /// Frame size in bytes, with CRC, 64 to 1518; or imix.
    #[arg(long, default_value = "64")]
    pub size: Size,
    /// Packets per second: 1000, 20k, max.
    #[arg(long, default_value = "max")]
    pub rate: Rate,
    #[command(flatten)]
    pub machine: Machine,
}

#[derive(Args, Debug)]
pub struct Pcap {
    /// Where to put the capture, pcapng; it is only checked if left out.
    pub file: Option<PathBuf>,
    /// Frames to send to the machine.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub frames: u32,
    /// Frame size in bytes, with CRC, 64 to 1518; imix; or mix.
    #[arg(long, default_value = "mix")]
    pub size: Sizes,
    /// Frames per second: 1000, 20k, max.
    #[arg(long, default_value = "10k")]
    pub rate: Rate,
    #[command(flatten)]
    pub machine: Machine,
}

#[derive(Args, Debug)]
pub struct Shell {
    /// The kind of NIC.
    #[arg(long, default_value = "virtio", value_parser = nics())]
    pub nic: Nic,
    /// Its memory in MiB.
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(384..=65536))]
    pub memory: u32,
}

impl Shell {
    /// As the others have it: a day.
    pub fn machine(&self) -> Machine {
        Machine {
            nic: self.nic,
            memory: self.memory,
            timeout: Duration::from_secs(24 * 60 * 60),
            console: None,
            keep: false,
            json: false,
            quiet: false,
            words: Vec::new(),
        }
    }
}

/// Lengths of frames, by turns, without CRC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sizes(pub Vec<usize>);

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Sizes, String> {
        if text == "mix" {
            return Ok(Sizes(Numbered::MIX.to_vec()));
        }
        let wrong = || format!("{text:?} is no size: write 64 to 1518 bytes, CRC included, imix or mix");
        let size: Size = text.parse().map_err(|_| wrong())?;
        let (sizes, cycle) = size.cycle();
        match sizes.iter().all(|&size| size <= LARGEST) {
            true => Ok(Sizes(cycle.iter().map(|&n| sizes[usize::from(n)] - 4).collect())),
            false => Err(wrong()),
        }
    }
}

/// Ethernet's, with CRC.
const LARGEST: usize = 1518;

/// How fast this host sends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Speed {
    /// As what was sent comes back.
    Auto,
    /// Frames per second.
    Rate(f64),
    /// As it is taken.
    Max,
}

impl Speed {
    /// Frames under way: below what a guest's rings hold.
    const WINDOW: u32 = 64;

    /// On cables of a kind of NIC.
    pub fn pace(self, nic: Nic) -> Pace {
        let holds = nic.cable_holds();
        match self {
            Speed::Auto => Pace { window: Some(holds.unwrap_or(Speed::WINDOW)), rate: None },
            Speed::Rate(rate) => Pace { window: holds, rate: Some(rate) },
            Speed::Max => Pace { window: holds, rate: None },
        }
    }
}

impl FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Speed, String> {
        match (text, text.parse()) {
            ("auto", _) => Ok(Speed::Auto),
            (_, Ok(Rate(None))) => Ok(Speed::Max),
            (_, Ok(Rate(Some(rate)))) => Ok(Speed::Rate(rate)),
            _ => Err(format!("{text:?} is no rate: write frames per second as 1000, 20k, auto, or max")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_with_crc_and_frames_without() {
        assert_eq!("64".parse(), Ok(Sizes(vec![60])));
        assert_eq!("1518".parse(), Ok(Sizes(vec![1514])));
        let Sizes(imix) = "imix".parse().expect("a size");
        assert_eq!((imix.len(), imix.iter().sum::<usize>()), (12, 7 * 60 + 4 * 590 + 1514));
        assert_eq!("mix".parse::<Sizes>().map(|Sizes(mix)| mix.len()), Ok(8));
        for bad in ["63", "1519", "large", ""] {
            assert!(bad.parse::<Sizes>().is_err(), "{bad}");
        }
    }

    #[test]
    fn speeds_read_as_written() {
        assert_eq!("auto".parse(), Ok(Speed::Auto));
        assert_eq!("max".parse(), Ok(Speed::Max));
        assert_eq!("20k".parse(), Ok(Speed::Rate(20_000.0)));
        assert!("soon".parse::<Speed>().is_err() && "0".parse::<Speed>().is_err());
    }

    #[test]
    fn a_cable_that_loses_is_never_overfilled() {
        for speed in [Speed::Auto, Speed::Rate(1e6), Speed::Max] {
            assert!(speed.pace(Nic::IxgbeModel).window.is_some(), "{speed:?}");
        }
        assert_eq!(Speed::Max.pace(Nic::Igb), Pace::default());
        assert_eq!(Speed::Auto.pace(Nic::Igb).window, Some(Speed::WINDOW));
    }
}
