//! The spanning tree of bridges (IEEE 802.1D-1998, clause 8): which ports of one forward. Time is passed in.

use std::cmp::Ordering;

use graph::clock::SECOND_NS;
use wire::stp::{Configuration, Message, Priority, SECOND, Times};

/// What a port does, in the order in which one that opens goes through it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PortState {
    Blocking,
    Listening,
    Learning,
    Forwarding,
}

impl PortState {
    fn next(self) -> PortState {
        match self {
            PortState::Blocking => PortState::Listening,
            PortState::Listening => PortState::Learning,
            PortState::Learning | PortState::Forwarding => PortState::Forwarding,
        }
    }
}

/// What was heard on a port, or is said of the root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Heard {
    priority: Priority,
    times: Times,
    /// When the root said it; `None` for what does not grow old.
    said_ns: Option<i64>,
    changed: bool,
}

/// The times of a bridge that is the root.
const OWN_TIMES: Times = Times { max_age: 20 * SECOND, hello: 2 * SECOND, forward_delay: 15 * SECOND };

/// What a port knows on which nothing is heard: anything is better.
const NOTHING: Heard = Heard {
    priority: Priority { root: u64::MAX, cost: 0xFFFF, bridge: u64::MAX, port: u16::MAX },
    times: OWN_TIMES,
    said_ns: None,
    changed: false,
};

impl Heard {
    fn is_old(&self, now_ns: i64, max_age: u16) -> bool {
        self.said_ns.is_some_and(|said_ns| now_ns - said_ns >= time_ns(max_age))
    }

    /// How old it is, in parts of a second; it is older wherever it comes.
    fn age(&self, now_ns: i64) -> u16 {
        let age = |said_ns: i64| (now_ns - said_ns).max(0) / (SECOND_NS / i64::from(SECOND)) + 1;
        self.said_ns.map_or(0, |said_ns| u16::try_from(age(said_ns)).unwrap_or(u16::MAX))
    }

    fn line(&self) -> String {
        let Heard { priority: Priority { root, cost, bridge, port }, times, changed, .. } = self;
        let [max_age, hello, delay] = [times.max_age, times.hello, times.forward_delay].map(|t| t / SECOND);
        let change = if *changed { "TC" } else { "tc" };
        format!(
            " {bridge:>16x}:{port:04x}: {change}  {cost:x} -> {root:>16x}  m/h/d: {max_age:x}/{hello:x}/{delay:x}\n"
        )
    }
}

fn time_ns(time: u16) -> i64 {
    i64::from(time) * (SECOND_NS / i64::from(SECOND))
}

/// The times of a message, within what the standard allows (table 8-3): whoever sends one could have
/// others send without a pause, or wait for hours.
fn within_bounds(times: Times) -> Times {
    let bound = |time: u16, least: u16, most: u16| time.clamp(least * SECOND, most * SECOND);
    Times {
        max_age: bound(times.max_age, 6, 40),
        hello: bound(times.hello, 1, 10),
        forward_delay: bound(times.forward_delay, 4, 30),
    }
}

#[derive(Debug)]
struct TreePort {
    state: PortState,
    since_ns: i64,
    heard: Heard,
    /// A change was told of that is not acknowledged yet.
    owes_acknowledgement: bool,
}

/// What a bridge knows of the tree.
#[derive(Debug)]
pub(super) struct SpanningTree {
    /// This bridge's identifier.
    own: u64,
    ports: Vec<TreePort>,
    /// The root as far as it is known, the cost that of this bridge.
    best: Heard,
    root_port: Option<usize>,
    /// The root is to be told of a change.
    tells_change: bool,
    /// Until when a root says that there was a change.
    changed_until_ns: i64,
    /// Addresses may be elsewhere than where they were learned.
    moved: bool,
}

