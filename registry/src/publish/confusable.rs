//! Detection of confusable names (typosquatting).
//!
//! A plugin name is compared with the names in other namespaces. Equal names in two namespaces are allowed: the namespace
//! distinguishes them, and an ambiguous short name is an error where it is used. Nearly equal names are rejected.

use crate::{Namespace, PluginName};

/// Minimum length for the edit-distance rule; shorter names are often one edit apart.
const MIN_LENGTH: usize = 5;

/// Returns true if a new plugin name is confusable with a name of another publisher.
#[must_use]
pub fn is_confusable(new: &PluginName, existing: &PluginName) -> bool {
    new.namespace() != existing.namespace() && is_similar(new.name(), existing.name())
}

/// Returns true if a new namespace is confusable with an existing one.
#[must_use]
pub fn is_confusable_namespace(new: &Namespace, existing: &Namespace) -> bool {
    is_similar(new.as_str(), existing.as_str())
}

/// Returns true if two different words are equal up to hyphens and look-alike digits, or differ by one inserted, deleted,
/// replaced or transposed letter.
fn is_similar(one: &str, other: &str) -> bool {
    if one == other {
        return false;
    }
    let (one, other) = (skeleton(one), skeleton(other));
    one == other || (one.len().min(other.len()) >= MIN_LENGTH && is_one_edit_apart(&one, &other))
}

/// Word without hyphens and with look-alike characters unified.
fn skeleton(word: &str) -> Vec<u8> {
    let unified = |byte| match byte {
        b'-' => None,
        b'0' => Some(b'o'),
        b'1' | b'i' => Some(b'l'),
        b'5' => Some(b's'),
        other => Some(other),
    };
    word.bytes().filter_map(unified).collect()
}

fn is_one_edit_apart(one: &[u8], other: &[u8]) -> bool {
    let (short, long) = if one.len() <= other.len() { (one, other) } else { (other, one) };
    let same = short.iter().zip(long).take_while(|(left, right)| left == right).count();
    let (short, long) = (&short[same..], &long[same..]);
    match (short, long) {
        ([left, middle, rest @ ..], [first, second, end @ ..]) if left == second && middle == first && rest == end => {
            true
        }
        _ if short.len() == long.len() => short.get(1..) == long.get(1..),
        _ => short.len() + 1 == long.len() && long.get(1..) == Some(short),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn confusable(new: &str, existing: &str) -> bool {
        is_confusable(&new.parse().expect("a name"), &existing.parse().expect("a name"))
    }

    #[test]
    fn near_duplicates_are_confusable() {
        for new in ["calculater", "calcuIator", "ca1culator", "calc-ulator", "calculators", "caclulator", "alculator"] {
            let new = new.replace('I', "l");
            if new != "calculator" {
                assert!(confusable(&format!("evil/{new}"), "gymkhana/calculator"), "{new}");
            }
        }
    }

    #[test]
    fn distinct_names_are_not_confusable() {
        for (new, existing) in [
            ("evil/calculator", "gymkhana/calculator"),
            ("gymkhana/calculators", "gymkhana/calculator"),
            ("acme/calibrator", "gymkhana/calculator"),
            ("acme/sql", "gymkhana/sat"),
            ("acme/go", "gymkhana/no"),
        ] {
            assert!(!confusable(new, existing), "{new}");
        }
        let namespace = |text: &str| text.parse::<Namespace>().expect("a namespace");
        assert!(is_confusable_namespace(&namespace("gymkahna"), &namespace("gymkhana")));
        assert!(!is_confusable_namespace(&namespace("acme"), &namespace("gymkhana")));
    }
}
