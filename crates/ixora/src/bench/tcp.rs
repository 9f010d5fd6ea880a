//! `ixora bench tcp`: what an echo over TCP costs a server. `bench::tcp` measures it.

use std::path::PathBuf;

use ::bench::calibration::is_steady;
use ::bench::figures::Spread;
use ::bench::tcp::{self, LONGEST, Row, Setup, Shape};
use clap::Args;

use super::instructions::count_tcp;
use super::report::{Report, end_progress, show_progress};
use crate::Failure;

/// The connections of rows that are about something else: as many, which stay open.
const CONNECTIONS: u32 = 64;
/// The size of their messages, in bytes.
const SIZE: u32 = 64;

/// How to measure.
#[derive(Args, Debug, Clone)]
pub struct Arguments {
    /// Connections, separated by commas: up to 100,000. With this, --messages or --size every
    /// combination is measured, of 64 connections that stay open and 64 bytes where a list is
    /// left out; without any, each by itself.
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=100_000))]
    connections: Vec<u32>,
    /// Messages of a connection before it is reset, separated by commas: numbers, or `open`
    /// for connections that stay.
    #[arg(long, value_delimiter = ',')]
    messages: Vec<Messages>,
    /// Bytes of a message, separated by commas.
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=i64::from(LONGEST)))]
    size: Vec<u32>,
    /// Requests in a window: 100,000.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
    /// Windows for each row: 5.
    #[arg(long)]
    windows: Option<usize>,
    /// The core to use.
    #[arg(long, default_value_t = 0)]
    cpu: usize,
    /// Short lists, and one window of 1,000 requests for each row: to see that it works.
    #[arg(long)]
    quick: bool,
    /// Count instructions too, by valgrind's callgrind.
    #[arg(long)]
    instructions: bool,
    /// Write the figures and their conditions here as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// For callgrind: have so many requests answered for each row and print nothing.
    #[arg(long, hide = true)]
    only_packets: Option<u64>,
}

/// Messages of a connection; `None` where it stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Messages(Option<u32>);

impl std::str::FromStr for Messages {
    type Err = String;

    fn from_str(text: &str) -> Result<Messages, String> {
        if text == "open" {
            return Ok(Messages(None));
        }
        let count = text.parse().ok().filter(|count| *count > 0);
        count
            .map(|count| Messages(Some(count)))
            .ok_or_else(|| format!("{text:?} is no number and not `open`"))
    }
}

impl Arguments {
    /// What the connections of each row are like.
    fn shapes(&self) -> Vec<Shape> {
        let usual = Shape { connections: CONNECTIONS, messages: None, size: SIZE };
        if self.connections.is_empty() && self.messages.is_empty() && self.size.is_empty() {
            return if self.quick { quick_series(usual) } else { series(usual) };
        }
        let or = |given: &[u32], usual| if given.is_empty() { vec![usual] } else { given.to_vec() };
        let open = vec![Messages(None)];
        let messages = if self.messages.is_empty() { &open } else { &self.messages };
        let mut shapes = vec![];
        for connections in or(&self.connections, usual.connections) {
            for size in or(&self.size, usual.size) {
                let row = |messages: &Messages| Shape { connections, messages: messages.0, size };
                shapes.extend(messages.iter().map(row));
            }
        }
        shapes
    }
}

/// Connections, messages and sizes, each by itself.
fn series(usual: Shape) -> Vec<Shape> {
    let connections = [1, 16, 256, 4096, 65_536].map(|connections| Shape { connections, ..usual });
    let messages = (0..=10).map(|power| Some(1 << power)).chain([None]);
    let messages = messages.map(|messages| Shape { messages, ..usual });
    let sizes = (6..=13).map(|power| Shape { size: 1 << power, ..usual });
    connections.into_iter().chain(messages).chain(sizes).collect()
}

/// Some of each.
fn quick_series(usual: Shape) -> Vec<Shape> {
    let connections = [1, 256].map(|connections| Shape { connections, ..usual });
    let messages = [Some(1), Some(16)].map(|messages| Shape { messages, ..usual });
    let sizes = [64, 4096].map(|size| Shape { size, ..usual });
    connections.into_iter().chain(messages).chain(sizes).collect()
}

