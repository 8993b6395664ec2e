//! Options of plugins from Python values.

use gymkhana_record::NamedValue;
use pyo3::prelude::*;
use pyo3::types::{PyMapping, PyString};

use crate::convert::to_value;
use crate::errors::FunctionFault;

/// Reads options.
///
/// # Errors
/// If a value has no form for plugins.
pub fn read(options: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<NamedValue>> {
    let Some(options) = options.filter(|options| !options.is_none()) else { return Ok(vec![]) };
    let Ok(options) = options.cast::<PyMapping>() else {
        return Err(FunctionFault::Option("`options` is not a mapping of names to values".to_owned()).into());
    };
    let mut read = Vec::new();
    for entry in options.items()?.iter() {
        let (name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = entry.extract()?;
        let name =
            name.cast::<PyString>().map_err(|_| FunctionFault::Option("an option's name is not a str".to_owned()))?;
        let name = name.to_string_lossy().into_owned();
        let value = to_value(&format!("option `{name}`"), &value)?;
        read.push(NamedValue { name, value });
    }
    Ok(read)
}
