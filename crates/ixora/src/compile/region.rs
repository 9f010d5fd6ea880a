//! Which elements of a configuration become one program, and where packets come in.
//!
//! Elements that look at one packet at a time, have packets pushed into them, and are
//! connected with each other are a region. A way that leads back to itself is cut: there
//! packets leave the region and come back by an entry.

use std::collections::{BTreeMap, BTreeSet};

use graph::Class;
use graph::element::kernel::{Code, Inside, Kernel};
use graph::plan::Instances;
use graph::plan::Port;
use graph::plan::{Plan, Planned};

/// The most elements of a region: a larger one would be more code than the processor
/// keeps at hand.
const LARGEST: usize = 512;

/// An element that can be part of a program.
#[derive(Debug, Clone)]
pub struct Node {
    /// The element's class.
    pub class: &'static Class,
    /// How elements of the class are.
    pub kernel: Inside,
    /// How its code is written into the program.
    pub code: Code,
}

impl Node {
    /// Whether it stays outside, with a test in its place.
    pub fn is_guard(&self) -> bool {
        matches!(self.code, Code::Aside(_))
    }
}

/// A configuration as programs are made of it.
pub struct Graph<'a> {
    /// What is known of it.
    pub plan: &'a Plan,
    /// The elements that can be part of a program, by number.
    pub nodes: BTreeMap<usize, Node>,
    /// Why the others cannot.
    pub outside: BTreeMap<usize, String>,
    /// Outputs that lead back: packets leave their region there.
    cuts: BTreeSet<Port>,
}

/// Elements that become one program.
#[derive(Debug, Clone, Default)]
pub struct Region {
    /// Numbers of the elements.
    pub elements: BTreeSet<usize>,
    /// Where packets come in from elsewhere, in order of elements.
    pub entries: Vec<Port>,
}

