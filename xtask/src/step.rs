//! Steps of a command: progress on standard error, a summary with durations, and other programs.

use std::panic::resume_unwind;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Context, bail};

use crate::processor;

/// A mistake of the user or a gap of the machine, with a hint; the program exits with 2.
#[derive(Debug)]
pub struct UserError(pub String);

impl std::fmt::Display for UserError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UserError {}

/// A line of the summary.
struct Line {
    seconds: Option<f64>,
    text: String,
}

/// First word of the line of a skipped check.
const SKIPPED: &str = "SKIPPED";

static SUMMARY: Mutex<Vec<Line>> = Mutex::new(Vec::new());

fn add_line(seconds: Option<f64>, text: &str) {
    let line = Line { seconds, text: text.to_owned() };
    SUMMARY.lock().unwrap_or_else(PoisonError::into_inner).push(line);
}

/// Runs one step between two lines on standard error and records its duration.
pub fn step<T>(name: &str, work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    eprintln!("==> {name}");
    let (start, before) = (Instant::now(), processor::of_children());
    let done = work();
    let seconds = start.elapsed().as_secs_f64();
    // Of a step beside others, theirs are included.
    let processor = (processor::of_children() - before).as_secs_f64();
    match &done {
        Ok(_) => {
            eprintln!("    {name}: {seconds:.1} s, {processor:.1} s of processor time");
            add_line(Some(seconds), name);
        }
        Err(_) => add_line(Some(seconds), &format!("{name}: FAILED")),
    }
    done
}

/// Runs two chains of steps side by side, so that one computes while the other waits, and returns the first's failure
/// before the second's. Their lines on standard error mix.
pub fn both(
    first: impl FnOnce() -> anyhow::Result<()>,
    second: impl FnOnce() -> anyhow::Result<()> + Send,
) -> anyhow::Result<()> {
    let (first, second) = thread::scope(|scope| {
        let second = scope.spawn(second);
        (first(), second.join())
    });
    first.and(second.unwrap_or_else(|panic| resume_unwind(panic)))
}

/// Adds a line to the summary.
pub fn note(text: &str) {
    eprintln!("    {text}");
    add_line(None, text);
}

/// A number with a noun, in the plural unless it is one.
pub fn counted(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Reports a skipped check, at once and in the summary.
pub fn skip(what: &str, why: &str) {
    eprintln!("    {SKIPPED} {what}: {why}");
    add_line(None, &format!("{SKIPPED} {what}: {why}"));
}

/// Number of skipped checks so far.
pub fn skipped() -> usize {
    let lines = SUMMARY.lock().unwrap_or_else(PoisonError::into_inner);
    lines.iter().filter(|line| line.text.starts_with(SKIPPED)).count()
}

/// Prints the recorded steps with their seconds.
pub fn print_summary(since: Instant) {
    eprintln!("\nsummary, in seconds");
    for Line { seconds, text } in SUMMARY.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        let seconds = seconds.map_or_else(String::new, |seconds| format!("{seconds:.1}"));
        eprintln!("{seconds:>10}  {text}");
    }
    eprintln!("{:>10.1}  total", since.elapsed().as_secs_f64());
    eprintln!("{:>10.1}  total of processor time", processor::of_children().as_secs_f64());
    match skipped() {
        0 => {}
        count => eprintln!("{count:>10}  {SKIPPED}, named above"),
    }
}

/// Runs a program to its end. Its output goes to standard error, so that standard output holds results only.
pub fn execute(command: &mut Command) -> anyhow::Result<()> {
    finish(command.stdout(std::io::stderr()))
}

/// Runs a program whose standard output is a result.
pub fn execute_for_result(command: &mut Command) -> anyhow::Result<()> {
    finish(command.stdout(Stdio::inherit()))
}

fn finish(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("`{}` does not start", words(command)))?;
    if !status.success() {
        bail!("`{}` failed ({status}); see its output above", words(command));
    }
    Ok(())
}

/// Standard output of a program, trimmed, if it starts and succeeds.
pub fn output_of(command: &mut Command) -> Option<String> {
    let output = command.stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Beginnings of the variables with which `cargo run` describes this program to it.
const ABOUT_THIS_PROGRAM: [&str; 4] = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_NAME", "CARGO_CRATE_NAME"];

/// The cargo that runs this program.
///
/// It does not see the variables that describe this program: some build scripts run again when they change, and with them
/// everything that uses the network would be compiled again, each time that a developer calls cargo directly.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        if ABOUT_THIS_PROGRAM.iter().any(|beginning| name.to_string_lossy().starts_with(beginning)) {
            command.env_remove(name);
        }
    }
    command
}

fn words(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    // A long list of arguments would hide the rest of the message.
    if words.len() > 12 { format!("{} …", words[..12].join(" ")) } else { words.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_run_side_by_side_and_each_can_fail() {
        let (to_second, from_first) = std::sync::mpsc::channel();
        let (to_first, from_second) = std::sync::mpsc::channel();
        // Neither ends without the other.
        both(
            || {
                to_second.send(1)?;
                assert_eq!(from_second.recv()?, 2);
                Ok(())
            },
            move || {
                assert_eq!(from_first.recv()?, 1);
                to_first.send(2)?;
                Ok(())
            },
        )
        .expect("both succeed");
        let fails = |name: &'static str| move || bail!("{name}");
        assert_eq!(both(fails("first"), || Ok(())).unwrap_err().to_string(), "first");
        assert_eq!(both(|| Ok(()), fails("second")).unwrap_err().to_string(), "second");
        assert_eq!(both(fails("first"), fails("second")).unwrap_err().to_string(), "first");
    }

    #[test]
    fn cargo_does_not_see_the_description_of_this_program() {
        let command = cargo();
        let removed = |name: &str| command.get_envs().any(|(key, value)| key == name && value.is_none());
        // Cargo sets both for this test.
        assert!(removed("CARGO_PKG_NAME") && removed("CARGO_MANIFEST_DIR"));
        assert!(!removed("CARGO") && !removed("PATH"));
    }

    #[test]
    fn failures_name_the_command() {
        let error = execute(Command::new("sh").args(["-c", "exit 3"])).expect_err("it fails");
        assert!(error.to_string().contains("`sh -c exit 3` failed (exit status: 3)"), "{error}");
        let error = execute(&mut Command::new("no-such-program")).expect_err("it does not start");
        assert!(error.to_string().contains("`no-such-program`"), "{error}");
        assert_eq!(output_of(&mut Command::new("no-such-program")), None);
        assert_eq!(output_of(Command::new("echo").arg("words")), Some("words".to_owned()));
    }
}
