//! The plugin that an argument of an author's command names.

use std::path::Path;

use crate::error::{Classify, CliResult};
use crate::plugin::build::{self, BuildMode};
use crate::plugin::plugin_inputs::PluginInputs;
use crate::printer::Printer;
use crate::registry;

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
