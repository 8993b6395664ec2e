//! `host plugin`: commands for plugin authors.

mod bench;
pub mod build;
mod companions;
mod describe;
mod facts;
mod find;
mod folder;
mod inspect;
mod log;
mod new;
mod play;
mod plugin_inputs;
mod sdk;
mod test;

pub use build::{BuildMode, build_folder};
pub use folder::PluginFolder;
pub use inspect::{PluginPage, describe_component, list, one_line, print_rows};
pub use new::is_template_description;
pub use test::{report_for_publishing, report_of};

use crate::args::plugin::PluginCommand;
use crate::error::CliResult;
use crate::printer::Printer;

/// Runs a subcommand.
pub fn run(command: &PluginCommand, printer: &Printer) -> CliResult<()> {
    match command {
        PluginCommand::New(args) => new::new(args, printer),
        PluginCommand::Build(args) => build::build(args, printer),
        PluginCommand::Test(args) => test::test(args, printer),
        PluginCommand::Play(args) => play::play(args, printer),
        PluginCommand::Bench(args) => bench::bench(args, printer),
        PluginCommand::Inspect(args) => inspect::inspect(args, printer),
    }
}
