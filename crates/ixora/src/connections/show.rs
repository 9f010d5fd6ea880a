//! `ixora tcp show`: connections as `ss -ti` tells them.

use std::path::Path;

use clap::Args;

use super::START;
use super::filter::Filter;
use super::listing::{Address, Connection, Listing};
use crate::Failure;
use crate::control_socket;

/// What is asked for.
#[derive(Args, Debug)]
pub struct ShowConnections {
    #[command(flatten)]
    pub show: control_socket::Show,
    /// Which connections, in the words of ss: `state established`, `dst 10.0.0.9:50718`,
    /// `src 10.0.0.0/8`, `sport = :80`, `dport = :80`, joined by `and`.
    #[arg(conflicts_with = "metrics")]
    pub filter: Vec<String>,
}

/// Asks a server for its connections, those that a filter takes.
pub fn ask(control: &Path, limit: usize, filter: &[String]) -> Result<Listing, Failure> {
    let words = filter.iter().map(|word| format!(" {word}")).collect::<String>();
    let answer = control_socket::ask(control, &format!("show {limit}{words}"), START)?;
    serde_json::from_str(&answer).map_err(|_| unexpected(control, &answer))
}

/// What went wrong, by an answer that is none.
fn unexpected(control: &Path, answer: &str) -> Failure {
    let answer: serde_json::Value = serde_json::from_str(answer).unwrap_or_default();
    let why = answer["error"].as_str().unwrap_or("it is no server of ixora's, or of another version");
    Failure::new(format!("{} does not list connections: {why}", control.display()))
}

/// Asks, and prints the answer.
pub fn run(ShowConnections { show: arguments, filter }: &ShowConnections) -> Result<(), Failure> {
    Filter::parse(filter.iter().map(String::as_str)).map_err(Failure::usage)?;
    if arguments.metrics {
        let text = control_socket::ask(&arguments.control, "metrics", START)?;
        if !text.starts_with('#') {
            return Err(unexpected(&arguments.control, &text));
        }
        print!("{text}");
        return Ok(());
    }
    let listing = ask(&arguments.control, arguments.limit, filter)?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&listing).unwrap_or_default());
        return Ok(());
    }
    print!("{}", text(&listing));
    Ok(())
}

/// A list for people.
fn text(listing: &Listing) -> String {
    let mut out = format!(
        "{:<10} {:>8} {:>8} {:<28} {:<28}\n",
        "State", "Recv-Q", "Send-Q", "Local Address:Port", "Peer Address:Port"
    );
    for connection in &listing.connections {
        let Connection { state, receive_queue, send_queue, local, remote, .. } = connection;
        let (local, remote) = (local.to_string(), remote.to_string());
        out += &format!("{state:<10} {receive_queue:>8} {send_queue:>8} {local:<28} {remote:<28}");
        if let Some((timer, us)) = &connection.timer {
            out += &format!(" timer:({timer},{})", milliseconds(*us));
        }
        out += &format!("\n\t {}\n", details(connection));
    }
    for it in &listing.addresses {
        out += &address(it);
    }
    if listing.more > 0 {
        out += &format!("and {} more: --limit\n", listing.more);
    }
    out
}

/// The line of an address, in the words of `ip address`.
fn address(it: &Address) -> String {
    let mut words = vec![format!("addr {}/{} {}", it.address, it.bits, it.origin)];
    words.extend(it.server.map(|server| format!("server {server}")));
    words.extend(it.gateway.map(|gateway| format!("via {gateway}")));
    words.push(match it.valid_s {
        Some(seconds) => format!("valid_lft {seconds}sec"),
        None => "valid_lft forever".to_owned(),
    });
    words.join(" ") + "\n"
}

/// The second line of a connection: names and values as `ss -i` has them.
fn details(it: &Connection) -> String {
    let ms = |us: i64| us as f64 / 1000.0;
    let mut words = vec![
        format!("rto:{:.3} rtt:{:.3}/{:.3}", ms(it.rto_us), ms(it.rtt_us), ms(it.rtt_variation_us)),
        format!("minrtt:{:.3}", ms(it.rtt_least_us)),
        format!("mss:{}", it.segment_size),
        // Of segments, as `ss` counts it.
        format!("cwnd:{}", it.congestion_window / it.segment_size.max(1)),
    ];
    words.extend(it.slow_start_threshold.map(|bytes| format!("ssthresh:{}", bytes / it.segment_size.max(1))));
    words.push(format!("snd_wnd:{}", it.send_window));
    words.push(format!("bytes_acked:{} bytes_received:{}", it.bytes_acknowledged, it.bytes_received));
    let others = [
        ("in_flight", u64::from(it.in_flight)),
        ("lost", it.lost.into()),
        ("sacked", it.sacked.into()),
        ("retrans", it.retransmits.into()),
        ("attempts", it.attempts.into()),
        ("rcv_ooopack", it.out_of_order_packets.into()),
    ];
    let others = others.iter().filter(|(_, value)| *value > 0);
    words.extend(others.map(|(name, value)| format!("{name}:{value}")));
    words.push(format!("lastack:{}", milliseconds(it.last_received_us)));
    words.push(format!("queue:{}", it.queue));
    words.join(" ")
}

fn milliseconds(us: i64) -> String {
    match us {
        10_000_000.. => format!("{}sec", us / 1_000_000),
        us => format!("{}ms", us / 1000),
    }
}
