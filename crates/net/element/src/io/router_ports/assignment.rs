//! Which queue of a port is for which element and thread.

use super::{Receiver, Receiving, Sender};

/// A queue, and who has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Assigned {
    pub(super) queue: usize,
    pub(super) element: usize,
    pub(super) lane: usize,
}

impl Assigned {
    pub(super) fn is(&self, element: usize, lane: usize) -> bool {
        self.element == element && self.lane == lane
    }
}

/// The threads of a mask.
fn lanes(mask: u64) -> Vec<usize> {
    (0..64).filter(|lane| mask >> lane & 1 == 1).collect()
}

/// Whether both receive from one queue.
pub(super) fn overlap(one: &Receiving, other: &Receiving) -> bool {
    let span = |says: &Receiving| {
        let first = says.queue.unwrap_or(0);
        first..first.saturating_add(says.queues.unwrap_or(1))
    };
    let (one, other) = (span(one), span(other));
    one.start < other.end && other.start < one.end
}

/// The queues that each receiver asks for: the first, and how many.
fn asked(receivers: &[Receiver]) -> Vec<(usize, usize)> {
    let mut next = 0;
    let one = |receiver: &Receiver| {
        let says = &receiver.says;
        let threads = if says.queue.is_some() { 1 } else { receiver.lanes.count_ones() as usize };
        let first = says.queue.unwrap_or(next);
        let count = says.queues.unwrap_or(threads).max(1);
        next = next.max(first.saturating_add(count));
        (first, count)
    };
    receivers.iter().map(one).collect()
}

/// How many receive queues a port needs.
pub(super) fn rx_wanted(receivers: &[Receiver]) -> usize {
    asked(receivers).into_iter().map(|(first, count)| first.saturating_add(count)).max().unwrap_or(0)
}

/// Deals out a port's receive queues. Each belongs to one thread; those that nobody
/// asked for are dealt out as well, because packets come in on all.
pub(super) fn rx(receivers: &[Receiver], queues: usize) -> Vec<Assigned> {
    let mut hands: Vec<Assigned> = vec![];
    for (receiver, (first, count)) in receivers.iter().zip(asked(receivers)) {
        let lanes = lanes(receiver.lanes);
        for (n, queue) in (first..queues).take(count).enumerate() {
            if let Some(&lane) = lanes.get(n % lanes.len().max(1))
                && hands.iter().all(|hand| hand.queue != queue)
            {
                hands.push(Assigned { queue, element: receiver.element, lane });
            }
        }
    }
    let all = receivers.iter().flat_map(|r| lanes(r.lanes).into_iter().map(|lane| (r.element, lane)));
    let all: Vec<(usize, usize)> = all.collect();
    let left: Vec<usize> = (0..queues).filter(|q| hands.iter().all(|hand| hand.queue != *q)).collect();
    for (queue, &(element, lane)) in left.into_iter().zip(all.iter().cycle()) {
        hands.push(Assigned { queue, element, lane });
    }
    hands
}

/// How many transmit queues a port needs.
pub(super) fn tx_wanted(senders: &[Sender]) -> usize {
    let all = senders.iter().fold(0, |mask, sender| mask | sender.lanes);
    let asked = |s: &Sender| s.says.queue.unwrap_or(0).saturating_add(s.says.queues.unwrap_or(1));
    senders.iter().map(asked).max().unwrap_or(0).max(all.count_ones() as usize)
}

/// Deals out a port's transmit queues: one to each thread, shared where there are
/// fewer.
pub(super) fn tx(senders: &[Sender], queues: usize) -> Vec<Assigned> {
    let all = lanes(senders.iter().fold(0, |mask, sender| mask | sender.lanes));
    let mut hands = vec![];
    for sender in senders.iter().filter(|_| queues > 0) {
        let first = sender.says.queue.unwrap_or(0).min(queues - 1);
        let least = if sender.says.queue.is_some() { 1 } else { queues };
        let count = sender.says.queues.unwrap_or(least).clamp(1, queues - first);
        for (place, &lane) in all.iter().enumerate().filter(|(_, lane)| sender.lanes >> *lane & 1 == 1) {
            hands.push(Assigned { queue: first + place % count, element: sender.element, lane });
        }
    }
    hands
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::router_ports::Sending;

    fn receiver(element: usize, lanes: u64, says: Receiving) -> Receiver {
        Receiver { element, says, lanes }
    }

    fn triples(hands: &[Assigned]) -> Vec<(usize, usize, usize)> {
        hands.iter().map(|hand| (hand.queue, hand.element, hand.lane)).collect()
    }

    #[test]
    fn each_thread_has_a_receive_queue() {
        let one = [receiver(7, 0b1010, Receiving::default())];
        assert_eq!(rx_wanted(&one), 2);
        assert_eq!(triples(&rx(&one, 2)), [(0, 7, 1), (1, 7, 3)]);
        assert_eq!(triples(&rx(&one, 1)), [(0, 7, 1)], "one thread has none");
        assert_eq!(triples(&rx(&one, 3)), [(0, 7, 1), (1, 7, 3), (2, 7, 1)], "none is left alone");
    }

    #[test]
    fn receivers_of_one_port_have_queues_of_their_own() {
        let at = |queue, queues| Receiving { queue, queues, ..Receiving::default() };
        let two = [receiver(1, 0b01, at(Some(2), None)), receiver(2, 0b11, at(Some(0), Some(2)))];
        assert_eq!(rx_wanted(&two), 3);
        assert_eq!(triples(&rx(&two, 3)), [(2, 1, 0), (0, 2, 0), (1, 2, 1)]);
        assert!(!overlap(&two[0].says, &two[1].says) && overlap(&two[0].says, &two[0].says));
        let two = [receiver(1, 0b01, at(None, None)), receiver(2, 0b10, at(None, None))];
        assert_eq!(triples(&rx(&two, 2)), [(0, 1, 0), (1, 2, 1)]);
        assert_eq!(rx(&[], 4), [], "nobody receives");
        let far = [receiver(1, 1, at(Some(usize::MAX), Some(usize::MAX)))];
        assert_eq!(triples(&rx(&far, 1)), [(0, 1, 0)]);
    }

    #[test]
    fn each_thread_has_a_transmit_queue_or_shares_one() {
        let sender = |element, lanes, says| Sender { element, says, lanes };
        let two = [sender(3, 0b0110, Sending::default()), sender(4, 0b1100, Sending::default())];
        assert_eq!(tx_wanted(&two), 3);
        assert_eq!(triples(&tx(&two, 3)), [(0, 3, 1), (1, 3, 2), (1, 4, 2), (2, 4, 3)]);
        assert_eq!(triples(&tx(&two, 2)), [(0, 3, 1), (1, 3, 2), (1, 4, 2), (0, 4, 3)]);
        assert_eq!(tx(&two, 0), []);
        let said = [sender(3, 0b11, Sending { queue: Some(1), ..Sending::default() })];
        assert_eq!(triples(&tx(&said, 2)), [(1, 3, 0), (1, 3, 1)]);
    }
}
