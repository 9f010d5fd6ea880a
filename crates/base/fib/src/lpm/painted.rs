//! What routes that nest come to: ranges side by side, each with one value.

/// Ranges as they are made from routes in order.
pub(super) struct Painted {
    /// Where ranges begin, and their values; no two neighbours have the same.
    entries: Vec<(i32, u32)>,
    /// The routes that have begun: where they end, and their values.
    open: Vec<(i32, u32)>,
}

impl Painted {
    /// `value` from `first` to `last`.
    pub(super) fn new(first: i32, last: i32, value: u32) -> Self {
        Painted { entries: vec![(first, value)], open: vec![(last, value)] }
    }

    /// A route inside the others that have not ended.
    pub(super) fn route(&mut self, first: i32, last: i32, value: u32) {
        self.end_before(first);
        self.open.push((last, value));
        self.begin(first, value);
    }

    /// All ranges; the first begins where everything does.
    pub(super) fn finish(mut self) -> Vec<(i32, u32)> {
        self.end_before(i32::MAX);
        self.entries
    }

    fn end_before(&mut self, first: i32) {
        while let [.., (around, value), (last, _)] = self.open[..]
            && last < first
        {
            self.open.pop();
            if last < around {
                self.begin(last + 1, value);
            }
        }
    }

    fn begin(&mut self, first: i32, value: u32) {
        self.entries.pop_if(|&mut (begin, _)| begin == first);
        if self.entries.last().is_none_or(|&(_, before)| before != value) {
            self.entries.push((first, value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_that_nest_become_ranges() {
        let mut painted = Painted::new(0, 99, 1);
        for (first, last, value) in
            [(0, 49, 2), (0, 9, 1), (10, 19, 2), (30, 49, 3), (40, 49, 4), (50, 99, 1), (99, 99, 5)]
        {
            painted.route(first, last, value);
        }
        assert_eq!(painted.finish(), [(0, 1), (10, 2), (30, 3), (40, 4), (50, 1), (99, 5)]);
    }
}
