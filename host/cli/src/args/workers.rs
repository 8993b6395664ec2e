//! Arguments of `host worker`, and those with which `host run` and `host serve` reach the same bus.

use std::path::PathBuf;

use clap::Args;
use gymkhana_orchestration::RunKey;

/// Access to the bus.
#[derive(Debug, Args)]
pub struct BusArgs {
    /// Credentials of the bus, as `nsc` writes them
    #[arg(long, value_name = "FILE", conflicts_with = "bus_nkey")]
    pub bus_credentials: Option<PathBuf>,
    /// Seed of an NKey for the bus
    #[arg(long, value_name = "FILE")]
    pub bus_nkey: Option<PathBuf>,
    /// Certificates of authorities for the bus
    #[arg(long, value_name = "FILE")]
    pub bus_ca: Option<PathBuf>,
}

/// `host worker`.
#[derive(Debug, Args)]
pub struct WorkerArgs {
    /// Address of the bus, such as `nats://host:4222`
    #[arg(required_unless_present = "new_key")]
    pub url: Option<String>,
    /// Write a new signing key to FILE and exit
    #[arg(long, value_name = "FILE", conflicts_with_all = ["url", "key"])]
    pub new_key: Option<PathBuf>,
    /// Sign results with this key
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Play this run or server [default: any]
    #[arg(long, value_name = "RUN", value_parser = run)]
    pub run: Option<RunKey>,
    /// Groups at once
    #[arg(long, value_name = "COUNT", default_value_t = 32, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=100_000))]
    pub groups: usize,
    /// End with the first run
    #[arg(long)]
    pub once: bool,
    /// Seconds after which a silent trainer's run is left
    #[arg(long, value_name = "SECONDS", default_value_t = 1800, value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    pub trainer_timeout: u64,
    /// Let runs start agents and MCP servers here
    #[arg(long)]
    pub allow_programs: bool,
    /// Folder for files of runs [default: in the cache]
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,
    /// Access to the bus.
    #[command(flatten)]
    pub bus: BusArgs,
}

fn run(text: &str) -> Result<RunKey, String> {
    RunKey::parse(text).ok_or_else(|| "a run on the bus has a name of lower-case letters, digits and `-`".to_owned())
}
