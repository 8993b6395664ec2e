//! Limits of a tokenizer's file, checked before it is loaded: it is data of a stranger, and some parts cost far more time
//! than their size.

use serde_json::Value as Json;

/// Added tokens. Loading takes time in their square; published tokenizers have up to 6,500.
const MAX_ADDED: usize = 20_000;
/// Factor by which normalizers may lengthen a text. Published ones write three bytes for a space.
const MAX_GROWTH: f64 = 64.0;
/// Largest id of a token: tables are as long as the largest id. Published tokenizers have up to 300,000 tokens.
const MAX_ID: u64 = 1 << 22;
/// Depth of sequences in sequences.
const MAX_DEPTH: usize = 8;

/// Checks the file. Returns what exceeds a limit.
pub(crate) fn check(tokenizer: &Json) -> Result<(), String> {
    let added = tokenizer["added_tokens"].as_array().map_or(0, Vec::len);
    if added > MAX_ADDED {
        return Err(format!("it has {added} added tokens, and the limit is {MAX_ADDED}"));
    }
    let vocabulary = tokenizer["model"]["vocab"].as_object();
    let ids = vocabulary.into_iter().flat_map(|vocabulary| vocabulary.values());
    let added = tokenizer["added_tokens"].as_array().into_iter().flatten().map(|token| &token["id"]);
    if let Some(id) = ids.chain(added).filter_map(Json::as_u64).find(|id| *id > MAX_ID) {
        return Err(format!("a token has the id {id}, and the limit is {MAX_ID}"));
    }
    for part in ["normalizer", "pre_tokenizer", "decoder", "post_processor"] {
        let growth = growth(&tokenizer[part], MAX_DEPTH)?;
        if part == "normalizer" && growth > MAX_GROWTH {
            return Err(format!("its normalizers lengthen a text {growth:.0} times, and the limit is {MAX_GROWTH}"));
        }
    }
    Ok(())
}

/// Factor by which a part can lengthen a text.
fn growth(part: &Json, depth: usize) -> Result<f64, String> {
    let depth = depth.checked_sub(1).ok_or_else(|| format!("its sequences are nested more than {MAX_DEPTH} deep"))?;
    let text = |value: &Json| value.as_str().map(str::len);
    Ok(match part["type"].as_str().unwrap_or_default() {
        "Sequence" => {
            // Each kind of part has its own name for the list.
            let lists = ["normalizers", "pretokenizers", "decoders", "processors"].map(|name| part[name].as_array());
            let parts = lists.into_iter().flatten().flatten();
            parts.map(|part| growth(part, depth)).try_fold(1.0, |all, own| own.map(|own| all * own))?
        }
        "Replace" => {
            let content = text(&part["content"]).unwrap_or(0);
            // An expression may match one letter, or none.
            let pattern = text(&part["pattern"]["String"]).unwrap_or(1).max(1);
            (content as f64 / pattern as f64).max(1.0)
        }
        // Each text between two marks gets the prefix, and may have one letter.
        "Prepend" => 1.0 + text(&part["prepend"]).unwrap_or(0) as f64,
        _ => 1.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn normalizers_that_lengthen_a_text_without_end_are_refused() {
        let doubling = json!({ "type": "Replace", "pattern": { "String": "a" }, "content": "aa" });
        let sequence = |count: usize| json!({ "normalizer": { "type": "Sequence", "normalizers": vec![doubling.clone(); count] } });
        assert!(check(&sequence(40)).unwrap_err().contains("lengthen a text 1099511627776 times"));
        assert_eq!(check(&sequence(6)), Ok(()), "64 times");
        let nested = (0..20).fold(doubling.clone(), |inner, _| json!({ "type": "Sequence", "normalizers": [inner] }));
        assert!(check(&json!({ "normalizer": nested })).unwrap_err().contains("nested more than 8 deep"));
    }

    #[test]
    fn long_prefixes_and_large_ids_are_refused() {
        let prefix = json!({ "type": "Prepend", "prepend": "x".repeat(100) });
        assert!(check(&json!({ "normalizer": prefix })).unwrap_err().contains("lengthen a text 101 times"));
        let large = check(&json!({ "model": { "vocab": { "a": 1, "b": 2_147_483_648_u64 } } })).unwrap_err();
        assert_eq!(large, "a token has the id 2147483648, and the limit is 4194304");
        assert!(check(&json!({ "added_tokens": [{ "id": 100_000_000 }] })).is_err());
        assert_eq!(check(&json!({ "model": { "vocab": { "a": 300_000 } } })), Ok(()));
    }

    #[test]
    fn published_forms_are_accepted() {
        let llama = json!({ "type": "Sequence", "normalizers": [
            { "type": "Prepend", "prepend": "\u{2581}" },
            { "type": "Replace", "pattern": { "String": " " }, "content": "\u{2581}" },
        ] });
        assert_eq!(check(&json!({ "normalizer": llama, "added_tokens": vec![json!({}); 6500] })), Ok(()));
        assert_eq!(check(&json!({ "normalizer": null })), Ok(()));
    }

    #[test]
    fn added_tokens_are_bounded() {
        let refused = check(&json!({ "added_tokens": vec![json!({}); 40_000] })).unwrap_err();
        assert_eq!(refused, "it has 40000 added tokens, and the limit is 20000");
    }
}
