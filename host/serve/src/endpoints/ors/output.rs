//! Blocks, tools and results in the protocol's form.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gymkhana_record::{Content, Function, Part, text_of};
use serde_json::{Value as Json, json};

use crate::endpoints::json::{facts, schema};
use crate::endpoints::speech;
use crate::error::Owner;
use crate::session::{ResetResult, TurnAnswer};

/// Blocks of contents. The protocol knows text and images; other media are described in words.
fn blocks<'a>(contents: impl Iterator<Item = &'a Content>) -> Vec<Json> {
    let parts = contents.flatten().filter(|part| !matches!(part, Part::Text(text) if text.is_empty()));
    parts
        .map(|part| match part {
            Part::Image(media) => {
                let data = STANDARD.encode(&media.bytes);
                json!({ "type": "image", "data": data, "mimeType": media.mime, "detail": null })
            }
            other => json!({ "type": "text", "text": text_of(std::slice::from_ref(other)), "detail": null }),
        })
        .collect()
}

/// What the seat to move sees first.
pub(super) fn prompt(opened: &ResetResult) -> Vec<Json> {
    blocks(opened.observations.iter().filter(|(seat, _)| *seat == opened.seat).map(|(_, content)| content))
}

/// The list of functions of an environment with these tools.
pub(super) fn tools(functions: &[Function], says: bool) -> Json {
    let say = says
        .then(|| json!({ "name": speech::SAY, "description": speech::DESCRIPTION, "input_schema": speech::schema() }));
    let listed = functions.iter().map(|function| {
        json!({ "name": function.name, "description": function.description, "input_schema": schema(function) })
    });
    json!({
        "tools": listed.chain(say).collect::<Vec<_>>(),
        "terminal_tool": null,
        "supports_score_group": true,
        "message_block_types": ["text", "image"],
    })
}

/// The result of a call.
pub(super) fn result(step: &TurnAnswer) -> Json {
    let observed = step.observations.iter().filter(|(seat, _)| *seat == step.seat).map(|(_, content)| content);
    let contents = step.answers.iter().map(|answer| &answer.content).chain(observed);
    let mut metadata = facts(step);
    let failed = step.answers.first().and_then(|answer| answer.failed);
    if let (Some(owner), Some(object)) = (failed.map(Owner::label), metadata.as_object_mut()) {
        object.insert("failed".to_owned(), json!(owner));
    }
    let output = json!({
        "blocks": blocks(contents),
        "metadata": metadata,
        "reward": step.reward(step.seat),
        "finished": step.done(),
    });
    json!({ "ok": true, "output": output })
}

/// A call that was not made.
pub(super) fn refused(message: &str, reason: &str) -> Json {
    json!({ "ok": false, "error": message, "reason": reason })
}

#[cfg(test)]
mod tests {
    use gymkhana_record::Media;

    use super::*;

    fn function(name: &str) -> Function {
        Function { name: name.to_owned(), description: String::new(), parameters: "{}".to_owned(), cost: 0.0 }
    }

    #[test]
    fn contents_become_text_and_images() {
        let media = Media { mime: "image/png".to_owned(), bytes: vec![1] };
        let content = vec![Part::Text("look".to_owned()), Part::Image(media.clone()), Part::Audio(media)];
        let expected = [
            json!({ "type": "text", "text": "look", "detail": null }),
            json!({ "type": "image", "data": "AQ==", "mimeType": "image/png", "detail": null }),
            json!({ "type": "text", "text": "[image/png, 1 bytes]", "detail": null }),
        ];
        assert_eq!(blocks([&content].into_iter()), expected);
    }

    #[test]
    fn say_is_listed_after_the_functions() {
        assert_eq!(tools(&[function("add")], true)["tools"][1]["name"], speech::SAY);
        assert_eq!(tools(&[function("add")], false)["tools"].as_array().map(Vec::len), Some(1));
    }
}
