//! Tokens of texts under tokenizers of every kind, compared with the tokenizer's own on the whole text.

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// A tokenizer of single characters and some pairs, with two marks, a normaliser and a pre-tokenizer.
#[allow(clippy::needless_pass_by_value, reason = "values are written where they are passed")]
fn file(normalizer: Json, pre_tokenizer: Json, more: Json) -> Json {
    let mut letters: Vec<String> = "abcdefgh \n<|>x/▁Ġ.,!é".chars().map(|letter| letter.to_string()).collect();
    letters.extend(["ab", "▁a", "Ġa", " a", "\n\n", "bc", "▁ab", "<|", "|>"].map(str::to_owned));
    let mut vocabulary = serde_json::Map::new();
    for (number, letter) in letters.iter().enumerate() {
        vocabulary.insert(letter.clone(), number.into());
    }
    let next = letters.len();
    vocabulary.insert("<unk>".to_owned(), next.into());
    let added = |id: usize, text: &str, special: bool| {
        json!({"id": id, "content": text, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
            "special": special})
    };
    let mut tokens = vec![
        added(next, "<unk>", true),
        added(next + 1, "<|e|>", true),
        added(next + 2, "<|s|>", true),
        added(next + 3, "<x>", false),
    ];
    tokens.extend(more.as_array().into_iter().flatten().cloned());
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": tokens, "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer, "post_processor": null, "decoder": null,
        "model": {"type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": vocabulary,
            "merges": [["a", "b"], ["▁", "a"], ["Ġ", "a"], [" ", "a"], ["\n", "\n"], ["b", "c"], ["▁a", "b"], ["<", "|"], ["|", ">"]]},
    })
}

