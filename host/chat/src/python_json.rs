//! JSON in the spacing of Python's `json.dumps`, a space after each comma and colon, on which models were trained.

use std::io;

use serde::Serialize;
use serde_json::Value as Json;

/// An object as JSON text in the spacing of Python's `json.dumps`, as chat templates write the arguments of calls.
#[must_use]
pub fn python_json(object: &serde_json::Map<String, Json>) -> String {
    let mut bytes = Vec::new();
    let written = object.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, PythonSpacing));
    match written {
        Ok(()) => String::from_utf8_lossy(&bytes).into_owned(),
        // An object of JSON values is always written.
        Err(_) => Json::Object(object.clone()).to_string(),
    }
}

struct PythonSpacing;

impl serde_json::ser::Formatter for PythonSpacing {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}
