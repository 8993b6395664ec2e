//! Counts by name with a bound on the number and the length of names.

use std::collections::BTreeMap;

/// Most names that are told apart.
const MOST: usize = 64;
/// Most characters of a name.
const LENGTH: usize = 80;
/// Name of all further ones.
const OTHERS: &str = "others";

/// Counts by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct NamedCounts(BTreeMap<String, u64>);

impl NamedCounts {
    pub fn add(&mut self, name: &str, count: u64) {
        let name: String = name.chars().take(LENGTH).collect();
        let is_known = self.0.len() < MOST || self.0.contains_key(&name);
        *self.0.entry(if is_known { name } else { OTHERS.to_owned() }).or_default() += count;
    }

    pub fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|(name, count)| self.add(name, *count));
    }

    /// Names and counts, the most frequent first.
    pub fn sorted(&self) -> Vec<(&str, u64)> {
        let mut sorted: Vec<(&str, u64)> = self.0.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        sorted.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        sorted
    }

    /// The most frequent names with their counts, such as `trap 3, fuel 1`.
    pub fn listed(&self, most: usize) -> String {
        let parts: Vec<String> =
            self.sorted().into_iter().take(most).map(|(name, count)| format!("{name} {count}")).collect();
        parts.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_names_are_counted_together() {
        let mut counts = NamedCounts::default();
        (0..MOST + 5).for_each(|number| counts.add(&format!("name {number}"), 1));
        counts.add("name 3", 2);
        assert_eq!((counts.listed(2).as_str(), counts.sorted().len()), ("others 5, name 3 3", MOST + 1));
        let mut long = NamedCounts::default();
        long.add(&"x".repeat(1000), 1);
        assert!(long.sorted().iter().all(|(name, _)| name.len() == LENGTH));
    }
}
