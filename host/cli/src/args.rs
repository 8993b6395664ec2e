//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use gymkhana_policy::Sampling;
use gymkhana_record::EpisodeId;
use gymkhana_trainer::Accelerator;

use crate::error::{CliError, CliResult};
use crate::plugin::PluginCommand;
use crate::registry::args::{FetchArgs, RegistryCommand};

/// Trains language-model agents by reinforcement learning inside WebAssembly plugins.
#[derive(Debug, Parser)]
#[command(name = "host", version, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Train a model on an environment, as a run file says
    Run(RunArgs),
    /// Print what a model says to a prompt
    Generate(GenerateArgs),
    /// Measure a model's success on held-out tasks
    Eval(EvalArgs),
    /// Run recorded episodes again from their tokens and compare every byte that plugins produced
    Replay(ReplayArgs),
    /// Print a run, or one of its episodes as a person wants to read it
    Show(ShowArgs),
    /// Score a run's recorded episodes again, with other rewards or other options
    Rescore(RescoreArgs),
    /// Reward plugins
    #[command(subcommand)]
    Reward(RewardCommand),
    /// Write, build, check, play and measure plugins
    #[command(subcommand)]
    Plugin(PluginCommand),
    /// Write the generated reference pages
    #[command(hide = true)]
    Reference(ReferenceArgs),
    #[command(flatten)]
    Registry(RegistryCommand),
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
    /// The run file
    pub run_file: PathBuf,
    /// Plugins: one environment, any tools and rewards; files, or names in registries such as `calculator@^1`; by
    /// default what gymkhana.toml uses
    #[arg(long, value_name = "P[,P…]", value_delimiter = ',')]
    pub plugins: Vec<PathBuf>,
    #[command(flatten)]
    pub fetch: FetchArgs,
    /// The folder for everything that the run leaves
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Replace one value of the run file, such as `stages.rl.steps=10`
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Go on with the run that DIR holds
    #[arg(long)]
    pub resume: bool,
    /// Serve the run's counters for Prometheus at this address, such as `127.0.0.1:9464`
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub metrics: Option<SocketAddr>,
    /// Append a line of JSON to FILE for every episode, reply, tool call, step, scoring and training step
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
}

/// `host generate`.
#[derive(Debug, Args)]
pub struct GenerateArgs {
    /// The model: its folder, such as a run's checkpoint, or its name on a hub, such as `Qwen/Qwen3-0.6B`
    pub model: PathBuf,
    /// The user's message; without it, what stands on standard input
    pub prompt: Option<String>,
    /// The hub's branch, tag or commit
    #[arg(long, value_name = "REVISION")]
    pub revision: Option<String>,
    /// The prompt is a whole conversation: a JSON list of messages with `role` and `content`
    #[arg(long, conflicts_with = "raw")]
    pub messages: bool,
    /// Go on with the prompt as it stands, without the model's chat template; control tokens in it count
    #[arg(long)]
    pub raw: bool,
    /// An instruction before the conversation
    #[arg(long, value_name = "TEXT", conflicts_with = "raw")]
    pub system: Option<String>,
    /// The most tokens of the reply
    #[arg(long, value_name = "COUNT", default_value_t = 512, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1_000_000))]
    pub max_tokens: usize,
    /// End the reply with this text; may be given several times
    #[arg(long, value_name = "TEXT")]
    pub stop: Vec<String>,
    /// How tokens are chosen
    #[command(flatten)]
    pub sampling: SamplingArgs,
    /// The seed of random choices
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub seed: u64,
    /// Threads of libtorch
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=256))]
    pub threads: usize,
    /// Where the model is computed: cpu, or cuda
    #[arg(long, value_name = "DEVICE", default_value_t = Accelerator::Cpu)]
    pub device: Accelerator,
    /// Print one line of JSON: the text, its tokens and their log-probabilities, and why it ended
    #[arg(long)]
    pub json: bool,
}

