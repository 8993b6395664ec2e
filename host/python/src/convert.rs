//! Values between Python, JSON and plugins.

use gymkhana_record::{NamedValue, Value};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMapping, PyString, PyTuple};
use serde_json::Value as Json;

use crate::errors::FunctionFault;

/// Depth of nested lists and mappings. It bounds recursion.
const MAX_DEPTH: u32 = 100;

/// A Python value as JSON. `what` names it in errors.
///
/// # Errors
/// If it is none of None, bool, int, float, str, list, tuple and mapping.
pub fn to_json(what: &str, value: &Bound<'_, PyAny>) -> PyResult<Json> {
    nested(what, value, MAX_DEPTH)
}

fn nested(what: &str, value: &Bound<'_, PyAny>, depth: u32) -> PyResult<Json> {
    let wrong = |why: String| PyErr::from(FunctionFault::Option(format!("{what} cannot be used: {why}")));
    let Some(depth) = depth.checked_sub(1) else {
        return Err(wrong(format!("it is nested deeper than {MAX_DEPTH} levels")));
    };
    if value.is_none() {
        return Ok(Json::Null);
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Json::String(text.to_string_lossy().into_owned()));
    }
    if let Ok(flag) = value.cast::<PyBool>() {
        return Ok(Json::Bool(flag.is_true()));
    }
    if value.is_instance_of::<PyInt>() {
        let integer = value.extract::<i64>().map(Json::from).or_else(|_| value.extract::<u64>().map(Json::from));
        return integer.map_err(|_| wrong("an integer has more than 64 bits".to_owned()));
    }
    if value.is_instance_of::<PyFloat>() {
        let number = serde_json::Number::from_f64(value.extract()?);
        return number.map(Json::Number).ok_or_else(|| wrong("JSON has no NaN and no infinity".to_owned()));
    }
    if let Ok(items) = value.cast::<PyList>() {
        return items.iter().map(|item| nested(what, &item, depth)).collect::<PyResult<_>>().map(Json::Array);
    }
    if let Ok(items) = value.cast::<PyTuple>() {
        return items.iter().map(|item| nested(what, &item, depth)).collect::<PyResult<_>>().map(Json::Array);
    }
    if let Ok(entries) = value.cast::<PyMapping>() {
        let mut object = serde_json::Map::new();
        for entry in entries.items()?.iter() {
            let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = entry.extract()?;
            let Ok(key) = key.cast::<PyString>() else { return Err(wrong("a key is not a str".to_owned())) };
            object.insert(key.to_string_lossy().into_owned(), nested(what, &value, depth)?);
        }
        return Ok(Json::Object(object));
    }
    // Scalars of numpy and others.
    if let Ok(scalar) = value.call_method0("item").filter_scalar() {
        return nested(what, &scalar, depth);
    }
    Err(wrong(format!("JSON has no `{}`", value.get_type().name()?)))
}

/// Keeps a result that is a plain scalar.
trait FilterScalar<'py> {
    fn filter_scalar(self) -> PyResult<Bound<'py, PyAny>>;
}

impl<'py> FilterScalar<'py> for PyResult<Bound<'py, PyAny>> {
    fn filter_scalar(self) -> Self {
        let scalar = self?;
        let plain = scalar.is_instance_of::<PyInt>() || scalar.is_instance_of::<PyFloat>();
        if plain { Ok(scalar) } else { Err(FunctionFault::Option("it is not a scalar".to_owned()).into()) }
    }
}

/// JSON as a Python value.
pub fn from_json<'py>(py: Python<'py>, value: &Json) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Json::Null => py.None().into_bound(py),
        Json::Bool(flag) => PyBool::new(py, *flag).to_owned().into_any(),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(integer), _) => integer.into_pyobject(py)?.into_any(),
            (None, Some(integer)) => integer.into_pyobject(py)?.into_any(),
            (None, None) => PyFloat::new(py, number.as_f64().unwrap_or(f64::NAN)).into_any(),
        },
        Json::String(text) => PyString::new(py, text).into_any(),
        Json::Array(items) => {
            let items = items.iter().map(|item| from_json(py, item)).collect::<PyResult<Vec<_>>>()?;
            PyList::new(py, items)?.into_any()
        }
        Json::Object(entries) => {
            let object = PyDict::new(py);
            for (key, value) in entries {
                object.set_item(key, from_json(py, value)?)?;
            }
            object.into_any()
        }
    })
}

/// A Python value as the value of an option or a field. Lists and mappings become JSON.
///
/// # Errors
/// As [`to_json`].
pub fn to_value(what: &str, value: &Bound<'_, PyAny>) -> PyResult<Value> {
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(Value::Bytes(bytes.as_bytes().to_vec()));
    }
    Ok(match to_json(what, value)? {
        Json::Bool(flag) => Value::Flag(flag),
        Json::String(text) => Value::Text(text),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => Value::Integer(integer),
            (None, Some(number)) => Value::Number(number),
            (None, None) => Value::Other(number.to_string()),
        },
        other => Value::Other(other.to_string()),
    })
}

/// A value of a plugin as a Python value.
pub fn from_value<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Flag(flag) => PyBool::new(py, *flag).to_owned().into_any(),
        Value::Integer(integer) => integer.into_pyobject(py)?.into_any(),
        Value::Number(number) => PyFloat::new(py, *number).into_any(),
        Value::Text(text) => PyString::new(py, text).into_any(),
        Value::Bytes(bytes) => PyBytes::new(py, bytes).into_any(),
        Value::Other(text) => match serde_json::from_str(text) {
            Ok(json) => from_json(py, &json)?,
            Err(_) => PyString::new(py, text).into_any(),
        },
    })
}

/// Named values as a mapping.
pub fn from_named<'py>(py: Python<'py>, values: &[NamedValue]) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    for NamedValue { name, value } in values {
        fields.set_item(name, from_value(py, value)?)?;
    }
    Ok(fields)
}

/// A NumPy array of these bytes.
pub fn array<'py>(py: Python<'py>, bytes: &[u8], dtype: &str) -> PyResult<Bound<'py, PyAny>> {
    static ARRAY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let array = ARRAY.import(py, "gymkhana_rl._arrays", "array")?;
    array.call1((PyByteArray::new(py, bytes), dtype))
}
