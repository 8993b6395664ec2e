//! A catalog as a folder of files, from which another machine loads the same one.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use gymkhana_config::{RunFile, table_with_rules};
use gymkhana_orchestration::grants::AssetFiles;
use gymkhana_orchestration::plugins::{pin, plays_one_environment, recorded_files};
use gymkhana_orchestration::{Classify, Reporter, RunResult, run_file_of};
use gymkhana_store::{RunFolder, RunReader};

use super::Catalog;
use crate::config::{ListenSection, ServeFile, VerlToolSection};

/// File of the configuration beside the files of a run folder.
pub const SERVE_FILE: &str = "serve.toml";

impl Catalog {
    /// Writes the plugins, their assets and the part of the configuration that sessions depend on into a new folder, which
    /// gets the layout of a run's folder.
    ///
    /// # Errors
    /// If the folder cannot be written.
    pub fn publish(&self, path: &Path) -> RunResult<()> {
        let folder = RunFolder::create(path, &RunFile::from(self.rules.clone()).resolved().internal()?)?;
        let (files, lock) = pin(self.files.clone())?;
        for file in &files {
            folder.add_plugin(&file.bytes)?;
        }
        self.assets.store(&folder)?;
        if let Some(config) = &self.config {
            // Clients and addresses are the front's own.
            let config = ServeFile {
                listen: ListenSection::default(),
                clients: std::collections::BTreeMap::new(),
                verltool: VerlToolSection::default(),
                ..config.clone()
            };
            let full =
                "the folder of temporary files cannot be written\nhint: free space there, or choose another TMPDIR";
            let table = table_with_rules(&config.rules, &config).internal()?;
            fs::write(path.join(SERVE_FILE), toml::to_string(&table).internal()?).user_context(full)?;
        }
        folder.write_lock(&lock)?;
        Ok(())
    }

    /// Loads what [`Catalog::publish`] wrote, or the folder of a run; also returns the configuration, which has the limits
    /// of the run. `check` may refuse the run file of all plugins.
    ///
    /// # Errors
    /// If a file is missing or malformed, or a plugin is refused.
    pub async fn open_published(
        path: &Path,
        reporter: &Arc<dyn Reporter>,
        check: impl FnOnce(&RunFile) -> RunResult<()>,
    ) -> RunResult<(Self, ServeFile)> {
        let config = match gymkhana_registry::read_regular_text(&path.join(SERVE_FILE)) {
            Ok(text) => Some(ServeFile::parse(&text, SERVE_FILE)?),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error).user_context("the configuration of the served catalog cannot be read"),
        };
        let run = RunReader::open(path)?;
        let whole = run_file_of(&run, &[])?;
        check(&whole)?;
        plays_one_environment(&whole)?;
        let rules = whole.rules;
        let assets = AssetFiles::recorded(&rules, &run)?;
        let files = recorded_files(&run)?;
        let served = config.clone().unwrap_or_else(|| {
            let mut served = ServeFile::default();
            served.rules.limits.episode_mib = rules.limits.episode_mib;
            served
        });
        let catalog = Self::with_assets(config, rules, files, assets, reporter).await?;
        Ok((catalog, served))
    }
}
