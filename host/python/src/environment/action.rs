//! Actions: a text, a call, calls, or a message with calls.

use gymkhana_driver::Reply;
use gymkhana_record::WrittenCall;
use gymkhana_sandbox::Advice;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyMapping, PySequence, PyString, PyType};
use serde_json::Value as Json;

use crate::convert::{from_json, to_json};
use crate::errors::FunctionFault;
use crate::reply::without_thoughts;

/// Error of anything else.
const FORMS: &str = "an action is a str, a Call, a sequence of Calls, or {\"message\": str, \"calls\": [...]}";

/// The class `Call`.
fn call_class(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static CALL: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    CALL.import(py, "gymkhana_rl._types", "Call")
}

/// Reads an action.
///
/// # Errors
/// If it has none of the forms.
pub fn read(action: &Bound<'_, PyAny>) -> PyResult<Reply> {
    if let Ok(text) = action.cast::<PyString>() {
        let (thoughts, message) = without_thoughts(text.to_string_lossy().into_owned());
        return Ok(Reply { thoughts, message, calls: vec![] });
    }
    if action.is_instance(call_class(action.py())?)? {
        return Ok(Reply { thoughts: None, message: String::new(), calls: vec![call(action)?] });
    }
    if let Ok(parts) = action.cast::<PyMapping>() {
        let message = match parts.get_item("message") {
            Ok(message) if !message.is_none() => text_of(&message)?,
            _ => String::new(),
        };
        let calls = match parts.get_item("calls") {
            Ok(calls) if !calls.is_none() => calls.try_iter()?.map(|one| call(&one?)).collect::<PyResult<_>>()?,
            _ => vec![],
        };
        let thoughts = match parts.get_item("thoughts") {
            Ok(thoughts) if !thoughts.is_none() => Some(text_of(&thoughts)?),
            _ => None,
        };
        return Ok(Reply { thoughts, message, calls });
    }
    if action.cast::<PySequence>().is_ok() {
        let calls = action.try_iter()?.map(|one| call(&one?)).collect::<PyResult<_>>()?;
        return Ok(Reply { thoughts: None, message: String::new(), calls });
    }
    let kind = action.get_type().name()?;
    Err(FunctionFault::Option(format!("the action cannot be taken: it is a `{kind}`\nhint: {FORMS}")).into())
}

fn text_of(value: &Bound<'_, PyAny>) -> PyResult<String> {
    let text = value.cast::<PyString>();
    let text = text.map_err(|_| {
        FunctionFault::Option(format!("the action cannot be taken: a text is not a str\nhint: {FORMS}"))
    })?;
    Ok(text.to_string_lossy().into_owned())
}

/// A `Call`, a mapping with the same names, or `{"malformed": reason, "text": str}` for what cannot be read as a call.
fn call(value: &Bound<'_, PyAny>) -> PyResult<WrittenCall> {
    let py = value.py();
    let (name, arguments) = if value.is_instance(call_class(py)?)? {
        (value.getattr(intern!(py, "name"))?, value.getattr(intern!(py, "arguments"))?)
    } else if let Ok(parts) = value.cast::<PyMapping>() {
        if let Ok(reason) = parts.get_item("malformed") {
            let text = parts.get_item("text").map_or(Ok(String::new()), |text| text_of(&text))?;
            return Ok(WrittenCall::Malformed { text, reason: text_of(&reason)? });
        }
        let wrong = |_| FunctionFault::Option("the action cannot be taken: a call has no \"name\"".to_owned());
        let arguments = parts.get_item("arguments").unwrap_or_else(|_| PyDict::new(py).into_any());
        (parts.get_item("name").map_err(wrong)?, arguments)
    } else {
        let kind = value.get_type().name()?;
        return Err(FunctionFault::Option(format!(
            "the action cannot be taken: `{kind}` is not a call\nhint: {FORMS}"
        ))
        .into());
    };
    Ok(WrittenCall::Sound { name: text_of(&name)?, arguments: arguments_text(&arguments)? })
}

/// Arguments as JSON text of an object.
///
/// # Errors
/// If they are not a mapping, or a value has no JSON.
pub fn arguments_text(arguments: &Bound<'_, PyAny>) -> PyResult<String> {
    match to_json("the arguments", arguments)? {
        object @ Json::Object(_) => Ok(object.to_string()),
        _ => Err(FunctionFault::Option("the arguments of a call are not a mapping".to_owned()).into()),
    }
}

/// The expert's turn as a Python action.
pub fn from_advice<'py>(py: Python<'py>, advice: Advice) -> PyResult<Bound<'py, PyAny>> {
    match advice {
        Advice::Message(text) => Ok(PyString::new(py, &text).into_any()),
        Advice::Calls(calls) => {
            let made = PyList::empty(py);
            for call in calls {
                let arguments: Json = serde_json::from_str(&call.arguments).unwrap_or(Json::String(call.arguments));
                made.append(call_class(py)?.call1((call.name, from_json(py, &arguments)?, call.id))?)?;
            }
            Ok(made.into_any())
        }
    }
}
