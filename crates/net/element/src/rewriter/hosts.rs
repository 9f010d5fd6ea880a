//! How many flows each host began that still exist: the limit that keeps one host from taking
//! all ports (RFC 6888, REQ-4).
//!
//! A host is the source address of a flow's first packet as it came. Nothing is counted where
//! there is no limit. There are never more entries than flows, so the capacity bounds them.

use std::collections::HashMap;

/// The flows of hosts, where they are limited.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    /// The most flows of one host; zero for any number.
    limit: usize,
    flows: HashMap<u32, usize>,
}

impl Hosts {
    /// With so many flows for each host at most, or zero for any number.
    pub(crate) fn new(limit: usize) -> Hosts {
        Hosts { limit, flows: HashMap::new() }
    }

    /// The most flows of one host; zero for any number.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Whether a host has as many flows as it may have.
    pub(crate) fn is_full(&self, host: u32) -> bool {
        self.limit > 0 && self.flows.get(&host).is_some_and(|flows| *flows >= self.limit)
    }

    /// A flow of a host was made.
    pub(crate) fn add(&mut self, host: u32) {
        if self.limit > 0 {
            *self.flows.entry(host).or_default() += 1;
        }
    }

    /// A flow of a host is gone.
    pub(crate) fn remove(&mut self, host: u32) {
        if self.limit > 0
            && let Some(flows) = self.flows.get_mut(&host)
        {
            *flows -= 1;
            if *flows == 0 {
                self.flows.remove(&host);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_its_limit_and_leaves_nothing_behind() {
        let mut hosts = Hosts::new(2);
        hosts.add(1);
        hosts.add(1);
        hosts.add(2);
        assert!(hosts.is_full(1) && !hosts.is_full(2) && !hosts.is_full(3));
        hosts.remove(1);
        assert!(!hosts.is_full(1));
        hosts.remove(1);
        hosts.remove(2);
        assert!(hosts.flows.is_empty());
    }
}
