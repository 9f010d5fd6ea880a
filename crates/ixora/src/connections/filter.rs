//! Which connections are listed: conditions in the words of `ss`, all of which must be met.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use super::listing::Connection;

/// States as `ss` names them in a filter, and in a list.
const STATES: [(&str, &str); 10] = [
    ("established", "ESTAB"),
    ("syn-sent", "SYN-SENT"),
    ("syn-recv", "SYN-RECV"),
    ("fin-wait-1", "FIN-WAIT-1"),
    ("fin-wait-2", "FIN-WAIT-2"),
    ("time-wait", "TIME-WAIT"),
    ("closed", "UNCONN"),
    ("close-wait", "CLOSE-WAIT"),
    ("last-ack", "LAST-ACK"),
    ("closing", "CLOSING"),
];

/// What is told when words make no filter.
const FORMS: &str = "give conditions as `state established`, `dst 10.0.0.9:80`, `src 10.0.0.0/8`, `sport = :80`, joined by `and`";

/// Conditions of an address and of a port, of one end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct End {
    network: Option<(IpAddr, u8)>,
    port: Option<u16>,
}

impl End {
    fn has(self, end: SocketAddr) -> bool {
        self.port.is_none_or(|port| port == end.port())
            && self.network.is_none_or(|network| is_in(end.ip(), network))
    }
}

fn is_in(address: IpAddr, (network, bits): (IpAddr, u8)) -> bool {
    let common = match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        _ => return false,
    };
    common >= bits.into()
}

impl FromStr for End {
    type Err = ();

    /// `10.0.0.9`, `10.0.0.9:80`, `:80`, `10.0.0.0/8`, `fd00::9`, `[fd00::9]:80`, `*`.
    fn from_str(text: &str) -> Result<End, ()> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(End { network: Some((address, bits(address))), port: None });
        }
        let (address, port) = match text.rsplit_once(':') {
            Some((address, port)) if !text.ends_with(']') && !text.contains('/') => (address, port),
            _ => (text, "*"),
        };
        let port = if port == "*" { None } else { Some(port.parse().map_err(|_| ())?) };
        let address = address.trim_start_matches('[').trim_end_matches(']');
        let network = match address.split_once('/') {
            _ if address.is_empty() || address == "*" => None,
            None => {
                let address = address.parse().map_err(|_| ())?;
                Some((address, bits(address)))
            }
            Some((address, length)) => {
                let address: IpAddr = address.parse().map_err(|_| ())?;
                let length = length.parse().ok().filter(|length| *length <= bits(address)).ok_or(())?;
                Some((address, length))
            }
        };
        Ok(End { network, port })
    }
}

fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// A filter of connections; the default lists all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// States of which a connection has one; none for all.
    states: Vec<&'static str>,
    local: Vec<End>,
    remote: Vec<End>,
}

impl Filter {
    /// Reads the words of a filter.
    ///
    /// # Errors
    /// Which word makes no sense, and what would.
    pub fn parse<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Filter, String> {
        let mut words = words.into_iter().flat_map(str::split_whitespace);
        let mut filter = Filter::default();
        let mut is_joined = false;
        while let Some(word) = words.next() {
            if matches!(word, "and" | "&" | "&&") {
                if std::mem::replace(&mut is_joined, true) || filter == Filter::default() {
                    return Err(format!("`{word}` joins nothing: {FORMS}"));
                }
                continue;
            }
            filter.condition(word, &mut words)?;
            is_joined = false;
        }
        match is_joined {
            true => Err(format!("nothing stands behind `and`: {FORMS}")),
            false => Ok(filter),
        }
    }

    fn condition<'a>(&mut self, word: &str, words: &mut impl Iterator<Item = &'a str>) -> Result<(), String> {
        let mut value = || words.next().ok_or_else(|| format!("nothing stands behind `{word}`: {FORMS}"));
        let read = |text: &str| -> Result<End, String> {
            text.parse().map_err(|()| format!("`{text}` is no address or port: {FORMS}"))
        };
        match word {
            "state" => self.states.extend(states(value()?)?),
            "src" => self.local.push(read(value()?)?),
            "dst" => self.remote.push(read(value()?)?),
            "sport" | "dport" => {
                let first = value()?;
                let text = if matches!(first, "=" | "==" | "eq") { value()? } else { first };
                let port = text.strip_prefix(':').unwrap_or(text).parse().ok();
                let port = port.ok_or_else(|| format!("`{text}` is no port: {FORMS}"))?;
                let end = End { network: None, port: Some(port) };
                if word == "sport" { self.local.push(end) } else { self.remote.push(end) }
            }
            _ => return Err(format!("`{word}` is no condition: {FORMS}")),
        }
        Ok(())
    }

    /// Whether all connections pass.
    pub fn is_empty(&self) -> bool {
        *self == Filter::default()
    }

    /// Whether a connection is listed.
    pub fn takes(&self, connection: &Connection) -> bool {
        (self.states.is_empty() || self.states.contains(&&*connection.state))
            && self.local.iter().all(|end| end.has(connection.local))
            && self.remote.iter().all(|end| end.has(connection.remote))
    }
}

