//! What a rollout plays: plugins with their components, and a run file made of arguments.

use std::path::PathBuf;
use std::sync::Arc;

use gymkhana_config::RunFile;
use gymkhana_orchestration::plugins::{file_of, pin, short_names_differ};
use gymkhana_policy::Sampling;
use gymkhana_registry::{Lock, PluginFile};
use gymkhana_sandbox::Plugin;
use pyo3::prelude::*;

use crate::convert::to_json;
use crate::errors::FunctionFault;
use crate::local::code::PythonCode;
use crate::plugin::grants::Granted;
use crate::plugin::{PyPlugin, Recipe};

/// Name of the arguments in errors of the run file.
const ORIGIN: &str = "the arguments of play";

/// Input of a rollout.
pub struct Request {
    pub file: RunFile,
    /// Plugins, sorted by name as in `lock`.
    pub plugins: Vec<Plugin>,
    /// Classes among them, which belong to this rollout alone.
    pub classes: Vec<Arc<PythonCode>>,
    /// Components of the others.
    pub components: Vec<PluginFile>,
    pub lock: Lock,
    /// Grants and memory limits of the plugins, by name.
    pub granted: Vec<(String, Granted, Option<usize>)>,
    pub groups: Groups,
    /// Folder of a run to write.
    pub out: Option<PathBuf>,
}

/// The groups of a rollout.
pub struct Groups {
    /// Number of groups.
    pub count: u32,
    /// Episodes of a group.
    pub size: u32,
    pub sampling: Sampling,
    /// Tasks of the groups; drawn as in a run if there are none.
    pub tasks: Option<Vec<u64>>,
}

impl Groups {
    /// Groups that are sampled at a temperature.
    ///
    /// # Errors
    /// If the temperature is not from 0.01 to 100.
    pub fn new(count: u32, size: u32, temperature: f32, tasks: Option<Vec<u64>>) -> PyResult<Self> {
        if !(0.01..=100.0).contains(&temperature) {
            let why = format!("`temperature` is {temperature}\nhint: use a number from 0.01 to 100");
            return Err(FunctionFault::Option(why).into());
        }
        Ok(Self { count, size, sampling: Sampling::at(temperature), tasks })
    }
}

impl Request {
    /// Reads the arguments.
    ///
    /// # Errors
    /// If the run file is malformed or contradicts itself, two plugins share a name, or one was loaded before a fork.
    pub fn new(
        plugins: Vec<Py<PyPlugin>>,
        file: &Bound<'_, PyAny>,
        groups: Groups,
        out: Option<PathBuf>,
    ) -> PyResult<Self> {
        let wrong = |error: &dyn std::error::Error| FunctionFault::Option(error.to_string());
        let py = file.py();
        let text = toml::to_string(&to_json("an argument", file)?).map_err(|error| wrong(&error))?;
        let file = RunFile::parse(&text, ORIGIN, &[]).map_err(|error| wrong(&error))?;
        let (mut components, mut loaded, mut granted, mut classes) = (vec![], vec![], vec![], vec![]);
        for plugin in plugins {
            let mut one = plugin.get().loaded()?.clone();
            match plugin.get().recipe() {
                Recipe::Component(component) => {
                    components
                        .push(file_of(one.name().to_owned(), component.bytes.to_vec()).map_err(FunctionFault::Play)?);
                    granted.push((one.name().to_owned(), component.granted()?, component.memory_mib()));
                }
                Recipe::Class(_, code) => {
                    let own = Arc::new(code.again(py)?);
                    one = Plugin::unsandboxed(one.manifest().clone(), one.digest(), Arc::<PythonCode>::clone(&own));
                    classes.push(own);
                }
                // The function `play` gives the layers of wrappers one by one.
                Recipe::Wrapper { .. } => {
                    let why = format!("plugin `{}` has an environment inside, which `settings` says here", one.name());
                    return Err(FunctionFault::Option(why).into());
                }
            }
            loaded.push(one);
        }
        let (components, lock) = pin(components).map_err(FunctionFault::Play)?;
        loaded.sort_by(|one, other| one.manifest().name.cmp(&other.manifest().name));
        short_names_differ(loaded.iter().map(|plugin| &plugin.manifest().name)).map_err(FunctionFault::Play)?;
        Ok(Self { file, plugins: loaded, classes, components, lock, granted, groups, out })
    }
}
