//! `measure tests`: every test in a process of its own, and the slowest ones with the time that they compute and wait.

use std::fmt::Write as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::processor;
use crate::step::output_of;
use crate::test::programs::{self, TestProgram};
use crate::workspace::Workspace;

/// Rows of the table.
const SLOWEST: usize = 50;

/// A test that has run.
struct Measured {
    test: String,
    passed: bool,
    wall: Duration,
    processor: Duration,
}

/// Runs all tests one by one and prints the slowest, by wall time, as a table in Markdown.
pub fn run(workspace: &Workspace) -> anyhow::Result<()> {
    let mut measured = vec![];
    for program in programs::build(workspace, &[])? {
        for test in names(&program) {
            measured.push(measure(&program, &test)?);
        }
    }
    measured.sort_by_key(|test| std::cmp::Reverse(test.wall));
    #[allow(clippy::print_stdout, reason = "the table is this command's result")]
    {
        println!("{}", table(&measured));
    }
    Ok(())
}

/// Names of the program's tests, without the ignored ones.
fn names(program: &TestProgram) -> Vec<String> {
    let list = |arguments: &[&str]| output_of(program.command().arg("--list").args(arguments)).unwrap_or_default();
    let of = |listed: &str| -> Vec<String> {
        listed.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
    };
    let ignored = of(&list(&["--ignored"]));
    of(&list(&[])).into_iter().filter(|name| !ignored.contains(name)).collect()
}

fn measure(program: &TestProgram, test: &str) -> anyhow::Result<Measured> {
    let (since, before) = (Instant::now(), processor::of_children());
    let mut command = program.command();
    command.args([test, "--exact"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let status = command.status().with_context(|| format!("`{}` does not start", program.executable.display()))?;
    let test = format!("{} {test}", program.name());
    let measured = Measured {
        test,
        passed: status.success(),
        wall: since.elapsed(),
        processor: processor::of_children() - before,
    };
    if measured.wall > Duration::from_secs(5) || !measured.passed {
        eprintln!("{}", line(&measured));
    }
    Ok(measured)
}

/// Wall time, processor time, waiting time: what remains of the wall time if one core computed.
fn line(measured: &Measured) -> String {
    let Measured { test, passed, wall, processor } = measured;
    let waited = wall.saturating_sub(*processor);
    let failed = if *passed { "" } else { " (failed)" };
    format!(
        "| {:.1} | {:.1} | {:.1} | {test}{failed} |",
        wall.as_secs_f64(),
        processor.as_secs_f64(),
        waited.as_secs_f64()
    )
}

fn table(measured: &[Measured]) -> String {
    let total = |time: fn(&Measured) -> Duration| measured.iter().map(time).sum::<Duration>().as_secs_f64();
    let mut text = "| wall, s | processor, s | waiting, s | test |\n| --- | --- | --- | --- |\n".to_owned();
    for test in measured.iter().take(SLOWEST) {
        let _ = writeln!(text, "{}", line(test));
    }
    let (wall, processor) = (total(|test| test.wall), total(|test| test.processor));
    let _ = writeln!(text, "| {wall:.0} | {processor:.0} | | all {} tests, one after the other |", measured.len());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_the_time_that_a_test_waits() {
        let test = |name: &str, wall: u64, processor: u64| Measured {
            test: name.to_owned(),
            passed: name != "p fails",
            wall: Duration::from_secs(wall),
            processor: Duration::from_secs(processor),
        };
        let text = table(&[test("p waits", 9, 2), test("p fails", 3, 5)]);
        assert!(text.contains("| 9.0 | 2.0 | 7.0 | p waits |\n"), "{text}");
        assert!(text.contains("| 3.0 | 5.0 | 0.0 | p fails (failed) |\n"), "{text}");
        assert!(text.ends_with("| 12 | 7 | | all 2 tests, one after the other |\n"), "{text}");
    }
}
