//! Arguments of the command line.

pub mod data;
pub mod plugin;
pub mod registry;
mod serving;
mod start;
mod workers;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use gymkhana_algorithm::Accelerator;
use gymkhana_filter::Filter;
use gymkhana_policy::{Sampling, kept_tokens};
use gymkhana_record::EpisodeId;

use crate::error::{CliError, CliResult};
use crate::units::parse_age;

use data::{DataCommand, EpisodePurpose, ModelFolderCommand};
use plugin::PluginCommand;
use registry::{FetchArgs, RegistryCommand};
use serving::PAGE_ADDRESS;
pub use serving::{FrontArgs, GatewayArgs, PageArgs, ServeArgs, ServeCommand, ServeExportArgs, StdioTools};
pub use start::{CompletionsArgs, DemoArgs, InitArgs, VersionArgs};
pub use workers::{BusArgs, WorkerArgs};

/// Help on episode ids.
const EPISODE_IDS: &str = "\
Episode ids:
  STAGE.PHASE.STEP.GROUP.MEMBER.ATTEMPT, such as 1.train.12.3.5.0
  All numbers start at 0. STEP is the training step; ATTEMPT counts repetitions after faults.
  demo                      played by the oracle
  train                     sampled for training
  before, during, after     held-out tasks, greedy decoding
  before~, during~, after~  held-out tasks, sampled decoding
  served                    played through `host serve` or `host gateway`";

/// Train language-model agents on WebAssembly plugins.
#[derive(Debug, Parser)]
#[command(name = "host", version, max_term_width = 100)]
pub struct Cli {
    /// Command to run.
    #[command(subcommand)]
    pub command: Command,
}

/// Commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Commands that need a model.
    #[command(flatten)]
    Model(ModelCommand),
    /// Replay recorded episodes and compare plugin output
    #[command(after_help = EPISODE_IDS)]
    Replay(ReplayArgs),
    /// Print a run or one episode
    #[command(after_help = EPISODE_IDS)]
    Show(ShowArgs),
    /// Show runs as a web page
    Page(PageArgs),
    /// Score recorded episodes with other rewards
    Rescore(RescoreArgs),
    /// Import data files; export recorded episodes
    #[command(subcommand)]
    Data(DataCommand),
    /// Serve plugins over HTTP or MCP
    Serve(ServeArgs),
    /// Record agents through an OpenAI-compatible gateway
    Gateway(GatewayArgs),
    /// Play groups of runs on other machines
    Worker(WorkerArgs),
    /// Compare reward plugins
    #[command(subcommand)]
    Reward(RewardCommand),
    /// Write, build, test, play and measure plugins
    #[command(subcommand)]
    Plugin(PluginCommand),
    /// Create a project from an environment, tools and rewards
    Init(InitArgs),
    /// Commands of projects and registries.
    #[command(flatten)]
    Registry(RegistryCommand),
    /// List or remove compiled plugins
    #[command(subcommand)]
    Cache(CacheCommand),
    /// Check the machine, tools and registries, or a model
    Doctor(DoctorArgs),
    /// Print a script that completes commands
    Completions(CompletionsArgs),
    /// Print the versions of all parts
    Version(VersionArgs),
}

/// Commands that need a model.
#[derive(Debug, Subcommand)]
pub enum ModelCommand {
    /// Train a small model to use a calculator, in minutes
    Demo(DemoArgs),
    /// Train a model on an environment
    #[command(override_usage = "host run [OPTIONS] <RUN_FILE>\n       host run [OPTIONS] --resume <DIR>")]
    Run(RunArgs),
    /// Generate a reply to a prompt
    Generate(GenerateArgs),
    /// Measure a model's success on held-out tasks
    Eval(EvalArgs),
    /// Copy a model for an inference server
    Export(ExportArgs),
    /// Convert models of other formats
    #[command(subcommand)]
    Model(ModelFolderCommand),
    /// Write the generated reference pages
    #[command(hide = true)]
    Reference(ReferenceArgs),
}

