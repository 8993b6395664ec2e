//! The benches: each prints one JSON line per result. `cargo xtask bench` builds and runs this program.

mod bench;
mod device;
mod name;

use anyhow::Result;
use clap::{Parser, Subcommand, ValueEnum as _};
use gymkhana_benches::Effort;

use bench::rollouts::Sharing;
use bench::trainer::{Curve, StepCost};
use device::Device;
use name::Bench;

/// Measure Gymkhana
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run benches
    Run {
        /// Benches to run; all by default
        names: Vec<Bench>,
        /// Run one round only
        #[arg(long)]
        smoke: bool,
    },
    /// Print the memory of one episode
    RolloutMemory {
        /// Instances of the plugins
        sharing: Sharing,
        /// Use few episodes
        #[arg(long)]
        smoke: bool,
    },
    /// Print the CPU time of training steps
    TrainerStep(StepCost),
    /// Print the learning curve on the toy
    TrainerCurve(Curve),
    /// Compare and measure a device
    #[command(subcommand)]
    Device(Device),
}

fn main() -> Result<()> {
    match Arguments::parse().command {
        Command::Run { names, smoke } => {
            let names = if names.is_empty() { Bench::value_variants() } else { &names };
            names.iter().try_for_each(|name| run(*name, smoke.into()))
        }
        Command::RolloutMemory { sharing, smoke } => bench::rollouts::print_memory(sharing, smoke.into()),
        Command::TrainerStep(arguments) => bench::trainer::step_cost(&arguments),
        Command::TrainerCurve(arguments) => bench::trainer::curve(&arguments),
        Command::Device(what) => device::run(&what),
    }
}

fn run(name: Bench, effort: Effort) -> Result<()> {
    match name {
        Bench::Sandbox => bench::sandbox::run(effort),
        Bench::Density => bench::density::run(effort),
        Bench::Hung => bench::hung::run(effort),
        Bench::Neighbours => bench::neighbours::run(effort),
        Bench::Rollouts => bench::rollouts::run(effort),
        Bench::Async => bench::async_rollouts::run(effort),
        Bench::Replay => bench::replay::run(effort),
        Bench::Gateway => bench::gateway::run(effort),
        Bench::Data => bench::data::run(effort),
        Bench::Step => bench::plugin_calls::step(effort),
        Bench::Instantiate => bench::plugin_calls::instantiate(effort),
        Bench::Reward => bench::plugin_calls::reward(effort),
        Bench::Tools => bench::python_code::tool::run(effort),
        Bench::Python => bench::python_code::package::run(effort),
        Bench::Generate => bench::torch::generate(effort),
        Bench::Train => bench::torch::train(effort),
        Bench::Trainer => bench::trainer::step_cost(&StepCost::frugal(effort)),
        Bench::Registry => bench::registry::run(effort),
        Bench::Workers => bench::workers::run(effort),
        Bench::Scaling => bench::workers::scaling::run(effort),
    }
}
