//! Wires by the ports of one of their sides, so that those of a port are found at once.

use crate::plan::{Port, Wire};

/// Numbers of wires, by a port of each: element after element, and those of an element by its
/// ports' numbers. Those of one port stay in their order.
#[derive(Debug, Clone)]
pub(crate) struct Sorted {
    numbers: Vec<u32>,
    /// Where in `numbers` those of an element begin; they end where the next one's begin.
    first: Vec<u32>,
}

impl Sorted {
    /// Of at most 2^32 wires ([`Limits::connections`](crate::lang::Limits)), by their `port`.
    pub(crate) fn new(elements: usize, wires: &[Wire], port: impl Fn(&Wire) -> Port) -> Sorted {
        let mut first = vec![0u32; elements + 1];
        wires.iter().for_each(|wire| first[port(wire).element + 1] += 1);
        (1..first.len()).for_each(|element| first[element] += first[element - 1]);
        let mut free = first.clone();
        let mut numbers = vec![0; wires.len()];
        for (number, wire) in wires.iter().enumerate() {
            let place = &mut free[port(wire).element];
            numbers[*place as usize] = number as u32;
            *place += 1;
        }
        for ends in first.windows(2).filter(|ends| ends[1] - ends[0] > 1) {
            let of_one = &mut numbers[ends[0] as usize..ends[1] as usize];
            of_one.sort_by_key(|&number| port(&wires[number as usize]).port);
        }
        Sorted { numbers, first }
    }

    /// The wires at a port, none of an element that is not there, where `port` and `wires` are those it was made of.
    pub(crate) fn at<'a>(
        &'a self,
        at: Port,
        wires: &'a [Wire],
        port: impl Fn(&Wire) -> Port + Copy + 'a,
    ) -> impl Iterator<Item = &'a Wire> {
        let ends = self.first.get(at.element..).and_then(|ends| ends.first_chunk());
        let of_element = match ends {
            Some([first, end]) => &self.numbers[*first as usize..*end as usize],
            None => &[],
        };
        let first = of_element.partition_point(|&number| port(&wires[number as usize]).port < at.port);
        let from_there = of_element[first..].iter().map(|&number| &wires[number as usize]);
        from_there.take_while(move |wire| port(wire).port == at.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wires_of_a_port_are_found_in_their_order() {
        let port = |(element, port)| Port { element, port };
        let ends = [((2, 1), (0, 0)), ((0, 0), (1, 0)), ((2, 0), (1, 0)), ((2, 1), (1, 1)), ((0, 0), (0, 1))];
        let wires = ends.map(|(from, to)| Wire { from: port(from), to: port(to) });
        let (by_from, by_to) =
            (Sorted::new(4, &wires, |wire| wire.from), Sorted::new(4, &wires, |wire| wire.to));
        let from = |at| by_from.at(port(at), &wires, |wire| wire.from).map(|w| w.to).collect::<Vec<_>>();
        assert_eq!(from((2, 1)), [port((0, 0)), port((1, 1))]);
        assert_eq!((from((0, 0)), from((2, 0))), (vec![port((1, 0)), port((0, 1))], vec![port((1, 0))]));
        assert_eq!((from((1, 0)), from((2, 2)), from((3, 0))), (vec![], vec![], vec![]));
        let to = by_to.at(port((1, 0)), &wires, |wire| wire.to).map(|wire| wire.from);
        assert_eq!(to.collect::<Vec<_>>(), [port((0, 0)), port((2, 0))]);
    }
}
