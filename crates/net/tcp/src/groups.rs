//! Flow groups: all connections whose packets a port leads to a queue by one entry of its table
//! (RSS) have their core together, and move together to another core while they are served, as in
//! IX's elastic threads. [`Groups`] says which core has which group, and moves them; it belongs to
//! whoever has the port, on a thread that carries no packets. Each [`Host`](crate::Host) has a
//! [`Core`]. Nothing waits here: who has it calls [`Groups::go_on`] until all is done.
//!
//! Groups move in this order. Who has them tells who gets them, hands connections over, some in
//! each turn, with what the service keeps of them, and passes segments on that come for those that it
//! has no more. When all are there, the port's table is changed. What comes to the new core by
//! its own ring waits then until the ring of the old one is empty, so that segments stay in
//! order; what comes to a wrong core later is passed on still. So no segment is lost, unless a
//! mailbox is full, which is counted; it is sent again then.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use port::FlowTable;
use runtime::Instant;

pub use crate::host::Core;
use crate::mailbox::{Mail, Mailbox};

/// Why groups are not spread as they were to be.
#[derive(Debug, thiserror::Error)]
pub enum NotSpread {
    /// There are not so many cores.
    #[error("there are 1 to {0} cores")]
    Cores(usize),
    /// Groups are being moved already.
    #[error("connections are being moved already")]
    Busy,
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
pub(crate) struct HostShared {
    pub mailboxes: Box<[Mailbox]>,
    /// Cores that have not done what they were told last. `Release` and `Acquire` have whoever
    /// sees that all have done it see what they did.
    pub busy: AtomicUsize,
}

/// Which core has which flow group.
pub struct Groups {
    shared: Arc<HostShared>,
    table: FlowTable,
    owners: Vec<u16>,
    /// Of each group the core that the port leads it to.
    led: Vec<u16>,
    /// Packets that a core's receive ring holds at most.
    ring: usize,
    /// What a core did not do in time: the cores' state is not known since.
    late: Option<&'static str>,
    /// What was begun and is not over.
    under_way: Option<UnderWay>,
}

impl Groups {
    /// The groups of a port that leads packets like this, of which each queue is a core's. Its
    /// receive rings hold up to `ring` packets; `cores` are no more than its table can name.
    ///
    /// # Errors
    /// When the process has no file descriptors left.
    pub fn new(table: FlowTable, cores: usize, ring: usize) -> io::Result<Groups> {
        let mailboxes = (0..cores).map(|_| Mailbox::new()).collect::<io::Result<_>>()?;
        let shared = Arc::new(HostShared { mailboxes, busy: AtomicUsize::new(0) });
        let owners = table.queues().to_vec();
        Ok(Groups { led: owners.clone(), owners, table, shared, ring, late: None, under_way: None })
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

    /// Whether groups are being moved.
    pub fn is_moving(&self) -> bool {
        self.under_way.is_some()
    }

    /// Begins to spread the groups evenly over the first so many cores, moving as few as need be.
    /// [`go_on`](Groups::go_on) does the rest. The cores run meanwhile, each on its thread; none
    /// may take longer than `limit` for its part.
    ///
    /// After [`NotSpread::Port`] another spread changes the table to what it should be. After
    /// [`NotSpread::Late`] every other is refused.
    ///
    /// # Errors
    /// [`NotSpread::Cores`], [`NotSpread::Unknown`] and [`NotSpread::Busy`].
    pub fn spread(&mut self, cores: usize, limit: Duration, now: Instant) -> Result<(), NotSpread> {
        let most = self.shared.mailboxes.len();
        if cores == 0 || cores > most {
            return Err(NotSpread::Cores(most));
        }
        if let Some(what) = self.late {
            return Err(NotSpread::Unknown(what));
        }
        if self.is_moving() {
            return Err(NotSpread::Busy);
        }
        let moves = plan(&self.owners, cores as u16);
        let mut given = BTreeMap::<u16, Vec<(u16, u16)>>::new();
        for it in &moves {
            given.entry(it.from).or_default().push((it.group, it.to));
        }
        let before = self.owners.clone();
        moves.iter().for_each(|it| self.owners[usize::from(it.group)] = it.to);
        // Where the port refused to change its table, a ring still has what comes for groups that
        // its core gave away then: that core gives them once more.
        for (group, led) in (0..).zip(&self.led) {
            let owner = self.owners[usize::from(group)];
            if *led != owner && *led != before[usize::from(group)] {
                given.entry(*led).or_default().push((group, owner));
            }
        }
        let givers: Vec<u16> = given.keys().copied().collect();
        self.under_way = Some(UnderWay { moves: moves.len(), givers, limit, end: now, stage: Stage::Hand });
        self.tell(now, |giver| Mail::Give(given.remove(&giver).unwrap_or_default()));
        Ok(())
    }

    /// Goes on with what [`spread`](Groups::spread) began, as far as the cores are: how many groups
    /// moved, when all is done. `lead` changes the port's table ([`port::Port::set_flow_queues`]),
    /// and is called once at most.
    ///
    /// # Errors
    /// [`NotSpread::Late`] and [`NotSpread::Port`].
    pub fn go_on(
        &mut self,
        now: Instant,
        lead: impl FnOnce(&[(usize, usize)]) -> port::Result<()>,
    ) -> Poll<Result<usize, NotSpread>> {
        let Some(under_way) = &self.under_way else { return Poll::Pending };
        if self.shared.busy.load(Ordering::Acquire) > 0 {
            return self.wait(now);
        }
        if matches!(under_way.stage, Stage::Hand) {
            let led = self.lead(lead);
            if let Some(under_way) = &mut self.under_way {
                under_way.stage = Stage::Empty(led);
            }
            // What waits for the port to be changed waits no longer, whether it was or not.
            self.tell(now, |_| Mail::Led);
            if self.shared.busy.load(Ordering::Acquire) > 0 {
                return Poll::Pending;
            }
        }
        let Some(UnderWay { moves, stage: Stage::Empty(led), .. }) = self.under_way.take() else {
            return Poll::Pending;
        };
        Poll::Ready(led.map(|()| moves).map_err(NotSpread::Port))
    }

    /// Some cores have not done their part, for which they may have too little time.
    fn wait(&mut self, now: Instant) -> Poll<Result<usize, NotSpread>> {
        let Some(under_way) = self.under_way.take_if(|it| now > it.end) else { return Poll::Pending };
        let what = match under_way.stage {
            Stage::Hand => "hand its connections over",
            Stage::Empty(_) => "empty its ring",
        };
        self.late = Some(what);
        Poll::Ready(Err(NotSpread::Late(what)))
    }

    /// Changes the port's table where it does not lead to who has the connections.
    fn lead(&mut self, lead: impl FnOnce(&[(usize, usize)]) -> port::Result<()>) -> port::Result<()> {
        let changes: Vec<_> = (0..)
            .zip(self.owners.iter().zip(&self.led))
            .filter_map(|(group, (owner, led))| (owner != led).then_some((group, usize::from(*owner))))
            .collect();
        if !changes.is_empty() {
            lead(&changes)?;
            self.led.clone_from(&self.owners);
        }
        Ok(())
    }

    /// Tells the givers something, for which they have some time.
    fn tell(&mut self, now: Instant, mut mail: impl FnMut(u16) -> Mail) {
        let Some(under_way) = &mut self.under_way else { return };
        under_way.end = now + under_way.limit;
        self.shared.busy.store(under_way.givers.len(), Ordering::Release);
        for core in &under_way.givers {
            self.shared.mailboxes[usize::from(*core)].put(mail(*core));
        }
    }
}

/// Groups that are being moved.
struct UnderWay {
    /// How many groups are being moved.
    moves: usize,
    /// The cores that are told to do something.
    givers: Vec<u16>,
    /// How long they may take for each, and until when they may.
    limit: Duration,
    end: Instant,
    stage: Stage,
}

/// What the givers do.
enum Stage {
    /// They hand their connections over.
    Hand,
    /// They empty their rings; what the port said when its table was changed.
    Empty(port::Result<()>),
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
