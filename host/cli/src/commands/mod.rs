//! Dispatch of the commands of `host`, and the commands that read runs or describe the program.

pub mod cache;
pub mod page;
pub mod replay;
pub mod rescore;
pub mod show;
pub mod version;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::{Cli, Command, CompletionsArgs, RewardCommand};
#[cfg(not(feature = "full"))]
use crate::error::CliError;
use crate::error::CliResult;
use crate::launch;
use crate::printer::Printer;
#[cfg(feature = "full")]
use crate::{data, doctor, init, plugin, registry, serving};

/// Runs a command; returns its exit code.
pub fn dispatch(command: Command, printer: &Printer) -> CliResult<u8> {
    let done = match command {
        Command::Model(_) => return Err(launch::trainer()),
        Command::Replay(args) => replay::replay(&args, printer),
        Command::Show(args) => show::show(&args, printer),
        Command::Page(args) => page::page(&args, printer),
        Command::Rescore(args) => rescore::score(&args, printer),
        Command::Reward(RewardCommand::Diff(args)) => rescore::diff(&args, printer),
        Command::Cache(command) => cache::cache(&command, printer),
        Command::Completions(args) => {
            completions(&args, printer);
            Ok(())
        }
        Command::Version(args) => {
            version::version(&args, printer);
            Ok(())
        }
        #[cfg(feature = "full")]
        Command::Data(command) => data::run(&command, printer),
        // The checks of a model are those of the trainer.
        #[cfg(feature = "full")]
        Command::Doctor(args) if args.model.is_some() => return Err(launch::trainer()),
        #[cfg(feature = "full")]
        Command::Doctor(args) => return Ok(doctor::doctor(&args, printer)),
        #[cfg(feature = "full")]
        Command::Init(args) => init::init(&args, printer),
        #[cfg(feature = "full")]
        Command::Gateway(args) => serving::gateway::gateway(&args, printer),
        #[cfg(feature = "full")]
        Command::Plugin(command) => plugin::run(&command, printer),
        #[cfg(feature = "full")]
        Command::Registry(command) => registry::run(command, printer),
        #[cfg(feature = "full")]
        Command::Serve(args) => serving::serve::serve(&args, printer),
        #[cfg(feature = "full")]
        Command::Worker(args) => serving::worker::worker(&args, printer),
        #[cfg(not(feature = "full"))]
        _ => {
            let typed = std::env::args().nth(1).unwrap_or_default();
            Err(CliError::left_out(format!("`host {typed}` cannot run"), "the command"))
        }
    };
    done.map(|()| 0)
}

/// Names of the program in an installation.
const NAMES: [&str; 2] = ["host", "gymkhana"];

/// Runs `host completions`: prints a shell's script that completes commands, options and their values, for both names
/// of the program.
fn completions(args: &CompletionsArgs, printer: &Printer) {
    let mut script = Vec::new();
    for name in NAMES {
        clap_complete::generate(args.shell, &mut Cli::command(), name, &mut script);
    }
    let mut script = String::from_utf8_lossy(&script).into_owned();
    if args.shell == Shell::Zsh {
        // zsh loads a file of its search path by the names in the first line alone.
        script = script.replacen("#compdef host\n", "#compdef host gymkhana\n", 1);
    }
    printer.piece(&script);
}