/// The states that a name of `ss` means.
fn states(name: &str) -> Result<Vec<&'static str>, String> {
    let but = |left: &[&str]| -> Vec<&'static str> {
        STATES.iter().filter(|(name, _)| !left.contains(name)).map(|(_, state)| *state).collect()
    };
    match name {
        "all" => Ok(but(&[])),
        "connected" => Ok(but(&["closed"])),
        "synchronized" => Ok(but(&["closed", "syn-sent"])),
        "big" => Ok(but(&["syn-recv", "time-wait"])),
        "bucket" => Ok(vec!["SYN-RECV", "TIME-WAIT"]),
        name => match STATES.iter().find(|(known, _)| *known == name) {
            Some((_, state)) => Ok(vec![state]),
            None => {
                let known: Vec<&str> = STATES.iter().map(|(name, _)| *name).collect();
                let groups = "all, connected, synchronized, bucket, big";
                Err(format!("`{name}` is no state: there are {}, {groups}", known.join(", ")))
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(state: &str, local: &str, remote: &str) -> Connection {
        let ends = [local, remote].map(|end| end.parse::<SocketAddr>().expect("an address"));
        let json = serde_json::json!({
            "queue": 0, "state": state, "local": ends[0], "remote": ends[1], "receive_queue": 0,
            "send_queue": 0, "rtt_us": 0, "rtt_variation_us": 0, "rtt_least_us": 0, "rto_us": 0,
            "segment_size": 0, "congestion_window": 0, "slow_start_threshold": null, "send_window": 0,
            "in_flight": 0, "lost": 0, "sacked": 0, "retransmits": 0, "attempts": 0,
            "out_of_order_packets": 0, "bytes_acknowledged": 0, "bytes_received": 0,
            "last_received_us": 0, "timer": null,
        });
        serde_json::from_value(json).expect("a connection")
    }

    #[test]
    fn connections_are_chosen_in_the_words_of_ss() {
        let all = [
            connection("ESTAB", "10.0.0.2:80", "10.0.0.9:5000"),
            connection("TIME-WAIT", "10.0.0.2:80", "10.0.0.9:5001"),
            connection("ESTAB", "10.0.0.2:81", "10.1.0.9:5000"),
            connection("SYN-RECV", "[fd00::2]:80", "[fd00::9]:5000"),
        ];
        for (words, expected) in [
            ("", &[0, 1, 2, 3][..]),
            ("state established", &[0, 2]),
            ("state time-wait state syn-recv", &[1, 3]),
            ("state bucket and sport = :80", &[1, 3]),
            ("state connected dst 10.0.0.9", &[0, 1]),
            ("dst 10.0.0.9:5001", &[1]),
            ("dst :5000 and src :80", &[0, 3]),
            ("dst 10.0.0.0/8 && dport == 5000", &[0, 2]),
            ("dst fd00::9", &[3]),
            ("dst [fd00::9]:5000", &[3]),
            ("dst [fd00::9]", &[3]),
            ("dst fd00::/16", &[3]),
            ("dst *:5001", &[1]),
            ("src 10.0.0.2 and dst 10.1.0.9 and sport eq :81", &[2]),
            ("sport = :80 sport = :81", &[]),
        ] {
            let filter = Filter::parse([words]).expect(words);
            let taken: Vec<usize> = (0..4).filter(|n| filter.takes(&all[*n])).collect();
            assert_eq!(taken, expected, "{words}");
            let apart = Filter::parse(words.split(' ')).expect(words);
            assert_eq!((apart, words.is_empty()), (filter.clone(), filter.is_empty()), "{words}");
        }
    }

    #[test]
    fn words_that_make_no_filter_are_told() {
        for (words, told) in [
            ("state open", "`open` is no state: there are established, syn-sent"),
            ("state", "nothing stands behind `state`"),
            ("dst 10.0.0.300", "`10.0.0.300` is no address"),
            ("dst 10.0.0.0/33", "`10.0.0.0/33` is no address"),
            ("sport = :70000", "`:70000` is no port"),
            ("sport != :80", "`!=` is no port"),
            ("dst 10.0.0.9 or dst 10.0.0.8", "`or` is no condition"),
            ("and dst 10.0.0.9", "`and` joins nothing"),
            ("dst 10.0.0.9 and", "nothing stands behind `and`"),
            ("dst 10.0.0.9 and and dst 10.0.0.9", "`and` joins nothing"),
        ] {
            let error = Filter::parse([words]).expect_err(words);
            assert!(error.starts_with(told), "{words}: {error}");
        }
    }
}
