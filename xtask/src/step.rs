//! Steps of a command: progress on standard error, a summary with durations, and other programs.

use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, bail};

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
    let start = Instant::now();
    let done = work();
    let seconds = start.elapsed().as_secs_f64();
    match &done {
        Ok(_) => {
            eprintln!("    {name}: {seconds:.1} s");
            add_line(Some(seconds), name);
        }
        Err(_) => add_line(Some(seconds), &format!("{name}: FAILED")),
    }
    done
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

/// The cargo that runs this program.
pub fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
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
    fn failures_name_the_command() {
        let error = execute(Command::new("sh").args(["-c", "exit 3"])).expect_err("it fails");
        assert!(error.to_string().contains("`sh -c exit 3` failed (exit status: 3)"), "{error}");
        let error = execute(&mut Command::new("no-such-program")).expect_err("it does not start");
        assert!(error.to_string().contains("`no-such-program`"), "{error}");
        assert_eq!(output_of(&mut Command::new("no-such-program")), None);
        assert_eq!(output_of(Command::new("echo").arg("words")), Some("words".to_owned()));
    }
}