impl SpanningTree {
    pub(super) fn new(own: u64, ports: usize, now_ns: i64) -> SpanningTree {
        let port = || TreePort {
            state: PortState::Listening,
            since_ns: now_ns,
            heard: NOTHING,
            owes_acknowledgement: false,
        };
        SpanningTree {
            own,
            ports: (0..ports).map(|_| port()).collect(),
            best: SpanningTree::own_word(own),
            root_port: None,
            tells_change: false,
            changed_until_ns: i64::MIN,
            moved: false,
        }
    }

    /// What this bridge says when it is the root.
    fn own_word(own: u64) -> Heard {
        let priority = Priority { root: own, cost: 0, bridge: own, port: 0 };
        Heard { priority, times: OWN_TIMES, ..NOTHING }
    }

    /// Whether it is of the same bridge as another one, with as many ports.
    pub(super) fn is_of_same_bridge(&self, other: &SpanningTree) -> bool {
        (self.own, self.ports.len()) == (other.own, other.ports.len())
    }

    pub(super) fn hello_ns(&self) -> i64 {
        time_ns(self.best.times.hello)
    }

    pub(super) fn states(&self) -> impl Iterator<Item = PortState> {
        self.ports.iter().map(|port| port.state)
    }

    /// Whether addresses may have moved since this was asked last.
    pub(super) fn take_moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }

    /// What was heard on each port, and what is said of the root, a line each.
    pub(super) fn listing(&self) -> String {
        self.ports.iter().map(|port| port.heard.line()).collect::<String>() + &self.best.line()
    }

    /// What this bridge says, or would say, on a port.
    fn offer(&self, port: usize) -> Priority {
        Priority { bridge: self.own, port: port as u16, ..self.best.priority }
    }

    fn is_designated(&self, port: usize) -> bool {
        self.root_port != Some(port) && self.offer(port) <= self.ports[port].heard.priority
    }

    /// A message came in at a port.
    pub(super) fn hear(&mut self, port: usize, message: &Message, now_ns: i64) {
        let Configuration { priority, age, times, changed, acknowledged } = match message {
            Message::Configuration(configuration) => *configuration,
            Message::TopologyChange => {
                if port < self.ports.len() && self.is_designated(port) {
                    self.ports[port].owes_acknowledgement = true;
                    self.note_change(now_ns);
                }
                return;
            }
        };
        let times = within_bounds(times);
        let Some(at) = self.ports.get_mut(port).filter(|_| age < times.max_age) else { return };
        // What is as good is the same, said again.
        if priority > at.heard.priority {
            return;
        }
        // At the end as well: of a second change the root tells in the same way as of the first.
        self.moved |= changed != at.heard.changed;
        at.heard = Heard { priority, times, said_ns: Some(now_ns - time_ns(age)), changed };
        if acknowledged && self.root_port == Some(port) {
            self.tells_change = false;
        }
        self.choose(now_ns);
    }

    /// Time has passed: forgets what is old, and opens ports further.
    pub(super) fn pass(&mut self, now_ns: i64) {
        let Times { max_age, forward_delay, .. } = self.best.times;
        for port in 0..self.ports.len() {
            let at = &mut self.ports[port];
            if at.heard.is_old(now_ns, max_age) {
                at.heard = NOTHING;
            }
            let opens = matches!(at.state, PortState::Listening | PortState::Learning);
            if opens && now_ns - at.since_ns >= time_ns(forward_delay) {
                let next = at.state.next();
                self.enter(port, next, now_ns);
            }
        }
        self.choose(now_ns);
    }

    /// Finds the root, and which ports are part of the tree.
    fn choose(&mut self, now_ns: i64) {
        let root_port = self.root_port;
        (self.best, self.root_port) = (SpanningTree::own_word(self.own), None);
        for (port, TreePort { heard, .. }) in self.ports.iter().enumerate() {
            let priority = Priority { cost: heard.priority.cost.saturating_add(1), ..heard.priority };
            if heard.said_ns.is_some() && priority < self.best.priority {
                self.best = Heard { priority, ..*heard };
                self.root_port = Some(port);
            }
        }
        if root_port.is_some() && self.root_port.is_none() {
            self.tells_change = false;
            self.note_change(now_ns);
        }
        for port in 0..self.ports.len() {
            let is_part = self.root_port == Some(port) || self.is_designated(port);
            match (is_part, self.ports[port].state) {
                (true, PortState::Blocking) => self.enter(port, PortState::Listening, now_ns),
                (false, state) if state != PortState::Blocking => {
                    self.enter(port, PortState::Blocking, now_ns)
                }
                _ => {}
            }
        }
    }

    fn enter(&mut self, port: usize, state: PortState, now_ns: i64) {
        let at = &mut self.ports[port];
        let before = std::mem::replace(&mut at.state, state);
        at.since_ns = now_ns;
        let has_changed = match state.cmp(&before) {
            Ordering::Less => before >= PortState::Learning,
            _ => state == PortState::Forwarding,
        };
        if has_changed {
            self.note_change(now_ns);
        }
    }

    /// Packets take other ways from now on (8.6.14).
    fn note_change(&mut self, now_ns: i64) {
        self.moved = true;
        if self.root_port.is_some() {
            self.tells_change = true;
        } else {
            let Times { max_age, forward_delay, .. } = OWN_TIMES;
            self.changed_until_ns = now_ns + time_ns(max_age) + time_ns(forward_delay);
        }
    }

    /// What is to be sent now on a port.
    pub(super) fn message(&mut self, port: usize, now_ns: i64) -> Option<Message> {
        if self.root_port == Some(port) {
            return self.tells_change.then_some(Message::TopologyChange);
        }
        let age = self.best.age(now_ns);
        if !self.is_designated(port) || age >= self.best.times.max_age {
            return None;
        }
        let changed = match self.root_port {
            Some(_) => self.best.changed,
            None => now_ns < self.changed_until_ns,
        };
        Some(Message::Configuration(Configuration {
            priority: self.offer(port),
            age,
            times: self.best.times,
            changed,
            acknowledged: std::mem::take(&mut self.ports[port].owes_acknowledgement),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bridges whose ports are joined by pairs, and how long they have run.
    struct Net {
        bridges: Vec<SpanningTree>,
        links: Vec<[(usize, usize); 2]>,
        now_ns: i64,
    }

    impl Net {
        fn new(ports: &[usize], links: &[[(usize, usize); 2]]) -> Net {
            let bridge = |(n, ports): (usize, &usize)| SpanningTree::new(n as u64 + 1, *ports, 0);
            Net { bridges: ports.iter().enumerate().map(bridge).collect(), links: links.to_vec(), now_ns: 0 }
        }

        fn run(&mut self, seconds: i64) {
            for _ in 0..seconds / 2 {
                self.now_ns += 2 * SECOND_NS;
                for from in 0..self.bridges.len() {
                    self.bridges[from].pass(self.now_ns);
                    for port in 0..self.bridges[from].ports.len() {
                        let Some(message) = self.bridges[from].message(port, self.now_ns) else { continue };
                        let link = self.links.iter().find(|link| link.contains(&(from, port)));
                        let ends = link.into_iter().flatten();
                        for (to, at) in ends.filter(|end| **end != (from, port)).copied() {
                            self.bridges[to].hear(at, &message, self.now_ns);
                        }
                    }
                }
            }
        }

        fn states(&self) -> Vec<Vec<PortState>> {
            self.bridges.iter().map(|bridge| bridge.states().collect()).collect()
        }
    }

    use PortState::{Blocking, Forwarding, Learning, Listening};

    #[test]
    fn a_ring_is_opened_at_one_port_and_closed_when_a_link_breaks() {
        let ring = [[(0, 0), (1, 0)], [(1, 1), (2, 0)], [(2, 1), (0, 1)]];
        let mut net = Net::new(&[2, 2, 2], &ring);
        assert_eq!(net.states()[0], [Listening; 2]);
        net.run(16);
        assert_eq!(net.states()[0], [Learning; 2]);
        net.run(16);
        let tree = vec![vec![Forwarding; 2], vec![Forwarding; 2], vec![Blocking, Forwarding]];
        assert_eq!(net.states(), tree);
        net.run(100);
        assert_eq!(net.states(), tree);
        assert!(net.bridges.iter_mut().all(SpanningTree::take_moved), "ports began to forward");
        net.links.remove(2);
        net.run(24);
        assert_eq!(net.states()[2][0], Listening, "the root is not heard of for 20 s");
        net.run(40);
        assert_eq!(net.states(), vec![vec![Forwarding; 2]; 3]);
        let mut moved = |n: usize| net.bridges[n].take_moved();
        assert_eq!([moved(0), moved(1), moved(2)], [true; 3], "the root was told, and told all");
        assert!(!net.bridges[2].tells_change && !net.bridges[1].tells_change, "they were answered");
    }

    #[test]
    fn two_ports_on_one_network_are_one_too_many() {
        let mut net = Net::new(&[3], &[[(0, 0), (0, 1)]]);
        net.run(40);
        assert_eq!(net.states()[0], [Forwarding, Blocking, Forwarding]);
    }

    /// What a root of a better identifier says.
    fn root_says(changed: bool) -> Message {
        let priority = Priority { root: 1, cost: 0, bridge: 1, port: 0 };
        let acknowledged = false;
        Message::Configuration(Configuration { priority, age: 0, times: OWN_TIMES, changed, acknowledged })
    }

    #[test]
    fn addresses_learned_while_the_root_tells_of_a_change_are_forgotten() {
        let mut tree = SpanningTree::new(9, 2, 0);
        let mut moved = vec![];
        // Two changes, 20 s apart: the root tells of the first for 35 s, and so until 55 s.
        for second in 0..60 {
            tree.hear(0, &root_says((1..56).contains(&second)), second * SECOND_NS);
            if tree.take_moved() {
                moved.push(second);
            }
        }
        assert_eq!(moved, [1, 56]);
    }

    #[test]
    fn a_bridge_that_becomes_the_root_tells_of_the_change_itself() {
        let mut tree = SpanningTree::new(9, 2, 0);
        for second in (0..40).step_by(2) {
            tree.hear(0, &root_says(false), second * SECOND_NS);
            tree.pass(second * SECOND_NS);
        }
        assert_eq!(tree.message(0, 40 * SECOND_NS), Some(Message::TopologyChange));
        assert!(tree.take_moved());
        let tells = |tree: &mut SpanningTree, second: i64| {
            tree.pass(second * SECOND_NS);
            match tree.message(0, second * SECOND_NS) {
                Some(Message::Configuration(said)) => Some((said.priority.root, said.changed)),
                _ => None,
            }
        };
        assert_eq!(tells(&mut tree, 60), Some((9, true)));
        assert!(tree.take_moved() && !tree.tells_change);
        assert_eq!((tells(&mut tree, 94), tells(&mut tree, 95)), (Some((9, true)), Some((9, false))));
    }

    #[test]
    fn no_message_has_a_bridge_hurry_or_wait_without_end() {
        let mut tree = SpanningTree::new(9, 2, 0);
        let priority = Priority { root: 1, cost: u32::MAX, bridge: 1, port: 0 };
        for (time, hello_s) in [(0, 1), (u16::MAX, 10)] {
            let times = Times { max_age: time, hello: time, forward_delay: time };
            let said = Configuration { priority, age: 0, times, changed: false, acknowledged: true };
            tree.hear(0, &Message::Configuration(said), 0);
            assert_eq!(tree.hello_ns(), hello_s * SECOND_NS);
            let old = Configuration { age: 40 * SECOND, priority: Priority { root: 0, ..priority }, ..said };
            tree.hear(1, &Message::Configuration(old), 0);
            assert_eq!(tree.best.priority.root, 1, "what is too old is not taken");
        }
        assert_eq!(tree.best.priority.cost, u32::MAX);
        tree.hear(7, &Message::TopologyChange, 0);
        tree.pass(39 * SECOND_NS);
        assert_eq!(tree.best.priority.root, 1);
        tree.pass(41 * SECOND_NS);
        assert_eq!(tree.best.priority.root, 9);
    }
}
