//! Waits for programs that are started for their result.

use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Counterpart, Reminder, Silent};

/// Time between two looks at a program.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// First of these times; short programs end within it.
const FIRST_POLL: Duration = Duration::from_millis(1);

/// The wait for a program's end.
pub struct ChildWait<'a> {
    /// What the program is.
    pub counterpart: Counterpart,
    /// Its name in messages.
    pub named: String,
    /// Time after which it is killed.
    pub bound: Duration,
    /// Time after which the wait is reported first.
    pub first_report: Duration,
    /// Receives reports.
    pub say: &'a dyn Fn(&str),
}

impl ChildWait<'_> {
    /// Waits for the end of a program and kills it after the bound. Its own children stay.
    ///
    /// # Errors
    /// If the system does not know the process; the inner error if the bound passes.
    pub fn end(&self, child: &mut Child) -> io::Result<Result<ExitStatus, Silent>> {
        let (since, mut reminder, mut pause) = (Instant::now(), Reminder::new(self.first_report), FIRST_POLL);
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(Ok(status));
            }
            if since.elapsed() >= self.bound {
                // It may have ended meanwhile.
                let _ = child.kill();
                let _ = child.wait();
                return Ok(Err(self.silent()));
            }
            if let Some(waited) = reminder.due() {
                let left = self.bound.saturating_sub(waited).as_secs();
                (self.say)(&format!(
                    "{} has run for {} s; it is ended after {left} s more",
                    self.named,
                    waited.as_secs()
                ));
            }
            thread::sleep(pause);
            pause = (2 * pause).min(POLL_INTERVAL);
        }
    }

    /// The error of a program that did not end.
    #[must_use]
    pub fn silent(&self) -> Silent {
        Silent { counterpart: self.counterpart, named: self.named.clone(), waited: self.bound }
    }
}

/// Runs a program to its end, and keeps what it writes to standard output. Its input is empty, and its standard error that of
/// the command.
///
/// # Errors
/// If it cannot be started; the inner error if the bound passes. It is killed then.
pub fn output(command: &mut Command, wait: &ChildWait<'_>) -> io::Result<Result<Output, Silent>> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let reader = child.stdout.take().map(|stdout| thread::spawn(|| read(stdout)));
    let errors = child.stderr.take().map(|stderr| thread::spawn(|| read(stderr)));
    Ok(match wait.end(&mut child)? {
        Ok(status) => {
            // A panic of a reader is printed by its own hook.
            let taken = |thread: Option<thread::JoinHandle<Vec<u8>>>| thread.and_then(|thread| thread.join().ok());
            let (stdout, stderr) = (taken(reader).unwrap_or_default(), taken(errors).unwrap_or_default());
            Ok(Output { status, stdout, stderr })
        }
        // A child of the program may hold the pipes, so that the readers are not waited for.
        Err(silent) => Err(silent),
    })
}

/// Reads a stream to its end; an error ends it.
fn read(mut stream: impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _cut = stream.read_to_end(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn wait(say: &dyn Fn(&str)) -> ChildWait<'_> {
        let (bound, first_report) = (Duration::from_millis(1500), Duration::from_millis(300));
        ChildWait { counterpart: Counterpart::BuildTool, named: "`cargo build`".to_owned(), bound, first_report, say }
    }

    #[test]
    fn a_program_that_ends_gives_its_output() {
        let ended = output(&mut shell("echo out; exit 3"), &wait(&|_| {})).unwrap().unwrap();
        assert_eq!((ended.status.code(), ended.stdout.as_slice()), (Some(3), b"out\n".as_slice()));
    }

    #[test]
    fn a_stopped_program_is_reported_and_ended_after_the_bound() {
        let said = RefCell::new(String::new());
        let say = |text: &str| said.borrow_mut().push_str(text);
        let since = Instant::now();
        let silent = output(&mut shell("kill -s STOP $$; echo never"), &wait(&say)).unwrap().unwrap_err();
        assert_eq!(silent.to_string(), "the program `cargo build` did not answer for 1.5 s");
        assert!(since.elapsed() < Duration::from_secs(30), "{:?}", since.elapsed());
        assert!(said.borrow().starts_with("`cargo build` has run for 0 s; it is ended after 1 s more"), "{said:?}");
    }
}
