//! Questions that require joins and groups.

use gymkhana_sdk::Rng;

use super::{Form, Parts, a, words};

/// Joins of two or three tables.
pub(super) fn join(parts: &Parts<'_>, rng: &mut Rng) -> Form {
    let Parts { p, q, d } = parts;
    let (joined, all) = (parts.joined(), parts.all_joined());
    let [state, _] = parts.states(rng);
    let x = parts.count(rng);
    let (label, count) = (words(p.label), words(d.count));
    match rng.below(5) {
        0 => (
            format!(
                "List the {label} of every {} that has {} whose {} is {state}; each once.",
                p.one,
                a(d.one),
                words(d.category)
            ),
            format!("SELECT DISTINCT p.{} {joined} WHERE d.{} = '{state}'", p.label, d.category),
            false,
        ),
        1 => (
            format!(
                "For every {} whose {count} is above {x}, list the {label} of the {} and the {} of the {}.",
                d.one,
                p.one,
                words(q.label),
                q.one
            ),
            format!("SELECT p.{}, q.{} {all} WHERE d.{} > {x}", p.label, q.label, d.count),
            false,
        ),
        2 => {
            let value = parts.category(rng);
            (
                format!("How many {} have {} whose {} is {value}?", d.many, a(p.one), words(p.category)),
                format!("SELECT COUNT(*) {joined} WHERE p.{} = '{value}'", p.category),
                false,
            )
        }
        3 => {
            let (value, other) = (parts.category(rng), rng.pick(q.entity.category.1));
            (
                format!(
                    "What is the sum of {count} over all {} of {} with the {} {value} and {} with {} other than {other}?",
                    d.many,
                    p.many,
                    words(p.category),
                    q.many,
                    a(&words(q.category))
                ),
                format!(
                    "SELECT SUM(d.{}) {all} WHERE p.{} = '{value}' AND q.{} <> '{other}'",
                    d.count, p.category, q.category
                ),
                false,
            )
        }
        _ => (
            format!(
                "List {} of the {}, {label} of the {} and {} of the {} for every {} whose {} is {state}, the latest {} first; on the same day, by the {}'s key, the smallest first.",
                words(d.day),
                d.one,
                p.one,
                words(q.label),
                q.one,
                d.one,
                words(d.category),
                d.one,
                d.one
            ),
            format!(
                "SELECT d.{}, p.{}, q.{} {all} WHERE d.{} = '{state}' ORDER BY d.{} DESC, d.{}",
                d.day, p.label, q.label, d.category, d.day, d.id
            ),
            true,
        ),
    }
}

/// Groups and conditions on them.
pub(super) fn group(parts: &Parts<'_>, rng: &mut Rng) -> Form {
    let Parts { p, d, .. } = parts;
    let joined = parts.joined();
    let (label, category, number, count) = (words(p.label), words(p.category), words(p.number), words(d.count));
    match rng.below(5) {
        0 => {
            let x = parts.number(rng);
            (
                format!(
                    "For every {category}, how many {} are there whose {number} is at least {x}? List {category} and how many; leave out what has none.",
                    p.many
                ),
                format!(
                    "SELECT {}, COUNT(*) FROM {} WHERE {} >= {x} GROUP BY {}",
                    p.category, p.table, p.number, p.category
                ),
                false,
            )
        }
        1 => {
            let least = rng.between(3, 6);
            (
                format!("Which {} have at least {least} {}? List {label} and how many.", p.many, d.many),
                format!("SELECT p.{}, COUNT(*) {joined} GROUP BY p.{} HAVING COUNT(*) >= {least}", p.label, p.id),
                false,
            )
        }
        2 => {
            let least = parts.count(rng) * 4;
            (
                format!(
                    "For every {category} of {}, what is the sum of {count} of their {}? List {category} and sum, only sums above {least}.",
                    p.many, d.many
                ),
                format!(
                    "SELECT p.{}, SUM(d.{}) {joined} GROUP BY p.{} HAVING SUM(d.{}) > {least}",
                    p.category, d.count, p.category, d.count
                ),
                false,
            )
        }
        3 => (
            format!(
                "List every {category} that at least 2 {} have, with the average {number} of those {}, the greatest average first; where it is equal, by {category} from A to Z.",
                p.many, p.many
            ),
            format!(
                "SELECT {}, AVG({}) FROM {} GROUP BY {} HAVING COUNT(*) >= 2 ORDER BY AVG({}) DESC, {}",
                p.category, p.number, p.table, p.category, p.number, p.category
            ),
            true,
        ),
        _ => (
            format!("How many {} does each {} have? List {label} and number, also where it is 0.", d.many, p.one),
            format!(
                "SELECT p.{}, COUNT(d.{}) FROM {} AS p LEFT JOIN {} AS d ON d.{} = p.{} GROUP BY p.{}",
                p.label, d.id, p.table, d.table, p.key, p.id, p.id
            ),
            false,
        ),
    }
}
