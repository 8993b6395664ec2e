//! Agent programs and runs that are stopped by a signal: they are named, and others go on.

use std::time::{Duration, Instant};

use super::{AGENT, PLUGINS, RUN};
use crate::common::killed::Signalled;
use crate::common::{Desk, run_arguments};

/// Asks the policy once, and stops itself before it answers.
fn stopping_agent() -> String {
    let stop = "os.kill(os.getpid(), __import__(\"signal\").SIGSTOP)\nprint(\"Answer:\"";
    AGENT.replace("print(\"Answer:\"", stop)
}

#[test]
fn a_stopped_program_ends_at_its_limit() {
    let run = RUN.replace("seconds = 60", "seconds = 2").replace("steps = 3", "steps = 1");
    let desk = Desk::with_run_file(&run).with_file("agent.py", stopping_agent());
    let since = Instant::now();
    let outcome = desk.run(PLUGINS, &[]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(since.elapsed() < Duration::from_secs(100), "{:?}", since.elapsed());
    let records = desk.episodes();
    assert_eq!(records.len(), 2 * 2 + 2 * 2);
    for record in &records {
        let played = record.agent.as_ref().expect("a program played");
        assert_eq!((played.exit, &played.answer), (None, &None), "{record:?}");
        // What it said until then stays.
        assert_eq!(record.policy_turns.len(), 1, "{record:?}");
        let text = format!("{:?}", record.failures);
        assert!(text.contains("it gave no answer in 2 seconds of its own"), "{text}");
    }
}

/// A stopped process holds its locks: no other process writes to its folder, and it continues.
#[test]
fn a_stopped_run_keeps_its_folder() {
    let desk = Desk::with_run_file(RUN).with_file("agent.py", AGENT);
    let mut run = Signalled::start(&desk, &run_arguments(PLUGINS, &[]));
    run.wait_until(|| desk.path("out/run.toml").exists());
    run.send("STOP");
    let since = Instant::now();
    let told = desk.run(PLUGINS, &["--resume"]).mistake("a second run");
    assert!(since.elapsed() < Duration::from_secs(30), "{:?}", since.elapsed());
    assert!(told.contains("another process is running in `out`"), "{told}");
    run.send("CONT");
    let outcome = run.end_soon();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(desk.episodes().len(), 2 * 2 + 3 * 2 * 2);
}
