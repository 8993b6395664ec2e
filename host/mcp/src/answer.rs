//! The answer of a server to a call, in the types of the contract.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gymkhana_sandbox::unsandboxed::contract::{Answer, Media, Part};
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};

/// Converts an answer. Text and embedded text become text, images and audio keep their bytes; links and embedded bytes
/// become the JSON text that the server sent. Structured content is used if there is no other.
pub(crate) fn answer(result: CallToolResult) -> Answer {
    let mut content: Vec<Part> = result.content.into_iter().map(part).collect();
    if content.is_empty()
        && let Some(structured) = result.structured_content
    {
        content.push(Part::Text(structured.to_string()));
    }
    Answer { content, failed: result.is_error.unwrap_or(false) }
}

/// An answer that reports a failure to the policy.
pub(crate) fn failed(reason: impl Into<String>) -> Answer {
    Answer { content: vec![Part::Text(reason.into())], failed: true }
}

fn part(block: ContentBlock) -> Part {
    match block {
        ContentBlock::Text(text) => Part::Text(text.text),
        ContentBlock::Image(image) => match STANDARD.decode(&image.data) {
            Ok(bytes) => Part::Image(Media { mime: image.mime_type, bytes }),
            Err(_) => Part::Text("[an image that is not valid base64]".to_owned()),
        },
        ContentBlock::Audio(audio) => match STANDARD.decode(&audio.data) {
            Ok(bytes) => Part::Audio(Media { mime: audio.mime_type, bytes }),
            Err(_) => Part::Text("[audio that is not valid base64]".to_owned()),
        },
        ContentBlock::Resource(embedded) => match embedded.resource {
            ResourceContents::TextResourceContents { text, .. } => Part::Text(text),
            other => Part::Text(serde_json::to_string(&other).unwrap_or_default()),
        },
        ContentBlock::ResourceLink(link) => Part::Text(serde_json::to_string(&link).unwrap_or_default()),
        other => Part::Text(serde_json::to_string(&other).unwrap_or_default()),
    }
}
