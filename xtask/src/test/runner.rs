//! Runs test programs side by side. One that fails does not keep the others from running.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use super::programs::TestProgram;
use super::report::Report;
use super::unchanged::Passed;
use crate::processor;
use crate::step::note;

/// Programs that run at the same time: while the tests of one wait, those of another compute.
const AT_A_TIME: usize = 2;

/// Longest time of a program. Its tests bound their own waits; this bounds what they forget.
const TIMEOUT: Duration = Duration::from_secs(20 * 60);

/// Interval of polling a running program.
const POLL: Duration = Duration::from_millis(20);

/// Programs that take minutes, by their time. Others run in any order.
const LONGEST: [&str; 5] = [
    "gymkhana-sandbox sandbox",
    "gymkhana-cli folders",
    "gymkhana-cli commands",
    "gymkhana-tests plugins",
    "gymkhana-cli runs",
];

/// A program that has run.
struct Finished {
    report: Report,
    /// Reason of a failure.
    failure: Option<String>,
    wall: Duration,
    processor: Duration,
}

/// Runs all programs and keeps their output in `logs`. Fails with a list of everything that failed.
pub fn run(programs: Vec<TestProgram>, logs: &Path, passed: &Passed) -> anyhow::Result<()> {
    fs::create_dir_all(logs).with_context(|| format!("cannot create `{}`", logs.display()))?;
    let (unchanged, mut waiting): (Vec<_>, Vec<_>) = programs.into_iter().partition(|program| passed.contains(program));
    if !unchanged.is_empty() {
        note(&format!("{} test programs passed before and have not changed", unchanged.len()));
    }
    // The longest come last in the list, from which they are taken first.
    waiting.sort_by_key(|program| LONGEST.iter().position(|name| *name == program.name()));
    let (waiting, failures) = (Mutex::new(waiting), Mutex::new(Vec::new()));
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop();
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some(program) = next() {
                    let failed = run_one(&program, logs, passed);
                    failures.lock().unwrap_or_else(PoisonError::into_inner).extend(failed);
                }
            });
        }
    });
    let mut failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    if failures.is_empty() {
        return Ok(());
    }
    failures.sort();
    for failure in &failures {
        note(&format!("FAILED {failure}"));
    }
    bail!("{} failed:\n  {}", crate::step::counted(failures.len(), "test"), failures.join("\n  "))
}

/// Runs one program, prints its line, and returns what failed.
fn run_one(program: &TestProgram, logs: &Path, passed: &Passed) -> Vec<String> {
    let log = logs.join(format!("{}.log", program.name().replace(' ', "-")));
    let finished = match execute(program, &log) {
        Ok(finished) => finished,
        Err(error) => return vec![format!("{}: {error:#}", program.name())],
    };
    let Finished { report, failure, wall, processor } = finished;
    let state = if failure.is_none() && report.failed.is_empty() { "ok" } else { "FAILED" };
    eprintln!(
        "    {state:<6} {:>5} tests {:>7.1} s {:>7.1} s of processor time  {}",
        report.passed + report.failed.len(),
        wall.as_secs_f64(),
        processor.as_secs_f64(),
        program.name()
    );
    if state == "ok" {
        passed.add(program);
        return vec![];
    }
    if let Ok(text) = fs::read_to_string(&log) {
        eprintln!("{text}");
    }
    let mut failed: Vec<String> = report.failed.iter().map(|test| format!("{} {test}", program.name())).collect();
    if failed.is_empty() {
        failed.push(format!("{}: {}", program.name(), failure.unwrap_or_default()));
    }
    failed
}

