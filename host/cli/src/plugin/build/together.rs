//! A folder's tests and its build at the same time.

use std::io::{PipeReader, Read, Write, pipe, stderr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use gymkhana_waits::{Counterpart, Silent};
use rustix::process::{Pid, Signal, kill_process};

use super::{failed, not_started, shown};
use crate::error::{Classify, CliResult};

/// Time between two looks at the programs.
const INTERVAL: Duration = Duration::from_millis(10);

/// Time that a program has to end after it was asked.
const GRACE: Duration = Duration::from_secs(2);

/// Runs the tests, whose output goes to standard error at once, and the build, whose output follows after theirs. The
/// first that fails ends the other, whose output is then left out. Both are ended after `bound`.
///
/// # Errors
/// If one of them cannot be started, fails or does not end.
pub fn run(mut tests: Command, mut build: Command, dir: &Path, bound: Duration) -> CliResult<()> {
    let (mut building, output) = start_quietly(&mut build)?;
    let testing = tests.stdout(stderr()).spawn();
    let mut testing = match testing {
        Ok(testing) => testing,
        Err(error) => {
            end(&mut building);
            return Err(error).user_context(not_started(&tests));
        }
    };
    let (since, mut tested, mut built) = (Instant::now(), false, false);
    while !(tested && built) {
        if let Some(status) = testing.try_wait().user_context(not_started(&tests))? {
            if !status.success() {
                end(&mut building);
                return Err(failed(&tests, status, dir));
            }
            tested = true;
        }
        if let Some(status) = building.try_wait().user_context(not_started(&build))? {
            if !status.success() {
                end(&mut testing);
                print(output);
                return Err(failed(&build, status, dir));
            }
            built = true;
        }
        if since.elapsed() >= bound && !(tested && built) {
            end(&mut testing);
            end(&mut building);
            // Programs that the build started may hold its output.
            if built {
                print(output);
            }
            let late = shown(if tested { &build } else { &tests });
            let named = format!("`{late}`");
            return Err(super::late(&Silent { counterpart: Counterpart::BuildTool, named, waited: bound }, dir));
        }
        thread::sleep(INTERVAL);
    }
    print(output);
    Ok(())
}

/// Starts a program whose output is kept.
fn start_quietly(command: &mut Command) -> CliResult<(Child, JoinHandle<Vec<u8>>)> {
    let (reader, writer) = pipe().internal()?;
    let copy = writer.try_clone().internal()?;
    let child = command.stdout(writer).stderr(copy).spawn().user_context(not_started(command))?;
    // The command holds the writing ends, and the output would not end before it does.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    Ok((child, thread::spawn(|| read(reader))))
}

/// Reads an output to its end; an error ends it.
fn read(mut output: PipeReader) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _cut = output.read_to_end(&mut bytes);
    bytes
}

/// Prints an output on standard error.
fn print(output: JoinHandle<Vec<u8>>) {
    let _gone = output.join().map(|bytes| stderr().write_all(&bytes));
}

/// Ends a program that may have ended: asks it first, so that it ends its own programs and removes its files.
fn end(child: &mut Child) {
    let _asked = kill_process(Pid::from_child(child), Signal::INT);
    let since = Instant::now();
    while since.elapsed() < GRACE {
        match child.try_wait() {
            Ok(None) => thread::sleep(INTERVAL),
            Ok(Some(_)) | Err(_) => return,
        }
    }
    let _ended = child.kill().and_then(|()| child.wait());
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(600);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn run_both(tests: &str, build: &str) -> Result<(), String> {
        run(shell(tests), shell(build), Path::new("mine"), LONG).map_err(|error| error.to_string())
    }

    /// Each waits for a file of the other.
    #[test]
    fn both_run_at_the_same_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let meet = |own: &str, other: &str| {
            let path = folder.path().display();
            format!("touch {path}/{own}; until [ -e {path}/{other} ]; do sleep 0.01; done; echo {own}")
        };
        assert_eq!(run_both(&meet("one", "other"), &meet("other", "one")), Ok(()));
    }

    #[test]
    fn the_first_failure_ends_the_other() {
        let told = run_both("exit 3", "exec sleep 600").expect_err("tests failed");
        assert!(told.contains("exit 3` failed in `mine` (exit status: 3)"), "{told}");
        let told = run_both("exec sleep 600", "echo no; exit 4").expect_err("the build failed");
        assert!(told.contains("exit 4` failed in `mine` (exit status: 4)"), "{told}");
        run_both("true", "exit 5").expect_err("the build failed after the tests");
        run_both("sleep 0.1; exit 6", "true").expect_err("the tests failed after the build");
    }

    #[test]
    fn a_stopped_program_is_named_and_ended_with_the_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let (stopped, ids) = ("echo $$ >> ids; kill -s STOP $$", folder.path().join("ids"));
        for (tests, build, named) in
            [(stopped, "true", "the program `sh -c echo $$"), ("true", stopped, "kill -s STOP")]
        {
            let [mut tests, mut build] = [shell(tests), shell(build)];
            tests.current_dir(folder.path());
            build.current_dir(folder.path());
            let told = run(tests, build, Path::new("mine"), Duration::from_secs(1)).expect_err("late").to_string();
            assert!(told.contains(named) && told.contains("did not answer for 1 s in `mine`, and was ended"), "{told}");
        }
        let ids = std::fs::read_to_string(ids).expect("both programs started");
        for id in ids.lines() {
            assert!(!Path::new("/proc").join(id).exists(), "process {id} is left");
        }
    }

    #[test]
    fn a_program_that_cannot_be_started_is_named() {
        let absent = || Command::new("/absent/program");
        let told = run(shell("exec sleep 600"), absent(), Path::new("mine"), LONG).expect_err("no build").to_string();
        assert!(told.contains("`/absent/program` cannot be started"), "{told}");
        let told = run(absent(), shell("exec sleep 600"), Path::new("mine"), LONG).expect_err("no tests").to_string();
        assert!(told.contains("`/absent/program` cannot be started"), "{told}");
    }
}
