//! The command line of `host plugin`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use gymkhana_registry::Kind;

/// `host plugin`.
#[derive(Debug, Subcommand)]
pub enum PluginCommand {
    /// Begin a plugin: a folder that builds and passes its tests
    New(NewArgs),
    /// Build a plugin's folder to a component
    Build(BuildArgs),
    /// Check whether a plugin keeps the contract; a folder is built, and runs its own tests, first
    Test(TestArgs),
    /// Play an environment, or call a tool, by hand
    Play(PlayArgs),
    /// Measure what a plugin's calls take
    Bench(BenchArgs),
    /// Print what a plugin file says of itself, without running it
    Inspect(InspectArgs),
}

/// `host plugin new`.
#[derive(Debug, Args)]
pub struct NewArgs {
    /// The plugin's name, and the folder's: lower-case letters, digits and `-`
    pub name: String,
    /// What it offers
    #[arg(long, value_enum)]
    pub kind: KindArg,
    /// The language that it is written in
    #[arg(long, value_enum, default_value_t = Language::Rust)]
    pub lang: Language,
    /// Who publishes it
    #[arg(long, value_name = "NAME", default_value = "your-name")]
    pub namespace: String,
    /// The language's SDK: its folder in a checkout of Gymkhana, such as `gymkhana/sdk/rust`
    #[arg(long, value_name = "DIR")]
    pub sdk: Option<PathBuf>,
}

/// The kinds of plugins, as they are typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KindArg {
    /// A world that agents act in
    Environment,
    /// Functions that agents call
    Tool,
    /// Scores of finished episodes
    Reward,
}

impl From<KindArg> for Kind {
    fn from(kind: KindArg) -> Self {
        match kind {
            KindArg::Environment => Self::Environment,
            KindArg::Tool => Self::Tool,
            KindArg::Reward => Self::Reward,
        }
    }
}

/// The languages that have an SDK.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Language {
    /// With cargo
    Rust,
    /// With componentize-py
    Python,
    /// With jco
    Js,
}

/// `host plugin build`.
#[derive(Debug, Args)]
pub struct BuildArgs {
    /// The plugin's folder
    #[arg(default_value = ".")]
    pub dir: PathBuf,
    /// Where the component goes; by default `NAME.wasm` in the folder
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// `host plugin test`.
#[derive(Debug, Args)]
pub struct TestArgs {
    /// The component, or the plugin's folder
    pub plugin: PathBuf,
    /// Random and fuzzed actions
    #[arg(long, value_name = "COUNT", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub steps: u64,
    /// The seed of everything random
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub seed: u64,
    /// One of the plugin's options, such as `difficulty=3`
    #[arg(long, value_name = "KEY=VALUE")]
    pub option: Vec<String>,
    /// Plugins beside it: an environment that prepares a tool or gives a reward episodes, tools that an oracle calls,
    /// rewards that tell success
    #[arg(long, value_name = "P[,P…]", value_delimiter = ',')]
    pub with: Vec<PathBuf>,
    /// A run whose recorded episodes a reward scores
    #[arg(long, value_name = "RUN")]
    pub on: Option<PathBuf>,
    /// What a tool is given when its session opens
    #[arg(long, value_name = "FILE")]
    pub setup: Option<PathBuf>,
    /// A file that is mounted for the plugin
    #[arg(long, value_name = "NAME=FILE")]
    pub asset: Vec<String>,
    /// The most instructions of one call that pass
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000_000, value_parser = clap::value_parser!(u64).range(1000..))]
    pub most_fuel: u64,
    /// The most memory of one instance that passes, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=2048))]
    pub most_memory: u64,
    /// Write the report to FILE, as `host publish` sends it
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// `host plugin play`.
#[derive(Debug, Args)]
pub struct PlayArgs {
    /// The component of an environment or a tool
    pub file: PathBuf,
    /// The split of tasks; by default the first
    #[arg(long, value_name = "NAME")]
    pub split: Option<String>,
    /// The task's place in its split
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub task: u64,
    /// The seat that you play; the environment's oracle plays the others. By default you play all
    #[arg(long, value_name = "NUMBER")]
    pub seat: Option<u32>,
    /// The seed of everything random
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub seed: u64,
    /// One of the plugin's options, such as `difficulty=3`
    #[arg(long, value_name = "KEY=VALUE")]
    pub option: Vec<String>,
    /// What a tool is given when its session opens
    #[arg(long, value_name = "FILE")]
    pub setup: Option<PathBuf>,
    /// A file that is mounted for the plugin
    #[arg(long, value_name = "NAME=FILE")]
    pub asset: Vec<String>,
}

/// `host plugin bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// The component
    pub file: PathBuf,
    /// How often each call is measured
    #[arg(long, value_name = "COUNT", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub times: u32,
    /// The seed of everything random
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub seed: u64,
    /// One of the plugin's options, such as `difficulty=3`
    #[arg(long, value_name = "KEY=VALUE")]
    pub option: Vec<String>,
    /// What a tool is given when its session opens
    #[arg(long, value_name = "FILE")]
    pub setup: Option<PathBuf>,
    /// A file that is mounted for the plugin
    #[arg(long, value_name = "NAME=FILE")]
    pub asset: Vec<String>,
    /// Print a line of JSON for each call
    #[arg(long)]
    pub json: bool,
}

/// `host plugin inspect`.
#[derive(Debug, Args)]
pub struct InspectArgs {
    /// The `.wasm` file
    pub file: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
