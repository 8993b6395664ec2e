//! `host plugin test`: does a plugin keep the contract?

use std::path::Path;

use gymkhana_conformance::{FinishedEpisode, Settings, check_plugin, limits};
use gymkhana_registry::{Check, Outcome, Report, write_atomically};
use gymkhana_sandbox::{Sandbox, SandboxConfig};
use gymkhana_store::RunReader;

use crate::error::{Classify, CliError, CliResult};
use crate::plugin::args::TestArgs;
use crate::plugin::build;
use crate::plugin::given::{self, Given};
use crate::printer::Printer;
use gymkhana_run::groups;

/// Checks.
pub fn test(args: &TestArgs, printer: &Printer) -> CliResult<()> {
    let file = if args.plugin.is_dir() {
        build::test_folder(&args.plugin, printer)?;
        build::build_folder(&args.plugin, None, printer)?
    } else {
        args.plugin.clone()
    };
    let given = Given::read(&file)?;
    let settings = settings(args, &given)?;
    let sandbox = sandbox(&settings, printer)?;
    let settings = Settings { beside: beside(args, &sandbox)?, ..settings };
    let report = run_suite(&sandbox, &given, settings, |check| printer.result(line(check)))?;
    if let Some(path) = &args.json {
        let text = serde_json::to_vec_pretty(&report).internal()?;
        write_atomically(path, &text).user_context(format!("the report `{}` cannot be written", path.display()))?;
    }
    no_failure(&report)?;
    let passed = report.checks.iter().filter(|check| matches!(check.outcome, Outcome::Passed(_))).count();
    let Report { name, version, steps, .. } = &report;
    printer.result(format!("{name} {version} keeps the contract: {passed} checks passed, {steps} calls were made"));
    Ok(())
}

/// The report of a component that is published without one: made with what every report must be made with. Only what
/// is wrong is told.
pub fn report_for_publishing(file: &Path, printer: &Printer) -> CliResult<Report> {
    let given = Given::read(file)?;
    let settings = Settings::default();
    let sandbox = sandbox(&settings, printer)?;
    printer.status(format!("the conformance suite looks at `{}`", file.display()));
    let told = |check: &Check| {
        if matches!(check.outcome, Outcome::Failed(_)) {
            printer.status(line(check));
        }
    };
    let report = run_suite(&sandbox, &given, settings, told)?;
    no_failure(&report)?;
    Ok(report)
}

fn sandbox(settings: &Settings, printer: &Printer) -> CliResult<Sandbox> {
    given::sandbox(&SandboxConfig { limits: limits(settings), ..SandboxConfig::default() }, printer)
}

fn run_suite(
    sandbox: &Sandbox,
    given: &Given,
    settings: Settings,
    told: impl FnMut(&Check) + Send,
) -> CliResult<Report> {
    given::runtime()?.block_on(check_plugin(sandbox, &given.origin, &given.bytes, settings, told)).internal()
}

fn settings(args: &TestArgs, given: &Given) -> CliResult<Settings> {
    Ok(Settings {
        seed: args.seed,
        steps: args.steps,
        options: given::options(given.manifest.name.name(), &args.option)?,
        most_fuel: args.most_fuel,
        most_memory: args.most_memory << 20,
        assets: given::assets(&args.asset)?,
        setup: given::setup(args.setup.as_deref())?,
        beside: vec![],
        recorded: args.on.as_deref().map(recorded).transpose()?.unwrap_or_default(),
    })
}

/// The plugins beside it.
fn beside(
    args: &TestArgs,
    sandbox: &Sandbox,
) -> CliResult<Vec<(gymkhana_sandbox::Plugin, Vec<gymkhana_record::NamedValue>)>> {
    args.with.iter().map(|path| Ok((Given::read(path)?.load(sandbox)?, vec![]))).collect()
}

/// A run's episodes by group, as rewards see them.
fn recorded(dir: &Path) -> CliResult<Vec<Vec<FinishedEpisode>>> {
    let episodes = RunReader::open(dir)?.episodes()?;
    groups(episodes.read_all()).map(|group| Ok(group?.iter().map(FinishedEpisode::of).collect())).collect()
}

/// A check, as a person reads it.
fn line(check: &Check) -> String {
    let (mark, words) = match &check.outcome {
        Outcome::Passed(seen) => ("ok", seen),
        Outcome::Failed(why) => ("FAILED", why),
        Outcome::Skipped(why) => ("-", why),
    };
    format!("{mark:>6}  {:<26} {words}", check.name)
}

fn no_failure(report: &Report) -> CliResult<()> {
    let names: Vec<&str> = report.failures().map(|(name, _)| name).collect();
    if names.is_empty() {
        return Ok(());
    }
    Err(CliError::user(format!(
        "{} {} fails {} of {} checks: {}; docs/plugins.md says of each what it means",
        report.name,
        report.version,
        names.len(),
        report.checks.len(),
        names.join(", ")
    )))
}
