//! What a script sets of the host: the values that Linux knows by the names of `sysctl`, and
//! whether the cable takes packets at all.

use std::collections::BTreeMap;

use tcp::{Algorithm, KeepAlive, Offload, Options};

/// Values by their names in Linux, such as `net.ipv4.tcp_sack`.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    values: BTreeMap<String, String>,
    /// Whether what is sent gets lost before the cable.
    pub is_cut: bool,
    /// The cable takes no packets of several segments.
    pub has_no_segmentation: bool,
    /// How often what the host remembers of others was flushed.
    pub flushes: u64,
    /// Messages of ICMP about segments that the host cannot have sent.
    pub strange_messages: u64,
    /// Counted up by each change.
    pub changes: u64,
}

/// A second in nanoseconds.
const SECOND_NS: i64 = 1_000_000_000;
/// Segments of a packet that is cut at most: those of 64 KiB.
const MOST_SEGMENTS: usize = 44;

/// Bits of `net.ipv4.tcp_fastopen`.
pub mod fast_open {
    /// Connections of this side may carry data in the SYN.
    pub const CLIENT: u32 = 1;
    /// Listeners may take data from a SYN.
    pub const SERVER: u32 = 2;
    /// Connections of this side send data without a cookie.
    pub const CLIENT_NO_COOKIE: u32 = 4;
    /// Listeners take data without a cookie.
    pub const SERVER_NO_COOKIE: u32 = 0x200;
    /// All listeners take data, also those that did not ask for it.
    pub const ALL_LISTENERS: u32 = 0x400;
}

impl Settings {
    /// Sets a value. The name may be a path below `/proc/sys`.
    pub fn set(&mut self, name: &str, value: &str) {
        let name = name.strip_prefix("/proc/sys/").unwrap_or(name).replace('/', ".");
        self.values.insert(name, value.trim().to_owned());
        self.changes += 1;
    }

    /// A value as it was set.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// A number of `net.ipv4`, decimal or with `0x`.
    pub fn number(&self, name: &str) -> Option<u32> {
        parse_number(self.text(&format!("net.ipv4.{name}"))?)
    }

    fn is_on(&self, name: &str) -> bool {
        self.number(name).is_none_or(|value| value != 0)
    }

    /// The bits of `tcp_fastopen`, by default those of Linux.
    pub fn fast_open(&self) -> u32 {
        self.number("tcp_fastopen").unwrap_or(fast_open::CLIENT)
    }

    /// Bytes of a new socket's send buffer: the second number of `tcp_wmem`.
    pub fn send_buffer(&self) -> usize {
        self.send_buffers(1).unwrap_or(256 << 10)
    }

    /// Bytes to which a send buffer grows at most: the third number of `tcp_wmem`.
    pub fn most_send_buffer(&self) -> usize {
        self.send_buffers(2).unwrap_or(4 << 20)
    }

    fn send_buffers(&self, at: usize) -> Option<usize> {
        self.text("net.ipv4.tcp_wmem")?.split_whitespace().nth(at)?.parse().ok()
    }

    /// Bytes of a new socket's receive buffer: the second number of `tcp_rmem`.
    pub fn receive_buffer(&self) -> i32 {
        let second = self.text("net.ipv4.tcp_rmem").and_then(|text| text.split_whitespace().nth(1));
        second.and_then(|bytes| bytes.parse().ok()).unwrap_or(131_072)
    }

    /// How fast a new socket sends.
    pub fn algorithm(&self) -> Algorithm {
        match self.text("net.ipv4.tcp_congestion_control") {
            Some("reno") => Algorithm::Reno,
            _ => Algorithm::Cubic,
        }
    }

    /// When a silent connection is asked: what its socket chose (seconds of silence, seconds
    /// between, how often), or else what is set for all.
    pub fn keep_alive(
        &self,
        (idle_s, interval_s, probes): (Option<u32>, Option<u32>, Option<u8>),
    ) -> KeepAlive {
        let seconds = |chosen: Option<u32>, name: &str, usual: u32| {
            i64::from(chosen.or_else(|| self.number(name)).unwrap_or(usual)) * SECOND_NS
        };
        let general = self.number("tcp_keepalive_probes").map_or(9, |count| count.min(255) as u8);
        KeepAlive {
            idle_ns: seconds(idle_s, "tcp_keepalive_time", 7200),
            interval_ns: seconds(interval_s, "tcp_keepalive_intvl", 75),
            probes: probes.unwrap_or(general),
        }
    }

    /// The stack's options with what was set, for a host whose packets have `mtu` bytes.
    pub fn stack_options(&self, mtu: u16) -> Options {
        let most = self.text("net.ipv4.tcp_rmem").and_then(|text| text.split_whitespace().nth(2));
        let ecn = self.number("tcp_ecn").unwrap_or(2);
        Options {
            key: [0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210],
            mtu,
            // Linux begins with a window of 64 KiB, and shifts it for the most that it may become.
            receive_buffer: 1 << 16,
            least_shift: shift_for(most.and_then(|most| most.parse().ok()).unwrap_or(6 << 20)),
            least_burst: Some(self.number("tcp_min_tso_segs").unwrap_or(2)),
            send_buffer: 1 << 24,
            send_packets: 1 << 14,
            packets: 1 << 16,
            connections: 256,
            algorithm: self.algorithm(),
            sack: self.is_on("tcp_sack"),
            timestamps: self.is_on("tcp_timestamps"),
            window_scale: self.is_on("tcp_window_scaling"),
            offload: Offload { checksum: true, buffers: MOST_SEGMENTS },
            fast_open_needs_cookie: self.fast_open() & fast_open::CLIENT_NO_COOKIE == 0,
            ecn: ecn != 0,
            ecn_offer: ecn == 1,
            tail_probes: self.is_on("tcp_early_retrans"),
            restart_after_idle: self.is_on("tcp_slow_start_after_idle"),
            retries: self.number("tcp_retries2").map_or(15, |count| count.clamp(1, 255) as u8),
            fin_wait_ns: i64::from(self.number("tcp_fin_timeout").unwrap_or(60)) * SECOND_NS,
            syn_retries: self.number("tcp_syn_retries").map_or(5, |count| count.min(127) as u8),
            ..Options::default()
        }
    }
}

/// By how many bits windows are shifted that are to tell so many bytes.
fn shift_for(bytes: u32) -> u8 {
    (0..14).find(|shift| bytes >> shift <= 0xFFFF).unwrap_or(14)
}

/// A number, decimal or with `0x`.
pub fn parse_number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
