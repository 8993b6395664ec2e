//! Classes of gymkhana-sdk as plugins without a sandbox.

mod arguments;
pub mod code;
mod outlasting;
mod results;

use std::sync::Arc;

use gymkhana_registry::{ContractStamp, Digest, Kind, Manifest, PluginName};
use gymkhana_sandbox::Plugin;
use pyo3::prelude::*;

use crate::errors::FunctionFault;
use crate::local::code::PythonCode;
use crate::plugin::PyPlugin;

/// Namespace of their names.
const NAMESPACE: &str = "local";

/// Makes a plugin of a class. `code` calls it, `offered` are the optional methods that it defines, and its digest is that
/// of `source`.
#[pyfunction]
pub fn local(
    kind: Py<PyAny>,
    code: Py<PyAny>,
    name: &str,
    of: &str,
    offered: Vec<String>,
    source: &str,
) -> PyResult<PyPlugin> {
    let manifest = manifest(name, of)?;
    let code = Arc::new(PythonCode::new(code, offered));
    let unsandboxed = Arc::clone(&code);
    let loaded = Plugin::unsandboxed(manifest, Digest::of(source.as_bytes()), unsandboxed);
    Ok(PyPlugin::local(kind, code, loaded))
}

fn manifest(name: &str, kind: &str) -> Result<Manifest, FunctionFault> {
    let internal = |error: &dyn std::fmt::Display| FunctionFault::Internal(error.to_string());
    let kind = match kind {
        "environment" => Kind::Environment,
        "tool" => Kind::Tool,
        "reward" => Kind::Reward,
        other => return Err(internal(&format!("no kind `{other}`"))),
    };
    Ok(Manifest {
        name: PluginName::new(NAMESPACE, name).map_err(|error| internal(&error))?,
        version: "0.0.0".parse().map_err(|error| internal(&error))?,
        kinds: [kind].into(),
        contract: ContractStamp::of_this_host(),
        license: String::new(),
        description: String::new(),
        capabilities: [].into(),
        optional: [].into(),
        deterministic: false,
        thoughts: false,
        reward_range: None,
        quick: false,
    })
}
