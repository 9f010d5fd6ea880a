//! What goes over the control connection.

use serde_json::{Value, json};

use super::datagrams::Seen;

/// Bytes of the cookie, by which a server knows the streams of a test: 36 characters and a zero.
pub const COOKIE: usize = 37;
/// The longest text of JSON.
const MAX_TEXT: usize = 256 << 10;
/// The longest datagram that this side sends: it fits into a buffer, and over IPv4 into one of
/// Ethernet's packets.
const MAX_DATAGRAM: u64 = 1472;
/// The shortest, for its head.
const MIN_DATAGRAM: u64 = 16;
/// Streams in a test at most.
pub const MAX_STREAMS: u32 = 128;
/// What iperf3 says of options that the other side does not have (`IEUNIMP`).
pub const UNIMPLEMENTED: u32 = 13;

/// What one side tells the other to do, or that it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    TestStart = 1,
    TestRunning = 2,
    TestEnd = 4,
    ParamExchange = 9,
    CreateStreams = 10,
    ServerTerminate = 11,
    ClientTerminate = 12,
    ExchangeResults = 13,
    DisplayResults = 14,
    Done = 16,
    AccessDenied = 0xFF,
    ServerError = 0xFE,
}

impl State {
    /// The state of a byte.
    pub fn of(byte: u8) -> Option<State> {
        use State::*;
        let all = [
            TestStart,
            TestRunning,
            TestEnd,
            ParamExchange,
            CreateStreams,
            ServerTerminate,
            ClientTerminate,
            ExchangeResults,
            DisplayResults,
            Done,
            AccessDenied,
            ServerError,
        ];
        all.into_iter().find(|state| *state as u8 == byte)
    }
}

/// Takes a text of JSON from the front of what came: `None` until all of it has come.
///
/// # Errors
/// What is wrong with it.
pub fn take_text(bytes: &mut Vec<u8>) -> Result<Option<Value>, &'static str> {
    let Some((length, rest)) = bytes.split_first_chunk() else { return Ok(None) };
    let length = u32::from_be_bytes(*length) as usize;
    if length > MAX_TEXT {
        return Err("a text is longer than any should be");
    }
    let Some(text) = rest.get(..length) else { return Ok(None) };
    let value = serde_json::from_slice(text).map_err(|_| "a text is no JSON")?;
    bytes.drain(..4 + length);
    Ok(Some(value))
}

/// Appends a text with its length.
pub fn push_text(value: &Value, to: &mut Vec<u8>) {
    let text = value.to_string();
    to.extend_from_slice(&(text.len() as u32).to_be_bytes());
    to.extend_from_slice(text.as_bytes());
}

/// What is to be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Parameters {
    /// How long, in seconds; zero for as long as bytes are sent.
    pub seconds: u32,
    /// How long is waited at first that does not count, in seconds.
    pub omit: u32,
    /// How many bytes are sent in all; zero for as long as the time lasts.
    pub bytes: u64,
    /// Streams beside each other.
    pub streams: u32,
    /// Whether the server sends.
    pub reverse: bool,
    /// Streams of datagrams, and whether their numbers have 64 bits; `None` for TCP.
    pub wide_datagrams: Option<bool>,
    /// Bytes of a datagram that this side sends.
    pub datagram_len: usize,
    /// Bits of datagrams that a stream sends in a second; zero for as many as possible.
    pub bits_per_second: u64,
}

