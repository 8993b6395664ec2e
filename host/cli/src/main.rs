//! The host: runs, generates, evaluates, replays, shows, scores, and serves those who write plugins.

mod args;
mod assembly;
mod error;
mod generate;
mod harmless;
mod metrics;
mod models;
mod options;
mod plugin;
mod plugins;
mod printer;
mod recorded;
mod registry;
mod replay;
mod rescore;
mod run;
mod runfile;
mod show;
mod trace;
mod world;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Cli, Command, RewardCommand};
use crate::error::CliResult;
use crate::printer::Printer;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let printer = Printer::new();
    match dispatch(cli.command, &printer).and_then(|()| printer.all_printed()) {
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
        Command::Generate(args) => generate::generate(&args, printer),
        Command::Eval(args) => run::eval(&args, printer),
        Command::Replay(args) => replay::replay(&args, printer),
        Command::Show(args) => show::show(&args, printer),
        Command::Score(args) => rescore::score(&args, printer),
        Command::Reward(RewardCommand::Diff(args)) => rescore::diff(&args, printer),
        Command::Plugin(command) => plugin::run(&command, printer),
        Command::Registry(command) => registry::run(command, printer),
    }
}
