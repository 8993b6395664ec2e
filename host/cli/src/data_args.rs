//! Arguments of `host data`, and the purpose by which it and `host rescore` select episodes.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use gymkhana_record::EpisodeId;

/// `host data`.
#[derive(Debug, Subcommand)]
pub enum DataCommand {
    /// Write episodes in another program's format
    Export(DataExportArgs),
}

/// `host data export`.
#[derive(Debug, Args)]
pub struct DataExportArgs {
    /// Folder of the run
    pub dir: PathBuf,
    /// Format: atif, openenv-trace, verifiers
    #[arg(long, value_name = "FORMAT", hide_possible_values = true)]
    pub format: DataFormat,
    /// Write to FILE [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Export one episode, such as `1.train.12.3.5.0`
    #[arg(long, value_name = "ID", conflicts_with_all = ["only", "solved"])]
    pub episode: Option<EpisodeId>,
    /// Export only one purpose: train, evaluation, demonstrations
    #[arg(long, value_name = "PURPOSE", hide_possible_values = true)]
    pub only: Option<Purpose>,
    /// Export only episodes that met the success rule
    #[arg(long)]
    pub solved: bool,
}

/// Format of exported episodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DataFormat {
    /// Agent Trajectory Interchange Format 1.8.
    Atif,
    /// Training traces of OpenEnv.
    OpenenvTrace,
    /// Traces of verifiers.
    Verifiers,
}

/// Purpose of scored or exported episodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Purpose {
    /// Sampled for training.
    Train,
    /// Played for evaluation.
    Evaluation,
    /// Played by the oracle.
    Demonstrations,
}
