//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use gymkhana_episode::EpisodeId;

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
    /// Run recorded episodes again from their tokens and compare every byte that plugins produced
    Replay(ReplayArgs),
    /// Print a run, or one of its episodes as a person wants to read it
    Show(ShowArgs),
    /// Plugin files
    #[command(subcommand)]
    Plugin(PluginCommand),
}

/// `host run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The run file
    pub run_file: PathBuf,
    /// Plugin files: one environment, any tools and rewards
    #[arg(long, value_name = "P[,P…]", value_delimiter = ',', required = true)]
    pub plugins: Vec<PathBuf>,
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

/// `host plugin`.
#[derive(Debug, Subcommand)]
pub enum PluginCommand {
    /// Print what a plugin file says of itself, without running it
    Inspect {
        /// The `.wasm` file
        file: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// An address to listen on.
fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "give an IP address and a port, such as 127.0.0.1:9464".to_owned())
}
