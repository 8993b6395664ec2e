//! Methods of the class `Plugin`, and the function `load`.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;

use gymkhana_driver::{BoundPlugin, EpisodeSession, NextEpisode};
use gymkhana_record::Seed;
use gymkhana_registry::SelfDescription;
use gymkhana_sandbox::{CallError, Inspection, Plugin, describe};
use pyo3::exceptions::PyRuntimeWarning;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyMapping, PyString, PyTuple, PyType};
use serde_json::{Value as Json, json};

use crate::convert::{from_json, from_named, to_json};
use crate::environment::Env;
use crate::environment::described;
use crate::environment::saved;
use crate::environment::vector::VectorEnv;
use crate::errors::FunctionFault;
use crate::options;
use crate::plugin::source::PluginArgument;
use crate::plugin::{Limited, LoadedComponent, ManifestFacts, PyPlugin, Recipe};
use crate::reward::Reward;
use crate::runtime::host;
use crate::tool::PyTool;

/// Loads a plugin.
///
/// `plugin` is a name with versions, such as "gymkhana/frozen-lake@^0.1", a path, or the bytes of a component.
#[pyfunction]
#[pyo3(signature = (plugin, *, grants=None, fuel=None, timeout_s=None, memory_mib=None))]
pub fn load(
    plugin: &Bound<'_, PyAny>,
    grants: Option<&Bound<'_, PyAny>>,
    fuel: Option<u64>,
    timeout_s: Option<f64>,
    memory_mib: Option<usize>,
) -> PyResult<PyPlugin> {
    let py = plugin.py();
    let source = if let Ok(bytes) = plugin.cast::<PyBytes>() {
        PluginArgument::Bytes(bytes.as_bytes().to_vec())
    } else if let Ok(text) = plugin.cast::<PyString>() {
        PluginArgument::of_text(&text.to_string_lossy())
    } else {
        PluginArgument::File(plugin.extract::<PathBuf>()?)
    };
    let grants = match grants.filter(|grants| !grants.is_none()) {
        Some(grants) if grants.cast::<PyMapping>().is_ok() => to_json("`grants`", grants)?,
        Some(_) => return Err(FunctionFault::Option("`grants` is not a mapping".to_owned()).into()),
        None => Json::Null,
    };
    let limits = Limited { fuel, timeout_s, memory_mib };
    let host = host()?;
    let made = py.detach(|| PyPlugin::new(source.fetch(host)?, grants, limits, host));
    for warning in host.take_warnings() {
        PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &std::ffi::CString::new(warning)?, 1)?;
    }
    Ok(made?)
}

/// The plugin of a class of gymkhana-sdk.
fn of_class<'py>(class: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    static LOCAL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    LOCAL.import(class.py(), "gymkhana_rl._local", "local")?.call1((class,))
}

/// Tools given to an environment: plugins and classes with their default options, or `Tool` objects.
pub fn bound_tools<'py>(
    tools: Option<&Bound<'py, PyAny>>,
    py: Python<'py>,
) -> PyResult<(Bound<'py, PyTuple>, Vec<BoundPlugin>)> {
    let open = |tool: PyResult<Bound<'py, PyAny>>| {
        let tool = tool?;
        if tool.is_instance_of::<PyType>() { of_class(&tool) } else { Ok(tool) }
    };
    let given = match tools.filter(|tools| !tools.is_none()) {
        Some(tools) => PyTuple::new(py, tools.try_iter()?.map(open).collect::<PyResult<Vec<_>>>()?)?,
        None => PyTuple::empty(py),
    };
    let mut bound = Vec::new();
    for tool in given.iter() {
        if let Ok(tool) = tool.cast::<PyTool>() {
            bound.push(tool.get().bound()?);
        } else if let Ok(plugin) = tool.cast::<PyPlugin>() {
            bound.push(BoundPlugin { plugin: plugin.get().loaded()?.clone(), options: vec![] });
        } else {
            let kind = tool.get_type().name()?;
            return Err(
                FunctionFault::Option(format!("`tools` holds a `{kind}`; give plugins, tools or classes")).into()
            );
        }
    }
    Ok((given, bound))
}

/// The plugin with instances that this many episodes share.
fn shared(plugin: &Plugin, episodes: u32) -> Result<Plugin, FunctionFault> {
    match NonZeroU32::new(episodes) {
        None => Err(FunctionFault::Option(
            "`shared_episodes` is 0; give the number of episodes in one instance, from 1".to_owned(),
        )),
        Some(NonZeroU32::MIN) => Ok(plugin.clone()),
        Some(episodes) => Ok(plugin.with_shared_instances(episodes)),
    }
}

