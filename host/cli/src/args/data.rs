//! Arguments of `host data` and `host model`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use gymkhana_filter::Filter;
use gymkhana_record::EpisodeId;

/// `host data`.
#[derive(Debug, Subcommand)]
pub enum DataCommand {
    /// Import tasks for the environment `dataset`
    Import(ImportArgs),
    /// Describe a data file before its import
    Inspect(InspectDataArgs),
    /// Write episodes in another program's format
    Export(DataExportArgs),
}

/// How a source is read.
#[derive(Debug, Args)]
pub struct SourceArgs {
    /// File (.jsonl, .csv, .parquet, .arrow) or folder
    pub source: PathBuf,
    /// Name a column, such as `prompt=problem`
    #[arg(long, value_name = "COLUMN=NAME")]
    pub column: Vec<String>,
    /// Percentage of rows for the split `test`
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub test_percent: u8,
}

/// `host data import`.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// How the source is read.
    #[command(flatten)]
    pub source: SourceArgs,
    /// Name of the output, NAME.rows
    #[arg(long = "as", value_name = "NAME")]
    pub name: PathBuf,
    /// Skip at most COUNT bad rows
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub skip_bad: u64,
    /// Replace the output
    #[arg(long)]
    pub overwrite: bool,
}

/// `host data inspect`.
#[derive(Debug, Args)]
pub struct InspectDataArgs {
    /// How the source is read.
    #[command(flatten)]
    pub source: SourceArgs,
    /// Measure tokens of the model in this folder
    #[arg(long, value_name = "DIR")]
    pub model: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `host data export`.
#[derive(Debug, Args)]
pub struct DataExportArgs {
    /// Folder of the run
    pub dir: PathBuf,
    /// Format: openai, sharegpt, verl, parquet, atif, openenv-trace, verifiers, otel, openinference, wandb-table
    #[arg(long, value_name = "FORMAT", hide_possible_values = true)]
    pub format: DataFormat,
    /// Write to FILE [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Export one episode, such as `1.train.12.3.5.0`
    #[arg(long, value_name = "ID", conflicts_with_all = ["only", "solved", "filter"])]
    pub episode: Option<EpisodeId>,
    /// Export only one purpose: train, evaluation, demonstrations
    #[arg(long, value_name = "PURPOSE", hide_possible_values = true)]
    pub only: Option<EpisodePurpose>,
    /// Export only episodes that met the success rule
    #[arg(long)]
    pub solved: bool,
    /// Export only episodes that meet EXPR, such as `calls <= 3`
    #[arg(long = "where", value_name = "EXPR", value_parser = Filter::parse)]
    pub filter: Option<Filter>,
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
    /// Chat messages with tool calls, as OpenAI's fine-tuning reads them.
    Openai,
    /// Turns of `from` and `value`, as ShareGPT and LLaMA-Factory write them.
    Sharegpt,
    /// Chat messages in a Parquet file with the columns of verl.
    Verl,
    /// Chat messages in a Parquet file.
    Parquet,
    /// Spans by OpenTelemetry's conventions for generative AI.
    Otel,
    /// Spans by OpenInference, the conventions of Arize and Phoenix.
    Openinference,
    /// A table of Weights & Biases.
    WandbTable,
}

/// Purpose of scored or exported episodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum EpisodePurpose {
    /// Sampled for training.
    Train,
    /// Played for evaluation.
    Evaluation,
    /// Played by the oracle.
    Demonstrations,
}

/// `host model`.
#[derive(Debug, Subcommand)]
pub enum ModelFolderCommand {
    /// Convert a GGUF file to a model's folder
    Import(ModelImportArgs),
}

/// `host model import`.
#[derive(Debug, Args)]
pub struct ModelImportArgs {
    /// GGUF file
    pub file: PathBuf,
    /// New folder of the model
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}
