//! `host init`: a project with a run file, from an environment, tools and rewards of the registries.
//!
//! What does not fit together is refused: the run file that is written passes `host run --dry-run`.

mod chosen;
mod project;
mod questions;
mod run_file;

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use gymkhana_waits::{ChildWait, Counterpart, output};

use crate::args::InitArgs;
use crate::error::{Classify, CliError, CliResult};
use crate::launch;
use crate::printer::Printer;
use crate::registry::{RegistrySession, add};

use chosen::ChosenPlugins;
use project::ProjectFolder;
use run_file::RunFileText;

/// Runs the command.
pub fn init(args: &InitArgs, printer: &Printer) -> CliResult<()> {
    let session = RegistrySession::new(false)?;
    let wanted = questions::wanted(args, &session, printer)?;
    let chosen = ChosenPlugins::resolve(&wanted, &session, printer)?;
    let text = RunFileText::new(args, &chosen)?.to_string();
    let folder = ProjectFolder::create(&args.dir)?;
    let written = write(args, &chosen, &text, &folder, printer);
    if written.is_err() {
        folder.remove();
    }
    written?;
    printer.result(format!("created a project in {}", args.dir.display()));
    printer.status(format!("next: {}", next(args)));
    Ok(())
}

/// Fills the folder and checks the run file.
fn write(
    args: &InitArgs,
    chosen: &ChosenPlugins,
    text: &str,
    folder: &ProjectFolder,
    printer: &Printer,
) -> CliResult<()> {
    folder.write(run_file::NAME, text)?;
    folder.write("AGENTS.md", include_str!("agents.txt"))?;
    folder.copy_registries()?;
    // Commands of projects work in the folder of the project.
    std::env::set_current_dir(folder.path()).user_context("the new folder cannot be entered\nhint: use another one")?;
    fs::create_dir("plugins").user_context("`plugins` cannot be created\nhint: free space")?;
    if !chosen.is_empty() {
        add(&chosen.as_added(args), printer)?;
    }
    match &args.own {
        Some(_) => project::own_plugin(args, printer),
        None => check(printer),
    }
}

/// Longest time of a dry run, in which the plugins are compiled.
const LONGEST_CHECK: Duration = Duration::from_secs(1800);
/// Time after which the dry run is reported.
const FIRST_REPORT: Duration = Duration::from_secs(60);

/// Beginning of a dry run's warning of a plugin that fails in the first task. A new project has no use for such a plugin.
const FAILED_TRIAL: &str = "warning: in a trial of task";

/// Refuses a run file that a run would refuse, or of which a plugin fails. Other warnings are passed on.
fn check(printer: &Printer) -> CliResult<()> {
    let output = match launch::command(&["run", run_file::NAME, "--dry-run"]) {
        Ok(mut command) => {
            let say = |text: &str| printer.status(text);
            let (named, bound, first_report) = ("`host run --dry-run`".to_owned(), LONGEST_CHECK, FIRST_REPORT);
            let wait = ChildWait { counterpart: Counterpart::BuildTool, named, bound, first_report, say: &say };
            let ended = output(command.stderr(Stdio::piped()), &wait).user_context("the run file cannot be checked")?;
            ended.map_err(|silent| {
                CliError::user(format!("the run file cannot be checked: {silent}\nhint: run it by hand"))
            })?
        }
        Err(error) => {
            printer.warn(format!("warning: the run file was not checked: {error}"));
            return Ok(());
        }
    };
    let told = String::from_utf8_lossy(&output.stderr);
    let mark = if output.status.success() { FAILED_TRIAL } else { "error: " };
    match told.find(mark) {
        Some(start) => {
            let told = told[start..].trim_start_matches("error: ").trim_start_matches("warning: ").trim_end();
            Err(CliError::user(format!("these plugins do not make a run: {told}")))
        }
        None if output.status.success() => {
            told.lines().filter(|line| line.starts_with("warning: ")).for_each(|line| printer.warn(line));
            Ok(())
        }
        None => Err(CliError::internal(format!("the run file cannot be checked: {told}"))),
    }
}

/// The next command.
fn next(args: &InitArgs) -> String {
    let dir = args.dir.display();
    match args.own {
        Some(own) => format!("read {dir}/plugins/{}/AGENTS.md, and build the plugin", project::own_name(own)),
        None => format!("cd {dir} && host run {}", run_file::NAME),
    }
}

/// Refuses a folder that exists.
fn check_free(dir: &Path) -> CliResult<()> {
    if dir.exists() {
        let message = format!("`{}` already exists", dir.display());
        return Err(CliError::user(message).with_hint("choose another name"));
    }
    Ok(())
}
