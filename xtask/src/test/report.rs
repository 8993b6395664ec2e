//! What a test program printed: which tests failed, and how many ran.

/// Outcome of a test program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Tests that passed.
    pub passed: usize,
    /// Tests that were left out.
    pub ignored: usize,
    /// Names of the tests that failed.
    pub failed: Vec<String>,
    /// Whether the program printed its result, which it does not if a test ends the process.
    pub is_complete: bool,
}

impl Report {
    /// Reads the standard output of a program with Rust's own test harness.
    pub fn of(output: &str) -> Self {
        let mut report = Self::default();
        for line in output.lines() {
            if let Some(result) = line.strip_prefix("test result: ") {
                report.is_complete = true;
                report.passed += count(result, "passed");
                report.ignored += count(result, "ignored");
            } else if let Some(name) = line.strip_prefix("test ").and_then(|test| test.strip_suffix(" ... FAILED")) {
                report.failed.push(name.to_owned());
            }
        }
        // A test that prints past the harness tears its own line apart; the list at the end is whole.
        for name in listed_failures(output) {
            if !report.failed.iter().any(|known| known == name) {
                report.failed.push(name.to_owned());
            }
        }
        report
    }
}

/// Names in the list after the last line `failures:`.
fn listed_failures(output: &str) -> impl Iterator<Item = &str> {
    let list = output.rsplit_once("\nfailures:\n").map_or("", |(_, list)| list);
    list.lines().take_while(|line| line.starts_with("    ")).map(str::trim)
}

/// The number before a word in `ok. 3 passed; 0 failed; 1 ignored; …`.
fn count(result: &str, word: &str) -> usize {
    let part = result.split([';', '.']).map(str::trim).find_map(|part| part.strip_suffix(word));
    part.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAILED: &str = "
running 4 tests
test a::first ... ok
test a::second ... FAILED
test b::third ... some words of the test FAILED
test b::fourth ... ignored

failures:

---- a::second stdout ----
panicked at a.rs:1

failures:
    a::second
    b::third

test result: FAILED. 1 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s
";

    #[test]
    fn failures_are_named() {
        let report = Report::of(FAILED);
        assert_eq!((report.passed, report.ignored, report.is_complete), (1, 1, true));
        assert_eq!(report.failed, ["a::second", "b::third"]);
    }

    #[test]
    fn a_program_that_dies_has_no_result() {
        let report = Report::of("running 2 tests\ntest a::first ... ok\n");
        assert!(!report.is_complete && report.failed.is_empty());
    }

    #[test]
    fn counts_of_several_results_are_added() {
        let result = "test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n";
        let report = Report::of(&result.repeat(2));
        assert_eq!((report.passed, report.ignored, report.failed.len()), (4, 2, 0));
    }
}