fn execute(program: &TestProgram, log: &Path) -> anyhow::Result<Finished> {
    let since = Instant::now();
    // Files instead of pipes: a process that a test leaves behind keeps nothing open that is waited for.
    let errors = log.with_extension("stderr.log");
    let create = |path: &Path| File::create(path).with_context(|| format!("cannot create `{}`", path.display()));
    let (standard, error) = (create(log)?, create(&errors)?);
    let started = program.command().stdin(Stdio::null()).stdout(standard).stderr(error).spawn();
    let mut child = started.with_context(|| format!("`{}` does not start", program.executable.display()))?;
    let end = wait(&mut child)?;
    let read = |path: &Path| fs::read(path).with_context(|| format!("cannot read `{}`", path.display()));
    let output = read(log)?;
    let report = Report::of(&String::from_utf8_lossy(&output));
    let failure = if end.is_late {
        Some(format!("stopped after {} minutes", TIMEOUT.as_secs() / 60))
    } else if !end.status.success() {
        Some(end.status.to_string())
    } else {
        // A process that a test ends with success has no result.
        (!report.is_complete).then(|| "ended before its tests".to_owned())
    };
    if failure.is_some() {
        fs::write(log, [output, read(&errors)?].concat())
            .with_context(|| format!("cannot write `{}`", log.display()))?;
    }
    Ok(Finished { report, failure, wall: since.elapsed(), processor: end.processor })
}

/// End of a process.
struct End {
    status: ExitStatus,
    processor: Duration,
    /// Whether its time was over and it was killed.
    is_late: bool,
}

/// Waits for a process. Its times are read when it has ended and before it is reaped.
fn wait(child: &mut Child) -> anyhow::Result<End> {
    let (since, mut is_late) = (Instant::now(), false);
    while !processor::has_ended(child.id()) {
        if !is_late && since.elapsed() > TIMEOUT {
            is_late = true;
            child.kill().context("cannot stop the program")?;
        }
        thread::sleep(POLL);
    }
    let processor = processor::of(child.id()).unwrap_or_default();
    Ok(End { status: child.wait().context("cannot wait for the program")?, processor, is_late })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn program(folder: &Path, name: &str, script: &str) -> TestProgram {
        let executable = folder.join(name);
        fs::write(&executable, format!("#!/bin/sh\n{script}\n")).expect("written");
        fs::set_permissions(&executable, fs::Permissions::from_mode(0o755)).expect("executable");
        TestProgram { package: "p".to_owned(), target: name.to_owned(), executable, folder: folder.to_owned() }
    }

    const PASSES: &str = "echo 'test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out'";

    #[test]
    fn every_program_runs_and_all_failures_are_listed() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        let fails = "echo 'test a::b ... FAILED'; echo 'test result: FAILED. 0 passed; 1 failed; 0 ignored'; exit 101";
        let programs = vec![
            program(folder, "fails", fails),
            program(folder, "dies", "kill -9 $$"),
            program(folder, "leaves", "exit 0"),
            program(folder, "passes", &format!("touch ran; {PASSES}")),
        ];
        let none = Passed::none();
        let error = run(programs, &folder.join("logs"), &none).expect_err("three fail").to_string();
        assert!(folder.join("ran").exists(), "a failure keeps nothing from running");
        assert!(error.starts_with("3 tests failed:\n"), "{error}");
        assert!(error.contains("p fails a::b") && error.contains("p leaves: ended before its tests"), "{error}");
        assert!(error.contains("p dies: signal: 9"), "{error}");
    }

    #[test]
    fn programs_that_passed_are_left_out_until_they_change() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        let script = format!("echo x >> runs; {PASSES}");
        let runs = || fs::read_to_string(folder.join("runs")).expect("it ran").lines().count();
        let again = |script: &str, inputs: &str| {
            let passed = Passed::in_file(folder.join("passed.json"), inputs.to_owned());
            run(vec![program(folder, "counts", script)], &folder.join("logs"), &passed).expect("it passes");
            runs()
        };
        assert_eq!(again(&script, "inputs"), 1);
        assert_eq!(again(&script, "inputs"), 1);
        assert_eq!(again(&format!("{script} # changed"), "inputs"), 2);
        assert_eq!(again(&format!("{script} # changed"), "other inputs"), 3);
    }
}
