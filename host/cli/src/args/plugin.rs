//! Arguments of `host plugin`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// Memory limit of an instance where an author tries out a plugin, in MiB: that of the conformance suite.
pub const MAX_MEMORY_MIB: u64 = 256;

/// `host plugin`.
#[derive(Debug, Subcommand)]
pub enum PluginCommand {
    /// Create a plugin from a template
    New(NewArgs),
    /// Build a plugin's folder to a component
    Build(BuildArgs),
    /// Run the conformance suite on a plugin
    Test(TestArgs),
    /// Play an environment or call a tool
    Play(PlayArgs),
    /// Measure time and memory of plugin calls
    Bench(BenchArgs),
    /// Describe a plugin: options, functions, splits, components
    Inspect(InspectArgs),
}

/// `host plugin new`.
#[derive(Debug, Args)]
pub struct NewArgs {
    /// Name: lower-case letters, digits and `-`
    pub name: String,
    /// Kind of the plugin
    #[arg(long, value_enum)]
    pub kind: KindArg,
    /// Programming language
    #[arg(long, value_enum, default_value_t = Language::Rust)]
    pub lang: Language,
    /// Namespace of the publisher
    #[arg(long, value_name = "NAME", default_value = "your-name")]
    pub namespace: String,
    /// SDK: its folder, a folder of packages, or a git URL [default: the published SDK of this version]
    ///
    /// A folder such as `sdk/python` of a checkout; a folder with the SDK's packages, such as `gymkhana_sdk-0.1.0.tar.gz`;
    /// or a git URL. GYMKHANA_SDK has the same meaning. A program in a checkout takes the SDK of the checkout.
    #[arg(long, value_name = "DIR|URL")]
    pub sdk: Option<PathBuf>,
}

/// Kinds of plugins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KindArg {
    /// Tasks for agents to solve
    Environment,
    /// Functions for agents to call
    Tool,
    /// Scores of finished episodes
    Reward,
    /// Changes of an environment's episodes, in Rust
    Wrapper,
}

/// Languages with an SDK.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Language {
    /// Build with cargo
    Rust,
    /// Build with componentize-py
    Python,
    /// Build with componentize-js
    Js,
}

/// `host plugin build`.
#[derive(Debug, Args)]
pub struct BuildArgs {
    /// Folder of the plugin
    #[arg(default_value = ".")]
    pub dir: PathBuf,
    /// Output file [default: NAME.wasm in the folder]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// `host plugin test`.
#[derive(Debug, Args)]
pub struct TestArgs {
    /// Component, folder of the plugin, or registry name
    pub plugin: PathBuf,
    /// Number of random and fuzzed actions
    #[arg(long, value_name = "COUNT", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub steps: u64,
    /// Random seed
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub seed: u64,
    /// Set an option, such as `difficulty=3`
    #[arg(long, value_name = "KEY=VALUE")]
    pub option: Vec<String>,
    /// Companion plugins: environment, tools or rewards
    #[arg(long, value_name = "P[,P…]", value_delimiter = ',')]
    pub with: Vec<PathBuf>,
    /// Score the recorded episodes of RUN
    #[arg(long, value_name = "RUN")]
    pub on: Option<PathBuf>,
    /// Setup of the tool's session
    #[arg(long, value_name = "FILE")]
    pub setup: Option<PathBuf>,
    /// Mount a file
    #[arg(long, value_name = "NAME=FILE")]
    pub asset: Vec<String>,
    /// Maximum instructions per call
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000_000, value_parser = clap::value_parser!(u64).range(1000..))]
    pub most_fuel: u64,
    /// Maximum memory per instance, in MiB
    #[arg(
        long,
        value_name = "MIB",
        default_value_t = MAX_MEMORY_MIB,
        value_parser = clap::value_parser!(u64).range(1..=2048)
    )]
    pub most_memory: u64,
    /// Write the report for `host publish` to FILE
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// `host plugin play`.
#[derive(Debug, Args)]
pub struct PlayArgs {
    /// Environment or tool: component, folder or registry name
    pub plugin: PathBuf,
    /// Companion plugins: tools or rewards
    #[arg(long, value_name = "P[,P…]", value_delimiter = ',')]
    pub with: Vec<PathBuf>,
    /// Wrappers around the environment, outermost first
    #[arg(long, value_name = "P[,P…]", value_delimiter = ',')]
    pub wrap: Vec<PathBuf>,
    /// Show the environment's privileged view
    #[arg(long)]
    pub privileged: bool,
    /// Split of tasks [default: the first]
    #[arg(long, value_name = "NAME")]
    pub split: Option<String>,
    /// Index of the task in its split
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub task: u64,
    /// Play this seat only; the oracle plays others
    #[arg(long, value_name = "NUMBER")]
    pub seat: Option<u32>,
    /// Random seed
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub seed: u64,
    /// Set an option, such as `difficulty=3`
    #[arg(long, value_name = "KEY=VALUE")]
    pub option: Vec<String>,
    /// Setup of the tool's session
    #[arg(long, value_name = "FILE")]
    pub setup: Option<PathBuf>,
    /// Mount a file
    #[arg(long, value_name = "NAME=FILE")]
    pub asset: Vec<String>,
}

/// `host plugin bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Component, folder of the plugin, or registry name
    pub plugin: PathBuf,
    /// Repetitions of each call
    #[arg(long, value_name = "COUNT", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub times: u32,
    /// Random seed
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub seed: u64,
    /// Set an option, such as `difficulty=3`
    #[arg(long, value_name = "KEY=VALUE")]
    pub option: Vec<String>,
    /// Setup of the tool's session
    #[arg(long, value_name = "FILE")]
    pub setup: Option<PathBuf>,
    /// Mount a file
    #[arg(long, value_name = "NAME=FILE")]
    pub asset: Vec<String>,
    /// Print one JSON line per call
    #[arg(long)]
    pub json: bool,
}

/// `host plugin inspect`.
#[derive(Debug, Args)]
pub struct InspectArgs {
    /// Component, folder of a plugin, or registry name
    pub plugin: PathBuf,
    /// Inputs.
    #[command(flatten)]
    pub given: GivenInputs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Offline: use cached data only
    #[arg(long)]
    pub offline: bool,
}

/// Inputs that answers of a plugin depend on: its splits, functions, facts and privileged fields.
#[derive(Debug, Default, Args)]
pub struct GivenInputs {
    /// Set an option, such as `difficulty=3`
    #[arg(long, value_name = "KEY=VALUE")]
    pub option: Vec<String>,
    /// Companion plugins: tools that the oracle calls
    #[arg(long, value_name = "P[,P…]", value_delimiter = ',')]
    pub with: Vec<PathBuf>,
    /// Mount a file
    #[arg(long, value_name = "NAME=FILE")]
    pub asset: Vec<String>,
}

impl GivenInputs {
    /// Whether nothing is given, so that the answers are those of default options.
    pub fn is_empty(&self) -> bool {
        self.option.is_empty() && self.with.is_empty() && self.asset.is_empty()
    }
}
