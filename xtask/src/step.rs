//! Runs the steps of a command: says what is going on and how long it took, and lets other programs talk.

use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, bail};

/// Something that this machine lacks, with how to get it.
#[derive(Debug)]
pub struct Missing(pub String);

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Missing {}

/// Does one step between two lines on standard error.
pub fn step<T>(name: &str, work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    eprintln!("==> {name}");
    let start = Instant::now();
    let done = work()?;
    eprintln!("    {name}: {:.1} s", start.elapsed().as_secs_f64());
    Ok(done)
}

/// Runs a program to its end. What it prints goes to standard error, so that standard output holds results alone.
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
        bail!("`{}` failed ({status}); what it said stands above", words(command));
    }
    Ok(())
}

/// What a program prints on standard output, or none when it does not start or fails.
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
