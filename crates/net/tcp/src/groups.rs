//! Flow groups: all connections whose packets a port leads to a queue by one entry of its table
//! (RSS) have their core together, and move together to another core while they are served, as in
//! IX's elastic threads. [`Groups`] says which core has which group, and moves them; it belongs to
//! whoever has the port, on a thread that carries no packets. Each [`Host`](crate::Host) has a
//! [`Core`].
//!
//! Groups move in this order. Who has them tells who gets them, hands connections over, some in
//! each turn, with what the service keeps of them, and passes segments on that come for those that it
//! has no more. When all are there, the port's table is changed. What comes to the new core by
//! its own ring waits then until the ring of the old one is empty, so that segments stay in
//! order; what comes to a wrong core later is passed on still. So no segment is lost, unless a
//! mailbox is full, which is counted; it is sent again then.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use port::FlowTable;

pub use crate::host::Core;
use crate::mailbox::{Mail, Mailbox};

/// How often it is looked how far the cores are.
const LOOK: Duration = Duration::from_micros(200);

/// Why groups are not spread as they were to be.
#[derive(Debug, thiserror::Error)]
pub enum NotSpread {
    /// There are not so many cores.
    #[error("there are 1 to {0} cores")]
    Cores(usize),
    /// A core did not do its part in time: its thread may have ended, or be stuck.
    #[error("a core did not {0} in time: its thread may be stuck")]
    Late(&'static str),
    /// A core did not do its part of an earlier move, so that it is not known how far it got.
    #[error(
        "a core did not {0} when groups were moved before, so that none are any more: restart the server"
    )]
    Unknown(&'static str),
    /// The connections have moved, and their packets come by the core that had them before.
    #[error(
        "the connections have moved, but the port leads packets as before, so that they are passed on: {0}"
    )]
    Port(#[from] port::Error),
}

/// What the cores of a host share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub mailboxes: Box<[Mailbox]>,
    /// Cores that have not done what they were told last. `Release` and `Acquire` have whoever
    /// sees that all have done it see what they did.
    pub busy: AtomicUsize,
}

/// Which core has which flow group.
pub struct Groups {
    shared: Arc<Shared>,
    table: FlowTable,
    owners: Vec<u16>,
    /// Of each group the core that the port leads it to.
    led: Vec<u16>,
    /// Packets that a core's receive ring holds at most.
    ring: usize,
    /// What a core did not do in time: the cores' state is not known since.
    late: Option<&'static str>,
}

impl Groups {
    /// The groups of a port that leads packets like this, of which each queue is a core's. Its
    /// receive rings hold up to `ring` packets; `cores` are no more than its table can name.
    ///
    /// # Errors
    /// When the process has no file descriptors left.
    pub fn new(table: FlowTable, cores: usize, ring: usize) -> io::Result<Groups> {
        let mailboxes = (0..cores).map(|_| Mailbox::new()).collect::<io::Result<_>>()?;
        let shared = Arc::new(Shared { mailboxes, busy: AtomicUsize::new(0) });
        let owners = table.queues().to_vec();
        Ok(Groups { led: owners.clone(), owners, table, shared, ring, late: None })
    }

    /// The part of the host on a queue, each once.
    pub fn core(&self, queue: usize) -> Core {
        Core::new(queue as u16, self.shared.clone(), self.table.clone(), self.ring)
    }

    /// Of each group its core.
    pub fn owners(&self) -> &[u16] {
        &self.owners
    }

    /// How many cores have groups.
    pub fn cores(&self) -> usize {
        let mut all = self.owners.clone();
        all.sort_unstable();
        all.dedup();
        all.len()
    }

