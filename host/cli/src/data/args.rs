//! Arguments of `host data`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `host data`.
#[derive(Debug, Subcommand)]
pub enum DataCommand {
    /// Import tasks for the environment `dataset`
    Import(ImportArgs),
    /// Describe a data file before its import
    Inspect(InspectDataArgs),
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
