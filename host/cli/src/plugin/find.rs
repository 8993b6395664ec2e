//! The plugin that an argument of an author's command names.

use std::path::Path;

use crate::error::CliResult;
use crate::plugin::build::{self, BuildMode};
use crate::plugin::plugin_inputs::PluginInputs;
use crate::printer::Printer;
use crate::registry;

/// Reads a file, the component of a folder after building it, or the newest matching version of a name in a registry. A
/// path that exists is not a name.
pub fn find(given: &Path, mode: BuildMode, printer: &Printer) -> CliResult<PluginInputs> {
    match registry::name_of(given) {
        Some(name) if !given.exists() => {
            let (origin, bytes) = registry::newest(name, printer)?;
            PluginInputs::of(origin, bytes)
        }
        _ => PluginInputs::read(&build::component(given, mode, printer)?),
    }
}