    /// Spreads the groups evenly over the first so many cores, moving as few as need be; how many
    /// moved. `lead` changes the port's table ([`port::Port::set_flow_queues`]). The cores run
    /// meanwhile, each on its thread; none may take longer than `limit` for its part.
    ///
    /// After [`NotSpread::Port`] another call changes the table to what it should be. After
    /// [`NotSpread::Late`] every other is refused.
    ///
    /// # Errors
    /// See [`NotSpread`].
    pub fn spread(
        &mut self,
        cores: usize,
        limit: Duration,
        lead: impl FnOnce(&[(usize, usize)]) -> port::Result<()>,
    ) -> Result<usize, NotSpread> {
        let most = self.shared.mailboxes.len();
        if cores == 0 || cores > most {
            return Err(NotSpread::Cores(most));
        }
        if let Some(what) = self.late {
            return Err(NotSpread::Unknown(what));
        }
        let moves = plan(&self.owners, cores as u16);
        let mut givers: Vec<u16> = moves.iter().map(|it| it.from).collect();
        givers.sort_unstable();
        givers.dedup();
        let gifts = |giver: u16| {
            let of_giver = moves.iter().filter(|it| it.from == giver);
            of_giver.map(|it| (it.group, it.to)).collect::<Vec<_>>()
        };
        moves.iter().for_each(|it| self.owners[usize::from(it.group)] = it.to);
        self.tell(&givers, limit, "hand its connections over", |giver| Mail::Give(gifts(giver)))?;
        let changes: Vec<_> = (0..)
            .zip(self.owners.iter().zip(&self.led))
            .filter_map(|(group, (owner, led))| (owner != led).then_some((group, usize::from(*owner))))
            .collect();
        // What waits for the port to be changed waits no longer, whether it was or not.
        let led = if changes.is_empty() { Ok(()) } else { lead(&changes) };
        if led.is_ok() {
            self.led.clone_from(&self.owners);
        }
        self.tell(&givers, limit, "empty its ring", |_| Mail::Led)?;
        led?;
        Ok(moves.len())
    }

    /// Tells some cores something, and waits until they have done it.
    fn tell(
        &mut self,
        cores: &[u16],
        limit: Duration,
        what: &'static str,
        mail: impl Fn(u16) -> Mail,
    ) -> Result<(), NotSpread> {
        self.shared.busy.store(cores.len(), Ordering::Release);
        cores.iter().for_each(|core| self.shared.mailboxes[usize::from(*core)].put(mail(*core)));
        let end = Instant::now() + limit;
        while self.shared.busy.load(Ordering::Acquire) > 0 {
            if Instant::now() > end {
                self.late = Some(what);
                return Err(NotSpread::Late(what));
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }
}

/// A group that moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Move {
    group: u16,
    from: u16,
    to: u16,
}

/// The fewest moves after which the first so many cores have all groups, and none has two more
/// than another.
fn plan(owners: &[u16], cores: u16) -> Vec<Move> {
    let mut counts = vec![0_usize; usize::from(cores)];
    owners.iter().for_each(|owner| counts.get_mut(usize::from(*owner)).into_iter().for_each(|n| *n += 1));
    let (least, mut extra) = (owners.len() / counts.len(), owners.len() % counts.len());
    // Who has more than the least keeps one of those that are left over.
    let mut room: Vec<usize> = counts
        .iter()
        .map(|count| {
            let more = usize::from(*count > least && extra > 0);
            extra -= more;
            least + more
        })
        .collect();
    room.iter_mut().filter(|room| **room == least).take(extra).for_each(|room| *room += 1);
    let mut moves = Vec::new();
    let mut kept = vec![0; counts.len()];
    let mut leaving = Vec::new();
    for (group, owner) in (0..).zip(owners) {
        match kept.get_mut(usize::from(*owner)) {
            Some(kept) if *kept < room[usize::from(*owner)] => *kept += 1,
            _ => leaving.push((group, *owner)),
        }
    }
    for (to, (kept, room)) in (0..).zip(kept.into_iter().zip(room)) {
        let here = leaving.drain(..(room - kept).min(leaving.len()));
        moves.extend(here.map(|(group, from)| Move { group, from, to }));
    }
    moves
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_spread_evenly_by_the_fewest_moves() {
        for entries in [64, 128, 512] {
            let mut owners: Vec<u16> = (0..entries).map(|n| n % 4).collect();
            for cores in [2, 1, 4, 3, 3, 4, 1] {
                let before = owners.clone();
                let moves = plan(&owners, cores);
                for Move { group, from, to } in &moves {
                    let owner = &mut owners[usize::from(*group)];
                    assert_eq!(std::mem::replace(owner, *to), *from);
                    assert_ne!(from, to);
                }
                let count = |owners: &[u16], core| owners.iter().filter(|it| **it == core).count();
                let counts: Vec<usize> = (0..cores).map(|core| count(&owners, core)).collect();
                let (least, most) = (counts.iter().min(), counts.iter().max());
                assert!(
                    counts.iter().sum::<usize>() == owners.len() && most <= least.map(|n| n + 1).as_ref()
                );
                let gained = (0..cores).map(|core| count(&owners, core).saturating_sub(count(&before, core)));
                assert_eq!(moves.len(), gained.sum::<usize>(), "none moves in vain");
            }
        }
    }
}
