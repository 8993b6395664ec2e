//! Set-up and developer commands: `cargo xtask`.
//!
//! Links neither libtorch nor wasmtime, so that it builds in a fresh clone within seconds and can fetch the
//! dependencies of the rest. All commands can be repeated: finished work is skipped. Results go to standard output,
//! progress to standard error.
#![allow(clippy::print_stderr, reason = "the one printer of this program")]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod arguments;
mod checks;
mod ci;
mod docs;
mod first_party;
mod foreign;
mod fuzz;
mod inputs;
mod measure;
mod processor;
mod publish;
mod python_package;
mod pythons;
mod reference;
mod setup;
mod shelf;
mod step;
mod test;
mod tools;
mod workspace;

use std::process::ExitCode;

use arguments::{Arguments, Command, Measure};
use clap::Parser as _;
use step::UserError;
use workspace::Workspace;

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(if error.is::<UserError>() { 2 } else { 1 })
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    let workspace = Workspace::find()?;
    match command {
        Command::Setup => setup::run(&workspace),
        Command::Plugins => setup::plugins::build(&workspace).and_then(|()| foreign::build(&workspace)),
        Command::Demo { out, seed, pretrained } => {
            measure::demo::run(&workspace, measure::demo::Start::of(pretrained), out.as_deref(), seed)
        }
        Command::Test { crates, reference, minutes, again } => {
            test::run(&workspace, &test::Request { crates, again, reference, minutes })
        }
        Command::Ci { part, full, minutes } => ci::run(&workspace, ci::Request { part, full, minutes }),
        Command::Bench { names, smoke, baselines } => {
            measure::bench::run(&workspace, &names, smoke, baselines.as_deref())
        }
        Command::Measure(Measure::FirstRun { until, folder }) => {
            measure::first_run::run(&workspace, until, folder.as_deref())
        }
        Command::Measure(Measure::Install { from, dist }) => measure::install::run(&workspace, from, dist.as_deref()),
        Command::Measure(Measure::Tests) => measure::slowest::run(&workspace),
        Command::GpuPack => measure::gpu_pack::run(&workspace),
        Command::Study { name, seeds, smoke } => measure::study::run(&workspace, name, seeds, smoke),
        Command::LintProse => checks::prose::run(&workspace).and_then(|()| checks::words::run(&workspace)),
        Command::Arrows { write } => checks::arrows::run(&workspace, write)
            .and_then(|()| checks::cycles::run(&workspace))
            .and_then(|()| checks::layout::run(&workspace))
            .and_then(|()| checks::type_names::run(&workspace))
            .and_then(|()| checks::identifiers::run(&workspace)),
        Command::Manifests => checks::manifests::run(&workspace),
        Command::Links => checks::links::run(&workspace),
        Command::Docs { pages: false } => docs::run(&workspace),
        Command::Docs { pages: true } => docs::run_pages(&workspace),
        Command::Shelf { check } => shelf::run(&workspace, check),
        Command::Fuzz { seconds } => fuzz::run(&workspace, seconds),
        Command::Release { version, dry_run } => publish::release::run(&workspace, &version, dry_run),
        Command::Bindings => publish::bindings(&workspace),
        Command::Dist { programs, wheel, check } => {
            publish::dist::run(&workspace, &publish::dist::Request { programs, wheel, check })
        }
        Command::Package => publish::package(&workspace),
        Command::Wheel { portable, target } => publish::wheel::build(&workspace, portable, target.as_deref()).map(drop),
    }
}
