//! Questions about one table.

use gymkhana_sdk::Rng;

use super::{Form, Parts, words};

/// Conditions, an order, a limit.
pub(super) fn filter(parts: &Parts<'_>, rng: &mut Rng) -> Form {
    let Parts { p, d, .. } = parts;
    let (label, number, category) = (words(p.label), words(p.number), words(p.category));
    let x = parts.number(rng);
    match (rng.below(6), p.extra) {
        (0, Some(extra)) => (
            format!("List the {label} of every {} whose {} is not known.", p.one, words(extra)),
            format!("SELECT {} FROM {} WHERE {extra} IS NULL", p.label, p.table),
            false,
        ),
        (1, _) => {
            let value = parts.category(rng);
            (
                format!(
                    "List {label} and {number} of every {} whose {category} is {value} and whose {number} is at most {x}.",
                    p.one
                ),
                format!(
                    "SELECT {}, {} FROM {} WHERE {} = '{value}' AND {} <= {x}",
                    p.label, p.number, p.table, p.category, p.number
                ),
                false,
            )
        }
        (2, _) => {
            let most = rng.between(2, 5);
            (
                format!(
                    "List the {label} of the {most} {} with the greatest {number}, the greatest first; where it is equal, by {label} from A to Z.",
                    p.many
                ),
                format!("SELECT {} FROM {} ORDER BY {} DESC, {} LIMIT {most}", p.label, p.table, p.number, p.label),
                true,
            )
        }
        (3, _) => {
            let year = rng.between(2021, 2024);
            let [state, _] = parts.states(rng);
            (
                format!(
                    "List {} and {} of every {} in {year} whose {} is {state}.",
                    words(&d.id),
                    words(d.day),
                    d.one,
                    words(d.category)
                ),
                format!(
                    "SELECT {}, {} FROM {} WHERE {} BETWEEN '{year}-01-01' AND '{year}-12-31' AND {} = '{state}'",
                    d.id, d.day, d.table, d.day, d.category
                ),
                false,
            )
        }
        (4, _) => (
            format!("Which values of {category} do those {} have whose {number} is below {x}? List each once.", p.many),
            format!("SELECT DISTINCT {} FROM {} WHERE {} < {x}", p.category, p.table, p.number),
            false,
        ),
        _ => (
            format!("List the {label} of every {} whose {number} is above {x}.", p.one),
            format!("SELECT {} FROM {} WHERE {} > {x}", p.label, p.table, p.number),
            false,
        ),
    }
}

/// Aggregates of one row.
pub(super) fn aggregate(parts: &Parts<'_>, rng: &mut Rng) -> Form {
    let Parts { p, d, .. } = parts;
    let (number, category) = (words(p.number), words(p.category));
    let [state, _] = parts.states(rng);
    let counted = d.amount.unwrap_or(d.count);
    match rng.below(5) {
        0 => {
            let (value, x) = (parts.category(rng), parts.number(rng));
            (
                format!("How many {} are there whose {category} is {value} or whose {number} is above {x}?", p.many),
                format!("SELECT COUNT(*) FROM {} WHERE {} = '{value}' OR {} > {x}", p.table, p.category, p.number),
                false,
            )
        }
        1 => {
            let value = parts.category(rng);
            (
                format!("What is the average {number} of the {} whose {category} is not {value}?", p.many),
                format!("SELECT AVG({}) FROM {} WHERE {} <> '{value}'", p.number, p.table, p.category),
                false,
            )
        }
        2 => (
            format!(
                "What are the smallest and the greatest {} of the {} whose {} is {state}?",
                words(counted),
                d.many,
                words(d.category)
            ),
            format!("SELECT MIN({counted}), MAX({counted}) FROM {} WHERE {} = '{state}'", d.table, d.category),
            false,
        ),
        3 => {
            let year = rng.between(2022, 2024);
            (
                format!("What is the sum of {} over all {} from the beginning of {year} on?", words(counted), d.many),
                format!("SELECT SUM({counted}) FROM {} WHERE {} >= '{year}-01-01'", d.table, d.day),
                false,
            )
        }
        _ => (
            format!(
                "How many different {} have at least one {} whose {} is {state}?",
                p.many,
                d.one,
                words(d.category)
            ),
            format!("SELECT COUNT(DISTINCT {}) FROM {} WHERE {} = '{state}'", p.key, d.table, d.category),
            false,
        ),
    }
}
