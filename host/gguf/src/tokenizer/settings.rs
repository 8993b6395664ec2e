//! Special tokens: their ids in `config.json` and `generation_config.json`, their texts in `tokenizer_config.json`.

use serde_json::{Map, Value, json};

use super::vocabulary::Vocabulary;
use crate::error::Problem;
use crate::metadata::Metadata;

const TEMPLATE: &str = "tokenizer.chat_template";
const DEFAULT_TEMPLATE: &str = "default";

/// A token with a purpose.
struct Special<'a> {
    id: u32,
    text: &'a str,
}

/// Tokens with a purpose.
pub struct SpecialTokens<'a> {
    begin: Option<Special<'a>>,
    end: Option<Special<'a>>,
    /// Further tokens that end a reply: of a turn, of a message.
    other_ends: Vec<Special<'a>>,
    pad: Option<Special<'a>>,
    unknown: Option<Special<'a>>,
    adds_begin: bool,
    adds_end: bool,
}

impl<'a> SpecialTokens<'a> {
    /// Reads the tokens; `adds_begin` tells whether texts begin with a token if the file does not tell.
    ///
    /// # Errors
    /// If an id is not one of the vocabulary, or a text is to begin or end with a token that is not named.
    pub fn read(metadata: &Metadata<'a>, vocabulary: &Vocabulary<'a>, adds_begin: bool) -> Result<Self, Problem> {
        let find = |name: &str| -> Result<Option<Special<'a>>, Problem> {
            let key = format!("tokenizer.ggml.{name}_token_id");
            let Some(id) = metadata.number(&key)? else { return Ok(None) };
            let missing = || Problem::damaged(format!("`{key}` is {id}, which is not a token"));
            vocabulary.text(id).map(|text| Some(Special { id, text })).ok_or_else(missing)
        };
        let switch = |name: &str| metadata.switch(&format!("tokenizer.ggml.add_{name}_token"));
        let (begin, end) = (find("bos")?, find("eos")?);
        let mut other_ends = Vec::new();
        for name in ["eot", "eom"] {
            let id = |special: &Special<'_>| special.id;
            let known = |special: &Special<'_>| end.as_ref().map(id) == Some(special.id);
            other_ends.extend(find(name)?.filter(|special| !known(special)));
        }
        let adds_begin = switch("bos")?.unwrap_or(adds_begin && begin.is_some());
        let adds_end = switch("eos")?.unwrap_or(false);
        for (adds, token, name) in [(adds_begin, &begin, "bos"), (adds_end, &end, "eos")] {
            if adds && token.is_none() {
                let what = format!(
                    "`tokenizer.ggml.add_{name}_token` is true, but `tokenizer.ggml.{name}_token_id` is missing"
                );
                return Err(Problem::damaged(what));
            }
        }
        let (pad, unknown) = (find("padding")?, find("unknown")?);
        Ok(Self { begin, end, other_ends, pad, unknown, adds_begin, adds_end })
    }

    /// `post_processor`: a kind's own one, and the tokens at the beginning and the end.
    pub fn post_processor(&self, own: Option<Value>) -> Value {
        let first = self.begin.as_ref().filter(|_| self.adds_begin);
        let last = self.end.as_ref().filter(|_| self.adds_end);
        if first.is_none() && last.is_none() {
            return own.unwrap_or(Value::Null);
        }
        let token =
            |special: &Special<'_>, part: u8| json!({ "SpecialToken": { "id": special.text, "type_id": part } });
        let around = |part: u8, name: &str| -> Vec<Value> {
            let text = json!({ "Sequence": { "id": name, "type_id": part } });
            let ends =
                [first.map(|special| token(special, part)), Some(text), last.map(|special| token(special, part))];
            ends.into_iter().flatten().collect()
        };
        let tokens: Map<String, Value> = [first, last]
            .into_iter()
            .flatten()
            .map(|special| {
                let entry = json!({ "id": special.text, "ids": [special.id], "tokens": [special.text] });
                (special.text.to_owned(), entry)
            })
            .collect();
        let pair: Vec<Value> = around(0, "A").into_iter().chain(around(1, "B")).collect();
        let template = json!({
            "type": "TemplateProcessing", "single": around(0, "A"), "pair": pair, "special_tokens": tokens,
        });
        match own {
            None => template,
            Some(own) => json!({ "type": "Sequence", "processors": [own, template] }),
        }
    }

    /// Ids in `config.json`.
    pub fn ids(&self) -> Map<String, Value> {
        [("bos_token_id", &self.begin), ("eos_token_id", &self.end), ("pad_token_id", &self.pad)]
            .into_iter()
            .filter_map(|(key, special)| Some((key.to_owned(), json!(special.as_ref()?.id))))
            .collect()
    }

    /// `generation_config.json`, with all tokens that end a reply.
    pub fn generation(&self) -> Value {
        let mut ids = self.ids();
        if !self.other_ends.is_empty() {
            let ends: Vec<u32> = self.end.iter().chain(&self.other_ends).map(|special| special.id).collect();
            ids.insert("eos_token_id".to_owned(), json!(ends));
        }
        Value::Object(ids)
    }

    /// `tokenizer_config.json`, with the chat templates.
    pub fn configuration(&self, metadata: &Metadata<'_>, config: &Map<String, Value>) -> Result<Value, Problem> {
        let mut settings = Map::from_iter([
            ("tokenizer_class".to_owned(), json!("PreTrainedTokenizerFast")),
            ("clean_up_tokenization_spaces".to_owned(), json!(false)),
            ("model_max_length".to_owned(), config.get("max_position_embeddings").cloned().unwrap_or_default()),
        ]);
        for (key, special) in [
            ("bos_token", &self.begin),
            ("eos_token", &self.end),
            ("pad_token", &self.pad),
            ("unk_token", &self.unknown),
        ] {
            settings.extend(special.as_ref().map(|special| (key.to_owned(), json!(special.text))));
        }
        settings.extend(templates(metadata)?.map(|templates| ("chat_template".to_owned(), templates)));
        Ok(Value::Object(settings))
    }
}

/// The chat template, or the list of several ones with their names.
fn templates(metadata: &Metadata<'_>) -> Result<Option<Value>, Problem> {
    let default = metadata.text(TEMPLATE)?;
    let mut others = Vec::new();
    let prefix = format!("{TEMPLATE}.");
    let mut keys: Vec<&str> = metadata.keys().filter(|key| key.starts_with(&prefix)).collect();
    keys.sort_unstable();
    for key in keys {
        let name = key.trim_start_matches(prefix.as_str());
        others.extend(metadata.text(key)?.map(|text| json!({ "name": name, "template": text })));
    }
    if others.is_empty() {
        return Ok(default.map(Into::into));
    }
    let default = default.map(|text| json!({ "name": DEFAULT_TEMPLATE, "template": text }));
    Ok(Some(default.into_iter().chain(others).collect()))
}
