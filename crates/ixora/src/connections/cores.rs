//! `ixora tcp cores`: over how many cores a server spreads its connections, while it runs. The
//! thread that has the port does it, for whoever asks.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use port::{Feature, FlowTable, Port, Rss};
use serde::{Deserialize, Serialize};
use tcp::{Groups, Host};

use super::START;
use crate::{Failure, control_socket};

/// How long a core may take for its part; it has two of them.
const LIMIT: Duration = Duration::from_secs(3);
/// How long all may take together.
const ALL: Duration = Duration::from_secs(8);
/// How often it is looked whether the run has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// How often it is looked how far the cores are, and how long before the thread that has the port
/// does something else.
const PACE: Duration = Duration::from_micros(200);
const TURN: Duration = Duration::from_millis(5);

/// What is asked for.
#[derive(Args, Debug)]
pub struct Cores {
    /// The socket that the server listens at, its `--control`.
    pub control: PathBuf,
    /// Serve by the hosts of so many queues from now on; without it nothing is changed.
    pub cores: Option<usize>,
    /// Print how they are spread as JSON.
    #[arg(long)]
    pub json: bool,
}

/// How connections are spread.
#[derive(Debug, Serialize, Deserialize)]
pub struct Spread {
    /// Cores that have connections.
    pub cores: usize,
    /// Cores that there are.
    pub most: usize,
    /// Flow groups that each of them has.
    pub groups: Vec<usize>,
    /// Flow groups that moved because of this request.
    pub moved: usize,
}

impl Spread {
    fn new(groups: &Groups, most: usize, moved: usize) -> Spread {
        let count = |core| groups.owners().iter().filter(|owner| usize::from(**owner) == core).count();
        Spread { cores: groups.cores(), most, groups: (0..most).map(count).collect(), moved }
    }
}

/// Where the answer to a request goes.
type Say = SyncSender<Result<Spread, String>>;

/// A request: a number of cores, unless only the present one is asked for.
type Asked = (Option<usize>, Say);

/// Flow groups of a port that has no table for them, at least: as many as the 82599 has.
const GROUPS: usize = 128;

/// The flow groups of a server's hosts.
pub struct Spreading {
    /// None where the port keeps flows to queues, and does not tell which comes to which.
    groups: Option<Mutex<Groups>>,
    /// The port may give a segment to another host than those before it, which passes it on.
    strays: bool,
    /// Why connections stay where they are, if they do.
    fixed: Option<String>,
    hosts: usize,
    most: usize,
    asked: Mutex<Option<Asked>>,
    /// Who waits for what was begun.
    waits: Mutex<Option<Say>>,
}

impl Spreading {
    /// The groups of a port with a host on each of so many queues, whose receive rings hold so
    /// many packets. No more hosts take part than the port can spread flows over.
    pub fn new(port: &dyn Port, hosts: usize, ring: usize) -> Result<Spreading, Failure> {
        let strays = hosts > 1 && !port.keeps_flows();
        let most = if strays { hosts } else { hosts.min(port.capabilities().limits.rss_queues) };
        let failed = |error| Failure::new(format!("cannot make mailboxes: {error}"));
        let own = || {
            strays.then(|| {
                FlowTable::new(&Rss::default(), GROUPS.max(4 * hosts.next_power_of_two()), hosts, true)
            })
        };
        let groups = match port.flows().filter(|_| hosts > 1).or_else(own) {
            Some(table) => Some(Mutex::new(Groups::new(table, most, ring).map_err(failed)?)),
            None => None,
        };
        let fixed = match port.capabilities().has(Feature::RssTable) && groups.is_some() {
            _ if hosts == 1 => Some("it has one pair of queues: start it with --queues".to_owned()),
            true => None,
            false => Some(format!(
                "{} cannot change which queue a flow comes to (`rss-table` of `ixora info`)",
                port.name()
            )),
        };
        Ok(Spreading { groups, strays, fixed, hosts, most, asked: Mutex::default(), waits: Mutex::default() })
    }

