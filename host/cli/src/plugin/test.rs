//! `host plugin test`: runs the conformance suite on a plugin.

use std::path::{Path, PathBuf};

use gymkhana_conformance::{FinishedEpisode, MAX_MEMORY, SuiteSettings, check_plugin, limits};
use gymkhana_registry::{Check, CheckOutcome, Report, write_atomically};
use gymkhana_sandbox::{CompilerEffort, Sandbox, SandboxConfig};
use gymkhana_store::RunReader;

use crate::args::plugin::{MAX_MEMORY_MIB, TestArgs};
use crate::error::{Classify, CliError, CliResult};
use crate::plugin::build::{
    self,
    BuildMode::{Quick, Whole},
};
use crate::plugin::find;
use crate::plugin::log;
use crate::plugin::plugin_inputs::{self, PluginInputs};
use crate::printer::Printer;
use gymkhana_orchestration::groups;

const _: () = assert!(MAX_MEMORY == MAX_MEMORY_MIB << 20, "--most-memory has the suite's default");

/// End of the last line of a thinned suite.
const SHORT_SUITE: &str = "; short suite: --json, a file or `host publish` runs the whole";

/// Runs the command.
pub fn test(args: &TestArgs, printer: &Printer) -> CliResult<()> {
    // A report is for publishing the component.
    let mode = if args.json.is_some() { Whole } else { Quick };
    let inputs = match args.plugin.is_dir() {
        true => PluginInputs::read(&build::test_and_build(&args.plugin, mode, printer)?)?,
        false => find(&args.plugin, mode, printer)?,
    };
    let settings = settings(args, &inputs)?;
    let sandbox = sandbox(&settings, build::effort(&args.plugin), printer)?;
    check_options(&sandbox, &inputs, &settings)?;
    let log = log::test_sink(inputs.manifest.name.name(), printer);
    let settings = SuiteSettings { beside: beside(args, &sandbox, printer)?, log: Some(log), ..settings };
    let report = run_suite(&sandbox, &inputs, settings, |check| printer.result(line(check)))?;
    if let Some(path) = &args.json {
        let text = serde_json::to_vec_pretty(&report).internal()?;
        write_atomically(path, &text).user_context(format!(
            "the report `{}` cannot be written\nhint: name a file in a writable folder",
            path.display()
        ))?;
    }
    no_failure(&report)?;
    let passed = report.checks.iter().filter(|check| matches!(check.outcome, CheckOutcome::Passed(_))).count();
    let Report { name, version, steps, thinned, .. } = &report;
    let short = if *thinned { SHORT_SUITE } else { "" };
    printer.result(format!("{name} {version} conforms: {passed} checks passed, {steps} calls made{short}"));
    Ok(())
}

/// Report for publishing a component, made with the required settings. Prints failed checks only.
pub fn report_for_publishing(file: &Path, printer: &Printer) -> CliResult<Report> {
    required_report(&PluginInputs::read(file)?, printer)
}

/// As [`report_for_publishing`], for a component that was read.
pub fn report_of(origin: &str, bytes: &[u8], printer: &Printer) -> CliResult<Report> {
    required_report(&PluginInputs::of(origin.to_owned(), bytes.to_vec())?, printer)
}

fn required_report(inputs: &PluginInputs, printer: &Printer) -> CliResult<Report> {
    let settings = SuiteSettings::default();
    let sandbox = sandbox(&settings, CompilerEffort::Optimised, printer)?;
    printer.status(format!("running the conformance suite on `{}`", inputs.origin));
    let print_failure = |check: &Check| {
        if matches!(check.outcome, CheckOutcome::Failed(_)) {
            printer.status(line(check));
        }
    };
    let report = run_suite(&sandbox, inputs, settings, print_failure)?;
    no_failure(&report)?;
    Ok(report)
}

/// Settings of the suite's sandbox.
pub fn suite_config(settings: &SuiteSettings, effort: CompilerEffort) -> SandboxConfig {
    SandboxConfig { limits: limits(settings), effort, ..SandboxConfig::default() }
}

fn sandbox(settings: &SuiteSettings, effort: CompilerEffort, printer: &Printer) -> CliResult<Sandbox> {
    plugin_inputs::sandbox(&suite_config(settings, effort), printer)
}

/// Tells a wrong --option from a mistake of the plugin. Whether the plugin loads at all is a check of the suite.
fn check_options(sandbox: &Sandbox, inputs: &PluginInputs, settings: &SuiteSettings) -> CliResult<()> {
    if settings.options.is_empty() {
        return Ok(());
    }
    let Ok(plugin) = inputs.load(sandbox) else { return Ok(()) };
    let plugin = plugin.with_assets(settings.assets.clone());
    plugin_inputs::runtime()?.block_on(plugin_inputs::check_options(&plugin, &settings.options))
}

