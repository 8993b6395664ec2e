//! Names that people take for one another.
//!
//! A plugin's name is compared with those in other namespaces. The same name in two namespaces is allowed, since the
//! namespace tells them apart and a short name that two have is refused where it is used; one that is nearly the same is
//! not, since nothing would tell the reader.

use crate::{Namespace, PluginName};

/// Shorter names are too near to each other by their length alone.
const SHORTEST: usize = 5;

/// Whether a new plugin's name can be taken for another publisher's.
#[must_use]
pub fn too_close(new: &PluginName, there: &PluginName) -> bool {
    new.namespace() != there.namespace() && alike(new.name(), there.name())
}

/// Whether a new namespace can be taken for another.
#[must_use]
pub fn too_close_namespace(new: &Namespace, there: &Namespace) -> bool {
    alike(new.as_str(), there.as_str())
}

/// Whether two different words look alike: the same but for hyphens and digits that look like letters, or one letter
/// added, dropped or changed, or two neighbours swapped.
fn alike(one: &str, other: &str) -> bool {
    if one == other {
        return false;
    }
    let (plain_one, plain_other) = (plain(one), plain(other));
    plain_one == plain_other
        || (plain_one.len().min(plain_other.len()) >= SHORTEST && one_edit_apart(&plain_one, &plain_other))
}

/// The letters that a hasty reader sees.
fn plain(word: &str) -> Vec<u8> {
    let seen = |byte| match byte {
        b'-' => None,
        b'0' => Some(b'o'),
        b'1' | b'i' => Some(b'l'),
        b'5' => Some(b's'),
        other => Some(other),
    };
    word.bytes().filter_map(seen).collect()
}

fn one_edit_apart(one: &[u8], other: &[u8]) -> bool {
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

    fn close(new: &str, there: &str) -> bool {
        too_close(&new.parse().expect("a name"), &there.parse().expect("a name"))
    }

    #[test]
    fn names_that_are_taken_for_another_are_close() {
        for new in ["calculater", "calcuIator", "ca1culator", "calc-ulator", "calculators", "caclulator", "alculator"] {
            let new = new.replace('I', "l");
            if new != "calculator" {
                assert!(close(&format!("evil/{new}"), "gymkhana/calculator"), "{new}");
            }
        }
    }

    #[test]
    fn other_names_are_not() {
        for (new, there) in [
            ("evil/calculator", "gymkhana/calculator"),
            ("gymkhana/calculators", "gymkhana/calculator"),
            ("acme/calibrator", "gymkhana/calculator"),
            ("acme/sql", "gymkhana/sat"),
            ("acme/go", "gymkhana/no"),
        ] {
            assert!(!close(new, there), "{new}");
        }
        let namespace = |text: &str| text.parse::<Namespace>().expect("a namespace");
        assert!(too_close_namespace(&namespace("gymkahna"), &namespace("gymkhana")));
        assert!(!too_close_namespace(&namespace("acme"), &namespace("gymkhana")));
    }
}