impl Parameters {
    /// Reads them.
    ///
    /// # Errors
    /// By which number iperf3 calls what is not there.
    pub fn of(text: &Value) -> Result<Parameters, u32> {
        let number = |name: &str| text[name].as_u64().unwrap_or(0);
        let is = |name: &str| text[name].as_bool().unwrap_or(false) || number(name) > 0;
        let len = number("len");
        let block = number("blockcount").saturating_mul(len.max(1));
        let parameters = Parameters {
            seconds: number("time").try_into().unwrap_or(u32::MAX),
            omit: number("omit").try_into().unwrap_or(u32::MAX),
            bytes: number("num").max(block),
            streams: number("parallel").max(1).try_into().unwrap_or(u32::MAX),
            reverse: is("reverse"),
            wide_datagrams: is("udp").then(|| is("udp_counters_64bit")),
            datagram_len: len.clamp(MIN_DATAGRAM, MAX_DATAGRAM) as usize,
            bits_per_second: number("bandwidth"),
        };
        // This side sends no longer ones.
        let sends_datagrams = parameters.reverse && parameters.wide_datagrams.is_some();
        let fits = !sends_datagrams || (MIN_DATAGRAM..=MAX_DATAGRAM).contains(&len);
        // Nor does it pace what it sends by TCP.
        let is_paced = parameters.reverse && !sends_datagrams && (is("bandwidth") || is("fqrate"));
        let is_known =
            fits && !is_paced && !is("sctp") && !is("bidirectional") && text["authtoken"].is_null();
        match is_known && parameters.streams <= MAX_STREAMS {
            true => Ok(parameters),
            false => Err(UNIMPLEMENTED),
        }
    }

    /// The text of them.
    pub fn text(&self) -> Value {
        let mut text = json!({
            "tcp": true, "omit": self.omit, "time": self.seconds, "num": self.bytes, "blockcount": 0,
            "parallel": self.streams, "len": 131_072, "pacing_timer": 1000,
            "client_version": concat!("ixora ", env!("CARGO_PKG_VERSION")),
        });
        if self.reverse {
            text["reverse"] = true.into();
        }
        text
    }
}

/// What one side saw of a stream.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StreamResult {
    /// Bytes that it sent, or that came.
    pub bytes: u64,
    /// Segments that were sent again; nothing of the side that receives.
    pub retransmits: Option<u64>,
    /// How long it lasted.
    pub seconds: f64,
    /// What the side that receives datagrams saw of them; `None` of TCP.
    pub datagrams: Option<Seen>,
}

/// The number of a stream by its place: as iperf3 counts them, there is no second one.
fn id(place: usize) -> u64 {
    if place == 0 { 1 } else { place as u64 + 2 }
}

/// The text of results.
pub fn results(streams: &[StreamResult]) -> Value {
    let has_retransmits = streams.iter().any(|stream| stream.retransmits.is_some());
    let text = |(place, stream): (usize, &StreamResult)| {
        let seen = stream.datagrams.unwrap_or_default();
        json!({
            "id": id(place), "bytes": stream.bytes,
            "retransmits": stream.retransmits.map_or(-1, |count| count as i64),
            "jitter": seen.jitter_s, "errors": seen.lost, "omitted_errors": seen.omitted_lost,
            "packets": seen.packets, "omitted_packets": seen.omitted_packets,
            "start_time": 0, "end_time": stream.seconds,
        })
    };
    json!({
        // What a thread that polls takes is all of its core.
        "cpu_util_total": 100.0, "cpu_util_user": 100.0, "cpu_util_system": 0.0,
        "sender_has_retransmits": if has_retransmits { 1 } else { -1 },
        "congestion_used": "cubic",
        "streams": streams.iter().enumerate().map(text).collect::<Vec<_>>(),
    })
}

