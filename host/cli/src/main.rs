//! The host: trains, generates, evaluates, replays, shows, rescores, and supports plugin authors.

mod args;
mod commands;
mod error;
mod escape;
mod libtorch;
mod plugin;
mod printer;
mod registry;
mod signals;
mod units;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Cli, Command, RewardCommand};
use crate::error::{CliResult, exit_code};
use crate::printer::Printer;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    if let Some(code) = gymkhana_sandbox::run_as_compiler() {
        return code;
    }
    let cli = Cli::parse();
    let printer = Printer::new();
    match dispatch(cli.command, &printer).and_then(|code| printer.all_printed().map(|()| code)) {
        Ok(code) => code,
        Err(error) => {
            printer.error(&error);
            ExitCode::from(exit_code(&error))
        }
    }
}

fn dispatch(command: Command, printer: &Printer) -> CliResult<ExitCode> {
    let done = match command {
        Command::Run(args) => return commands::run::run(&args, printer),
        Command::Doctor(args) => return Ok(commands::doctor::doctor(&args, printer)),
        Command::Generate(args) => commands::generate::generate(&args, printer),
        Command::Eval(args) => commands::eval::eval(&args, printer),
        Command::Replay(args) => commands::replay::replay(&args, printer),
        Command::Show(args) => commands::show::show(&args, printer),
        Command::Rescore(args) => commands::rescore::score(&args, printer),
        Command::Reward(RewardCommand::Diff(args)) => commands::rescore::diff(&args, printer),
        Command::Plugin(command) => plugin::run(&command, printer),
        Command::Reference(args) => commands::reference::reference(&args, printer),
        Command::Registry(command) => registry::run(command, printer),
        Command::Cache(command) => commands::cache::cache(&command, printer),
        Command::Completions(args) => {
            commands::completions::completions(&args, printer);
            Ok(())
        }
        Command::Version(args) => {
            commands::version::version(&args, printer);
            Ok(())
        }
    };
    done.map(|()| ExitCode::SUCCESS)
}
