//! `TCP_INFO` as Linux lays it out (`struct tcp_info` in `linux/tcp.h`, to `tcpi_rcv_wnd`).

use tcp::{Detail, Recovery, State};

use crate::usage::Usage;

/// Bytes of what is told; what a caller wants beyond it is zero.
const LEN: usize = 240;
/// Bytes that a caller gets at most.
pub const MOST: usize = 1024;
/// Microseconds in nanoseconds, and milliseconds.
const US: i64 = 1_000;
const MS: i64 = 1_000_000;

/// Numbers of states in Linux (`enum` of `TCP_ESTABLISHED` and the others).
fn number_of(state: State) -> u8 {
    match state {
        State::Established => 1,
        State::SynSent => 2,
        State::SynReceived => 3,
        State::FinWait1 => 4,
        State::FinWait2 => 5,
        State::TimeWait => 6,
        State::Closed => 7,
        State::CloseWait => 8,
        State::LastAck => 9,
        State::Closing => 11,
    }
}

/// The number of a listening socket's state.
pub const LISTENING: u8 = 10;

/// Bits of `tcpi_options`.
fn options(detail: &Detail) -> u8 {
    let bits = [
        (detail.has_timestamps, 1),
        (detail.has_sack, 2),
        (detail.has_scale, 4),
        (detail.has_ecn, 8),
        (detail.has_syn_data, 32),
    ];
    bits.into_iter().filter(|(is_set, _)| *is_set).map(|(_, bit)| bit).sum()
}

/// Numbers of `enum tcp_ca_state`.
fn congestion_state(detail: &Detail) -> u8 {
    match detail.recovery {
        Recovery::Open if detail.is_disordered => 1,
        Recovery::Open if detail.is_reduced => 2,
        Recovery::Open => 0,
        Recovery::Fast => 3,
        Recovery::Timeout => 4,
    }
}

/// When what is told of happened, and when it is told, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// When data came last.
    pub received_ns: i64,
    /// The present time of the host's clock.
    pub now_ns: i64,
}

/// What is told of a connection; `state` replaces its state where it has ended or listens.
pub fn bytes_of(detail: &Detail, state: Option<u8>, usage: &Usage, times: Times) -> [u8; LEN] {
    let mut bytes = [0; LEN];
    let info = &detail.info;
    let first = [
        state.unwrap_or(number_of(info.state)),
        congestion_state(detail),
        info.attempts,
        detail.window_probes,
        detail.doublings,
        options(detail),
        detail.send_shift | detail.receive_shift << 4,
    ];
    bytes[..first.len()].copy_from_slice(&first);
    put(&mut bytes, measured(detail, times).map(|(at, value)| (at, value.to_ne_bytes())));
    put(&mut bytes, counted(detail, usage).map(|(at, value)| (at, value.to_ne_bytes())));
    let (busy_ns, window_ns, buffer_ns) = usage.times_ns(times.now_ns);
    let in_us = |time_ns: i64| (time_ns / US).cast_unsigned();
    let longs = [
        (120, info.bytes_acknowledged),
        (128, info.bytes_received),
        (168, in_us(busy_ns)),
        (176, in_us(window_ns)),
        (184, in_us(buffer_ns)),
        (200, usage.bytes_sent),
        (208, usage.bytes_resent),
    ];
    put(&mut bytes, longs.map(|(at, value)| (at, value.to_ne_bytes())));
    bytes
}

/// Puts values where they stand.
fn put<const SIZE: usize, const COUNT: usize>(bytes: &mut [u8; LEN], values: [(usize, [u8; SIZE]); COUNT]) {
    for (at, value) in values {
        bytes[at..at + SIZE].copy_from_slice(&value);
    }
}

/// Sizes, times and windows of 32 bits, each with its place.
fn measured(detail: &Detail, times: Times) -> [(usize, u32); 16] {
    let info = &detail.info;
    let segment = info.payload_size.max(1);
    let since_ms = |at_ns: i64| if at_ns == 0 { 0 } else { ((times.now_ns - at_ns) / MS) as u32 };
    [
        (8, (info.rto_ns / US) as u32),
        (16, segment),
        (20, detail.receive_segment),
        (44, since_ms(detail.sent_ns)),
        (52, since_ms(times.received_ns)),
        (56, since_ms(info.heard_ns)),
        (68, (info.rtt_ns / US) as u32),
        (72, (info.rtt_variation_ns / US) as u32),
        (76, info.slow_start_threshold.map_or(0x7FFF_FFFF, |bytes| bytes / segment)),
        (80, info.congestion_window / segment),
        (84, detail.advertised_segment.into()),
        (88, detail.reordering),
        (144, detail.unsent),
        (148, (info.rtt_least_ns / US) as u32),
        (228, info.send_window),
        (232, detail.receive_window),
    ]
}

/// Counts of segments of 32 bits, each with its place.
fn counted(detail: &Detail, usage: &Usage) -> [(usize, u32); 11] {
    [
        (24, detail.segments_out),
        (28, detail.segments_sacked),
        (32, detail.segments_lost),
        (36, detail.segments_resent_out),
        (100, detail.info.resent),
        (136, usage.segments_out),
        (140, usage.segments_in),
        (152, usage.data_segments_in),
        (156, usage.data_segments_out),
        (192, detail.segments_delivered),
        (220, detail.reorderings),
    ]
}