/// The results in a text, in the order of the streams' numbers.
pub fn read_results(text: &Value) -> Vec<StreamResult> {
    let streams = text["streams"].as_array().map_or(&[][..], Vec::as_slice);
    let seconds = |stream: &Value, name: &str| stream[name].as_f64().unwrap_or(0.0);
    let mut all: Vec<(u64, StreamResult)> = streams
        .iter()
        .take(MAX_STREAMS as usize)
        .map(|stream| {
            let result = StreamResult {
                bytes: stream["bytes"].as_u64().unwrap_or(0),
                // iperf3's receivers say -1, as a number of 64 bits without a sign.
                retransmits: stream["retransmits"].as_i64().and_then(|count| u64::try_from(count).ok()),
                seconds: seconds(stream, "end_time") - seconds(stream, "start_time"),
                datagrams: None,
            };
            (stream["id"].as_u64().unwrap_or(0), result)
        })
        .collect();
    all.sort_by_key(|(id, _)| *id);
    all.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TCP that this side sends is not paced, which iperf3 would take for what was asked for.
    #[test]
    fn what_is_not_done_is_refused() {
        let asked = |more: Value| {
            let mut text = json!({ "tcp": true, "time": 1, "parallel": 1, "len": 131_072 });
            more.as_object().into_iter().flatten().for_each(|(name, value)| text[name] = value.clone());
            Parameters::of(&text).map(|_| ())
        };
        assert_eq!(asked(json!({ "reverse": true })), Ok(()));
        assert_eq!(asked(json!({ "bandwidth": 10_000_000 })), Ok(()), "the client paces it");
        for pace in ["bandwidth", "fqrate"] {
            assert_eq!(asked(json!({ "reverse": true, pace: 10_000_000 })), Err(UNIMPLEMENTED), "{pace}");
        }
        let datagrams = json!({ "udp": true, "reverse": true, "len": 1000, "bandwidth": 10_000_000 });
        assert_eq!(asked(datagrams), Ok(()));
    }

    #[test]
    fn texts_come_in_pieces_and_have_a_longest_length() {
        let parameters = Parameters {
            seconds: 3,
            streams: 4,
            reverse: true,
            datagram_len: MAX_DATAGRAM as usize,
            ..Parameters::default()
        };
        let (mut whole, mut came) = (vec![], vec![]);
        push_text(&parameters.text(), &mut whole);
        let last = whole.pop().unwrap_or_default();
        for byte in whole {
            came.push(byte);
            assert_eq!(take_text(&mut came), Ok(None));
        }
        came.extend([last, 9]);
        let text = take_text(&mut came).expect("sound").expect("whole");
        assert_eq!((Parameters::of(&text), &came[..]), (Ok(parameters), &[9][..]));
        assert!(take_text(&mut vec![0, 16, 0, 0]).is_err());
        assert!(take_text(&mut vec![0, 0, 0, 1, b'{']).is_err());
        let reverse = |len: u64| Parameters::of(&json!({ "udp": true, "reverse": true, "len": len }));
        assert_eq!(reverse(1472).map(|parameters| parameters.datagram_len), Ok(1472));
        assert_eq!([reverse(0), reverse(15), reverse(1473)], [Err(UNIMPLEMENTED); 3]);
        let wide = |text| Parameters::of(&text).map(|parameters| parameters.wide_datagrams);
        assert_eq!(wide(json!({ "udp": true })), Ok(Some(false)));
        assert_eq!(wide(json!({ "udp": true, "udp_counters_64bit": 1 })), Ok(Some(true)));
        assert_eq!(wide(json!({ "tcp": true, "udp_counters_64bit": 1 })), Ok(None));
        assert_eq!(Parameters::of(&json!({ "parallel": 129 })), Err(UNIMPLEMENTED));
    }

    #[test]
    fn results_are_read_by_the_numbers_of_streams() {
        let some = |bytes, retransmits| StreamResult { bytes, retransmits, seconds: 1.5, datagrams: None };
        let all = [some(5, Some(0)), some(7, Some(2)), some(9, Some(1))];
        let text = results(&all);
        let ids: Vec<u64> =
            text["streams"].as_array().into_iter().flatten().filter_map(|it| it["id"].as_u64()).collect();
        assert_eq!((ids, text["sender_has_retransmits"].as_i64()), (vec![1, 3, 4], Some(1)));
        assert_eq!(read_results(&text), all);
        assert_eq!(results(&[some(5, None)])["sender_has_retransmits"], -1);
        let unsigned =
            json!({ "streams": [{ "id": 1, "bytes": 5, "retransmits": u64::MAX, "end_time": 1.5 }] });
        assert_eq!(read_results(&unsigned), [some(5, None)]);
    }
}
