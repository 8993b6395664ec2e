//! `gymkhana-train`: the commands that need a model. `host` starts it; it is linked with libtorch.

mod demo;
#[cfg(feature = "full")]
mod doctor;
mod eval;
mod export;
mod generate;
#[cfg(feature = "gguf")]
mod import;
mod page;
mod players;
#[cfg(feature = "gguf")]
mod pretrained;
#[cfg(feature = "full")]
mod reference;
mod run;
mod signals;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
#[cfg(feature = "full")]
use gymkhana_cli::args::DoctorArgs;
use gymkhana_cli::args::ModelCommand;
#[cfg(feature = "gguf")]
use gymkhana_cli::args::data::ModelFolderCommand;
#[cfg(not(feature = "full"))]
use gymkhana_cli::error::CliError;
use gymkhana_cli::finish;
use gymkhana_cli::printer::Printer;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The arguments, which `host` has checked.
#[derive(Debug, Parser)]
#[command(name = "host", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Typed,
}

/// Commands of this program.
#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "one is parsed in a process")]
enum Typed {
    #[command(flatten)]
    Model(ModelCommand),
    /// With the folder of a model.
    #[cfg(feature = "full")]
    Doctor(DoctorArgs),
}

fn main() -> ExitCode {
    if let Some(code) = gymkhana_sandbox::run_as_compiler() {
        return code;
    }
    limit_allocator_gaps();
    gymkhana_cli::environment_block::clear();
    let cli = Cli::parse();
    let code = finish(&Printer::default(), |printer| {
        #[cfg(not(feature = "full"))]
        let Typed::Model(command) = cli.command;
        #[cfg(feature = "full")]
        let command = match cli.command {
            Typed::Model(command) => command,
            Typed::Doctor(args) => return Ok(doctor::doctor(&args, printer)),
        };
        let done = match command {
            ModelCommand::Demo(args) => return demo::demo(&args, printer),
            ModelCommand::Run(args) => return run::run(&args, printer),
            ModelCommand::Generate(args) => generate::generate(&args, printer),
            ModelCommand::Eval(args) => eval::eval(&args, printer),
            ModelCommand::Export(args) => export::export(&args, printer),
            #[cfg(feature = "gguf")]
            ModelCommand::Model(ModelFolderCommand::Import(args)) => import::import(&args, printer),
            #[cfg(feature = "full")]
            ModelCommand::Reference(args) => reference::reference(&args, printer),
            #[cfg(not(feature = "gguf"))]
            ModelCommand::Model(_) => Err(CliError::left_out("no model can be converted", "the command")),
            #[cfg(not(feature = "full"))]
            ModelCommand::Reference(_) => Err(CliError::left_out("the pages cannot be written", "the command")),
        };
        done.map(|()| 0)
    });
    ExitCode::from(code)
}

/// Allocations of the C library from this size on are mapped, and returned to the system when they are freed.
const MAPPED_BYTES: i32 = 4 << 20;

/// Keeps the tensors of training passes out of the heaps of the C library, with which libtorch allocates. The library
/// raises its own threshold up to 32 MiB, and heaps with tensors of many sizes have gaps: a run of 6 steps with a model of
/// 135 million parameters grew to 14 GB.
fn limit_allocator_gaps() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it sets a number of the allocator, before the first thread starts.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BYTES);
    }
}
