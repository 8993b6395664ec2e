//! The Python package beside programs in Python: the program `benches/python/measure.py` in an environment of its own.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use gymkhana_benches::Effort;
use gymkhana_benches::figures::root;

/// Runs the bench. The environment and the package are those that `cargo xtask bench python` made.
pub fn run(effort: Effort) -> Result<()> {
    let mut command = Command::new(root().join(".tools/python-bench/bin/python"));
    command.arg(root().join("benches/python/measure.py")).args(effort.pick(None, Some("--smoke")));
    command.env("GYMKHANA_PLUGINS", root().join("target/plugins"));
    let status = command.status().context("Python does not start\nhint: run `cargo xtask bench python`")?;
    ensure!(status.success(), "the bench in Python failed: {status}");
    Ok(())
}
