//! `host plugin`: commands for plugin authors.

mod bench;
pub mod build;
mod companions;
mod describe;
mod facts;
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
pub use new::{is_template_description, new};
pub use test::{report_for_publishing, report_of};

use std::path::Path;

use crate::args::plugin::PluginCommand;
use crate::error::{Classify, CliResult};
use crate::printer::Printer;
use crate::registry;
use plugin_inputs::PluginInputs;

/// Runs a subcommand.
pub fn run(command: &PluginCommand, printer: &Printer) -> CliResult<()> {
    match command {
        PluginCommand::New(args) => new(args, printer),
        PluginCommand::Build(args) => build::build(args, printer),
        PluginCommand::Test(args) => test::test(args, printer),
        PluginCommand::Play(args) => play::play(args, printer),
        PluginCommand::Bench(args) => bench::bench(args, printer),
        PluginCommand::Inspect(args) => inspect::inspect(args, printer),
    }
}

/// Reads a file, the component of a folder after building it, or the newest matching version of a name in a registry. A
/// path that exists is not a name.
pub fn find(given: &Path, mode: BuildMode, printer: &Printer) -> CliResult<PluginInputs> {
    if given.exists() || registry::name_of(given).is_none() {
        return PluginInputs::read(&build::component(given, mode, printer)?);
    }
    let (mut files, _) = registry::look_up(&[given.to_owned()], printer)?;
    let file = files.pop().ok_or_else(|| anyhow::anyhow!("one name is resolved to one plugin")).internal()?;
    PluginInputs::of(file.origin, file.bytes)
}