impl<'a> Graph<'a> {
    /// Finds out about all elements.
    pub fn new(plan: &'a Plan, made: &Instances) -> Graph<'a> {
        let mut graph =
            Graph { plan, nodes: BTreeMap::new(), outside: BTreeMap::new(), cuts: BTreeSet::new() };
        for (number, planned) in plan.elements.iter().enumerate() {
            match node(planned, made.get(number).and_then(Option::as_deref)) {
                Ok(node) => drop(graph.nodes.insert(number, node)),
                Err(why) => drop(graph.outside.insert(number, why)),
            }
        }
        graph
    }

    /// Where an output leads within a region, or out of it.
    pub fn target(&self, from: Port) -> Option<Port> {
        self.plan.beyond(from).next()
    }

    /// Where an output leads if packets go on in the same program there.
    pub fn inner(&self, from: Port) -> Option<Port> {
        let passes = self.passes(from);
        let to = self.target(from).filter(|to| passes && self.nodes.contains_key(&to.element))?;
        (!self.cuts.contains(&from)).then_some(to)
    }

    /// Whether packets that come in leave by an output, and not only what an element sends
    /// itself.
    pub fn passes(&self, from: Port) -> bool {
        let outputs = self.plan.elements[from.element].pull_outputs.len();
        self.nodes.get(&from.element).is_some_and(|node| (node.kernel.through)(from.port, outputs))
    }

    /// The outputs of an element.
    pub fn outputs(&self, element: usize) -> impl Iterator<Item = Port> + use<> {
        (0..self.plan.elements[element].pull_outputs.len()).map(move |port| Port { element, port })
    }

    /// How many connections lead to an element.
    pub fn arrivals(&self, element: usize) -> usize {
        let inputs = self.plan.elements[element].pull_inputs.len();
        (0..inputs).map(|port| self.plan.before(Port { element, port }).count()).sum()
    }

    /// The regions, in order of their first elements.
    pub fn regions(&mut self) -> Vec<Region> {
        let mut left: BTreeSet<usize> = self.nodes.keys().copied().collect();
        let mut regions = vec![];
        while let Some(&first) = left.first() {
            let elements = self.connected(first);
            for element in &elements {
                left.remove(element);
            }
            let members = elements.iter().filter(|element| !self.nodes[element].is_guard()).count();
            let why = match elements.len() {
                1 => "no neighbour can be fused with it",
                LARGEST.. => "there are too many elements around it",
                _ if members == 0 => "no neighbour can be fused with it",
                _ => {
                    regions.extend(self.region(elements));
                    continue;
                }
            };
            self.leave(&elements, why);
        }
        regions
    }

    fn leave(&mut self, elements: &BTreeSet<usize>, why: &str) {
        for element in elements {
            self.nodes.remove(element);
            self.outside.insert(*element, why.to_string());
        }
    }

    /// All elements that can be fused and hang together with one.
    fn connected(&self, first: usize) -> BTreeSet<usize> {
        let mut found = BTreeSet::from([first]);
        let mut work = vec![first];
        while let Some(element) = work.pop() {
            let down = self.outputs(element).filter_map(|from| self.inner(from)).map(|to| to.element);
            let inputs = self.plan.elements[element].pull_inputs.len();
            let up = (0..inputs).flat_map(|port| self.plan.before(Port { element, port }));
            let up = up.filter(|from| self.inner(*from).is_some()).map(|from| from.element);
            work.extend(down.chain(up).filter(|next| found.insert(*next)));
        }
        found
    }

    /// Cuts what leads back, and finds the entries.
    fn region(&mut self, elements: BTreeSet<usize>) -> Option<Region> {
        let from_outside = |to: Port| self.plan.before(to).any(|from| self.inner(from).is_none());
        let inputs = |&element: &usize| {
            let count = self.plan.elements[element].pull_inputs.len();
            (0..count).map(move |port| Port { element, port })
        };
        let entries: Vec<Port> =
            elements.iter().flat_map(inputs).filter(|port| from_outside(*port)).collect();
        if entries.is_empty() {
            self.leave(&elements, "nothing leads here");
            return None;
        }
        let cuts = self.leading_back(&entries);
        self.cuts.extend(cuts);
        // By now an output is an entry's neighbour if it is cut, or a guard's: what
        // the element itself sends on comes in there.
        let comes_in = |to: &Port| {
            let mut before = self.plan.before(*to);
            before.any(|from| {
                self.inner(from).is_none() || self.nodes.get(&from.element).is_some_and(Node::is_guard)
            })
        };
        let entries = elements.iter().flat_map(inputs).filter(comes_in).collect();
        Some(Region { elements, entries })
    }

    /// The outputs that lead back to where packets came from.
    fn leading_back(&self, entries: &[Port]) -> Vec<Port> {
        let (mut done, mut under_way, mut cuts) = (BTreeSet::new(), BTreeSet::new(), vec![]);
        for entry in entries {
            let mut work = vec![(entry.element, false)];
            while let Some((element, leaves)) = work.pop() {
                if leaves {
                    under_way.remove(&element);
                    done.insert(element);
                    continue;
                }
                if done.contains(&element) || !under_way.insert(element) {
                    continue;
                }
                work.push((element, true));
                for from in self.outputs(element) {
                    match self.inner(from) {
                        Some(to) if under_way.contains(&to.element) => cuts.push(from),
                        Some(to) => work.push((to.element, false)),
                        None => {}
                    }
                }
            }
        }
        cuts
    }
}

/// An element as part of a program; or why it cannot be one.
fn node(planned: &Planned, made: Option<&dyn graph::Element>) -> Result<Node, String> {
    let class = planned.kind;
    let kernel = match class.kernel {
        Kernel::Inside(inside) => inside,
        Kernel::Excluded(why) => return Err(why.to_string()),
        Kernel::Unwritten => return Err(format!("{} is no class that is fused", class.name)),
    };
    if planned.pull_inputs.contains(&true) || planned.pull_outputs.contains(&true) {
        return Err("packets are pulled".into());
    }
    let element = made.ok_or("it has the address of a port, which is known when that is open")?;
    let code = (kernel.code)(element);
    match &code {
        Code::Excluded(why) => return Err(why.to_string()),
        Code::Aside(_) => {}
        _ if element.replicate().is_none() => return Err("threads share it behind a lock".into()),
        _ => {}
    }
    Ok(Node { class, kernel, code })
}
