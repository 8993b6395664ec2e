//! `host eval`: evaluates a model on held-out tasks and prints a table or JSON.

use std::collections::BTreeSet;
use std::path::Path;

use crate::players::AGENTS;
use gymkhana_config::RunFile;
use gymkhana_orchestration::grants::AssetFiles;
use gymkhana_orchestration::pinned_servers::with_servers;
use gymkhana_orchestration::plugins::{self, PluginFile};
use gymkhana_orchestration::run_file_of;
use gymkhana_run::FailureTally;
use gymkhana_run::evaluate::{EvalRequest, Evaluated, EvaluatedEnvironment, Figures, evaluate};
use gymkhana_run::setup::models::named;
use gymkhana_store::RunReader;
use serde_json::json;

use gymkhana_cli::args::EvalArgs;
use gymkhana_cli::columns::columns;
use gymkhana_cli::error::{Classify, CliError, CliResult};
use gymkhana_cli::plugins::WantedPlugins;
use gymkhana_cli::printer::Printer;
use gymkhana_cli::units::counted;

/// Schema number of the JSON output.
const SCHEMA: u32 = 1;

/// Share of cut replies from which on the limit is named.
const MANY_CUT: f64 = 0.25;

/// Run file, plugins and assets of an evaluation.
struct EvaluationSetup {
    file: RunFile,
    plugins: Vec<PluginFile>,
    assets: AssetFiles,
}

