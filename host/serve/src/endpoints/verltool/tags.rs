//! The table from the tags in an agent's text to functions.

use gymkhana_nearest::did_you_mean;
use gymkhana_record::{Function, WrittenCall};
use serde_json::{Value as Json, json};

use crate::config::{TagSection, VerlToolSection};
use crate::session::SessionTable;

/// Tag of a call in JSON, as Hermes models write it; tried last.
const JSON_TAG: &str = "tool_call";

/// A tag that names nothing that exists.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TagError(String);

/// The tags of an endpoint, in the order in which they are tried.
#[derive(Debug, Clone)]
pub(super) struct ActionTags(Vec<(String, TagSection)>);

impl ActionTags {
    /// The tags of the section, or those that the functions suggest.
    ///
    /// # Errors
    /// If a function or an argument does not exist.
    pub(super) fn new(section: &VerlToolSection, sessions: &SessionTable) -> Result<Self, TagError> {
        let tools = sessions.catalog().tools();
        if section.tags.is_empty() {
            let of_tool = |tool: &std::sync::Arc<gymkhana_driver::Tool>| {
                let names = tool.functions.iter().filter_map(|function| {
                    Some((
                        function.name.clone(),
                        TagSection { function: function.name.clone(), argument: only_text(function)? },
                    ))
                });
                let mut tags: Vec<_> = names.collect();
                let of_tool = match (&tags[..], &tool.functions[..]) {
                    ([(tag, called)], [_]) if tool.name() != tag => Some((tool.name().to_owned(), called.clone())),
                    _ => None,
                };
                tags.extend(of_tool);
                tags
            };
            return Ok(Self(tools.tools().iter().flat_map(of_tool).collect()));
        }
        for (tag, TagSection { function, argument }) in &section.tags {
            let known = || tools.functions().map(|function| function.name.as_str());
            let Some(found) = tools.functions().find(|known| known.name == *function) else {
                // Functions of the environment are known once an episode has begun.
                if section.environment.is_some() {
                    continue;
                }
                let near = did_you_mean(function, known());
                let message = format!(
                    "verltool.tags.{tag} names function `{function}`, which no tool offers\nhint: correct it{near}"
                );
                return Err(TagError(message));
            };
            if schema(found)["properties"].get(argument).is_none() {
                let message = format!(
                    "verltool.tags.{tag} names argument `{argument}`, which function `{function}` lacks\nhint: correct it"
                );
                return Err(TagError(message));
            }
        }
        Ok(Self(section.tags.iter().map(|(tag, called)| (tag.clone(), called.clone())).collect()))
    }

    /// The call that a text holds; `None` if it holds none. The last block of the first tag that the text holds counts:
    /// what comes before is the agent's own thinking.
    pub(super) fn call(&self, text: &str) -> Option<WrittenCall> {
        for (tag, TagSection { function, argument }) in &self.0 {
            if let Some(inner) = last_block(text, tag) {
                let arguments = json!({ argument: inner }).to_string();
                return Some(WrittenCall::Sound { name: function.clone(), arguments });
            }
        }
        last_block(text, JSON_TAG).map(json_call)
    }

    /// The forms that the endpoint reads, for the answer to a text without a call.
    pub(super) fn forms(&self) -> String {
        let mut forms: Vec<String> = self.0.iter().map(|(tag, _)| format!("<{tag}>…</{tag}>")).collect();
        forms.push(format!("<{JSON_TAG}>{{\"name\": …, \"arguments\": {{…}}}}</{JSON_TAG}>"));
        forms.join(" or ")
    }
}

/// The text between the last opening tag and its end. A stop text may have cut the end off, or the end may have stopped
/// the text.
fn last_block<'a>(text: &'a str, tag: &str) -> Option<&'a str> {
    let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
    let inner = &text[text.rfind(&open)? + open.len()..];
    Some(inner.split(&close).next().unwrap_or(inner))
}

fn json_call(text: &str) -> WrittenCall {
    let Ok(Json::Object(call)) = serde_json::from_str::<Json>(text.trim()) else {
        return WrittenCall::malformed(text, "the call is not a JSON object");
    };
    match (call.get("name"), call.get("arguments").unwrap_or(&json!({}))) {
        (Some(Json::String(name)), Json::Object(arguments)) => {
            WrittenCall::Sound { name: name.clone(), arguments: Json::Object(arguments.clone()).to_string() }
        }
        (Some(Json::String(_)), _) => WrittenCall::malformed(text, "`arguments` is not a JSON object"),
        _ => WrittenCall::malformed(text, "`name` is not a text"),
    }
}

fn schema(function: &Function) -> Json {
    // The sandbox has checked that it is the JSON text of an object.
    serde_json::from_str(&function.parameters).unwrap_or_default()
}

/// The only required argument of a function, if it is a text.
fn only_text(function: &Function) -> Option<String> {
    let schema = schema(function);
    let [Json::String(name)] = &schema["required"].as_array()?[..] else { return None };
    (schema["properties"][name]["type"] == "string").then(|| name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags() -> ActionTags {
        let one = |tag: &str, function: &str, argument: &str| {
            (tag.to_owned(), TagSection { function: function.to_owned(), argument: argument.to_owned() })
        };
        ActionTags(vec![one("python", "run", "code"), one("search", "search", "query")])
    }

    fn sound(name: &str, arguments: &str) -> Option<WrittenCall> {
        Some(WrittenCall::Sound { name: name.to_owned(), arguments: arguments.to_owned() })
    }

    #[test]
    fn tags_select_functions() {
        let tags = tags();
        assert_eq!(tags.call("I think.\n<python>print(1)</python>"), sound("run", r#"{"code":"print(1)"}"#));
        assert_eq!(tags.call("<python>a</python> no, <python>b\"</python>"), sound("run", r#"{"code":"b\""}"#));
        assert_eq!(tags.call("<python>cut off"), sound("run", r#"{"code":"cut off"}"#));
        assert_eq!(
            tags.call("<search>x</search><python>y</python>"),
            sound("run", r#"{"code":"y"}"#),
            "first in the table"
        );
        assert_eq!(tags.call("no call </python>"), None);
    }

    #[test]
    fn calls_in_json_come_last() {
        let tags = tags();
        let text = r#"<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>"#;
        assert_eq!(tags.call(text), sound("add", r#"{"a":1}"#));
        assert_eq!(tags.call("<tool_call>{\"name\": \"add\"}"), sound("add", "{}"));
        for wrong in
            ["<tool_call>[1]</tool_call>", r#"<tool_call>{"name": 3}"#, r#"<tool_call>{"name":"a","arguments":[]}"#]
        {
            assert!(matches!(tags.call(wrong), Some(WrittenCall::Malformed { .. })), "{wrong}");
        }
    }
}
