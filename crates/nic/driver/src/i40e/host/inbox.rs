//! Messages of virtual functions that wait to be looked at, in turn and within bounds.

use std::collections::{BTreeMap, VecDeque};

use regs::i40e::VFS;
use regs::i40e::admin::Descriptor;

/// Messages of a virtual function that wait to be looked at; those that come then are lost, and
/// counted. Its driver sends one and waits for the answer.
const MOST_WAITING: usize = 16;

/// Messages of virtual functions that wait to be answered.
#[derive(Debug, Default)]
pub struct Inbox {
    /// Kinds and bytes, by the virtual function's number on the card; only of those that wait.
    waiting: BTreeMap<usize, VecDeque<(u32, Vec<u8>)>>,
    /// Whose turn it is.
    next: usize,
    /// Messages that were lost, by the number on the card.
    lost: BTreeMap<usize, u64>,
    /// Those that name a number which no card has.
    nobodys: u64,
}

/// A message, and from whom it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Message {
    /// The virtual function's number on the card.
    pub vf: usize,
    pub opcode: u32,
    pub bytes: Vec<u8>,
}

impl Inbox {
    /// Keeps what an event brought.
    pub(in super::super) fn put(&mut self, event: &Descriptor, bytes: Vec<u8>) {
        let vf = usize::from(event.retval);
        // A bound for each, so that one that floods loses its own alone.
        if vf >= VFS || self.waiting.get(&vf).is_some_and(|own| own.len() >= MOST_WAITING) {
            return self.lose(vf);
        }
        self.waiting.entry(vf).or_default().push_back((event.cookie as u32, bytes));
    }

    /// The next message of one that is not `busy`. Virtual functions take turns, so that one that sends
    /// many does not hold up the others.
    pub(super) fn take(&mut self, busy: impl Fn(usize) -> bool) -> Option<Message> {
        let turns = self.waiting.range(self.next..).chain(self.waiting.range(..self.next));
        let vf = turns.map(|(vf, _)| *vf).find(|vf| !busy(*vf))?;
        self.next = vf + 1;
        let own = self.waiting.get_mut(&vf)?;
        let (opcode, bytes) = own.pop_front()?;
        if own.is_empty() {
            self.waiting.remove(&vf);
        }
        Some(Message { vf, opcode, bytes })
    }

    /// Discards what came from a virtual function, by its number on the card; how many messages.
    pub(super) fn forget(&mut self, vf: usize) -> u64 {
        self.waiting.remove(&vf).map_or(0, |own| own.len() as u64)
    }

    /// Counts a message as lost.
    pub(super) fn lose(&mut self, vf: usize) {
        *if vf < VFS { self.lost.entry(vf).or_default() } else { &mut self.nobodys } += 1;
    }

    /// Messages of a virtual function that were lost.
    pub(super) fn lost_of(&self, vf: usize) -> u64 {
        self.lost.get(&vf).copied().unwrap_or(0)
    }

    /// All messages that were lost.
    pub(super) fn lost(&self) -> u64 {
        self.lost.values().sum::<u64>() + self.nobodys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(vf: u16, kind: u64) -> Descriptor {
        Descriptor { retval: vf, cookie: kind, ..Descriptor::default() }
    }

    /// Whose messages are taken, one after the other, of all but the one that is busy.
    fn turns(inbox: &mut Inbox, busy: usize) -> Vec<usize> {
        std::iter::from_fn(|| inbox.take(|vf| vf == busy)).map(|message| message.vf).collect()
    }

    #[test]
    fn one_that_sends_many_messages_does_not_hold_up_another() {
        let mut inbox = Inbox::default();
        (0..20).for_each(|kind| inbox.put(&event(3, kind), Vec::new()));
        assert_eq!((inbox.lost_of(3), inbox.lost()), (4, 4), "it loses its own alone");
        let first = inbox.take(|_| false);
        assert_eq!(first, Some(Message { vf: 3, opcode: 0, bytes: Vec::new() }));
        for vf in [40, 1, 40] {
            inbox.put(&event(vf, 1), vec![7]);
        }
        assert_eq!(turns(&mut inbox, 3), [40, 1, 40], "one that is busy is passed over");
        inbox.put(&event(40, 1), Vec::new());
        assert_eq!(turns(&mut inbox, VFS)[..3], [3, 40, 3]);
        inbox.put(&event(3, 1), Vec::new());
        inbox.put(&event(4, 1), Vec::new());
        assert_eq!(inbox.forget(3), 1);
        inbox.put(&event(VFS as u16, 1), Vec::new());
        assert_eq!((turns(&mut inbox, VFS), inbox.lost()), (vec![4], 5), "and no card has that one");
        assert_eq!([3, 4, VFS].map(|vf| inbox.lost_of(vf)), [4, 0, 0]);
    }
}