/// `host cache`.
#[derive(Debug, Subcommand)]
pub enum CacheCommand {
    /// List compiled plugins by last use
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove compiled plugins
    Clean {
        /// Keep those used within AGE, such as `30d`
        #[arg(long, value_name = "AGE", value_parser = parse_age)]
        older_than: Option<Duration>,
    },
}

/// `host doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Check this model's folder instead of the machine
    #[arg(long, value_name = "DIR", conflicts_with = "offline")]
    pub model: Option<PathBuf>,
    /// Offline: do not contact registries
    #[arg(long)]
    pub offline: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `host reference`.
#[derive(Debug, Args)]
pub struct ReferenceArgs {
    /// Folder of the pages
    pub dir: PathBuf,
    /// Compare instead of writing
    #[arg(long)]
    pub check: bool,
}

/// `host run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Run file [default with --resume: the run's]
    #[arg(required_unless_present = "resume")]
    pub run_file: Option<PathBuf>,
    /// Plugins: files or registry names [default: run file's or project's]
    ///
    /// They win over plugins of the same names in `[plugins]` of the run file, and are added to the others. A path ends
    /// in `.wasm` or starts with `.` or `/`; other words are names, such as `calculator@^0.1`, which gymkhana.lock
    /// pins. Without any, the plugins of gymkhana.toml run.
    #[arg(long, value_name = "P[,P…]", value_delimiter = ',')]
    pub plugins: Vec<PathBuf>,
    /// Options for plugins from registries.
    #[command(flatten)]
    pub fetch: FetchArgs,
    /// Output directory [default: `out/` and the run file's name]
    ///
    /// The folder must not exist, or hold a run without training steps that --overwrite replaces. It gets the run file
    /// with all defaults, the plugins, metrics, episodes and checkpoints.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Override a key, such as `stages.rl.steps=10`
    ///
    /// The key is that of the run file, with dots; a stage or an environment is named by its name or its index from 0.
    /// The value is TOML, or a text. The flag may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Resume the run in DIR [default: --out]
    ///
    /// The folder has the run file and the plugins. A run file that is given again may raise the steps of stages and
    /// add stages; other changes are refused. In deterministic mode the bits are those of a run that was not stopped.
    #[arg(long, value_name = "DIR", num_args = 0..=1)]
    pub resume: Option<Option<PathBuf>>,
    /// Print plan, memory and first prompt; train nothing
    ///
    /// All checks of a run are made, models are loaded, and an oracle plays one episode. Nothing is written.
    #[arg(long, conflicts_with_all = ["resume", "overwrite"])]
    pub dry_run: bool,
    /// Replace a run without training steps
    #[arg(long, conflicts_with = "resume")]
    pub overwrite: bool,
    /// Serve Prometheus metrics, such as at `127.0.0.1:9464`
    ///
    /// The path is /metrics. The page has no access control: do not bind it to a public address.
    #[arg(long, value_name = "ADDRESS", value_parser = crate::parse::address)]
    pub metrics: Option<SocketAddr>,
    /// Show the run as a web page [default: at 127.0.0.1:8123]
    ///
    /// The page shows curves, episodes and rewards of the run while it trains. `host page DIR` shows finished ones.
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, require_equals = true, default_missing_value = PAGE_ADDRESS)]
    #[arg(value_parser = crate::parse::address, conflicts_with = "dry_run")]
    pub page: Option<SocketAddr>,
    /// Append JSON spans to FILE
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Let workers at this bus play, such as `nats://host:4222`
    ///
    /// Groups are played by `host worker` on other machines; models stay here. A group whose worker is lost goes to
    /// another one, and the episodes are those of a run without workers.
    #[arg(long, value_name = "URL", conflicts_with = "dry_run")]
    pub workers: Option<String>,
    /// Seconds after which a silent worker's groups go to others
    #[arg(long, value_name = "SECONDS", requires = "workers", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub lease: u64,
    /// Take results of workers with these keys only
    ///
    /// A file with one public key per line, as `host worker --new-key` prints it. Without it, every worker that can reach
    /// the bus is heard.
    #[arg(long, value_name = "FILE", requires = "workers")]
    pub worker_keys: Option<PathBuf>,
    /// Access to the bus.
    #[command(flatten)]
    pub bus: BusArgs,
    /// Print plugin logs of all episodes
    #[arg(short, long)]
    pub verbose: bool,
    /// Print only warnings and the summary
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,
}

