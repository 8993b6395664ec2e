//! What a rollout plays: loaded plugins with their components, and a run file made of arguments.

use std::path::PathBuf;

use gymkhana_assembly::plugins::{PluginFile, pin};
use gymkhana_config::RunFile;
use gymkhana_registry::Lock;
use gymkhana_sandbox::Plugin as Loaded;
use pyo3::prelude::*;

use crate::convert::to_json;
use crate::errors::Fault;
use crate::plugin::Plugin;
use crate::plugin::grants::Granted;

/// Name of the arguments in errors of the run file.
const ORIGIN: &str = "the arguments of play";

/// Input of a rollout.
pub struct Request {
    pub file: RunFile,
    /// Loaded plugins, sorted as in `lock`.
    pub plugins: Vec<Loaded>,
    /// Their components.
    pub components: Vec<PluginFile>,
    pub lock: Lock,
    /// Grants and memory limits of the plugins, by name.
    pub granted: Vec<(String, Granted, Option<usize>)>,
    /// Tasks of the groups; drawn as in a run if there are none.
    pub tasks: Option<Vec<u64>>,
    /// Folder of a run to write.
    pub out: Option<PathBuf>,
}

impl Request {
    /// Reads the arguments.
    ///
    /// # Errors
    /// If the run file is malformed or contradicts itself, two plugins share a name, or one was loaded before a fork.
    pub fn new(
        plugins: Vec<Py<Plugin>>,
        file: &Bound<'_, PyAny>,
        tasks: Option<Vec<u64>>,
        out: Option<PathBuf>,
    ) -> PyResult<Self> {
        let wrong = |error: &dyn std::error::Error| Fault::Option(error.to_string());
        let text = toml::to_string(&to_json("an argument", file)?).map_err(|error| wrong(&error))?;
        let file = RunFile::parse(&text, ORIGIN, &[]).map_err(|error| wrong(&error))?;
        let (mut components, mut loaded, mut granted) = (vec![], vec![], vec![]);
        for plugin in plugins {
            let plugin = plugin.get();
            let one = plugin.loaded()?;
            components.push((one.name().to_owned(), plugin.component().to_vec()));
            granted.push((one.name().to_owned(), plugin.granted()?, plugin.memory_mib()));
            loaded.push(one.clone());
        }
        let (components, lock) = pin(components).map_err(Fault::Play)?;
        loaded.sort_by_key(|plugin| components.iter().position(|file| file.name == plugin.name()));
        Ok(Self { file, plugins: loaded, components, lock, granted, tasks, out })
    }
}
