//! `measure first-run`: README's commands in an empty clone, step by step, with wall time, processor time and disk.
//!
//! Every command runs as a user would run it, and writes its own lines of steps, which the table repeats.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use clap::ValueEnum;
use serde_json::Value;

use crate::processor;
use crate::step::{cargo, execute, output_of};
use crate::workspace::Workspace;

/// The last thing to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Until {
    /// `cargo xtask demo` from nothing
    Demo,
    /// `cargo xtask test` after it
    Test,
    /// `cargo xtask test` after a change in one leaf crate
    Change,
}

/// A crate that only the command line uses, in which a change is made.
const LEAF: &str = "host/page/src/lib.rs";

/// What is added to it: bytes that the linker keeps, so that programs change.
const CHANGE: &str = "\n#[used]\nstatic MEASURED_CHANGE: [u8; 6] = *b\"change\";\n";

/// Points of the curve that one point averages, as `studies/plot.py` does.
const SMOOTH: usize = 5;

/// A row of the table.
struct Row {
    name: String,
    wall: Duration,
    processor: Duration,
}

/// Clones the last commit into `folder`, measures and prints a table in Markdown.
pub fn run(workspace: &Workspace, until: Until, folder: Option<&Path>) -> anyhow::Result<()> {
    let clone =
        folder.map_or_else(|| std::env::temp_dir().join(format!("first-run-{}", std::process::id())), Path::to_owned);
    if clone.exists() {
        bail!("`{}` exists\nhint: name a new folder", clone.display());
    }
    execute(Command::new("git").args(["clone", "--quiet"]).arg(&workspace.root).arg(&clone))?;
    let measured = measure(&clone, until);
    if folder.is_none() {
        fs::remove_dir_all(&clone).with_context(|| format!("cannot remove `{}`", clone.display()))?;
    }
    #[allow(clippy::print_stdout, reason = "the table is this command's result")]
    {
        println!("{}", measured?);
    }
    Ok(())
}

fn measure(clone: &Path, until: Until) -> anyhow::Result<String> {
    let mut table = "| | wall | processor |\n| --- | --- | --- |\n".to_owned();
    let begin = SystemTime::now().duration_since(UNIX_EPOCH)?;
    add(&mut table, &command(clone, &["demo"])?);
    let curve = first_point(&clone.join("out/demo"))?.saturating_sub(begin);
    writeln!(table, "| first point of the curve above the baseline | {} s | |", curve.as_secs())?;
    writeln!(table, "| disk after the demo | {} | |", disk(clone))?;
    if until >= Until::Test {
        add(&mut table, &command(clone, &["test"])?);
        writeln!(table, "| disk after the tests | {} | |", disk(clone))?;
    }
    if until >= Until::Change {
        let leaf = clone.join(LEAF);
        let text = fs::read_to_string(&leaf).with_context(|| format!("cannot read `{LEAF}`"))?;
        fs::write(&leaf, text + CHANGE).with_context(|| format!("cannot write `{LEAF}`"))?;
        writeln!(table, "| after a change in `{LEAF}` | | |")?;
        add(&mut table, &command(clone, &["test"])?);
    }
    Ok(table)
}

fn add(table: &mut String, rows: &[Row]) {
    for Row { name, wall, processor } in rows {
        // Writing to a text cannot fail.
        let _ = writeln!(table, "| {name} | {:.0} s | {:.0} s |", wall.as_secs_f64(), processor.as_secs_f64());
    }
}

/// Runs `cargo xtask` with these words in the clone; returns its steps and, last, the whole.
fn command(clone: &Path, words: &[&str]) -> anyhow::Result<Vec<Row>> {
    let (since, before) = (Instant::now(), processor::of_children());
    let mut command = cargo();
    command.arg("xtask").args(words).current_dir(clone).env_remove("LIBTORCH").env_remove("GYMKHANA_SERVERS");
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().context("cannot start cargo")?;
    let errors = child.stderr.take().context("cargo has no standard error")?;
    let mut rows = vec![];
    for line in BufReader::new(errors).lines() {
        let line = line.context("cannot read the command's output")?;
        eprintln!("{line}");
        rows.extend(row(&line));
    }
    let status = child.wait().context("cannot wait for cargo")?;
    if !status.success() {
        bail!("`cargo xtask {}` failed ({status}); see its output above", words.join(" "));
    }
    let name = format!("**`cargo xtask {}`**", words.join(" "));
    rows.push(Row { name, wall: since.elapsed(), processor: processor::of_children() - before });
    Ok(rows)
}

