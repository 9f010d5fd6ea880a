//! "Did you mean": the name nearest to one that nobody knows.

/// The nearest of some names, if one is near: a third of the letters may differ,
/// exchanged neighbours being one difference. Names that differ only in their
/// letters' case are nearest.
pub fn suggestion<'n>(wanted: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let most = (wanted.chars().count() / 3).clamp(1, 4);
    let lower = wanted.to_lowercase();
    let mut best: Option<(usize, &str)> = None;
    for name in names {
        if name == wanted || name.len().abs_diff(wanted.len()) > most {
            continue;
        }
        let folded = name.to_lowercase() == lower;
        let distance = if folded { 0 } else { strsim::osa_distance(wanted, name) };
        // A short name of which little would be left is no suggestion.
        let near = distance <= most && (folded || distance * 2 < wanted.chars().count().max(2));
        if near && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, name));
        }
    }
    best.map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::suggestion;

    #[test]
    fn finds_what_was_meant_and_nothing_far() {
        let names = ["Discard", "Queue", "InfiniteSource", "Tee", "q"];
        assert_eq!(suggestion("Discrad", names), Some("Discard"));
        assert_eq!(suggestion("queue", names), Some("Queue"));
        assert_eq!(suggestion("InfinteSorce", names), Some("InfiniteSource"));
        assert_eq!(suggestion("Te", names), None);
        assert_eq!(suggestion("x", names), None);
        assert_eq!(suggestion("Classifier", names), None);
        assert_eq!(suggestion("Tea", names), Some("Tee"));
        assert_eq!(suggestion("Counters", ["Mounter", "Counter", "Kounter"]), Some("Counter"));
    }
}
