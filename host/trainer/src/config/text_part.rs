//! Text parts of models that also see pictures: `text_config` and the tensors of the language model.
//!
//! The rest of such a folder is passed over, and checkpoints hold the text part alone. The rotary sections of Qwen's models are
//! equal for texts, where all three axes of a position have the same number.

use serde_json::{Map, Value, json};

/// `model_type` of a whole model, that of its text part where `text_config` does not say one, and the base of its rotary
/// positions where the file has none and the family's is another.
const WHOLES: [(&str, &str, Option<f64>); 5] = [
    ("gemma3", "gemma3_text", None),
    ("qwen2_vl", "qwen2", Some(1e6)),
    ("qwen2_5_vl", "qwen2", Some(1e6)),
    ("qwen3_vl", "qwen3", Some(5e5)),
    ("mistral3", "mistral", None),
];

/// Names of text parts in `text_config`, and the families that compute them.
const PARTS: [(&str, &str); 4] = [
    ("qwen2_vl_text", "qwen2"),
    ("qwen2_5_vl_text", "qwen2"),
    ("qwen3_vl_text", "qwen3"),
    ("gemma3_text", "gemma3_text"),
];

/// Keys of the whole model that its text part has too.
const SHARED: [&str; 4] = ["tie_word_embeddings", "eos_token_id", "pad_token_id", "bos_token_id"];

/// Keys of the whole model in files that hold the text part's keys beside them.
const OF_PICTURES: [&str; 6] = [
    "vision_config",
    "vision_start_token_id",
    "vision_end_token_id",
    "vision_token_id",
    "image_token_id",
    "video_token_id",
];

/// The keys of the text part, and true; the file itself, and false, if it describes no pictures.
///
/// # Errors
/// If `text_config` is not an object.
pub(super) fn of(source: Map<String, Value>) -> Result<(Map<String, Value>, bool), String> {
    let kind = source.get("model_type").and_then(Value::as_str).unwrap_or("");
    let Some((_, family, theta)) = WHOLES.iter().find(|(whole, ..)| *whole == kind) else { return Ok((source, false)) };
    let mut part = match source.get("text_config") {
        None => source.clone(),
        Some(Value::Object(part)) => {
            let mut part = part.clone();
            for key in SHARED {
                let outer = source.get(key).filter(|value| !value.is_null());
                if let Some(value) = outer.filter(|_| key == "tie_word_embeddings" || !part.contains_key(key)) {
                    part.insert(key.to_owned(), value.clone());
                }
            }
            part
        }
        Some(other) => return Err(format!("text_config = {other}")),
    };
    let own = part.get("model_type").and_then(Value::as_str).filter(|own| *own != kind);
    let family = match own {
        None => (*family).to_owned(),
        Some(own) => PARTS.iter().find(|(name, _)| *name == own).map_or(own, |(_, family)| *family).to_owned(),
    };
    part.insert("model_type".into(), json!(family));
    ["architectures", "text_config"].iter().chain(&OF_PICTURES).for_each(|key| {
        part.remove(*key);
    });
    ["rope_scaling", "rope_parameters"].into_iter().for_each(|section| without_sections(&mut part, section));
    let says_theta = |keys: &Map<String, Value>| keys.get("rope_theta").is_some_and(|theta| !theta.is_null());
    let in_table = part.get("rope_parameters").and_then(Value::as_object).is_some_and(says_theta);
    if let Some(theta) = theta.filter(|_| !in_table && !says_theta(&part)) {
        part.insert("rope_theta".into(), json!(theta));
    }
    Ok((part, true))
}

/// Removes the sections of rotary positions by the three axes of a picture.
fn without_sections(part: &mut Map<String, Value>, section: &str) {
    let Some(table) = part.get_mut(section).and_then(Value::as_object_mut) else { return };
    for key in ["mrope_section", "mrope_interleaved"] {
        table.remove(key);
    }
    for key in ["type", "rope_type"] {
        if table.get(key).is_some_and(|kind| kind == "mrope") {
            table.insert(key.to_owned(), json!("default"));
        }
    }
}

/// Name of a tensor in the text part; `None` for one of the other parts.
pub(super) fn own_name(name: &str) -> Option<String> {
    let others = ["visual.", "vision_tower.", "multi_modal_projector."];
    let whole = name.strip_prefix("model.").unwrap_or(name);
    if others.iter().any(|other| whole.starts_with(other)) {
        return None;
    }
    if let Some(rest) = name.strip_prefix("model.language_model.") {
        return Some(format!("model.{rest}"));
    }
    Some(name.strip_prefix("language_model.").unwrap_or(name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_of_the_text_part_have_its_names() {
        for (name, own) in [
            ("model.language_model.layers.0.mlp.up_proj.weight", Some("model.layers.0.mlp.up_proj.weight")),
            ("language_model.model.embed_tokens.weight", Some("model.embed_tokens.weight")),
            ("language_model.lm_head.weight", Some("lm_head.weight")),
            ("model.norm.weight", Some("model.norm.weight")),
            ("model.visual.blocks.0.norm1.weight", None),
            ("vision_tower.vision_model.head.weight", None),
            ("multi_modal_projector.mm_input_projection_weight", None),
        ] {
            assert_eq!(own_name(name).as_deref(), own, "{name}");
        }
    }
}
