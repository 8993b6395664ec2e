//! `fuzz`: builds the fuzz targets with coverage on the pinned stable compiler and runs each for a share of the time.
//!
//! A wrapper of rustc adds libFuzzer's coverage to the crates of the workspace only, so that their dependencies are
//! the ones that the tests compiled. Address sanitizing needs a nightly compiler and is left out: the crates under
//! test contain no unsafe code. A crash leaves its input in `target/fuzz/NAME/`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::setup::{self, run_cargo_with};
use crate::step::{both, execute, step};
use crate::workspace::Workspace;

/// The folder of the targets, one file each.
const TARGETS: &str = "fuzz/fuzz_targets";
/// Committed inputs, a folder for each target.
const SEEDS: &str = "fuzz/seeds";
/// Run files that a target parses; the tests keep them valid.
const RUN_FILES: (&str, &str) = ("run_file", "examples/runs");
/// A target that starts from a plugin, and the plugin: too large to be committed.
const PLUGIN: (&str, &str) = ("loading", "guest-start-loop.wasm");
/// Longest time for one input, in seconds.
const TIMEOUT: u64 = 10;
/// Most memory of a target, in MiB.
const MEMORY: u64 = 2048;

/// Coverage and arithmetic checks for the crates of the workspace. Build scripts and macros run inside the compiler
/// and are left alone.
const WRAPPER: &str = r#"#!/bin/sh
rustc=$1
shift
case "$*" in
*"--crate-name build_script"* | *"--crate-type proc-macro"* | *"-vV"*) exec "$rustc" "$@" ;;
esac
exec "$rustc" "$@" --cfg fuzzing -Copt-level=1 -Cdebug-assertions=on -Coverflow-checks=on -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares
"#;

/// Sets up and runs all targets for `seconds` together.
pub fn run(workspace: &Workspace, seconds: u64) -> anyhow::Result<()> {
    setup::run(workspace)?;
    build(workspace)?;
    run_built(workspace, seconds)
}

/// As [`run`], after the set-up and [`build`].
pub fn run_built(workspace: &Workspace, seconds: u64) -> anyhow::Result<()> {
    let names = targets(&workspace.root)?;
    let each = (seconds / names.len() as u64).max(1);
    let run = |name: &str| step(&format!("fuzz: {name}"), || fuzz(workspace, name, each));
    // A target uses one core.
    let (first, second) = names.split_at(names.len() / 2);
    let all = |names: &[String]| names.iter().try_for_each(|name| run(name));
    both(|| all(first), || all(second))
}

/// Names of the targets, sorted.
fn targets(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(root.join(TARGETS)).with_context(|| format!("cannot read `{TARGETS}`"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            names.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
        }
    }
    if names.is_empty() {
        bail!("`{TARGETS}` has no fuzz targets");
    }
    names.sort();
    Ok(names)
}

/// Builds all targets.
pub fn build(workspace: &Workspace) -> anyhow::Result<()> {
    let names = targets(&workspace.root)?;
    step("fuzz: build", || build_targets(workspace, &names))
}

fn build_targets(workspace: &Workspace, names: &[String]) -> anyhow::Result<()> {
    let wrapper = workspace.root.join(".tools").join("fuzz-rustc");
    wrapper.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::write(&wrapper, WRAPPER).with_context(|| format!("cannot write `{}`", wrapper.display()))?;
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755))?;
    let mut arguments =
        vec!["build", "--release", "--workspace", "--exclude", "xtask", "--features", "gymkhana-fuzz/fuzz"];
    names.iter().for_each(|name| arguments.extend(["--bin", name]));
    run_cargo_with(workspace, &arguments, &[("RUSTC_WORKSPACE_WRAPPER", wrapper.as_os_str())])
}

fn fuzz(workspace: &Workspace, name: &str, seconds: u64) -> anyhow::Result<()> {
    let folder = workspace.target.join("fuzz").join(name);
    let (corpus, temporary) = (folder.join("corpus"), folder.join("tmp"));
    if temporary.exists() {
        fs::remove_dir_all(&temporary)?;
    }
    fs::create_dir_all(&corpus)?;
    fs::create_dir_all(&temporary)?;
    let seeds = workspace.root.join(if name == RUN_FILES.0 { RUN_FILES.1.into() } else { format!("{SEEDS}/{name}") });
    let mut command = Command::new(workspace.target.join("release").join(name));
    // The first folder receives new inputs; libFuzzer only reads the others.
    command.arg(&corpus).args(seeds.is_dir().then_some(&seeds));
    if name == PLUGIN.0 {
        command.arg(format!("-seed_inputs={}", workspace.target.join("plugins").join(PLUGIN.1).display()));
    }
    command.arg(format!("-max_total_time={seconds}")).arg(format!("-timeout={TIMEOUT}"));
    command.arg(format!("-rss_limit_mb={MEMORY}")).args(["-print_final_stats=1", "-verbosity=0"]);
    command.arg(format!("-artifact_prefix={}/", folder.display())).current_dir(&workspace.root);
    execute(command.env("TMPDIR", &temporary))
        .with_context(|| format!("fuzz target `{name}`; its input is in `{}`", folder.display()))
}
