//! How threads are shared out among the ports that are received from.
//!
//! Each port gets threads of its own node, those that the configuration gave to
//! nobody else, as evenly as they go (*Fast Userspace Packet Processing*, 5.5).

/// What a receiver says of the threads it would have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThreadRequest {
    /// The node of its port, when that matters.
    pub node: Option<usize>,
    /// These and no others, a bit for each.
    pub fixed: Option<u64>,
    /// No more than so many.
    pub most: Option<usize>,
    /// From this one of those it may have.
    pub first: Option<usize>,
}

/// The threads of each receiver, a bit for each. `nodes` are those of the router's
/// threads, where they are bound; `taken` the threads that do something else.
pub fn share(requests: &[ThreadRequest], nodes: &[Option<usize>], taken: u64) -> Vec<u64> {
    let usable: Vec<Vec<usize>> = requests.iter().map(|request| usable(request, nodes, taken)).collect();
    let mut shares = vec![];
    for (n, request) in requests.iter().enumerate() {
        if let Some(fixed) = request.fixed {
            shares.push(fixed);
            continue;
        }
        let alike = |(other, of): (usize, &ThreadRequest)| of.fixed.is_none() && usable[other] == usable[n];
        let count = requests.iter().enumerate().filter(|&(m, of)| alike((m, of))).count();
        let place = requests[..n].iter().enumerate().filter(|&(m, of)| alike((m, of))).count();
        let mut mine = match request.first {
            Some(first) => {
                let share = request.most.unwrap_or((usable[n].len() / count).max(1));
                let first = first.min(usable[n].len().saturating_sub(share));
                usable[n].iter().copied().skip(first).take(share).collect()
            }
            None => part(&usable[n], place, count),
        };
        mine.truncate(request.most.unwrap_or(usize::MAX).max(1));
        shares.push(mine.iter().fold(0, |mask, thread| mask | 1 << thread));
    }
    shares
}

/// Those of `threads` that one of `count` gets: one that others have as well when
/// there are too few.
fn part(threads: &[usize], place: usize, count: usize) -> Vec<usize> {
    if threads.len() <= count {
        return threads.get(place % threads.len().max(1)).copied().into_iter().collect();
    }
    threads.iter().copied().skip(place).step_by(count).collect()
}

/// The threads a receiver may have: of its node, unless there are none, and free,
/// unless there are none.
fn usable(request: &ThreadRequest, nodes: &[Option<usize>], taken: u64) -> Vec<usize> {
    let all = || 0..nodes.len();
    let near = |&thread: &usize| request.node.is_some() && nodes[thread] == request.node;
    let mut threads: Vec<usize> = all().filter(near).collect();
    if threads.is_empty() {
        threads = all().collect();
    }
    let free: Vec<usize> = threads.iter().copied().filter(|thread| taken >> thread & 1 == 0).collect();
    if free.is_empty() { threads } else { free }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: ThreadRequest = ThreadRequest { node: None, fixed: None, most: None, first: None };

    fn unbound(threads: usize) -> Vec<Option<usize>> {
        vec![None; threads]
    }

    #[test]
    fn threads_are_dealt_out_in_turn() {
        assert_eq!(share(&[ANY; 2], &unbound(4), 0), [0b0101, 0b1010]);
        assert_eq!(share(&[ANY; 2], &unbound(5), 0), [0b10101, 0b01010]);
        assert_eq!(share(&[ANY; 3], &unbound(2), 0), [0b01, 0b10, 0b01]);
        assert_eq!(share(&[ANY], &unbound(64), 0), [u64::MAX]);
    }

    #[test]
    fn each_port_has_threads_of_its_node() {
        let nodes = [Some(0), Some(0), Some(1), Some(1)];
        let at = |node| ThreadRequest { node: Some(node), ..ANY };
        assert_eq!(share(&[at(1), at(0)], &nodes, 0), [0b1100, 0b0011]);
        assert_eq!(share(&[at(1), at(1)], &nodes, 0), [0b0100, 0b1000], "and none of the other");
        assert_eq!(share(&[at(2)], &nodes, 0), [0b1111], "unless its own has none");
    }

    #[test]
    fn threads_that_do_something_else_are_left_alone() {
        assert_eq!(share(&[ANY; 2], &unbound(4), 0b0001), [0b1010, 0b0100]);
        assert_eq!(share(&[ANY], &unbound(2), 0b11), [0b11], "unless all do");
    }

    #[test]
    fn the_configuration_has_the_last_word() {
        let fixed = ThreadRequest { fixed: Some(0b1000), ..ANY };
        assert_eq!(share(&[fixed, ANY], &unbound(4), 0), [0b1000, 0b1111]);
        let two = ThreadRequest { most: Some(2), ..ANY };
        assert_eq!(share(&[two], &unbound(4), 0), [0b0011]);
        let late = ThreadRequest { first: Some(1), most: Some(2), ..ANY };
        assert_eq!(share(&[late], &unbound(4), 0), [0b0110]);
        let far = ThreadRequest { first: Some(9), most: Some(2), ..ANY };
        assert_eq!(share(&[far], &unbound(4), 0), [0b1100], "as late as there are threads");
        let half = ThreadRequest { first: Some(2), ..ANY };
        assert_eq!(share(&[half, ANY], &unbound(4), 0), [0b1100, 0b1010]);
    }
}