fn run_suite(
    sandbox: &Sandbox,
    inputs: &PluginInputs,
    settings: SuiteSettings,
    report: impl FnMut(&Check) + Send,
) -> CliResult<Report> {
    let checked = check_plugin(sandbox, &inputs.origin, &inputs.bytes, settings, report);
    plugin_inputs::suite_result(plugin_inputs::runtime()?.block_on(checked))
}

fn settings(args: &TestArgs, inputs: &PluginInputs) -> CliResult<SuiteSettings> {
    Ok(SuiteSettings {
        seed: args.seed,
        steps: args.steps,
        options: plugin_inputs::options(inputs.manifest.name.name(), &args.option)?,
        most_fuel: args.most_fuel,
        most_memory: args.most_memory << 20,
        assets: plugin_inputs::assets(&args.asset)?,
        setup: plugin_inputs::setup(args.setup.as_deref())?,
        // A report for a registry needs the whole suite.
        thin_costly: args.plugin.is_dir() && args.json.is_none(),
        beside: vec![],
        log: None,
        recorded: args.on.as_deref().map(recorded).transpose()?.unwrap_or_default(),
        ..SuiteSettings::default()
    })
}

/// Companion plugins.
fn beside(
    args: &TestArgs,
    sandbox: &Sandbox,
    printer: &Printer,
) -> CliResult<Vec<(gymkhana_sandbox::Plugin, Vec<gymkhana_record::NamedValue>)>> {
    let load = |path: &PathBuf| {
        let plugin = find(path, Quick, printer)?.load(sandbox)?;
        Ok((plugin.with_log_sink(log::test_sink(plugin.name(), printer)), vec![]))
    };
    args.with.iter().map(load).collect()
}

/// Episodes of a run by group, as rewards receive them.
fn recorded(dir: &Path) -> CliResult<Vec<Vec<FinishedEpisode>>> {
    let episodes = RunReader::open(dir)?.episodes()?;
    groups(episodes.read_all()).map(|group| Ok(group?.iter().map(FinishedEpisode::of).collect())).collect()
}

/// A check as a row; further lines of its text are indented below the first.
fn line(check: &Check) -> String {
    let (mark, words) = match &check.outcome {
        CheckOutcome::Passed(seen) => ("ok", seen),
        CheckOutcome::Failed(why) => ("FAILED", why),
        CheckOutcome::Skipped(why) => ("-", why),
    };
    let indent = format!("\n{:35}", "");
    format!("{mark:>6}  {:<26} {}", check.name, words.replace('\n', &indent))
}

fn no_failure(report: &Report) -> CliResult<()> {
    let count = report.failures().count();
    if count == 0 {
        return Ok(());
    }
    Err(CliError::user(format!(
        "{} {} fails {count} of {} checks: {}\nhint: docs/reference/conformance.md explains each check",
        report.name,
        report.version,
        report.checks.len(),
        causes(&report.checks).join(", ")
    )))
}

/// Failed checks by cause: each check that describes one, with the other checks that failed for it.
fn causes(checks: &[Check]) -> Vec<String> {
    let failed = || checks.iter().filter(|check| matches!(check.outcome, CheckOutcome::Failed(_)));
    let first = failed().filter(|check| check.same_cause_as.is_none());
    first
        .map(|check| {
            let is_same = |other: &&Check| other.same_cause_as.as_ref() == Some(&check.name);
            let also: Vec<&str> = failed().filter(is_same).map(|other| other.name.as_str()).collect();
            if also.is_empty() {
                check.name.clone()
            } else {
                format!("{} (also fails: {})", check.name, also.join(", "))
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, outcome: CheckOutcome, same_cause_as: Option<&str>) -> Check {
        Check { name: name.to_owned(), outcome, same_cause_as: same_cause_as.map(str::to_owned) }
    }

    #[test]
    fn further_lines_of_a_check_stand_below_the_first() {
        let cost = check("cost", CheckOutcome::Passed("start: 1 µs\nstep: 2 µs".to_owned()), None);
        let below = " ".repeat(35);
        assert_eq!(line(&cost), format!("    ok  cost                       start: 1 µs\n{below}step: 2 µs"));
    }

    #[test]
    fn checks_that_fail_for_one_cause_are_named_together() {
        let failed = || CheckOutcome::Failed("it panicked".to_owned());
        let checks = [
            check("loads", CheckOutcome::Passed("12 bytes".to_owned()), None),
            check("snapshots", failed(), None),
            check("oracle", failed(), None),
            check("isolation", failed(), Some("snapshots")),
            check("fuzz", failed(), Some("snapshots")),
        ];
        assert_eq!(causes(&checks), ["snapshots (also fails: isolation, fuzz)", "oracle"]);
    }
}
