//! What an echo over TCP costs a server, in TSC cycles per request, by connections, by
//! messages of each connection and by their size: the experiments of Figures 9 and 10 in
//! Roulin, *Porting a driver for the Intel XL710 40GbE NIC to the IX Dataplane Operating
//! System* (2017), and the number of connections beside them.
//!
//! A client and a server, each a host with a stack of its own on a model of the 82599, with a
//! wire between the models. All take their turns on one thread: the hosts' are timed, drivers
//! included, and the models' are not. TCP's time is simulated, so that no timer depends on how
//! fast the machine is: nothing is sent again because the machine was busy.

mod client;
mod world;

use serde::Serialize;

use crate::calibration;
use crate::figures::Spread;
use crate::{Error, Result};
use world::{Done, World};

/// The longest message in bytes: a quarter of what a connection keeps to be sent.
pub const LONGEST: u32 = 64 << 10;

/// What the connections are like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Shape {
    /// Connections that are open at a time, each with one request under way at most.
    pub connections: u32,
    /// Requests on a connection before the client resets it and opens another; `None` for
    /// connections that stay.
    pub messages: Option<u32>,
    /// Bytes of a request, and of its answer.
    pub size: u32,
}

/// How it is measured.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    /// What the connections are like.
    pub shape: Shape,
    /// Requests in a window.
    pub requests: u64,
    /// How many windows are measured of each row.
    pub windows: usize,
}

/// A line of the table.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// What the connections were like.
    #[serde(flatten)]
    pub shape: Shape,
    /// TSC cycles of the server's turns for each request: driver, stack and application.
    pub cycles_per_request: Spread,
    /// Requests in a second of a core that does nothing else, at the median.
    pub requests_per_s: f64,
    /// The same in bits of requests, which is one direction, in 10^9 a second.
    pub goodput_gbit_s: f64,
    /// TSC cycles of the client's turns for each request.
    pub client_cycles_per_request: Spread,
    /// Segments that the server received and sent for each request.
    pub segments_per_request: f64,
    /// Segments that it received in a turn.
    pub segments_per_turn: f64,
    /// Connections that were opened in all windows.
    pub opened: u64,
    /// Segments that either side sent again in all windows: there is no reason for any.
    pub resent: u64,
    /// Requests in all windows.
    pub requests: u64,
    /// Windows that were measured.
    pub windows: usize,
    /// TSC ticks of a step of [`calibration`], before and after the windows.
    pub calibration: [f64; 2],
    /// Instructions of the server's turns for each request, by callgrind.
    pub instructions_per_request: Option<f64>,
}

/// Measures one row; `tell` is called behind each window.
///
/// # Errors
/// When the shape is none or needs too much memory, when a port cannot be opened, and when an
/// answer was wrong or did not come.
pub fn measure(setup: &Setup, tell: &mut dyn FnMut()) -> Result<Row> {
    check(setup.shape)?;
    let mut world = World::new(setup.shape)?;
    let row = windows(&mut world, setup, tell);
    world.close()?;
    row
}

fn check(shape: Shape) -> Result<()> {
    let Shape { connections, messages, size } = shape;
    let wrong = |what: &str, fix: String| Err(Error::usage(format!("{what} cannot be measured"), fix));
    match () {
        () if connections == 0 => wrong("no connections", "write one or more".into()),
        () if messages == Some(0) => wrong("connections without messages", "write one or more".into()),
        () if !(1..=LONGEST).contains(&size) => {
            wrong(&format!("messages of {size} bytes"), format!("write 1 to {LONGEST}"))
        }
        () => Ok(()),
    }
}

