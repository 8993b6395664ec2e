//! `ci`: everything that a change must pass. Cheap checks come first, then the tests, then the other checks.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::ValueEnum;

use crate::checks::source::waits;
use crate::checks::{arrows, cycles, deny, features, identifiers, layout, locks, manifests, prose, type_names, words};
use crate::measure::{bench, gpu_pack, study};
use crate::publish::package;
use crate::setup::registry::{self, Refusal};
use crate::setup::run_cargo;
use crate::step::{print_summary, skip, step};
use crate::workspace::Workspace;
use crate::{docs, fuzz, inputs, shelf, test};

/// Time of all fuzz targets together, in seconds: enough to find that one does not start or a seed fails.
const FUZZ_SECONDS: u64 = 40;

/// Processor time that a larger feature may add to the tests and default checks, in seconds.
const BUDGET: u64 = 60;

/// Parts of `ci`, for a script that runs them one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Checks that compile nothing
    Quick,
    /// All checks beside the tests that are not quick; they use what `cargo xtask test` has built
    Rest,
}

/// What to check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The part; everything if it is `None`.
    pub part: Option<Part>,
    /// Checks run even if their inputs are those of the last time that they passed.
    pub full: bool,
    /// Minutes after which no further check starts.
    pub minutes: Option<u64>,
}

/// Runs the checks and prints a summary, also after a failure.
pub fn run(workspace: &Workspace, request: Request) -> anyhow::Result<()> {
    let start = Instant::now();
    let tests = test::Request { again: request.full, ..test::Request::default() };
    let done = match request.part {
        Some(Part::Quick) => quick(workspace),
        Some(Part::Rest) => Rest::new(workspace, request, start).and_then(|rest| rest.run()),
        None => quick(workspace)
            .and_then(|()| test::tests(workspace, &tests))
            .and_then(|()| Rest::new(workspace, request, start)?.run()),
    };
    print_summary(start);
    eprintln!(
        "    a larger feature may add {BUDGET} s of processor time to the tests and checks that always run; what takes"
    );
    eprintln!("    more runs with `--reference`, or when its inputs change (CONTRIBUTING.md)");
    done
}

/// Checks that take seconds.
fn quick(workspace: &Workspace) -> anyhow::Result<()> {
    step("format", || {
        run_cargo(workspace, &["fmt", "--all", "--check"])?;
        run_cargo(workspace, &["fmt", "--manifest-path", "tests/interleavings/Cargo.toml", "--check"])
    })?;
    arrows::run(workspace, false)?;
    cycles::run(workspace)?;
    layout::run(workspace)?;
    type_names::run(workspace)?;
    identifiers::run(workspace)?;
    waits::run(workspace)?;
    locks::run(workspace)?;
    features::run(workspace)?;
    prose::run(workspace)?;
    words::run(workspace)
}

/// Crates, by their folders, that fuzz targets, studies, benches and the GPU pack run, with what these are built from.
const ENGINE: [&str; 8] =
    ["Cargo.lock", "Cargo.toml", "host", "registry", "plugins", "sdk/bindings", "sdk/rust", "wit"];

/// The checks after the tests, in the order of their weight, so that a time limit leaves out the least important ones.
struct Rest<'a> {
    workspace: &'a Workspace,
    request: Request,
    start: Instant,
    file: PathBuf,
    /// Digests of the inputs with which checks passed.
    passed: BTreeMap<String, String>,
}

impl<'a> Rest<'a> {
    fn new(workspace: &'a Workspace, request: Request, start: Instant) -> anyhow::Result<Self> {
        let file = workspace.target.join("passed-checks.json");
        let passed = fs::read(&file).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        Ok(Self { workspace, request, start, file, passed })
    }

