//! Questions that require subqueries and window functions.

use gymkhana_sdk::Rng;

use super::{Form, Parts, a, words};

/// Subqueries and set differences.
pub(super) fn nested(parts: &Parts<'_>, rng: &mut Rng) -> Form {
    let Parts { p, d, .. } = parts;
    let joined = parts.joined();
    let (label, category, number, count) = (words(p.label), words(p.category), words(p.number), words(d.count));
    let [state, other] = parts.states(rng);
    match rng.below(5) {
        0 => (
            format!(
                "List the {label} of every {} that has no {} whose {} is {state}.",
                p.one,
                d.one,
                words(d.category)
            ),
            format!(
                "SELECT {} FROM {} WHERE {} NOT IN (SELECT {} FROM {} WHERE {} = '{state}')",
                p.label, p.table, p.id, p.key, d.table, d.category
            ),
            false,
        ),
        1 => (
            format!(
                "List {label} and {number} of every {} whose {number} is above the average {number} of all {}.",
                p.one, p.many
            ),
            format!(
                "SELECT {}, {} FROM {} WHERE {} > (SELECT AVG({}) FROM {})",
                p.label, p.number, p.table, p.number, p.number, p.table
            ),
            false,
        ),
        2 => (
            format!(
                "Which {} have {} whose {} is {state}, but none whose {} is {other}? List each {label} once.",
                p.many,
                a(d.one),
                words(d.category),
                words(d.category)
            ),
            format!(
                "SELECT p.{} {joined} WHERE d.{} = '{state}' EXCEPT SELECT p.{} {joined} WHERE d.{} = '{other}'",
                p.label, d.category, p.label, d.category
            ),
            false,
        ),
        3 => {
            let value = parts.category(rng);
            (
                format!(
                    "Which {} with the {category} {value} have the greatest {number} among those? List {label} and {number}; all of them where several are equal.",
                    p.many
                ),
                format!(
                    "SELECT {}, {} FROM {} WHERE {} = '{value}' AND {} = (SELECT MAX({}) FROM {} WHERE {} = '{value}')",
                    p.label, p.number, p.table, p.category, p.number, p.number, p.table, p.category
                ),
                false,
            )
        }
        _ => (
            format!(
                "List {} and {count} of every {} whose {count} is above the average {count} of the {} of the same {}.",
                words(&d.id),
                d.one,
                d.many,
                p.one
            ),
            format!(
                "SELECT {}, {} FROM {} AS a WHERE {} > (SELECT AVG(b.{}) FROM {} AS b WHERE b.{} = a.{})",
                d.id, d.count, d.table, d.count, d.count, d.table, p.key, p.key
            ),
            false,
        ),
    }
}

/// Window functions: ranks, running sums, neighbouring rows.
pub(super) fn window(parts: &Parts<'_>, rng: &mut Rng) -> Form {
    let Parts { p, d, .. } = parts;
    let (label, category, number, count) = (words(p.label), words(p.category), words(p.number), words(d.count));
    let [state, _] = parts.states(rng);
    match rng.below(5) {
        0 => (
            format!(
                "For every {category}, which {} have the greatest {number}? List {category}, {label} and {number}; all of them where several are equal.",
                p.many
            ),
            format!(
                "SELECT {0}, {1}, {2} FROM (SELECT {0}, {1}, {2}, RANK() OVER (PARTITION BY {0} ORDER BY {2} DESC) AS place FROM {3}) WHERE place = 1",
                p.category, p.label, p.number, p.table
            ),
            false,
        ),
        1 => (
            format!(
                "List {id}, {day} and the running sum of {count} for the {many} whose {state_words} is {state}, the earliest first; on the same day, by {id}, the smallest first.",
                id = words(&d.id),
                day = words(d.day),
                many = d.many,
                state_words = words(d.category)
            ),
            format!(
                "SELECT {0}, {1}, SUM({2}) OVER (ORDER BY {1}, {0}) FROM {3} WHERE {4} = '{state}' ORDER BY {1}, {0}",
                d.id, d.day, d.count, d.table, d.category
            ),
            true,
        ),
        2 => (
            format!(
                "What is the latest {} of each {} that has one? List {label}, {} and {count}; of several on one day, the one with the greatest {}.",
                d.one,
                p.one,
                words(d.day),
                words(&d.id)
            ),
            format!(
                "SELECT {label}, {day}, {count} FROM (SELECT p.{label}, d.{day}, d.{count}, ROW_NUMBER() OVER (PARTITION BY p.{key} ORDER BY d.{day} DESC, d.{id} DESC) AS place {joined}) WHERE place = 1",
                label = p.label,
                day = d.day,
                count = d.count,
                key = p.id,
                id = d.id,
                joined = parts.joined()
            ),
            false,
        ),
        3 => (
            format!(
                "By how much does the {count} of each {one} differ from that of the {one} before it, if they are ordered by {day} and then by {id}? List {id} and difference, negative where it is smaller; leave out the first.",
                one = d.one,
                day = words(d.day),
                id = words(&d.id)
            ),
            format!(
                "SELECT {0}, gap FROM (SELECT {0}, {1} - LAG({1}) OVER (ORDER BY {2}, {0}) AS gap FROM {3}) WHERE gap IS NOT NULL",
                d.id, d.count, d.day, d.table
            ),
            false,
        ),
        _ => (
            format!(
                "For every {}, list {label} and by how much its {number} is above the average {number} of the {} with the same {category}; a negative number where it is below.",
                p.one, p.many
            ),
            format!(
                "SELECT {}, {1} - AVG({1}) OVER (PARTITION BY {2}) FROM {3}",
                p.label, p.number, p.category, p.table
            ),
            false,
        ),
    }
}
