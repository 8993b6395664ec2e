//! The host: runs, replays, shows and inspects.

mod args;
mod error;
mod inspect;
mod options;
mod plugins;
mod printer;
mod replay;
mod run;
mod runfile;
mod show;

use std::os::unix::process::CommandExt;
use std::process::{Command as Process, ExitCode};

use clap::Parser;

use crate::args::{Cli, Command, PluginCommand};
use crate::error::CliResult;
use crate::printer::Printer;

/// libgomp reads this once, when it is loaded: with its default policy two threads on shared cores are fifty times
/// slower, since they spin at every barrier.
const WAIT_POLICY: (&str, &str) = ("OMP_WAIT_POLICY", "passive");

fn main() -> ExitCode {
    let cli = Cli::parse();
    if let (Command::Run(_), None) = (&cli.command, std::env::var_os(WAIT_POLICY.0)) {
        start_again();
    }
    let printer = Printer::new();
    match dispatch(cli.command, &printer) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            printer.error(&error);
            ExitCode::from(error.exit_code())
        }
    }
}

fn dispatch(command: Command, printer: &Printer) -> CliResult<()> {
    match command {
        Command::Run(args) => run::run(&args, printer),
        Command::Replay(args) => replay::replay(&args, printer),
        Command::Show(args) => show::show(&args, printer),
        Command::Plugin(PluginCommand::Inspect { file, json }) => inspect::inspect(&file, json, printer),
    }
}

/// Starts this program once more in its own place, with the wait policy set. If that fails the program goes on as
/// it is, only slower.
fn start_again() {
    if let Ok(program) = std::env::current_exe() {
        let _failed = Process::new(program).args(std::env::args_os().skip(1)).env(WAIT_POLICY.0, WAIT_POLICY.1).exec();
    }
}
