//! `measure install`: the release as a user installs it, in a new folder and an environment without Rust and compilers:
//! time to the first point of the demo's curve above the baseline and to its end, installed size, and what a user does
//! next.

mod desk;
mod next;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail, ensure};
use clap::ValueEnum;
use desk::Desk;

use super::first_run::first_point;
use crate::processor;
use crate::step::{execute, output_of};
use crate::workspace::Workspace;

/// What is installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum From {
    /// The wheels, by pip
    Packages,
    /// The archive, by its installer
    Archive,
}

/// Limit of the time from the start of the installation to the first point above the baseline.
const FIRST_POINT: Duration = Duration::from_secs(300);
/// Limit of the time to the end of the demo.
const END: Duration = Duration::from_secs(420);
/// Limit of the installed size in bytes.
const SIZE: u64 = 700_000_000;

/// Installs, trains and prints the measured values; fails if one is above its limit.
pub fn run(workspace: &Workspace, from: From, dist: Option<&Path>) -> anyhow::Result<()> {
    let home = std::env::temp_dir().join(format!("gymkhana-install-{}", std::process::id()));
    ensure!(!home.exists(), "`{}` exists\nhint: remove it", home.display());
    let dist = dist.map_or_else(|| workspace.target.join("dist"), Path::to_owned);
    let dist = fs::canonicalize(&dist).with_context(|| format!("cannot read `{}`", dist.display()))?;
    let done = Desk::new(&home, dist).and_then(|desk| measure(&desk, from));
    // What stays in the folder of temporary files does no harm.
    let _ = fs::remove_dir_all(&home);
    done
}

/// Installs, trains, and takes the next steps.
fn measure(desk: &Desk, from: From) -> anyhow::Result<()> {
    let (begin, since) = (SystemTime::now().duration_since(UNIX_EPOCH)?, Instant::now());
    let installed = match from {
        From::Packages => desk.install_packages()?,
        From::Archive => desk.install_archive()?,
    };
    let (install, size) = (since.elapsed(), size(&installed.folder)?);
    execute(desk.command(&installed.host).args(["demo", "--out", "run"]))?;
    let (end, curve) = (since.elapsed(), first_point(&desk.home.join("run"))?.saturating_sub(begin));
    let processor = processor::of_children().as_secs_f64();
    let next = next::all(desk, &installed)?;
    #[allow(clippy::print_stdout, reason = "the values are this command's result")]
    {
        println!("installation: {:.0} s, {:.0} MB", install.as_secs_f64(), size as f64 / 1e6);
        println!("first point of the curve above the baseline: {:.0} s", curve.as_secs_f64());
        println!("end: {:.0} s; {processor:.0} s of processor time", end.as_secs_f64());
        for (what, duration) in next {
            println!("{what}: {:.1} s", duration.as_secs_f64());
        }
    }
    for (what, found, limit) in [("first point", curve, FIRST_POINT), ("end", end, END)] {
        if found > limit {
            bail!("{what}: {} s are above the limit of {} s", found.as_secs(), limit.as_secs());
        }
    }
    ensure!(size <= SIZE, "the installed size of {size} bytes is above the limit of {SIZE}");
    Ok(())
}

/// Bytes of the files in a folder; files with several names count once.
fn size(folder: &Path) -> anyhow::Result<u64> {
    let listed = output_of(Command::new("du").args(["--summarize", "--apparent-size", "--bytes"]).arg(folder));
    let bytes = listed.and_then(|line| line.split_whitespace().next()?.parse().ok());
    bytes.with_context(|| format!("`du` cannot measure `{}`", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_folder_counts_links_of_files_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let before = size(folder.path()).expect("measured");
        fs::write(folder.path().join("a"), vec![0; 5000]).expect("written");
        fs::hard_link(folder.path().join("a"), folder.path().join("b")).expect("linked");
        assert_eq!(size(folder.path()).expect("measured") - before, 5000);
        assert!(size(&folder.path().join("absent")).is_err());
    }
}
