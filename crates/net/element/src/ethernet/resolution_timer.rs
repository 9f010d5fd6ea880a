//! How long packets wait for an answer that does not come (RFC 1812, 3.3.2; RFC 4861,
//! 7.2.2): asked for again each second, then given up, so that their senders can be
//! told that the host cannot be reached.

use graph::class::{Argument, keyword};
use graph::clock::SECOND_NS;
use graph::value::Span;
use graph::{Conf, ConfFault, Cx, TimerId};
use memory::Packet;

use super::arp_table::{Address, SharedTable};

/// The keyword that elements with such a timer take.
pub(super) const GIVE_UP: Argument = keyword(
    "GIVE_UP",
    "how long packets wait, asked for each second, 0 for as long as there is room; 3 s with three outputs, else 0",
);
/// The output of packets that waited in vain.
pub(super) const IN_VAIN: usize = 2;

/// What one thread's copy of an element has of it.
#[derive(Debug, Default)]
pub(super) struct ResolutionTimer {
    ns: i64,
    timer: Option<TimerId>,
}

impl ResolutionTimer {
    pub(super) fn parse(conf: &mut Conf<'_>, outputs: usize) -> Result<ResolutionTimer, ConfFault> {
        let usual = if outputs > IN_VAIN { 3 * SECOND_NS } else { 0 };
        let ns = conf.keyword("GIVE_UP")?.map_or(usual, |span: Span| span.0.max(0));
        Ok(ResolutionTimer { ns, timer: None })
    }

    pub(super) fn for_another(&self) -> ResolutionTimer {
        ResolutionTimer { ns: self.ns, timer: None }
    }

    pub(super) fn init<A: Address>(&mut self, cx: &mut Cx<'_>, table: &SharedTable<A>) {
        if self.ns > 0 {
            self.timer = Some(cx.new_timer());
            table.lock().set_wait(self.ns);
        }
    }

    /// Sets the timer, if it is not set, to when the table's packets are due.
    pub(super) fn set<A: Address>(&self, cx: &mut Cx<'_>, table: &SharedTable<A>) {
        if let Some(timer) = self.timer.filter(|timer| cx.timer_due(*timer).is_none())
            && let Some(at_ns) = table.lock().next_deadline()
        {
            cx.set_timer(timer, at_ns);
        }
    }

    /// Sets the timer, if it is not set, though nothing waits yet: the table may take over
    /// packets from a router that ran before.
    pub(super) fn set_anyway(&self, cx: &mut Cx<'_>) {
        if let Some(timer) = self.timer.filter(|timer| cx.timer_due(*timer).is_none()) {
            cx.set_timer_after(timer, self.ns.min(SECOND_NS));
        }
    }

    /// Whether a timer is the one that is set while packets wait.
    pub(super) fn is_timer(&self, timer: TimerId) -> bool {
        self.timer == Some(timer)
    }

    /// The time has come: the addresses to ask for again, each with a packet that waits
    /// for it as `cause` has it. Packets that waited long enough leave, or are dropped
    /// for a reason of the element's.
    pub(super) fn fire<A: Address, C>(
        &self,
        cx: &mut Cx<'_>,
        table: &SharedTable<A>,
        reason: usize,
        cause: impl Fn(&Packet) -> C,
    ) -> Vec<(A, C)> {
        let (mut gone, mut asks) = (vec![], vec![]);
        {
            let mut table = table.lock();
            let ask = |address, packet: &Packet| asks.push((address, cause(packet)));
            table.give_up(cx.now_ns(), &mut gone, ask);
            if cx.outputs() <= IN_VAIN {
                table.count_drops(gone.len() as u64);
            }
        }
        for packet in gone {
            if cx.outputs() > IN_VAIN { cx.emit(IN_VAIN, packet) } else { cx.drop(reason, packet) }
        }
        self.set(cx, table);
        asks
    }
}
