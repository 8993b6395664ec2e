//! The folder of a new project.

use std::fs;
use std::path::{Path, PathBuf};

use gymkhana_registry_client::CONFIG_FILE;
use toml_edit::{DocumentMut, value};

use super::check_free;
use crate::args::InitArgs;
use crate::args::plugin::{KindArg, NewArgs};
use crate::error::{Classify, CliResult};
use crate::plugin::new;
use crate::printer::Printer;

/// A folder that this command created.
pub struct ProjectFolder(PathBuf);

impl ProjectFolder {
    /// Creates the folder.
    pub fn create(dir: &Path) -> CliResult<Self> {
        check_free(dir)?;
        let failed = || format!("`{}` cannot be created\nhint: free space, or use another folder", dir.display());
        fs::create_dir_all(dir).user_context(failed())?;
        Ok(Self(fs::canonicalize(dir).user_context(failed())?))
    }

    /// Absolute path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file.
    pub fn write(&self, name: &str, text: &str) -> CliResult<()> {
        let path = self.0.join(name);
        fs::write(&path, text).user_context(format!("`{}` cannot be written\nhint: free space", path.display()))
    }

    /// Copies the registries of the working directory's project, with absolute paths: without them the new project's
    /// plugins would not be found.
    pub fn copy_registries(&self) -> CliResult<()> {
        let Ok(text) = fs::read_to_string(CONFIG_FILE) else { return Ok(()) };
        let mut document: DocumentMut = text.parse().user_context(format!("cannot parse `{CONFIG_FILE}`"))?;
        let here = std::env::current_dir().user_context("the working folder cannot be opened")?;
        let registries = document.get_mut("registries").and_then(|registries| registries.as_table_like_mut());
        for (_, registry) in registries.into_iter().flat_map(|registries| registries.iter_mut()) {
            if let Some(folder) = registry.get("folder").and_then(|folder| folder.as_str()) {
                registry["folder"] = value(here.join(folder).display().to_string());
            }
        }
        self.write(CONFIG_FILE, &document.to_string())
    }

    /// Removes the folder after a failure.
    pub fn remove(&self) {
        // The error that is reported is the one before.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Name of the project's own plugin of a kind.
pub fn own_name(kind: KindArg) -> &'static str {
    match kind {
        KindArg::Environment => "my-environment",
        KindArg::Tool => "my-tool",
        KindArg::Reward => "my-reward",
        KindArg::Wrapper => "my-wrapper",
    }
}

/// Creates the project's own plugin below `plugins/`.
pub fn own_plugin(args: &InitArgs, printer: &Printer) -> CliResult<()> {
    let Some(kind) = args.own else { return Ok(()) };
    std::env::set_current_dir("plugins").user_context("`plugins` cannot be entered")?;
    new(
        &NewArgs {
            name: own_name(kind).to_owned(),
            kind,
            lang: args.lang,
            namespace: "your-name".to_owned(),
            sdk: None,
        },
        printer,
    )
}
