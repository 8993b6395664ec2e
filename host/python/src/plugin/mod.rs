//! Loaded plugins: the class, its methods, its sources and its grants.

pub mod grants;
pub mod methods;
mod source;

use std::sync::Arc;
use std::time::Duration;

use gymkhana_registry::Capability;
use gymkhana_sandbox::{Limits, Plugin};
use pyo3::prelude::*;
use serde_json::Value as Json;

use crate::errors::FunctionFault;
use crate::local::code::PythonCode;
use crate::plugin::grants::Granted;
use crate::plugin::source::Fetched;
use crate::process::Owned;
use crate::runtime::Host;

/// Memory limits that `memory_mib` accepts.
const MEMORY_MIB: std::ops::RangeInclusive<usize> = 1..=4096;

/// Longest call that `timeout_s` accepts, in seconds.
const MAX_TIMEOUT: f64 = 86_400.0;

/// A loaded plugin.
#[pyclass(name = "Plugin", frozen, module = "gymkhana_rl")]
pub struct PyPlugin {
    loaded: Owned<Plugin>,
    /// What makes it again in another process.
    recipe: Recipe,
    facts: ManifestFacts,
}

/// What makes a plugin.
pub enum Recipe {
    Component(LoadedComponent),
    /// A class without a sandbox, and the code that calls it.
    Class(Py<PyAny>, Arc<PythonCode>),
    /// A wrapper, and the environment that is inside.
    Wrapper {
        wrapper: Py<PyPlugin>,
        inner: Py<PyPlugin>,
    },
}

/// What `load` was given, with the component.
pub struct LoadedComponent {
    pub bytes: Arc<[u8]>,
    /// Name and version in a registry, where another process finds the same component.
    pinned: Option<String>,
    grants: Json,
    limits: Limited,
}

/// Limits that were set.
#[derive(Debug, Clone, Copy)]
struct Limited {
    fuel: Option<u64>,
    timeout_s: Option<f64>,
    memory_mib: Option<usize>,
}

/// What the manifest says.
struct ManifestFacts {
    name: String,
    version: String,
    digest: String,
    kinds: Vec<String>,
}

impl ManifestFacts {
    fn of(loaded: &Plugin) -> Self {
        let manifest = loaded.manifest();
        Self {
            name: manifest.name.to_string(),
            version: manifest.version.to_string(),
            digest: loaded.digest().to_string(),
            kinds: manifest.kinds.iter().map(ToString::to_string).collect(),
        }
    }
}

impl LoadedComponent {
    /// What the plugin may use.
    pub fn granted(&self) -> Result<Granted, FunctionFault> {
        Granted::of(&self.grants)
    }

    /// Memory limit in MiB that was set.
    pub fn memory_mib(&self) -> Option<usize> {
        self.limits.memory_mib
    }
}

impl Limited {
    /// The limits of the sandbox.
    ///
    /// # Errors
    /// If a number is out of its range.
    fn limits(self) -> Result<Limits, FunctionFault> {
        let wrong = |why: &str| Err(FunctionFault::Option(why.to_owned()));
        let mut limits = Limits { fuel_per_call: self.fuel, ..Limits::default() };
        if self.fuel == Some(0) {
            return wrong("`fuel` is 0; give at least 1");
        }
        if let Some(seconds) = self.timeout_s {
            if !(seconds > 0.0 && seconds <= MAX_TIMEOUT) {
                return wrong("`timeout_s` is out of range; give a number of seconds above 0 and up to 86400");
            }
            limits.budget = Duration::from_secs_f64(seconds);
            limits.episode_budget = limits.episode_budget.max(limits.budget);
            limits.wall = limits.wall.max(limits.budget);
        }
        if let Some(mebibytes) = self.memory_mib {
            if !MEMORY_MIB.contains(&mebibytes) {
                return wrong("`memory_mib` is out of range; give 1 to 4096");
            }
            limits.memory_bytes = mebibytes << 20;
        }
        Ok(limits)
    }
}

impl PyPlugin {
    /// Name with its namespace.
    pub fn name(&self, _py: Python<'_>) -> &str {
        &self.facts.name
    }

    /// The loaded plugin.
    ///
    /// # Errors
    /// In a forked child of the process that loaded it.
    pub fn loaded(&self) -> Result<&Plugin, FunctionFault> {
        self.loaded.get()
    }

    /// What makes it.
    pub fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// The component; of a wrapper, its own. `None` for a class.
    pub fn component(&self) -> Option<&LoadedComponent> {
        match &self.recipe {
            Recipe::Component(component) => Some(component),
            Recipe::Class(..) => None,
            Recipe::Wrapper { wrapper, .. } => wrapper.get().component(),
        }
    }

    /// The plugin of a wrapper and an environment, which `loaded` links.
    pub fn wrapper(wrapper: Py<Self>, inner: Py<Self>, loaded: Plugin) -> Self {
        let facts = ManifestFacts::of(&loaded);
        Self { loaded: Owned::new(loaded), recipe: Recipe::Wrapper { wrapper, inner }, facts }
    }

    /// The plugin of a class.
    pub fn local(class: Py<PyAny>, code: Arc<PythonCode>, loaded: Plugin) -> Self {
        let facts = ManifestFacts::of(&loaded);
        Self { loaded: Owned::new(loaded), recipe: Recipe::Class(class, code), facts }
    }

    /// Loads a fetched component.
    ///
    /// # Errors
    /// If a limit or a grant cannot be used, or the component is refused.
    fn new(fetched: Fetched, grants: Json, limits: Limited, host: &Host) -> Result<Self, FunctionFault> {
        let Fetched { origin, bytes, pinned } = fetched;
        let granted = Granted::of(&grants)?;
        let sandbox = host.sandbox(limits.limits()?)?;
        let mut capabilities = granted.capabilities();
        // `around` grants an environment; a wrapper without one can do nothing.
        capabilities.0.insert(Capability::InnerEnvironment);
        let loaded = Plugin::from_bytes(&sandbox, &origin, &bytes, &capabilities).map_err(FunctionFault::load)?;
        let loaded = granted.grant(&loaded, host)?;
        let facts = ManifestFacts::of(&loaded);
        let recipe = Recipe::Component(LoadedComponent { bytes: bytes.into(), pinned, grants, limits });
        Ok(Self { loaded: Owned::new(loaded), recipe, facts })
    }
}