/// Measures and prints.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(requests) = arguments.only_packets {
        return arguments.shapes().into_iter().try_for_each(|shape| Ok(tcp::pass(shape, requests)?));
    }
    let (requests, windows) = if arguments.quick { (1000, 1) } else { (100_000, 5) };
    let requests = arguments.requests.unwrap_or(requests);
    let windows = arguments.windows.unwrap_or(windows).max(1);
    let shapes = arguments.shapes();
    let mut report = Report::new(vec![arguments.cpu]);
    runtime::cores::pin(arguments.cpu);
    report.print_processor();
    println!(
        "core {}, two hosts on models of the 82599, one thread: TSC cycles of the server's turns for each\n\
         request, driver, stack and echo; the client's beside them; simulated time, the models' steps left out\n\
         calib: TSC ticks of a multiplication before and after the row\n",
        arguments.cpu
    );
    print_head();
    let (mut rows, mut done) = (Vec::new(), 0);
    for shape in &shapes {
        let setup = Setup { shape: *shape, requests, windows };
        show_progress(done, shapes.len() * windows);
        let row = tcp::measure(&setup, &mut || {
            done += 1;
            show_progress(done, shapes.len() * windows);
        });
        end_progress();
        let mut row = row?;
        if arguments.instructions {
            row.instructions_per_request = Some(count_tcp(*shape)?);
        }
        print(&row);
        if !is_steady(row.calibration) {
            report.note("* the core ran at another speed after the row than before it: measure it again");
        }
        rows.push(row);
    }
    report.print_notes();
    report.write(arguments.json.as_deref(), &rows)
}

fn print_head() {
    println!(
        "{:>11}{:>9}{:>6}{:>26}{:>13}{:>8}{:>26}{:>9}{:>7}{:>8}{:>14}{:>14}",
        "connections",
        "messages",
        "size",
        "cycles/request",
        "requests/s",
        "Gbit/s",
        "client's",
        "segments",
        "batch",
        "resent",
        "calib",
        "instructions"
    );
}

/// The line of a row.
fn print(row: &Row) {
    let spread = |s: Spread| format!("{:.0} ({:.0} to {:.0})", s.median, s.min, s.max);
    let [before, after] = row.calibration;
    println!(
        "{:>11}{:>9}{:>6}{:>26}{:>13.0}{:>8.2}{:>26}{:>9.2}{:>7.1}{:>8}{:>14}{:>14}",
        row.shape.connections,
        row.shape.messages.map_or("open".to_owned(), |messages| messages.to_string()),
        row.shape.size,
        spread(row.cycles_per_request),
        row.requests_per_s,
        row.goodput_gbit_s,
        spread(row.client_cycles_per_request),
        row.segments_per_request,
        row.segments_per_turn,
        row.resent,
        format!("{before:.2} {after:.2}{}", if is_steady(row.calibration) { "" } else { "*" }),
        row.instructions_per_request.map_or("-".to_owned(), |count| format!("{count:.0}")),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shapes(connections: &[u32], messages: &[&str], size: &[u32]) -> Vec<Shape> {
        let messages = messages.iter().map(|text| text.parse().expect("messages")).collect();
        let (connections, size) = (connections.to_vec(), size.to_vec());
        let (requests, windows, cpu, quick, json) = (None, None, 0, false, None);
        let (instructions, only_packets) = (false, None);
        Arguments {
            connections,
            messages,
            size,
            requests,
            windows,
            cpu,
            quick,
            instructions,
            json,
            only_packets,
        }
        .shapes()
    }

    #[test]
    fn lists_are_combined_and_all_are_swept_where_there_is_none() {
        let row = |connections, messages, size| Shape { connections, messages, size };
        let all = shapes(&[], &[], &[]);
        assert_eq!(all.len(), 5 + 12 + 8);
        for there in [row(65_536, None, 64), row(64, Some(1024), 64), row(64, None, 64), row(64, None, 8192)]
        {
            assert!(all.contains(&there), "{there:?}");
        }
        let given = shapes(&[1, 2], &["1", "open"], &[]);
        let wanted = [row(1, Some(1), 64), row(1, None, 64), row(2, Some(1), 64), row(2, None, 64)];
        assert_eq!(given, wanted);
        assert_eq!(shapes(&[], &[], &[100]), [row(64, None, 100)]);
        assert!(["0", "-1", "many", ""].iter().all(|text| text.parse::<Messages>().is_err()));
    }
}