/// `host generate`.
#[derive(Debug, Args)]
pub struct GenerateArgs {
    /// Model: a folder or `OWNER/NAME`
    pub model: PathBuf,
    /// User message [default: standard input]
    pub prompt: Option<String>,
    /// Branch, tag or commit on the hub
    #[arg(long, value_name = "REVISION")]
    pub revision: Option<String>,
    /// Read a JSON list of messages
    #[arg(long, conflicts_with = "raw")]
    pub messages: bool,
    /// Continue the prompt without the chat template
    #[arg(long)]
    pub raw: bool,
    /// System prompt
    #[arg(long, value_name = "TEXT", conflicts_with = "raw")]
    pub system: Option<String>,
    /// Variable of the chat template, such as enable_thinking=false (repeatable)
    #[arg(long, value_name = "NAME=VALUE", conflicts_with = "raw", value_parser = crate::parse::switch)]
    pub template: Vec<(String, serde_json::Value)>,
    /// Maximum tokens of the reply
    #[arg(long, value_name = "COUNT", default_value_t = 512, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1_000_000))]
    pub max_tokens: usize,
    /// Stop text (repeatable)
    #[arg(long, value_name = "TEXT")]
    pub stop: Vec<String>,
    /// Sampling of tokens.
    #[command(flatten)]
    pub sampling: SamplingArgs,
    /// Random seed
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub seed: u64,
    /// Number of libtorch threads
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=256))]
    pub threads: usize,
    /// Device: cpu or cuda
    #[arg(long, value_name = "DEVICE", default_value_t = Accelerator::Cpu)]
    pub device: Accelerator,
    /// Print text, tokens and log-probabilities as JSON
    #[arg(long)]
    pub json: bool,
}

/// `host eval`.
#[derive(Debug, Args)]
pub struct EvalArgs {
    /// Model: a folder or `OWNER/NAME`
    pub model: PathBuf,
    /// Run file or run folder
    pub run: Option<PathBuf>,
    /// Plugins: files or registry names
    #[arg(long, value_name = "P[,P…]", value_delimiter = ',')]
    pub plugins: Vec<PathBuf>,
    /// Options for plugins from registries.
    #[command(flatten)]
    pub fetch: FetchArgs,
    /// Override a key, such as `environment.options.difficulty=3`
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Branch, tag or commit on the hub
    #[arg(long, value_name = "REVISION")]
    pub revision: Option<String>,
    /// Split of tasks [default: `environment.eval`]
    #[arg(long, value_name = "NAME")]
    pub split: Option<String>,
    /// Maximum number of tasks [default: `evaluation.tasks`]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub tasks: Option<u64>,
    /// Attempts per task
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub samples: u32,
    /// Sampling of tokens.
    #[command(flatten)]
    pub sampling: SamplingArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `host export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Model: a folder or `OWNER/NAME`
    pub model: PathBuf,
    /// New folder of the copy
    pub dir: PathBuf,
    /// Branch, tag or commit on the hub
    #[arg(long, value_name = "REVISION")]
    pub revision: Option<String>,
}

/// Sampling of tokens.
#[derive(Debug, Args)]
pub struct SamplingArgs {
    /// Sampling temperature; 0 is greedy
    #[arg(long, value_name = "NUMBER", default_value_t = 1.0)]
    pub temperature: f32,
    /// Keep the most probable tokens; 0 and -1 keep all
    #[arg(long, value_name = "COUNT", default_value_t = 0, value_parser = top_k, allow_negative_numbers = true)]
    pub top_k: u32,
    /// Keep this share of the probability mass
    #[arg(long, value_name = "SHARE", default_value_t = 1.0)]
    pub top_p: f32,
    /// Minimum probability relative to the most probable
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    pub min_p: f32,
}

/// A `top_k` of the command line.
fn top_k(text: &str) -> Result<u32, String> {
    text.parse().ok().and_then(kept_tokens).ok_or_else(|| "it must be a whole number from -1 up".to_owned())
}

impl SamplingArgs {
    /// The sampling parameters, checked.
    pub fn sampling(&self) -> CliResult<Sampling> {
        let Self { temperature, top_k, top_p, min_p } = *self;
        Sampling { temperature, top_k, top_p, min_p }.check().map_err(|error| {
            CliError::user(format!(
                "--{} is out of range: {}\nhint: use a value that is {}",
                error.key.replace('_', "-"),
                error.value,
                error.expected
            ))
        })
    }
}

/// `host replay`.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// Folder of the run
    pub dir: PathBuf,
    /// Replay one episode, such as `1.train.12.3.5.0`
    #[arg(long, value_name = "ID")]
    pub episode: Option<EpisodeId>,
    /// Also replay a fork before each turn
    #[arg(long)]
    pub forks: bool,
    /// Also replay a fork before TURN, from 0
    #[arg(long, value_name = "TURN", requires = "episode", conflicts_with = "forks")]
    pub fork: Option<u32>,
}

/// `host show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Folder of the run
    pub dir: PathBuf,
    /// Print one episode, such as `1.train.12.3.5.0`
    #[arg(long, value_name = "ID")]
    pub episode: Option<EpisodeId>,
    /// Print the first prompt as the model read it, too
    #[arg(long, requires = "episode")]
    pub prompt: bool,
    /// List episodes: all, failed, solved, unsolved, best, worst
    #[arg(long, value_name = "WHICH", conflicts_with = "episode", hide_possible_values = true)]
    pub episodes: Option<WhichEpisodes>,
    /// List episodes of this stage only
    #[arg(long, value_name = "NAME", requires = "episodes")]
    pub stage: Option<String>,
    /// Maximum number of listed episodes
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    pub limit: usize,
    /// Compare figures with their usual ranges
    #[arg(long, conflicts_with_all = ["episode", "episodes"])]
    pub health: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "episode")]
    pub json: bool,
}

