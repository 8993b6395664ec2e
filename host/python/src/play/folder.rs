//! The folder of a rollout: that of a run without training, which `show`, `replay` and data frames read.

use std::path::{Path, PathBuf};

use gymkhana_config::{Recorder, RunFile};
use gymkhana_orchestration::chat::write_chat_files;
use gymkhana_orchestration::grants::AssetFiles;
use gymkhana_orchestration::served::Served;
use gymkhana_orchestration::{Classify, RunResult};
use gymkhana_record::EpisodeRecord;
use gymkhana_registry::{Lock, PluginFile};
use gymkhana_store::{EpisodeStore, RunFolder};

use crate::plugin::grants::Granted;

/// What a folder holds beside the episodes.
pub struct Contents {
    /// Folder to create.
    pub path: PathBuf,
    /// Grants and memory limits of the plugins, by name.
    pub granted: Vec<(String, Granted, Option<usize>)>,
    pub components: Vec<PluginFile>,
    pub lock: Lock,
}

/// A folder to which episodes are written.
pub struct Folder {
    episodes: EpisodeStore,
    /// Holds the folder's lock.
    _folder: RunFolder,
}

impl Folder {
    /// Creates the folder.
    ///
    /// # Errors
    /// If it exists with files, or cannot be written.
    pub fn create(contents: Contents, served: &Served) -> RunResult<Self> {
        let Contents { path, granted, components, lock } = contents;
        let mut file = RunFile { recorder: Some(Recorder::Program), ..served.file.clone() };
        for (name, granted, memory_mib) in granted {
            granted.write_into(&mut file.rules, &name, memory_mib);
        }
        let assets = AssetFiles::pin(&mut file.rules, Path::new("."), None)?;
        let folder = RunFolder::create(&path, &file.resolved().internal()?)?;
        for component in &components {
            folder.add_plugin(&component.bytes)?;
        }
        folder.write_lock(&lock)?;
        write_chat_files(&path, &served.chat)?;
        assets.store(&folder)?;
        folder.metrics()?;
        Ok(Self { episodes: folder.episodes()?, _folder: folder })
    }

    /// Writes an episode, which then survives the end of the process.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn add(&mut self, record: &EpisodeRecord) -> RunResult<()> {
        self.episodes.append(record)?;
        Ok(())
    }

    /// Writes the table of the episodes.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(mut self) -> RunResult<()> {
        self.episodes.commit()?;
        Ok(())
    }
}
