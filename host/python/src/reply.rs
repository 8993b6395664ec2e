//! Replies of models that Python programs give as texts, in their parts.

use gymkhana_chat::{ThoughtMarks, ToolFormat};
use gymkhana_record::WrittenCall;
use pyo3::prelude::*;

use crate::convert::from_json;

/// The thoughts of a model's text, and its message.
pub fn without_thoughts(text: String) -> (Option<String>, String) {
    let split = ThoughtMarks::split_any(&text);
    match split.thoughts.map(str::to_owned) {
        Some(thoughts) => (Some(thoughts), split.message.to_owned()),
        None => (None, text),
    }
}

/// A call: name, arguments and no reason; or text, no arguments and the reason why it cannot be read.
type ReadCall<'py> = (String, Bound<'py, PyAny>, String);

/// The thoughts of a model's text, its message, and its calls in the format of Hermes: `(name, arguments, "")`, or
/// `("", None, reason)` with the text of a call that cannot be read in place of the name.
#[pyfunction]
pub fn read_reply<'py>(py: Python<'py>, text: String) -> PyResult<(Option<String>, String, Vec<ReadCall<'py>>)> {
    let (thoughts, rest) = without_thoughts(text);
    let parsed = ToolFormat::Hermes.parse(&rest, &[]);
    let call = |call: WrittenCall| {
        Ok(match call {
            WrittenCall::Sound { name, arguments } => {
                let arguments = serde_json::from_str(&arguments).unwrap_or(serde_json::Value::String(arguments));
                (name, from_json(py, &arguments)?, String::new())
            }
            WrittenCall::Malformed { text, reason } => (text, py.None().into_bound(py), reason),
        })
    };
    Ok((thoughts, parsed.message, parsed.calls.into_iter().map(call).collect::<PyResult<_>>()?))
}
