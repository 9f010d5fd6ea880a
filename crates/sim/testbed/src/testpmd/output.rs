//! What testpmd says, and the figures in it.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

/// Most bytes kept of what it says.
const LIMIT: usize = 4 << 20;

/// What it said so far; a thread reads it until the process is gone.
#[derive(Clone, Debug)]
pub(super) struct Transcript(Arc<Mutex<String>>);

impl Transcript {
    pub fn read(terminal: OwnedFd) -> io::Result<Transcript> {
        let text = Arc::new(Mutex::new(String::new()));
        let shared = text.clone();
        std::thread::Builder::new().name("testpmd".to_owned()).spawn(move || {
            let mut terminal = File::from(terminal);
            let mut bytes = [0; 4096];
            // An error is how a pseudo terminal says that nobody writes any more.
            while let Ok(count @ 1..) = terminal.read(&mut bytes) {
                let mut text = shared.lock().unwrap_or_else(PoisonError::into_inner);
                if text.len() < LIMIT {
                    text.push_str(&String::from_utf8_lossy(&bytes[..count]).replace('\r', ""));
                }
            }
        })?;
        Ok(Transcript(text))
    }

    pub fn text(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

/// Counters of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Port {
    /// Packets that the port received.
    pub rx_packets: u64,
    /// Bytes that the port received.
    pub rx_bytes: u64,
    /// Packets that the port sent.
    pub tx_packets: u64,
    /// Bytes that the port sent.
    pub tx_bytes: u64,
    /// Packets that it could not send.
    pub tx_errors: u64,
}

impl Port {
    pub(super) fn parse(text: &str) -> Port {
        Port {
            rx_packets: number_after(text, "RX-packets:"),
            rx_bytes: number_after(text, "RX-bytes:"),
            tx_packets: number_after(text, "TX-packets:"),
            tx_bytes: number_after(text, "TX-bytes:"),
            tx_errors: number_after(text, "TX-errors:"),
        }
    }
}

/// What forwarding did with packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forwarded {
    /// Packets that were received to be forwarded.
    pub rx_packets: u64,
    /// Packets passed on.
    pub tx_packets: u64,
    /// Packets for which there was no room.
    pub tx_dropped: u64,
}

impl Forwarded {
    pub(super) fn parse(text: &str) -> Forwarded {
        // Ports first, then all of them.
        let sums = text.rfind("Accumulated").map_or(text, |at| &text[at..]);
        Forwarded {
            rx_packets: number_after(sums, "RX-packets:"),
            tx_packets: number_after(sums, "TX-packets:"),
            tx_dropped: number_after(sums, "TX-dropped:"),
        }
    }
}

/// What forwarding cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cycles {
    /// TSC cycles spent in bursts that were not empty.
    pub cycles: u64,
    /// Packets in them.
    pub packets: u64,
}

impl Cycles {
    pub(super) fn parse(text: &str) -> Cycles {
        let line = text.lines().rfind(|line| line.contains("CPU cycles/packet=")).unwrap_or_default();
        // "(total cycles=123 / total io packets=45)"; the mode stands between.
        let packets = line.find("/ total ").map_or("", |at| &line[at..]);
        Cycles { cycles: number_after(line, "total cycles="), packets: number_after(packets, "packets=") }
    }
}

/// The number that follows `name`, 0 if there is none.
fn number_after(text: &str, name: &str) -> u64 {
    let Some(at) = text.find(name) else { return 0 };
    let digits = text[at + name.len()..].trim_start();
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found() {
        let port =
            Port::parse("  RX-packets: 12   RX-missed: 3  RX-bytes:  720\n  TX-packets: 9 TX-errors: 1\n");
        assert_eq!((port.rx_packets, port.rx_bytes, port.tx_packets, port.tx_errors), (12, 720, 9, 1));
        let line = "CPU cycles/packet=117.61 (total cycles=3879 / total io packets=32) at 2600 MHz Clock";
        assert_eq!(Cycles::parse(line), Cycles { cycles: 3879, packets: 32 });
        assert_eq!(Cycles::parse("nothing"), Cycles::default());
    }
}
