//! Arguments of `host model`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `host model`.
#[derive(Debug, Subcommand)]
pub enum ModelFolderCommand {
    /// Convert a GGUF file to a model's folder
    Import(ImportArgs),
}

/// `host model import`.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// GGUF file
    pub file: PathBuf,
    /// New folder of the model
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}