/// The row of a step's last line: `    NAME: 1.5 s, 2.0 s of processor time`.
fn row(line: &str) -> Option<Row> {
    let (name, times) = line.strip_prefix("    ")?.strip_suffix(" s of processor time")?.rsplit_once(": ")?;
    let (wall, processor) = times.split_once(" s, ")?;
    let seconds = |text: &str| text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    Some(Row { name: name.to_owned(), wall: seconds(wall)?, processor: seconds(processor)? })
}

/// The moment at which the smoothed success of training first exceeded the success on held-out tasks before RL. Both are
/// of sampled decoding.
pub fn first_point(run: &Path) -> anyhow::Result<Duration> {
    let read = |name: &str| {
        let path = run.join(name);
        fs::read_to_string(&path).with_context(|| format!("cannot read `{}`", path.display()))
    };
    let summary: Value = serde_json::from_str(&read("summary.json")?)?;
    let stages = summary["stages"].as_array().context("the summary has no stages")?;
    let baseline = stages.last().and_then(|stage| stage["success_before_sampled"].as_f64());
    let baseline = baseline.context("the summary has no success before the last stage")?;
    let metrics = read("metrics.jsonl")?;
    let lines: Vec<Value> = metrics.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let last = (stages.len() - 1) as u64;
    let points: Vec<(f64, f64)> = lines
        .iter()
        .filter(|line| line["stage"].as_u64() == Some(last))
        .filter_map(|line| Some((line["time"].as_f64()?, line["values"]["success"].as_f64()?)))
        .collect();
    let above = points
        .windows(SMOOTH)
        .find(|window| window.iter().map(|(_, success)| success).sum::<f64>() / SMOOTH as f64 > baseline);
    let (time, _) = above.and_then(|window| window.last()).context("no point of the curve is above the baseline")?;
    Ok(Duration::from_secs_f64(*time))
}

/// Disk space of a folder, as `du` prints it.
fn disk(folder: &Path) -> String {
    let listed = output_of(Command::new("du").args(["--summarize", "--human-readable", "--si"]).arg(folder));
    listed.and_then(|line| line.split_whitespace().next().map(str::to_owned)).unwrap_or_else(|| "unknown".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_steps_become_rows() {
        let found = row("    tests: build: 61.5 s, 100.2 s of processor time").expect("a step");
        assert_eq!((found.name.as_str(), found.wall), ("tests: build", Duration::from_millis(61500)));
        assert_eq!(found.processor, Duration::from_millis(100_200));
        assert!(row("==> tests").is_none() && row("    using your LIBTORCH").is_none());
    }

    #[test]
    fn the_first_point_is_the_end_of_the_first_window_above_the_baseline() {
        let run = tempfile::tempdir().expect("a folder");
        let summary = r#"{"stages": [{"success_before_sampled": null}, {"success_before_sampled": 0.4}]}"#;
        fs::write(run.path().join("summary.json"), summary).expect("written");
        let point = |stage: u64, time: u64, success: f64| {
            format!("{{\"stage\": {stage}, \"time\": {time}, \"values\": {{\"success\": {success}}}}}\n")
        };
        let early = point(0, 1, 0.9);
        let curve = [0.9, 0.1, 0.1, 0.1, 0.1, 0.6, 0.9, 0.9];
        let lines: String = (10..).zip(curve).map(|(time, success)| point(1, time, success)).collect();
        fs::write(run.path().join("metrics.jsonl"), early + &lines).expect("written");
        // 0.1, 0.1, 0.1, 0.6, 0.9 are 0.36 on average; 0.1, 0.1, 0.6, 0.9, 0.9 are 0.52.
        assert_eq!(first_point(run.path()).expect("above"), Duration::from_secs(17));
    }
}
