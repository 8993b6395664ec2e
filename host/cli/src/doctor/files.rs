//! Limit on open files.

use gymkhana_finding::Finding;

const CHECK: &str = "files";

/// Open files of a run with a policy server and a registry, with a margin.
const NEEDED: u64 = 1024;

/// Checks the soft limit on open files; `None` if there is none.
pub fn check(limit: Option<u64>) -> Finding {
    match limit {
        None => Finding::ok(CHECK, "no limit on open files"),
        Some(limit) if limit >= NEEDED => Finding::ok(CHECK, format!("up to {limit} open files")),
        Some(limit) => Finding::warn(CHECK, format!("up to {limit} open files\nhint: run `ulimit -n {NEEDED}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gymkhana_finding::FindingStatus;

    #[test]
    fn a_low_limit_is_a_warning() {
        assert_eq!(
            [None, Some(1024), Some(1023)].map(|limit| check(limit).status),
            [FindingStatus::Ok, FindingStatus::Ok, FindingStatus::Warn]
        );
    }
}