    fn run(mut self) -> anyhow::Result<()> {
        let workspace = self.workspace;
        self.always("lints", || lint(workspace))?;
        self.always("dependencies", || deny::run(workspace))?;
        self.always("manifests", || manifests::run(workspace))?;
        self.always("docs", || docs::run_built(workspace))?;
        let conformance =
            ["Cargo.lock", "Cargo.toml", "host/conformance", "host/driver", "host/sandbox", "plugins", "sdk", "wit"];
        self.on_change("conformance", &conformance, || registry::run(workspace, Refusal::Fails))?;
        let with = |more: &[&'static str]| [&ENGINE, more].concat();
        let described = with(&[shelf::PAGE, "examples", "sdk/python", "xtask/src/shelf"]);
        self.on_change("plugins page", &described, || shelf::run(workspace, true))?;
        self.on_change("packages", &["Cargo.lock", "sdk", "wit", "host/python"], || package(workspace))?;
        self.on_change("fuzz", &with(&["fuzz"]), || {
            fuzz::build(workspace)?;
            fuzz::run_built(workspace, FUZZ_SECONDS)
        })?;
        self.on_change("studies", &with(&["studies"]), || study::run_smoke(workspace, None))?;
        self.on_change("benches", &with(&["benches"]), || bench::run_built(workspace, &[], true))?;
        self.on_change("GPU pack", &with(&["benches"]), || gpu_pack::rehearse(workspace))
    }

    fn is_late(&self) -> bool {
        self.request.minutes.is_some_and(|minutes| self.start.elapsed() >= Duration::from_secs(60 * minutes))
    }

    /// Runs a check, or reports it as skipped if the time is over.
    fn always(&self, what: &str, check: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
        if self.is_late() {
            skip(what, "the time limit has passed");
            return Ok(());
        }
        check()
    }

    /// As [`Self::always`]; a check that passed with the same inputs is not repeated.
    fn on_change(
        &mut self,
        what: &str,
        folders: &[&str],
        check: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let files = self.workspace.files(folders)?;
        let digest = inputs::digest_of_files(&self.workspace.root, &files)?;
        if !self.request.full && self.passed.get(what) == Some(&digest) {
            skip(what, "it passed with the same inputs");
            return Ok(());
        }
        if self.is_late() {
            skip(what, "the time limit has passed");
            return Ok(());
        }
        check()?;
        self.passed.insert(what.to_owned(), digest);
        let text = serde_json::to_vec_pretty(&self.passed)?;
        fs::write(&self.file, text).with_context(|| format!("cannot write `{}`", self.file.display()))
    }
}

fn lint(workspace: &Workspace) -> anyhow::Result<()> {
    // The optional feature costs seconds here, but its tests would be a second build of the host.
    let lints = ["clippy", "--release", "--workspace", "--all-targets", "--features", "gymkhana-cli/otel"];
    // The demo's build, which nothing else of `ci` compiles.
    let lean = ["clippy", "--release", "--package", "gymkhana-cli", "--no-default-features", "--features", "train"];
    let parts = [&lints[..], &lean[..]];
    step("lints", || {
        parts.into_iter().try_for_each(|part| run_cargo(workspace, &[part, &["--", "-D", "warnings"][..]].concat()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rest(folder: &std::path::Path, full: bool, minutes: Option<u64>) -> anyhow::Result<usize> {
        let workspace = Workspace { root: folder.to_owned(), target: folder.to_owned(), packages: vec![] };
        let request = Request { part: None, full, minutes };
        let mut ran = 0;
        Rest::new(&workspace, request, Instant::now())?.on_change("a check of a test", &["inputs"], || {
            ran += 1;
            Ok(())
        })?;
        Ok(ran)
    }

    #[test]
    fn a_check_is_repeated_when_its_inputs_change_or_all_are_asked_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        let git = |arguments: &[&str]| {
            let done = std::process::Command::new("git").args(arguments).current_dir(folder).output();
            assert!(done.expect("git").status.success());
        };
        git(&["init", "--quiet"]);
        fs::create_dir(folder.join("inputs")).expect("created");
        fs::write(folder.join("inputs/a"), "1").expect("written");
        assert_eq!(rest(folder, false, None).expect("runs"), 1);
        assert_eq!(rest(folder, false, None).expect("skipped"), 0);
        assert_eq!(rest(folder, true, None).expect("runs"), 1);
        fs::write(folder.join("inputs/a"), "2").expect("written");
        assert_eq!(rest(folder, false, Some(0)).expect("late"), 0);
        assert_eq!(rest(folder, false, Some(60)).expect("runs"), 1);
    }
}
