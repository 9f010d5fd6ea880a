//! Which element has a name, without a second copy of the names.

use std::hash::BuildHasher;

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

/// Elements by their names. A million of them are ten megabytes, and a table that grows does not
/// read the names again: there is half a hash beside each number. Who asks knows the names.
#[derive(Clone, Debug, Default)]
pub(crate) struct NameTable(HashTable<Row>);

#[derive(Clone, Debug)]
struct Row {
    hash: HalfHash,
    element: u32,
}

/// A name's hash, folded: configurations are read to be run by who wrote them, so it has no key.
#[derive(Clone, Copy, Debug, PartialEq)]
struct HalfHash(u32);

impl HalfHash {
    fn of(name: &str) -> HalfHash {
        let hash = FxBuildHasher.hash_one(name);
        HalfHash((hash ^ hash >> 32) as u32)
    }

    /// As the table wants it: it takes some of the lowest bits and some of the highest.
    fn whole(self) -> u64 {
        u64::from(self.0) << 32 | u64::from(self.0)
    }
}

impl NameTable {
    /// The number of the element that has a name, where `name_of` gives those of elements.
    pub(crate) fn find<'a>(&self, name: &str, name_of: impl Fn(u32) -> &'a str) -> Option<u32> {
        let hash = HalfHash::of(name);
        let is_it = |row: &Row| row.hash == hash && name_of(row.element) == name;
        self.0.find(hash.whole(), is_it).map(|row| row.element)
    }

    /// Adds an element by a name that no other one has.
    pub(crate) fn insert(&mut self, name: &str, element: u32) {
        let hash = HalfHash::of(name);
        self.0.insert_unique(hash.whole(), Row { hash, element }, |row| row.hash.whole());
    }

    /// Makes room for so many names in all.
    pub(crate) fn reserve_for(&mut self, names: usize) {
        let more = names.saturating_sub(self.0.len());
        self.0.reserve(more, |row| row.hash.whole());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_found_and_no_other() {
        let name = |element: u32| format!("e{element}");
        let names: Vec<String> = (0..5000).map(name).collect();
        let mut table = NameTable::default();
        for (element, name) in names.iter().enumerate() {
            assert_eq!(table.find(name, |element| &names[element as usize]), None);
            table.insert(name, element as u32);
        }
        for (element, name) in names.iter().enumerate() {
            assert_eq!(table.find(name, |element| &names[element as usize]), Some(element as u32));
        }
        assert_eq!(table.find("e5000", |element| &names[element as usize]), None);
    }

    #[test]
    fn names_of_one_hash_are_told_apart() {
        let mut table = NameTable::default();
        let hash = HalfHash::of("a");
        table.0.insert_unique(hash.whole(), Row { hash, element: 0 }, |row| row.hash.whole());
        table.insert("a", 1);
        assert_eq!(table.find("a", |element| ["b", "a"][element as usize]), Some(1));
    }
}
