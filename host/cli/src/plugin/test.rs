//! `host plugin test`: does a plugin keep the contract?

use gymkhana_conformance::{Settings, Tale, check_plugin, limits};
use gymkhana_registry::{Check, Outcome, Report, write_atomically};
use gymkhana_sandbox::SandboxConfig;
use gymkhana_store::RunReader;

use crate::error::{Blame, CliError, CliResult};
use crate::plugin::args::TestArgs;
use crate::plugin::build;
use crate::plugin::given::{self, Given};
use crate::printer::Printer;
use crate::recorded::groups;

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
    let sandbox = given::sandbox(&SandboxConfig { limits: limits(&settings), ..SandboxConfig::default() }, printer)?;
    let settings = Settings { beside: beside(args, &sandbox)?, ..settings };
    let told = |check: &Check| tell(check, printer);
    let suite = check_plugin(&sandbox, &given.origin, &given.bytes, settings, told);
    let report = given::runtime()?.block_on(suite).ours()?;
    if let Some(path) = &args.json {
        let text = serde_json::to_vec_pretty(&report).ours()?;
        write_atomically(path, &text).users_as(format!("the report `{}` cannot be written", path.display()))?;
    }
    conclude(&report, printer)
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
    sandbox: &gymkhana_sandbox::Sandbox,
) -> CliResult<Vec<(gymkhana_sandbox::Plugin, Vec<gymkhana_episode::NamedValue>)>> {
    args.with.iter().map(|path| Ok((Given::read(path)?.load(sandbox)?, vec![]))).collect()
}

/// A run's episodes by group, as rewards see them.
fn recorded(dir: &std::path::Path) -> CliResult<Vec<Vec<Tale>>> {
    let episodes = RunReader::open(dir)?.episodes()?;
    groups(episodes.read_all()).map(|group| Ok(group?.iter().map(Tale::of).collect())).collect()
}

fn tell(check: &Check, printer: &Printer) {
    let (mark, words) = match &check.outcome {
        Outcome::Passed(seen) => ("ok", seen),
        Outcome::Failed(why) => ("FAILED", why),
        Outcome::Skipped(why) => ("-", why),
    };
    printer.result(format!("{mark:>6}  {:<26} {words}", check.name));
}

fn conclude(report: &Report, printer: &Printer) -> CliResult<()> {
    let failed = report.failures().count();
    let passed = report.checks.iter().filter(|check| matches!(check.outcome, Outcome::Passed(_))).count();
    let name = format!("{} {}", report.name, report.version);
    if failed == 0 {
        printer.result(format!("{name} keeps the contract: {passed} checks passed, {} calls were made", report.steps));
        return Ok(());
    }
    let names: Vec<&str> = report.failures().map(|(name, _)| name).collect();
    Err(CliError::mistake(format!(
        "{name} fails {failed} of {} checks: {}; docs/plugins.md says of each what it means",
        report.checks.len(),
        names.join(", ")
    )))
}