/// Tokenizers by name: those of Llama 2 (`Prepend`), T5 and Gemma kinds, and byte-level ones.
fn kinds() -> Vec<(&'static str, Json)> {
    let prepend = json!({"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "▁"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]});
    let metaspace =
        |scheme: &str| json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": false});
    let replace = json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
    let byte_level = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": true});
    let token = |id: usize, text: &str, key: &str| {
        let mut token = json!({"id": id, "content": text, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": false});
        token[key] = true.into();
        token
    };
    let none = Json::Null;
    vec![
        ("prepend", file(prepend, none.clone(), none.clone())),
        ("metaspace always", file(none.clone(), metaspace("always"), none.clone())),
        ("metaspace first", file(none.clone(), metaspace("first"), none.clone())),
        ("metaspace never", file(none.clone(), metaspace("never"), none.clone())),
        ("replace", file(replace.clone(), none.clone(), none.clone())),
        ("byte-level", file(none.clone(), byte_level, none.clone())),
        ("stripping mark", file(none.clone(), none.clone(), json!([token(90, "<|w|>", "lstrip")]))),
        ("normalized mark", file(replace, none.clone(), json!([token(90, "<|n|>", "normalized")]))),
        ("white space as a token", file(none.clone(), none, json!([token(90, "    ", "normalized")]))),
    ]
}

/// The tokenizer's own tokens of the whole text.
fn reference(file: &Json, text: &str) -> Vec<u32> {
    let tokenizer = Tokenizer::from_bytes(file.to_string()).unwrap();
    tokenizer.encode_fast(text, false).unwrap().get_ids().to_vec()
}

#[test]
fn a_conversation_has_the_tokens_of_its_whole_text() {
    let text = "<|s|>a\n\nab bc<|e|>\n<|s|>b\n ab\n<|e|> <|w|> a<|n|>    b<x>";
    // The texts between `a\n` and `<|e|>`.
    let outside = [8..13, 26..30];
    for (name, file) in kinds() {
        let encoder = Encoder::new(&file).unwrap();
        let sourced = Sourced::new(text, &outside);
        let tokens = encoder.tokens(sourced).unwrap();
        assert_eq!(tokens, reference(&file, text), "{name}");
        let placed = encoder.encode(sourced, true).unwrap();
        assert_eq!(placed.tokens, tokens, "{name}");
        assert!(placed.starts.is_sorted(), "{name}: {:?}", placed.starts);
    }
}

#[test]
fn a_mark_from_outside_is_plain_text() {
    let parts = ["<|s|>a", "<|e|>", "b<|e|>"];
    let text = parts.concat();
    let whole = parts[0].len()..parts[0].len() + parts[1].len();
    // Only a part of the mark comes from outside.
    let half = whole.start..whole.start + 2;
    let last = whole.end - 1..whole.end;
    for (name, file) in kinds() {
        let encoder = Encoder::new(&file).unwrap();
        let mark = encoder.mark("<|e|>").unwrap();
        for outside in [&whole, &half, &last] {
            let sourced = Sourced::new(&text, std::slice::from_ref(outside));
            let tokens = encoder.tokens(sourced).unwrap();
            assert_eq!(tokens.iter().filter(|token| **token == mark).count(), 1, "{name} {outside:?}: {tokens:?}");
            let placed = encoder.encode(sourced, true).unwrap();
            assert_eq!((placed.tokens, placed.disabled), (tokens, 1), "{name}");
            assert_eq!(encoder.encode(sourced, false).unwrap().disabled, 1, "{name}");
        }
        let trusted = encoder.tokens(Sourced::new(&text, &[])).unwrap();
        assert_eq!(trusted, reference(&file, &text), "{name}");
    }
}

#[test]
fn the_length_of_a_text_bounds_its_tokens() {
    let byte_level = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": true});
    let mut bounded = file(Json::Null, byte_level.clone(), Json::Null);
    bounded["model"]["unk_token"] = Json::Null;
    assert_eq!(Encoder::new(&bounded).unwrap().most_bytes(10), Some(10 * 4 * "<unk>".len()));
    // Unknown text of any length, and a normaliser that removes text.
    assert_eq!(Encoder::new(&file(Json::Null, byte_level.clone(), Json::Null)).unwrap().most_bytes(10), None);
    let mut stripped = file(json!({"type": "Strip", "strip_left": true, "strip_right": true}), byte_level, Json::Null);
    stripped["model"]["unk_token"] = Json::Null;
    assert_eq!(Encoder::new(&stripped).unwrap().most_bytes(10), None);
}

proptest! {
    /// Nothing from outside becomes a mark, and without marks from outside the tokens are the reference's.
    #[test]
    fn tokens_equal_the_reference_or_lack_a_forged_mark(
        parts in prop::collection::vec(("(<\\|e\\|>|<\\|s\\|>|<x>|<\\||\\|>|e|a|b|c| |\n|<|x>|    ){0,6}", any::<bool>()), 0..6),
        kind in 0..9usize,
    ) {
        let (_, file) = kinds().remove(kind);
        let encoder = Encoder::new(&file).unwrap();
        let (mut text, mut outside) = (String::new(), vec![]);
        for (part, is_outside) in &parts {
            let start = text.len();
            text.push_str(part);
            if *is_outside && !part.is_empty() {
                outside.push(start..text.len());
            }
        }
        let sourced = Sourced::new(&text, &outside);
        let placed = encoder.encode(sourced, true).unwrap();
        prop_assert_eq!(&encoder.tokens(sourced).unwrap(), &placed.tokens);
        for (token, start) in placed.tokens.iter().zip(&placed.starts) {
            if encoder.is_mark(*token) && text[*start..].trim_start().starts_with('<') {
                let begin = *start + text[*start..].len() - text[*start..].trim_start().len();
                let length = encoder.tokenizer().id_to_token(*token).unwrap().len();
                let is_unknown = !text[begin..].starts_with(&encoder.tokenizer().id_to_token(*token).unwrap());
                prop_assert!(is_unknown || !sourced.is_touched(&(begin..begin + length)), "{:?}", (token, start));
            }
        }
        let forged = encoder.broken(sourced).unwrap().is_some();
        if !forged {
            prop_assert_eq!(placed.tokens, reference(&file, &text));
        }
    }
}
