//! Which elements lead to which, in two lists for all of a configuration: a list for each
//! element would be as many pieces of memory as there are elements.

/// For each element some others, in the order in which they were given.
pub(crate) struct Neighbors {
    others: Vec<u32>,
    /// Where in `others` those of an element begin; they end where the next one's begin.
    first: Vec<u32>,
}

impl Neighbors {
    /// Of `pairs` of an element and another one, where there are so many `elements`; at most
    /// 2^32 pairs ([`Limits::connections`](crate::lang::Limits)).
    pub(crate) fn new(elements: usize, pairs: impl Iterator<Item = (usize, usize)> + Clone) -> Neighbors {
        let mut first = vec![0u32; elements + 1];
        pairs.clone().for_each(|(element, _)| first[element + 1] += 1);
        (1..first.len()).for_each(|element| first[element] += first[element - 1]);
        let mut free = first.clone();
        let mut others = vec![0; first[elements] as usize];
        for (element, other) in pairs {
            others[free[element] as usize] = other as u32;
            free[element] += 1;
        }
        Neighbors { others, first }
    }

    /// The others of an element.
    pub(crate) fn of(&self, element: usize) -> impl Iterator<Item = usize> {
        let range = self.first[element] as usize..self.first[element + 1] as usize;
        self.others[range].iter().map(|&other| other as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::Neighbors;

    #[test]
    fn each_element_has_its_own() {
        let pairs = [(2, 0), (0, 1), (2, 3), (0, 0)];
        let neighbors = Neighbors::new(4, pairs.into_iter());
        let of = |element| neighbors.of(element).collect::<Vec<_>>();
        assert_eq!((of(0), of(1), of(2), of(3)), (vec![1, 0], vec![], vec![0, 3], vec![]));
        assert_eq!(Neighbors::new(1, [].into_iter()).of(0).count(), 0);
    }
}