    /// Has the host on a queue take part: in what somebody asks for, if anybody can (`is_asked`), and
    /// in passing segments on, which those that came in fragments need on any port.
    pub fn share(&mut self, host: &mut Host, queue: usize, is_asked: bool) {
        let Some(groups) = self.groups.as_ref().filter(|_| queue < self.most) else {
            if self.hosts > 1 {
                host.stand_beside_others();
            }
            return;
        };
        let core = held(groups).core(queue);
        if self.strays {
            host.pass_on(core);
        } else if self.fixed.is_some() || !is_asked {
            host.tell_others(core);
        } else if !host.share(core) {
            self.fixed = Some("connections of this service stay on their core".to_owned());
        }
    }

    /// Does some of what somebody asked for, if anybody did: it is called again and again, and takes
    /// a few milliseconds at most.
    pub fn serve(&self, port: &mut dyn Port) {
        let end = Instant::now() + TURN;
        while self.go_on(port) && Instant::now() < end {
            thread::sleep(PACE);
        }
    }

    /// Whether cores are awaited.
    fn go_on(&self, port: &mut dyn Port) -> bool {
        let mut waits = held(&self.waits);
        let mut groups = match (&self.groups, &self.fixed) {
            (Some(groups), None) => held(groups),
            (_, why) => {
                let why = why.clone().unwrap_or_default();
                if let Some((_, say)) = held(&self.asked).take() {
                    answer(&say, Err(why));
                }
                return false;
            }
        };
        if !groups.is_moving()
            && let Some((cores, say)) = held(&self.asked).take()
        {
            match cores.map(|cores| groups.spread(cores, LIMIT, runtime::Instant::now())) {
                None => answer(&say, Ok(Spread::new(&groups, self.most, 0))),
                Some(Err(why)) => answer(&say, Err(why.to_string())),
                Some(Ok(())) => *waits = Some(say),
            }
        }
        let lead = |changes: &[(usize, usize)]| port.set_flow_queues(changes);
        if let Poll::Ready(moved) = groups.go_on(runtime::Instant::now(), lead) {
            let spread = moved.map(|moved| Spread::new(&groups, self.most, moved));
            if let Some(say) = waits.take() {
                answer(&say, spread.map_err(|why| why.to_string()));
            }
        }
        groups.is_moving()
    }

    /// Asks for so many cores, or only how it is.
    pub fn ask(&self, cores: Option<usize>, ended: &AtomicBool) -> Result<Spread, String> {
        let (say, hear) = sync_channel(1);
        *held(&self.asked) = Some((cores, say));
        let end = Instant::now() + ALL;
        while Instant::now() < end && !ended.load(Ordering::Relaxed) {
            match hear.recv_timeout(POLL_INTERVAL) {
                Ok(answer) => return answer,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        Err("the server did not do it in time".to_owned())
    }
}

/// Answers a request; who is gone hears nothing.
fn answer(say: &Say, answer: Result<Spread, String>) {
    let _ = say.try_send(answer);
}

fn held<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks, and prints the answer.
pub fn run(arguments: &Cores) -> Result<(), Failure> {
    let request = arguments.cores.map_or("cores".to_owned(), |cores| format!("cores {cores}"));
    let answer = control_socket::ask(&arguments.control, &request, START)?;
    let spread: Spread = serde_json::from_str(&answer).map_err(|_| {
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap_or_default();
        let why = answer["error"].as_str().unwrap_or("it is no server of ixora's, or of another version");
        Failure::new(format!("{}: {why}", arguments.control.display()))
    })?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&spread).unwrap_or_default());
        return Ok(());
    }
    println!("{} of {} cores serve, {} flow groups moved", spread.cores, spread.most, spread.moved);
    for (core, groups) in spread.groups.iter().enumerate() {
        println!("  core {core:<3} {groups:>4} flow groups");
    }
    Ok(())
}