/// `host eval`.
#[derive(Debug, Args)]
pub struct EvalArgs {
    /// The model: its folder, such as a run's checkpoint, or its name on a hub, such as `Qwen/Qwen3-0.6B`
    pub model: PathBuf,
    /// A run file, or a run's folder, which holds the plugins too; without it, --set says what differs from the defaults
    pub run: Option<PathBuf>,
    /// Plugins: one environment, any tools and rewards; files, or names in registries such as `calculator@^1`
    #[arg(long, value_name = "P[,P…]", value_delimiter = ',')]
    pub plugins: Vec<PathBuf>,
    #[command(flatten)]
    pub fetch: FetchArgs,
    /// Replace one value of the run file, such as `environment.options.difficulty=3`
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// The hub's branch, tag or commit
    #[arg(long, value_name = "REVISION")]
    pub revision: Option<String>,
    /// The split of tasks; by default the run file's held-out one
    #[arg(long, value_name = "NAME")]
    pub split: Option<String>,
    /// The most tasks; by default as many as the run file evaluates on
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub tasks: Option<u64>,
    /// Attempts at each task
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub samples: u32,
    /// How tokens are chosen
    #[command(flatten)]
    pub sampling: SamplingArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// How tokens are chosen.
#[derive(Debug, Args)]
pub struct SamplingArgs {
    /// What logits are divided by; 0 takes the most probable token
    #[arg(long, value_name = "NUMBER", default_value_t = 1.0)]
    pub temperature: f32,
    /// Choose among so many of the most probable tokens; 0 among all
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub top_k: u32,
    /// Choose among the most probable tokens that make up this share
    #[arg(long, value_name = "SHARE", default_value_t = 1.0)]
    pub top_p: f32,
    /// Choose among tokens at least so probable beside the most probable
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    pub min_p: f32,
}

impl SamplingArgs {
    /// What they mean.
    pub fn sampling(&self) -> CliResult<Sampling> {
        let Self { temperature, top_k, top_p, min_p } = *self;
        Sampling { temperature, top_k, top_p, min_p }.check().map_err(|error| {
            CliError::user(format!(
                "--{} is {}; it must be {}",
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
    /// The run's folder
    pub dir: PathBuf,
    /// Only this episode, such as `1.train.12.3.5.0`
    #[arg(long, value_name = "ID")]
    pub episode: Option<EpisodeId>,
    /// Also fork each episode by snapshot in front of each of its turns, and see that every fork comes to the same end
    #[arg(long)]
    pub forks: bool,
}

/// `host show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// The run's folder
    pub dir: PathBuf,
    /// Print this episode, such as `1.train.12.3.5.0`
    #[arg(long, value_name = "ID")]
    pub episode: Option<EpisodeId>,
}

/// `host score`.
#[derive(Debug, Args)]
pub struct RescoreArgs {
    /// The run's folder
    pub dir: PathBuf,
    /// Reward plugins; one takes the place of the run's reward of the same name, others are added
    #[arg(long, value_name = "P[,P…]", value_delimiter = ',')]
    pub plugins: Vec<PathBuf>,
    /// Replace one value of the run file, such as `rewards.answer-match.weight=0.5`
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Write every episode's new scores to FILE, a line of JSON each
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `host reward`.
#[derive(Debug, Subcommand)]
pub enum RewardCommand {
    /// Score a run's recorded episodes with two versions of a reward, and show what would change
    Diff(DiffArgs),
}

/// `host reward diff`.
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// A reward plugin
    pub a: PathBuf,
    /// Another one, or another version of it
    pub b: PathBuf,
    /// The folder of the run whose episodes are scored
    #[arg(long, value_name = "DIR")]
    pub on: PathBuf,
    /// Replace an option of A, such as `per-call-cost=0.1`; by default both have the options of the run file
    #[arg(long, value_name = "OPTION=VALUE")]
    pub option_a: Vec<String>,
    /// Replace an option of B
    #[arg(long, value_name = "OPTION=VALUE")]
    pub option_b: Vec<String>,
    /// Show so many of the episodes on which they disagree most
    #[arg(long, value_name = "COUNT", default_value_t = 5)]
    pub worst: usize,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// An address to listen on.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "give an IP address and a port, such as 127.0.0.1:9464".to_owned())
}
