//! The table of failures, and its reference page.

mod table;

use std::fmt::Write;

use gymkhana_record::{EpisodeRecord, Failure};

pub use table::{FailureCause, FailureOutcome, FailureOwner, FailureRow, Signature, TABLE};

const INTRODUCTION: &str = "# Failures

An absent episode is in no comparison, statistic, sampler's memory, evaluation or loss: coefficients and weights equal, bit \
for bit, those of a step without it.
";

/// The page, without its first line.
#[must_use]
pub fn failures_page() -> String {
    let mut page = INTRODUCTION.to_owned();
    for owner in FailureOwner::ALL {
        // Writing to a String cannot fail.
        let _ = write!(page, "\n## {}\n\n{}\n\n", owner.title(), owner.rule());
        page.push_str("| what fails | how | then | tests |\n| --- | --- | --- | --- |\n");
        for FailureRow { cause, how, outcome, evidence, .. } in TABLE.iter().filter(|row| row.owner == owner) {
            let tests: Vec<String> = evidence.iter().map(crate::evidence::Evidence::shown).collect();
            let _ = writeln!(page, "| {} | {how} | {} | {} |", cause.name(), outcome.text(), tests.join(", "));
        }
    }
    page
}

/// The row of a failure of an episode; `None` if the table has none.
#[must_use]
pub fn row_of(record: &EpisodeRecord, failure: &Failure) -> Option<&'static FailureRow> {
    TABLE.iter().find(|row| row.signatures.iter().any(|signature| signature.matches(record, failure)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_cause_and_owner_has_a_row() {
        let causes: BTreeSet<FailureCause> = TABLE.iter().map(|row| row.cause).collect();
        assert_eq!(causes, BTreeSet::from(FailureCause::ALL));
        let page = failures_page();
        let rows = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| what fails")).count();
        assert_eq!(rows, TABLE.len() + FailureOwner::ALL.len());
    }

    #[test]
    fn tests_are_there() {
        TABLE.iter().flat_map(|row| row.evidence).for_each(crate::evidence::Evidence::assert_there);
    }
}
