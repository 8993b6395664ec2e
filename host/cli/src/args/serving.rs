//! Arguments of `host serve`, `host gateway` and `host page`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::registry::FetchArgs;
use super::workers::BusArgs;

/// `host serve`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ServeArgs {
    /// Subcommand.
    #[command(subcommand)]
    pub command: Option<ServeCommand>,
    /// Plugins: files or registry names [default: project's]
    #[arg(value_name = "PLUGIN")]
    pub plugins: Vec<PathBuf>,
    /// Configuration, such as `serve.toml`
    ///
    /// It has clients and their tokens, limits of sessions, and the rules of episodes with the keys of a run file.
    /// Every key has a default.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Address and port; port 0 takes a free one
    ///
    /// Only this machine can connect by default. Another address needs tokens and TLS, a proxy in front, or
    /// `listen.open_to_all`.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8100")]
    pub listen: SocketAddr,
    /// Serve MCP on standard input and output
    ///
    /// A client of MCP starts the command and sees the functions of one episode; with `handles`, also functions that
    /// open and close episodes.
    #[arg(
        long, value_name = "TOOLS", num_args = 0..=1, require_equals = true, default_missing_value = "plain",
        conflicts_with = "listen"
    )]
    pub stdio: Option<StdioTools>,
    /// Folder of the records of all sessions
    ///
    /// Each environment has a folder of its own below it, which `host show`, `host replay` and `host data export` read.
    #[arg(long, value_name = "DIR", default_value = "served")]
    pub out: PathBuf,
    /// Keep no records
    #[arg(long, conflicts_with = "out")]
    pub no_records: bool,
    /// Append JSON spans to FILE
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Workers that hold the sessions.
    #[command(flatten)]
    pub front: FrontArgs,
    /// Options for plugins from registries.
    #[command(flatten)]
    pub fetch: FetchArgs,
}

/// Workers that hold the sessions of `host serve` or `host gateway`.
#[derive(Debug, Args)]
pub struct FrontArgs {
    /// Hold sessions at workers of this bus, such as `nats://host:4222`
    ///
    /// Plugins of a session run at a worker, and the session continues at another one if it is lost.
    #[arg(long, value_name = "URL")]
    pub workers: Option<String>,
    /// Seconds after which a silent worker's sessions move
    #[arg(long, value_name = "SECONDS", requires = "workers", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub lease: u64,
    /// Take workers with these keys only
    #[arg(long, value_name = "FILE", requires = "workers")]
    pub worker_keys: Option<PathBuf>,
    /// Access to the bus.
    #[command(flatten)]
    pub bus: BusArgs,
}

/// Subcommands of `host serve`.
#[derive(Debug, Subcommand)]
pub enum ServeCommand {
    /// Write an environment as a container for OpenEnv
    Export(ServeExportArgs),
}

/// `host serve export`.
#[derive(Debug, Args)]
pub struct ServeExportArgs {
    /// An environment, with tools and rewards: files or registry names
    #[arg(value_name = "PLUGIN", required = true)]
    pub plugins: Vec<PathBuf>,
    /// New folder of the container's files
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Configuration, such as `serve.toml`
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Report of `host plugin test --json` [default: run it]
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Options for plugins from registries.
    #[command(flatten)]
    pub fetch: FetchArgs,
}

/// Tools that a client of MCP sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StdioTools {
    /// Those of one episode.
    Plain,
    /// Open, act and close.
    Handles,
}

/// `host gateway`.
#[derive(Debug, Args)]
pub struct GatewayArgs {
    /// Run file with `policy.server`
    pub run_file: PathBuf,
    /// Plugins: files or registry names [default: none]
    #[arg(long, value_name = "P[,P…]", value_delimiter = ',')]
    pub plugins: Vec<PathBuf>,
    /// Options for plugins from registries.
    #[command(flatten)]
    pub fetch: FetchArgs,
    /// Override a key, such as `gateway.sessions=10`
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Address and port; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8200")]
    pub listen: SocketAddr,
    /// Folder of the records of all sessions
    #[arg(long, value_name = "DIR", default_value = "gateway")]
    pub out: PathBuf,
    /// Keep no records
    #[arg(long, conflicts_with = "out")]
    pub no_records: bool,
    /// Workers that hold the sessions.
    #[command(flatten)]
    pub front: FrontArgs,
}

/// Default address of the web page of runs.
pub(super) const PAGE_ADDRESS: &str = "127.0.0.1:8123";

/// `host page`.
#[derive(Debug, Args)]
pub struct PageArgs {
    /// Folders of runs
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<PathBuf>,
    /// Address and port; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = PAGE_ADDRESS)]
    pub listen: SocketAddr,
    /// Require a token [default: random for other addresses]
    #[arg(long, value_name = "TOKEN")]
    pub token: Option<String>,
    /// Replay episodes from the page; this machine only
    #[arg(long)]
    pub allow_replay: bool,
}