fn windows(world: &mut World, setup: &Setup, tell: &mut dyn FnMut()) -> Result<Row> {
    let size = setup.shape.size;
    world.open()?;
    // Each connection has had an answer or two, and caches and tables are as they will be.
    world.run(warm_up(setup.shape).max(setup.requests / 4))?;
    let before = calibration::measure();
    let (mut server, mut client, mut all) = (vec![], vec![], Done::default());
    for _ in 0..setup.windows.max(1) {
        let done = world.run(setup.requests.max(1))?;
        server.push(done.server_ticks as f64 / done.answers as f64);
        client.push(done.client_ticks as f64 / done.answers as f64);
        all = all.plus(done);
        tell();
    }
    let calibration = [before, calibration::measure()];
    let cycles_per_request = Spread::of(server);
    let requests_per_s = bus::tsc::hz() as f64 / cycles_per_request.median;
    Ok(Row {
        shape: setup.shape,
        cycles_per_request,
        requests_per_s,
        goodput_gbit_s: requests_per_s * f64::from(size) * 8.0 / 1e9,
        client_cycles_per_request: Spread::of(client),
        segments_per_request: (all.received + all.sent) as f64 / all.answers as f64,
        segments_per_turn: all.received as f64 / all.turns as f64,
        opened: all.opened,
        resent: all.resent,
        requests: all.answers,
        windows: setup.windows.max(1),
        calibration,
        instructions_per_request: None,
    })
}

/// Has so many requests answered untimed, on connections that were opened and used before: for
/// callgrind.
///
/// # Errors
/// As [`measure`].
pub fn pass(shape: Shape, requests: u64) -> Result<()> {
    check(shape)?;
    let mut world = World::new(shape)?;
    let done = counted(&mut world, shape, requests);
    world.close()?;
    done
}

fn counted(world: &mut World, shape: Shape, requests: u64) -> Result<()> {
    world.open()?;
    world.run(warm_up(shape))?;
    world.count_server();
    world.run(requests).map(|_| ())
}

/// Requests behind which each connection has had an answer or two.
fn warm_up(shape: Shape) -> u64 {
    2 * u64::from(shape.connections)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(connections: u32, messages: Option<u32>, size: u32) -> Row {
        let shape = Shape { connections, messages, size };
        let mut told = 0;
        let row = measure(&Setup { shape, requests: 300, windows: 2 }, &mut || told += 1).expect("a row");
        assert_eq!(told, 2);
        assert!(row.cycles_per_request.min > 0.0 && row.client_cycles_per_request.min > 0.0, "{row:?}");
        assert!(row.requests >= 600, "{row:?}");
        assert_eq!(row.resent, 0, "{row:?}");
        row
    }

    #[test]
    fn a_request_is_a_segment_and_its_answer_another() {
        for connections in [1, 100] {
            let row = row(connections, None, 64);
            assert!((1.99..2.1).contains(&row.segments_per_request), "{row:?}");
            assert_eq!(row.opened, 0, "connections that stay");
            // Hardly a turn finds nothing: what was sent has come when the other side has its turn.
            assert!(row.segments_per_turn > 0.9, "{row:?}");
        }
    }

    #[test]
    fn connections_end_after_their_messages() {
        let rows = [1, 4].map(|messages| (messages, row(20, Some(messages), 64)));
        for (messages, row) in rows {
            let wanted = row.requests / u64::from(messages);
            // Of those that are open some have had answers before, and some will.
            assert!(row.opened.abs_diff(wanted) <= 40, "{row:?}");
        }
    }

    #[test]
    fn long_messages_are_several_segments() {
        let row = row(8, None, 8192);
        assert!(row.segments_per_request > 6.5, "six come, and at least one goes: {row:?}");
    }

    #[test]
    fn callgrind_is_given_requests_on_connections_that_are_open() {
        pass(Shape { connections: 3, messages: None, size: 64 }, 100).expect("it passes");
    }

    #[test]
    fn what_cannot_be_measured_is_told() {
        for (connections, messages, size) in
            [(0, None, 64), (1, Some(0), 64), (1, None, 0), (1, None, 70_000)]
        {
            let setup = Setup { shape: Shape { connections, messages, size }, requests: 1, windows: 1 };
            let outcome = measure(&setup, &mut || panic!("it was measured"));
            assert!(matches!(outcome, Err(Error::Usage { .. })), "{setup:?}");
        }
    }
}
