//! `host demo`: a run file of the repository, with the installation's plugins.

use std::path::{Path, PathBuf};

use gymkhana_cli::args::DemoArgs;
use gymkhana_cli::args::registry::FetchArgs;
use gymkhana_cli::curve::chart;
use gymkhana_cli::error::{Classify, CliResult};
use gymkhana_cli::plugins::WantedPlugins;
use gymkhana_cli::printer::Printer;
use gymkhana_config::RunFile;
use gymkhana_run::{RunOutcome, RunRequest};
use gymkhana_store::RunReader;

use crate::players::AGENTS;
use crate::run::{CommandEnding, Shown, conduct, print};

/// Folder of outputs.
const OUTPUTS: &str = "out";

/// Name of the figure that the chart shows.
const SUCCESS: &str = "success";

/// Runs the command; returns the exit code.
pub fn demo(args: &DemoArgs, printer: &Printer) -> CliResult<u8> {
    let out = args.out.clone().unwrap_or_else(|| free_folder(Path::new(OUTPUTS)));
    let file = run_file(args, printer)?;
    printer.status(format!(
        "training {} to solve arithmetic stories with a calculator; on two cores about {} minutes, in `{}`",
        if args.pretrained { "SmolLM2-135M-Instruct" } else { "a small model from random weights" },
        if args.pretrained { 5 } else { 2 },
        out.display()
    ));
    let shown = Shown { page: args.page, dry_run: args.dry_run };
    let fetch = FetchArgs::default();
    let (ending, code) = conduct(
        |stop| {
            let mut file = file;
            let wanted = WantedPlugins::of_run(&args.plugins, &file.rules, Path::new(""), fetch);
            let (plugins, lock) = wanted.gather(printer)?;
            file.rules.forget_sources();
            let mut request = RunRequest::of_plugins(file, &out, plugins, lock);
            request.agents = AGENTS;
            request.stop = stop;
            Ok(request)
        },
        shown,
        printer,
    )?;
    if let CommandEnding::Trained(RunOutcome::Finished(finished)) = ending {
        print_curve(&finished.folder, printer)?;
        print(&finished, printer);
        let folder = finished.folder.display();
        printer.status(format!("next: host page {folder}"));
        printer.status(format!("next: host replay {folder}"));
    }
    Ok(code)
}

/// The run file with the model and the seed.
fn run_file(args: &DemoArgs, printer: &Printer) -> CliResult<RunFile> {
    let mut sets = vec![format!("seed={}", args.seed)];
    let (name, text) = if args.pretrained {
        let model = pretrained_model(printer)?;
        sets.push(format!("policy.checkpoint={}", model.display()));
        ("pretrained.toml", include_str!("../../../../../examples/runs/pretrained.toml"))
    } else {
        ("word-problems.toml", include_str!("../../../../../examples/runs/word-problems.toml"))
    };
    RunFile::parse(text, name, &sets).user_error()
}

#[cfg(feature = "gguf")]
fn pretrained_model(printer: &Printer) -> CliResult<PathBuf> {
    crate::pretrained::model(&Path::new(OUTPUTS).join("models"), printer)
}

#[cfg(not(feature = "gguf"))]
fn pretrained_model(_printer: &Printer) -> CliResult<PathBuf> {
    Err(gymkhana_cli::error::CliError::left_out("no model can be converted", "`host demo --pretrained`"))
}

/// `demo`, or the first of `demo-2`, `demo-3`, … that does not exist.
fn free_folder(parent: &Path) -> PathBuf {
    let names = std::iter::once("demo".to_owned()).chain((2_u64..).map(|number| format!("demo-{number}")));
    let mut free = names.map(|name| parent.join(name)).filter(|path| !path.exists());
    free.next().unwrap_or_else(|| parent.join("demo"))
}

/// Prints the success of the sampled episodes of the last stage, which is the reinforcement learning.
fn print_curve(folder: &Path, printer: &Printer) -> CliResult<()> {
    let lines = RunReader::open(folder)?.metrics()?;
    let last = lines.iter().map(|line| line.stage).max();
    let of_last = lines.iter().filter(|line| Some(line.stage) == last);
    let shares: Vec<f64> = of_last.filter_map(|line| line.values.get(SUCCESS)?.as_f64()).collect();
    printer.result("success of sampled episodes, by step of reinforcement learning:");
    chart(&shares).into_iter().for_each(|line| printer.result(line));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_exists_is_left_alone() {
        let parent = tempfile::tempdir().expect("a folder");
        assert_eq!(free_folder(parent.path()), parent.path().join("demo"));
        std::fs::create_dir(parent.path().join("demo")).expect("made");
        std::fs::create_dir(parent.path().join("demo-2")).expect("made");
        assert_eq!(free_folder(parent.path()), parent.path().join("demo-3"));
    }
}
