//! A large data file: the speed of its import, and the time and memory of reading single rows from it.
//!
//! Rows are read as tasks of the environment `dataset`, each in a fresh instance, alternating with tasks of a small file.

use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use gymkhana_benches::Effort;
use gymkhana_benches::figures::{load_granted, median, microseconds, print, print_in, resident_bytes};
use gymkhana_data::{ImportOptions, import};
use gymkhana_record::{Seed, TaskRef};
use gymkhana_sandbox::{AssetContent, Assets, EnvironmentEpisode, Plugin, Sandbox, SandboxConfig};

/// Rows of the large file, of about 100 bytes each.
const ROWS: (u64, u64) = (10_000_000, 10_000);

/// Rows of the small file.
const FEW: u64 = 1000;

/// Tasks of a round.
const TASKS: u64 = 50;

/// Prints the figures.
pub fn run(effort: Effort) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let rows = effort.pick(ROWS.0, ROWS.1);
    let large = imported(folder.path(), "large", rows, true)?;
    let small = imported(folder.path(), "small", FEW, false)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    runtime.block_on(read(&large, rows, &small, effort.pick(101, 1)))
}

/// Writes a file with JSON lines and imports it.
fn imported(folder: &Path, name: &str, rows: u64, is_measured: bool) -> Result<PathBuf> {
    let (source, out) = (folder.join(format!("{name}.jsonl")), folder.join(format!("{name}.rows")));
    let mut file = BufWriter::new(File::create(&source)?);
    for row in 0..rows {
        let question = format!("What is the number {row} in a list of many numbers?");
        writeln!(file, r#"{{"question": "{question}", "answer": {row}, "split": "train"}}"#)?;
    }
    file.flush()?;
    drop(file);
    let megabytes = source.metadata()?.len() as f64 / 1e6;
    let since = Instant::now();
    import(&source, &out, &ImportOptions::default(), |_| ())?;
    let seconds = since.elapsed().as_secs_f64();
    if is_measured {
        let since = Instant::now();
        for line in BufReader::new(File::open(&source)?).lines() {
            let parsed: serde_json::Value = serde_json::from_str(&line?)?;
            std::hint::black_box(parsed);
        }
        let parsed = megabytes / since.elapsed().as_secs_f64();
        print_in("MB/s", "data: import", megabytes / seconds, "parsing its lines only", parsed);
    }
    std::fs::remove_file(&source).context("the source is removed")?;
    Ok(out)
}

async fn read(large: &Path, rows: u64, small: &Path, rounds: usize) -> Result<()> {
    let sandbox = Sandbox::new(&SandboxConfig { max_instances: Some(64), ..SandboxConfig::default() })?;
    let plugin = load_granted(&sandbox, "dataset")?;
    let mount = |path: &Path| -> Result<Plugin> {
        let asset = ("data.rows".to_owned(), AssetContent::open(path)?);
        Ok(plugin.clone().with_assets([asset].into_iter().collect::<Assets>()))
    };
    let few = mount(small)?;
    tasks(&few, FEW, 0).await?;
    let before = resident_bytes()?;
    let many = mount(large)?;
    let (mut from_large, mut from_small) = (Vec::new(), Vec::new());
    for round in 0..rounds as u64 {
        from_large.push(tasks(&many, rows, round).await?);
        from_small.push(tasks(&few, FEW, round).await?);
    }
    let after = resident_bytes()?;
    print("data: start of a task", median(from_large), "the same in a file of 1,000 rows", median(from_small));
    let size = large.metadata()?.len() as f64;
    print_in("MB", "data: memory of a mounted file", (after - before).max(0.0) / 1e6, "its size", size / 1e6);
    Ok(())
}

/// Starts tasks from all over the file; returns the microseconds of one.
async fn tasks(plugin: &Plugin, rows: u64, round: u64) -> Result<f64> {
    let since = Instant::now();
    for number in 0..TASKS {
        // A multiplicative hash spreads the rows.
        let index = (round * TASKS + number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) % rows;
        let task = TaskRef { split: "train".to_owned(), index };
        std::hint::black_box(EnvironmentEpisode::start(plugin, &task, &[], Seed(1)).await?);
    }
    Ok(microseconds(since) / TASKS as f64)
}