/// Selection of listed episodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WhichEpisodes {
    /// All, in order.
    All,
    /// Those with a failure.
    Failed,
    /// Those that met the success criterion.
    Solved,
    /// Those that did not.
    Unsolved,
    /// Highest rewards first.
    Best,
    /// Lowest rewards first.
    Worst,
}

/// `host rescore`.
#[derive(Debug, Args)]
pub struct RescoreArgs {
    /// Folder of the run
    pub dir: PathBuf,
    /// Reward plugins to replace or add
    #[arg(long, value_name = "P[,P…]", value_delimiter = ',')]
    pub plugins: Vec<PathBuf>,
    /// Override a key, such as `plugins.answer-match.weight=0.5`
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Score only one purpose: train, evaluation, demonstrations
    #[arg(long, value_name = "PURPOSE", hide_possible_values = true)]
    pub only: Option<EpisodePurpose>,
    /// Count only episodes that meet EXPR, such as `turns > 1`
    #[arg(long = "where", value_name = "EXPR", value_parser = Filter::parse)]
    pub filter: Option<Filter>,
    /// Write new scores to FILE as JSON lines
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `host reward`.
#[derive(Debug, Subcommand)]
pub enum RewardCommand {
    /// Compare two versions of a reward
    Diff(DiffArgs),
}

/// `host reward diff`.
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// First reward plugin
    pub a: PathBuf,
    /// Second reward plugin
    pub b: PathBuf,
    /// Folder of the run with the episodes
    #[arg(long, value_name = "DIR")]
    pub on: PathBuf,
    /// Set an option of A, such as `per-call-cost=0.1`
    #[arg(long, value_name = "OPTION=VALUE")]
    pub option_a: Vec<String>,
    /// Set an option of B
    #[arg(long, value_name = "OPTION=VALUE")]
    pub option_b: Vec<String>,
    /// Number of largest disagreements to show
    #[arg(long, value_name = "COUNT", default_value_t = 5)]
    pub worst: usize,
    /// Keep the result in the run's folder, for its page
    #[arg(long)]
    pub keep: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
