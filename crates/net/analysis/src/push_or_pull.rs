//! How packets leave a source whose output is agnostic: pushed by a task of its own while
//! there is room for them, or pulled by others, who are told when there are some.

use graph::signal::SignalKind;
use graph::{Cx, Notice, Signal, Signals, TaskId};

/// What a source has of its output 0, and whom it wakes.
pub(crate) struct PushOrPull {
    /// The task that pushes; `None` where others pull.
    task: Option<TaskId>,
    /// Raised where packets are pushed to while there is room.
    room: Signals,
    /// Raised for those who pull while there are packets.
    packets: Signal,
}

impl Default for PushOrPull {
    fn default() -> PushOrPull {
        // Raised, not to be raised before those who wait have said so.
        PushOrPull { task: None, room: Signals::default(), packets: Signal::new(true) }
    }
}

impl PushOrPull {
    /// Makes the task, where packets are pushed.
    pub(crate) fn init(&mut self, cx: &mut Cx<'_>) {
        if cx.is_push_output(0) {
            let task = cx.new_task();
            self.room = cx.downstream(0, Some(task));
            self.task = Some(task);
        }
    }

    /// Wakes whoever is to ask for packets, if the source is active; else tells those who pull that
    /// there are none.
    pub(crate) fn wake(&mut self, cx: &mut Cx<'_>, is_active: bool) {
        match self.task {
            Some(task) if is_active => cx.schedule(task),
            None if is_active => self.packets.raise(cx),
            None => self.packets.lower(),
            Some(_) => {}
        }
    }

    /// Whether there is room for packets that are pushed.
    pub(crate) fn has_room(&self) -> bool {
        self.room.any()
    }

    /// Tells those who pull that there are no packets at present.
    pub(crate) fn lower(&mut self) {
        self.packets.lower();
    }

    /// What the element tells those who wait for its packets.
    pub(crate) fn notice(&self, kind: SignalKind) -> Notice {
        self.packets.of_packets(kind)
    }
}