/// A wrapper, the environment inside, and its options.
type Layers<'py> = (Py<PyPlugin>, Py<PyPlugin>, Bound<'py, PyDict>);

#[pymethods]
impl PyPlugin {
    /// Name with its namespace, such as "gymkhana/frozen-lake".
    #[getter(name)]
    fn full_name(&self) -> &str {
        &self.facts.name
    }

    /// Version.
    #[getter]
    fn version(&self) -> &str {
        &self.facts.version
    }

    /// Whether it is a class, which runs in this process and without a sandbox.
    #[getter]
    fn unsandboxed(&self) -> bool {
        matches!(self.recipe, Recipe::Class(..))
    }

    /// SHA-256 of the component, or of a class's source, in hexadecimal digits.
    #[getter]
    fn digest(&self) -> &str {
        &self.facts.digest
    }

    /// Kinds: "environment", "tool", "reward".
    #[getter]
    fn kinds<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.facts.kinds)
    }

    /// Everything known about the plugin, as `host plugin inspect --json` prints it. A class has no exports and imports.
    fn describe<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let (host, loaded) = (host()?, self.loaded()?);
        let json = py.detach(|| {
            let described = host.block_on(describe(loaded, &[]));
            let described = match self.component() {
                None => class_description(loaded, described),
                Some(component) => {
                    let described = described.map_err(|error| error.message);
                    let inspection = Inspection::new(&component.bytes, described).map_err(FunctionFault::load)?;
                    serde_json::to_value(&inspection)
                }
            };
            described.map_err(|error| FunctionFault::Internal(error.to_string()))
        })?;
        from_json(py, &json)
    }

    /// Splits of an environment under these options: the number of tasks of each, or None if it has no end.
    #[pyo3(signature = (**options))]
    fn splits<'py>(&self, py: Python<'py>, options: Option<&Bound<'py, PyDict>>) -> PyResult<Bound<'py, PyDict>> {
        let options = options::read(options.map(|options| options.as_any()))?;
        let (host, loaded) = (host()?, self.loaded()?.clone());
        let spec = py.detach(|| host.block_on(described::describe(loaded, options, vec![])))?;
        let splits = PyDict::new(py);
        for split in spec.splits() {
            splits.set_item(&split.name, split.tasks)?;
        }
        Ok(splits)
    }

    /// This wrapper around an environment with these options: an environment as any other.
    #[pyo3(signature = (environment, *, options=None))]
    fn around(
        slf: &Bound<'_, Self>,
        environment: &Bound<'_, Self>,
        options: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let options = options::read(options)?;
        let (host, wrapper, inner) = (host()?, slf.get().loaded()?, environment.get().loaded()?);
        let linked = slf.py().detach(|| {
            // A wrapper around a plugin of another kind is refused before that is asked for its options.
            let linked = wrapper.wrapping(inner, vec![]).map_err(|error| FunctionFault::Option(error.to_string()))?;
            if options.is_empty() {
                return Ok(linked);
            }
            let described = host.block_on(described::describe(inner.clone(), options, vec![]))?;
            wrapper
                .wrapping(inner, described.bound().options.clone())
                .map_err(|error| FunctionFault::Option(error.to_string()))
        })?;
        Ok(Self::wrapper(slf.clone().unbind(), environment.clone().unbind(), linked))
    }

    /// Parts of a wrapper with an environment inside: the wrapper, the environment and its options. None for others.
    #[getter]
    fn layers<'py>(&self, py: Python<'py>) -> PyResult<Option<Layers<'py>>> {
        let Recipe::Wrapper { wrapper, inner } = &self.recipe else { return Ok(None) };
        let options = self.loaded()?.inner().map_or(&[][..], |(_, options)| options);
        Ok(Some((wrapper.clone_ref(py), inner.clone_ref(py), from_named(py, options)?)))
    }

    /// An environment without an episode; `reset` begins one.
    ///
    /// Without `task`, each reset draws one of `split`, by default the first split.
    #[pyo3(signature = (*, split=None, task=None, seed=0, tools=None, options=None))]
    fn env(
        slf: &Bound<'_, Self>,
        split: Option<String>,
        task: Option<u64>,
        seed: u64,
        tools: Option<&Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Env> {
        let py = slf.py();
        let (tools, bound) = bound_tools(tools, py)?;
        let options = options::read(options)?;
        let (host, loaded) = (host()?, slf.get().loaded()?.clone());
        let play = py.detach(|| {
            let environment = Arc::new(host.block_on(described::describe(loaded, options, bound))?);
            let defaults = NextEpisode { split, task, seed: None };
            Ok::<_, FunctionFault>(EpisodeSession::new(environment, Seed(seed), defaults)?)
        })?;
        Ok(Env::new(slf.clone().unbind(), tools.unbind(), play))
    }

    /// Opens an environment from the bytes of `Env.snapshot`, with the tools that it had.
    #[pyo3(signature = (state, *, tools=None))]
    fn restore(slf: &Bound<'_, Self>, state: &Bound<'_, PyBytes>, tools: Option<&Bound<'_, PyAny>>) -> PyResult<Env> {
        let py = slf.py();
        let (tools, bound) = bound_tools(tools, py)?;
        let (host, loaded, state) = (host()?, slf.get().loaded()?, state.as_bytes());
        let play = py.detach(|| host.block_on(saved::open(state, loaded, bound)))?;
        Ok(Env::new(slf.clone().unbind(), tools.unbind(), play))
    }

    /// Environments that are stepped together. Number i begins with the seed `seed + i`.
    ///
    /// `shared_episodes` of them share one instance of the plugin, which takes less memory and time. A trap in one then ends all
    /// of those, and the sandbox does not isolate them from each other.
    #[pyo3(signature = (num_envs, *, split=None, seed=0, shared_episodes=1, tools=None, options=None))]
    #[allow(clippy::too_many_arguments, reason = "keywords of a Python method")]
    fn vector_env(
        slf: &Bound<'_, Self>,
        num_envs: usize,
        split: Option<&str>,
        seed: u64,
        shared_episodes: u32,
        tools: Option<&Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<VectorEnv> {
        let py = slf.py();
        let (_, bound) = bound_tools(tools, py)?;
        let options = options::read(options)?;
        let (host, loaded) = (host()?, shared(slf.get().loaded()?, shared_episodes)?);
        let spec = py.detach(|| host.block_on(described::describe(loaded, options, bound)))?;
        Ok(VectorEnv::new(slf.clone().unbind(), &Arc::new(spec), num_envs, split, seed)?)
    }

    /// A session of a tool.
    #[pyo3(signature = (*, seed=0, options=None))]
    fn tool(slf: &Bound<'_, Self>, seed: u64, options: Option<&Bound<'_, PyAny>>) -> PyResult<PyTool> {
        let options = options::read(options)?;
        PyTool::open(slf, seed, options)
    }

    /// A reward function with these options.
    #[pyo3(signature = (*, seed=0, **options))]
    fn reward(slf: &Bound<'_, Self>, seed: u64, options: Option<&Bound<'_, PyDict>>) -> PyResult<Reward> {
        let options = options::read(options.map(|options| options.as_any()))?;
        Reward::open(slf, seed, options)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let LoadedComponent { bytes, pinned, grants, limits } = match &self.recipe {
            Recipe::Component(component) => component,
            Recipe::Class(class, _) => {
                return Ok((py.import("gymkhana_rl._local")?.getattr("local")?, PyTuple::new(py, [class])?));
            }
            Recipe::Wrapper { .. } => {
                let parts = self.layers(py)?.into_pyobject(py)?.cast_into::<PyTuple>()?;
                return Ok((py.import("gymkhana_rl._pickle")?.getattr("wrapper")?, parts));
            }
        };
        let source = match pinned {
            Some(name) => PyString::new(py, name).into_any(),
            None => PyBytes::new(py, bytes).into_any(),
        };
        let keywords = PyDict::new(py);
        keywords.set_item(intern!(py, "grants"), from_json(py, grants)?)?;
        keywords.set_item(intern!(py, "fuel"), limits.fuel)?;
        keywords.set_item(intern!(py, "timeout_s"), limits.timeout_s)?;
        keywords.set_item(intern!(py, "memory_mib"), limits.memory_mib)?;
        let arguments = (source, &self.facts.digest, keywords).into_pyobject(py)?;
        Ok((py.import("gymkhana_rl._pickle")?.getattr("plugin")?, arguments))
    }

    fn __repr__(&self) -> String {
        let ManifestFacts { name, version, kinds, .. } = &self.facts;
        let unsandboxed = if self.unsandboxed() { ", not sandboxed" } else { "" };
        format!("<Plugin {name} {version} ({}){unsandboxed}>", kinds.join(", "))
    }
}

/// A class's description, in the form of an [`Inspection`].
fn class_description(loaded: &Plugin, described: Result<SelfDescription, CallError>) -> serde_json::Result<Json> {
    let (description, error) = match described {
        Ok(description) => (Some(description), None),
        Err(error) => (None, Some(error.message)),
    };
    Ok(json!({
        "manifest": serde_json::to_value(loaded.manifest())?,
        "digest": loaded.digest().to_string(),
        "unsandboxed": true,
        "description": serde_json::to_value(description)?,
        "description_error": error,
    }))
}
