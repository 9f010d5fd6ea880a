//! The accounting of an overload: what was offered, and what became of it, by name.
//!
//! The host counts what it offered, what the cable refused and what came back.
//! The rest is the guest's to name: `ixora fwd` says at its end what it received,
//! sent and lost, and what the devices counted.

use crate::traffic::Traffic;
use crate::vm::Outcome;

/// What a forwarder said at its end, of both directions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Accounting {
    /// Taken from the receive rings.
    pub received: u32,
    /// Given to the transmit rings.
    pub sent: u32,
    /// The sum of all that is lost by a name.
    pub lost: u32,
    /// Frames that the devices say they sent, where they count them (`GPTC`).
    pub left: Option<u32>,
}

impl Accounting {
    /// Reads the last summary in some text.
    pub(super) fn read(text: &str) -> Option<Accounting> {
        let from = text.rfind("received ").filter(|&at| text[at..].contains(" packets, sent "))?;
        let mut lines = text[from..].lines();
        let (received, sent) = lines.next()?.strip_prefix("received ")?.split_once(" packets, sent ")?;
        let (received, sent) = (received.parse().ok()?, sent.trim().parse().ok()?);
        let mut accounting = Accounting { received, sent, ..Accounting::default() };
        for line in lines.take_while(|line| !line.contains("LAB: ")) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let number = |at: usize| words.get(at).and_then(|word| word.parse::<u32>().ok());
            if words.first() == Some(&"lost") {
                accounting.lost += number(2)?;
            } else if let Some(at) = words.iter().position(|&word| word == "GPTC") {
                accounting.left = Some(accounting.left.unwrap_or_default() + number(at + 1)?);
            }
        }
        Some(accounting)
    }

    /// Compares with what the host saw in each direction. `hidden` is how many
    /// frames QEMU keeps behind each NIC while the cable is not read: it drops
    /// more of them without a word, after the NIC has counted them as sent.
    pub(super) fn check(&self, seen: &[Traffic; 2], hidden: Option<u32>, outcome: &mut Outcome) {
        let sum = |of: fn(&Traffic) -> u32| seen.iter().map(of).sum::<u32>();
        let (taken, back) = (sum(|t| t.sent), sum(|t| t.back));
        let left = self.left.unwrap_or(self.sent);
        let dropped = hidden.map_or(0, |_| left.saturating_sub(back));
        let mut say = |name: &str, good: bool| match good {
            true => outcome.passed.push(name.to_owned()),
            false => outcome.failed.push(format!("{name}: {self:?} {seen:?}")),
        };
        say("overload: more was offered than taken", seen.iter().all(|t| t.refused > 0));
        say("overload: in order and unchanged", seen.iter().all(|t| t.changed == 0 && t.overtaken == 0));
        say("overload: received what the cables took", self.received == taken);
        say("overload: every loss in the forwarder has a name", self.received == self.sent + self.lost);
        match hidden {
            None => {
                say("overload: the forwarder had to drop", self.lost > 0);
                say("overload: all that was sent came back", left == back);
            }
            // What was kept came back: the rest is what there was no room for.
            Some(kept) => {
                say("overload: the devices sent what they were given", left == self.sent);
                say(
                    "overload: QEMU's queues kept what they hold",
                    seen.iter().all(|t| t.back >= kept.min(t.sent)),
                );
            }
        }
        let offered = sum(|t| t.sent + t.refused);
        let named = back + sum(|t| t.refused) + self.lost + dropped;
        say(&format!("overload: of {offered} frames none is unexplained"), offered == named);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::End;
    use std::time::Duration;

    const SAID: &str = "received 1 packets, sent 1\nlost  tx_ring_full     7\nLAB: ok calm\n\
        fwd: 90 packets in 1.00 s\nreceived 90 packets, sent 80\n\
        0000:01:00.0 (igb, 52:54:00:12:34:56, link up)\n  GPRC 45  GPTC 50  TPT 50\n\
        0000:02:00.0 (igb, 52:54:00:12:34:57, link up)\n  GPRC 45  GPTC 30\n\
        lost  tx_ring_full     9\nlost  rx_fifo_full     1\nLAB: ok more\n  GPTC 1000\n";

    fn failures(accounting: &Accounting, seen: [Traffic; 2], hidden: Option<u32>) -> Vec<String> {
        let elapsed = Duration::ZERO;
        let mut outcome = Outcome { passed: Vec::new(), failed: Vec::new(), end: End::Finished, elapsed };
        accounting.check(&seen, hidden, &mut outcome);
        outcome.failed
    }

    fn seen(sent: u32, back: u32) -> Traffic {
        Traffic { sent, back, refused: 5, ..Traffic::default() }
    }

    #[test]
    fn the_last_summary_is_read() {
        let accounting = Accounting { received: 90, sent: 80, lost: 10, left: Some(80) };
        assert_eq!(Accounting::read(SAID), Some(accounting));
        assert_eq!(Accounting::read("received nothing"), None);
    }

    #[test]
    fn accounts_that_balance_pass_and_a_frame_too_few_is_seen() {
        let accounting = Accounting { received: 90, sent: 80, lost: 10, left: None };
        assert_eq!(failures(&accounting, [seen(45, 50), seen(45, 30)], None), [""; 0]);
        let failed = failures(&accounting, [seen(45, 50), seen(45, 29)], None);
        assert_eq!(failed.len(), 2, "{failed:?}: sent, but not back");
        let unnamed = Accounting { lost: 9, ..accounting };
        assert_eq!(failures(&unnamed, [seen(45, 50), seen(45, 30)], None).len(), 2);
    }

    #[test]
    fn qemus_own_queue_may_lose_only_what_it_does_not_hold() {
        let accounting = Accounting { received: 90, sent: 80, lost: 10, left: Some(80) };
        assert_eq!(failures(&accounting, [seen(45, 30), seen(45, 20)], Some(20)), [""; 0]);
        assert_eq!(failures(&accounting, [seen(45, 30), seen(45, 19)], Some(20)).len(), 1);
        // A cable that took less than the queue holds loses nothing.
        let few = Accounting { received: 20, sent: 20, lost: 0, left: Some(20) };
        assert_eq!(failures(&few, [seen(10, 10), seen(10, 10)], Some(20)), [""; 0]);
        assert_eq!(failures(&few, [seen(10, 10), seen(10, 9)], Some(20)).len(), 1);
    }
}
