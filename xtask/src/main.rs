//! Set-up and developer commands: `cargo xtask`.
//!
//! Links neither libtorch nor wasmtime, so that it runs in a fresh clone within seconds and can fetch what the rest
//! needs. It is safe to repeat: what is done already takes no time. Results go to standard output, talk to standard
//! error.
#![allow(clippy::print_stderr, reason = "the one printer of this program")]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod arguments;
mod authors;
mod baselines;
mod bench;
mod compiler;
mod demo;
mod libtorch;
mod peers;
mod plugins;
mod setup;
mod step;
mod study;
mod test;
mod workspace;

use std::process::ExitCode;

use arguments::{Command, USAGE, parse};
use step::Missing;
use workspace::Workspace;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let command = match parse(&arguments) {
        Ok(command) => command,
        Err(error) => {
            eprintln!("error: {error}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(&command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            // What this machine lacks is for the user to mend; everything else is ours.
            ExitCode::from(if error.is::<Missing>() { 2 } else { 1 })
        }
    }
}

fn run(command: &Command) -> anyhow::Result<()> {
    if *command == Command::Help {
        eprintln!("{USAGE}");
        return Ok(());
    }
    let workspace = Workspace::find()?;
    match command {
        Command::Help => Ok(()),
        Command::Setup => setup::run(&workspace),
        Command::Plugins => plugins::build(&workspace).and_then(|()| authors::build(&workspace)),
        Command::Demo { out, seed } => demo::run(&workspace, out.as_deref(), *seed),
        Command::Test { peers } => test::run(&workspace, *peers),
        Command::Bench { name } => bench::run(&workspace, name.as_deref()),
        Command::BenchTrainer { baselines } => baselines::run(&workspace, baselines),
        Command::Study { name, seeds } => study::run(&workspace, name, *seeds),
    }
}
