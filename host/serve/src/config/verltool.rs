//! `[verltool]`: the syntax by which agents call functions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// `[verltool]`: settings of the endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VerlToolSection {
    /// Environment whose episodes are played; the tools alone if there is none.
    pub environment: Option<String>,
    /// Function that a tag calls: `<TAG>…</TAG>`. By default each function with one required argument, a text, has its own
    /// name as its tag, and the name of its tool if it is the only function of the tool.
    pub tags: BTreeMap<String, TagSection>,
    /// Whether a text that calls no function ends the trajectory. An environment takes such a text as a message.
    pub done_if_invalid: bool,
}

/// A function and the argument that takes the tag's text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TagSection {
    /// Name of the function.
    pub function: String,
    /// Name of the argument.
    pub argument: String,
}