/// Runs the command.
pub fn eval(args: &EvalArgs, printer: &Printer) -> CliResult<()> {
    let sampling = args.sampling.sampling()?;
    if sampling.is_greedy() && args.samples > 1 {
        return Err(CliError::user(
            "--samples is above 1, but all samples are equal at temperature 0\nhint: remove it or raise --temperature",
        ));
    }
    let EvaluationSetup { file, plugins, assets } = setup(args, printer)?;
    let checkpoint = named(&args.model, args.revision.as_deref())?;
    let request = EvalRequest {
        file,
        plugins,
        assets,
        checkpoint,
        split: args.split.clone(),
        tasks: args.tasks,
        samples: args.samples,
        sampling,
        agents: AGENTS,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().internal()?;
    let evaluated = runtime.block_on(evaluate(request, &printer.reporter()))?;
    if args.json {
        printer.json(as_json(&evaluated)?);
    } else {
        print(&evaluated, printer);
    }
    Ok(())
}

/// Reads the setup from a run's folder, or from a run file and plugins.
fn setup(args: &EvalArgs, printer: &Printer) -> CliResult<EvaluationSetup> {
    if let Some(run) = args.run.as_deref().filter(|run| run.is_dir()) {
        let run = RunReader::open(run)?;
        let file = run_file_of(&run, &args.set)?;
        let plugins = match &args.plugins[..] {
            [] => plugins::recorded_files(&run)?,
            given => {
                let (plugins, lock) = WantedPlugins {
                    file: None,
                    ..WantedPlugins::of_run(given, &file.rules, Path::new(""), args.fetch)
                }
                .gather(printer)?;
                with_servers(&file.rules, plugins, lock, printer.reporter().as_ref())?.0
            }
        };
        let assets = AssetFiles::recorded(&file.rules, &run)?;
        return Ok(EvaluationSetup { file, plugins, assets });
    }
    if let Some(path) = args.run.as_deref().filter(|path| !path.exists()) {
        return Err(CliError::user(format!(
            "the run file or run folder `{}` does not exist\nhint: check the path",
            path.display()
        )));
    }
    let file = match &args.run {
        Some(path) => RunFile::read(path, &args.set),
        None => RunFile::parse("", "the command line", &args.set),
    };
    let mut file = file.user_error()?;
    let beside = args.run.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
    let wanted = WantedPlugins::of_run(&args.plugins, &file.rules, beside, args.fetch);
    let (plugins, lock) = wanted.gather(printer)?;
    let (plugins, _) = with_servers(&file.rules, plugins, lock, printer.reporter().as_ref())?;
    file.rules.forget_sources();
    let assets = AssetFiles::pin(&mut file.rules, beside, None)?;
    Ok(EvaluationSetup { file, plugins, assets })
}

fn as_json(evaluated: &Evaluated) -> CliResult<String> {
    let Evaluated { model, samples, environments, figures, dropped, failures } = evaluated;
    let mut text = json!({ "schema": SCHEMA, "model": model, "split": splits(environments), "samples": samples });
    let figures = serde_json::to_value(figures).internal()?;
    if let (Some(text), serde_json::Value::Object(figures)) = (text.as_object_mut(), figures) {
        text.extend(figures);
        let named = environments.iter().filter_map(|own| Some((own.name.clone()?, own)));
        let named = named.map(|(name, own)| {
            let EvaluatedEnvironment { split, figures, dropped, failed, .. } = own;
            (name, json!({ "split": split, "figures": figures, "dropped": dropped, "failed": failed }))
        });
        let named: serde_json::Map<_, _> = named.collect();
        if !named.is_empty() {
            text.insert("environments".into(), named.into());
        }
        text.insert("dropped".into(), (*dropped).into());
        text.insert("failed".into(), failures.episodes.into());
        text.insert("failures".into(), json!(failures.calls));
        text.insert("last_failure".into(), json!(last_failure(failures)));
    }
    Ok(format!("{text:#}"))
}

/// The splits of the tasks, each once.
fn splits(environments: &[EvaluatedEnvironment]) -> String {
    let splits: BTreeSet<&str> = environments.iter().map(|own| own.split.as_str()).collect();
    splits.into_iter().collect::<Vec<_>>().join(", ")
}

/// The last failure with its episode.
fn last_failure(failures: &FailureTally) -> Option<String> {
    failures.last.as_ref().map(|(id, failure)| format!("episode {id}: {failure}"))
}

fn print(evaluated: &Evaluated, printer: &Printer) {
    let Evaluated { samples, environments, figures, dropped, failures, .. } = evaluated;
    print_environments(evaluated, printer);
    let row = |name: &str, value: String| printer.result(format!("{name:>18}  {value}"));
    row("split", splits(environments));
    row("tasks", {
        let (attempts, episodes) = (counted(*samples, "attempt"), counted(figures.episodes, "episode"));
        format!("{}, {attempts} each, {episodes}", figures.tasks)
    });
    for (name, count) in [("dropped", *dropped as u64), ("failed", failures.episodes)] {
        if count > 0 {
            row(name, count.to_string());
        }
    }
    for (at, count) in &failures.calls {
        row("failed calls", format!("{count} of {at}"));
    }
    if let Some(last) = last_failure(failures) {
        row("last failure", last);
    }
    let error = figures.success_error.map(|error| format!(" ± {error:.3}")).unwrap_or_default();
    row("success", format!("{:.3}{error}", figures.success));
    for (k, pass) in &figures.pass_at {
        row(&format!("pass@{k}"), format!("{pass:.3}"));
    }
    for (k, pass) in &figures.pass_hat {
        row(&format!("pass^{k}"), format!("{pass:.3}"));
    }
    row("reward", format!("{:.3}", figures.reward));
    let calls = figures.calls_per_success.map_or("none solved".to_owned(), |calls| format!("{calls:.2}"));
    row("calls per success", calls);
    row("calls per episode", format!("{:.2}", figures.calls_per_episode));
    if figures.malformed_calls_per_episode > 0.0 {
        row("malformed calls", format!("{:.2} per episode", figures.malformed_calls_per_episode));
    }
    if figures.cut_replies > 0.0 {
        let advice = if figures.cut_replies > MANY_CUT { "; raise limits.reply_tokens" } else { "" };
        row("cut replies", format!("{:.1} %{advice}", 100.0 * figures.cut_replies));
    }
    printer.result("");
    printer.result(format!("{:>18}  {:>7}  {:>7}  {:>13}", "turns", "ended", "solved", "solved so far"));
    for at in &figures.by_turn {
        printer.result(format!("{:>18}  {:>7}  {:>7}  {:>13.3}", at.turns, at.ended, at.solved, at.solved_so_far));
    }
}

/// Prints a line for each environment and one for all, in a run with several.
fn print_environments(evaluated: &Evaluated, printer: &Printer) {
    if evaluated.environments.iter().all(|own| own.name.is_none()) {
        return;
    }
    let mut rows = vec![
        ["environment", "split", "tasks", "episodes", "success", "reward", "calls", "failed", "dropped"]
            .map(str::to_owned)
            .to_vec(),
    ];
    let cells = |figures: &Figures| {
        let error = figures.success_error.map(|error| format!(" ± {error:.3}")).unwrap_or_default();
        let (success, reward) = (format!("{:.3}{error}", figures.success), format!("{:.3}", figures.reward));
        let calls = format!("{:.2}", figures.calls_per_episode);
        [figures.tasks.to_string(), figures.episodes.to_string(), success, reward, calls]
    };
    let none = || ["0", "0", "-", "-", "-"].map(str::to_owned);
    for EvaluatedEnvironment { name, split, figures, dropped, failed } in &evaluated.environments {
        let mut row = vec![name.clone().unwrap_or_default(), split.clone()];
        row.extend(figures.as_ref().map_or_else(none, cells));
        row.extend([failed.to_string(), dropped.to_string()]);
        rows.push(row);
    }
    let mut all = vec!["all".to_owned(), String::new()];
    all.extend(cells(&evaluated.figures));
    all.extend([evaluated.failures.episodes.to_string(), evaluated.dropped.to_string()]);
    rows.push(all);
    columns(&rows).into_iter().for_each(|line| printer.result(line));
    printer.result("");
}
