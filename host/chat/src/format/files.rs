//! The files of a model from which its chat format is built, and the templates in them.

use std::sync::Arc;

use gymkhana_template::Template;
use serde_json::Value as Json;

use crate::error::ChatError;

/// Name of the template that is used where a conversation lists functions, if a model has several.
const TOOL_USE: &str = "tool_use";
const DEFAULT: &str = "default";

/// The texts of a model folder from which its chat format is built.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChatFiles {
    /// `tokenizer.json`.
    pub tokenizer: String,
    /// `tokenizer_config.json`.
    pub config: String,
    /// `chat_template.jinja`; older folders keep it as `chat_template` in the configuration.
    pub template: Option<String>,
    /// `eos_token_id` of `config.json` and `generation_config.json`: tokens that end a reply.
    pub ends: Vec<u32>,
}

impl ChatFiles {
    /// The ids under `eos_token_id` in the texts of `config.json` and `generation_config.json`, which hold a number or a
    /// list. A text that is not JSON gives none: its other readers refuse it.
    #[must_use]
    pub fn end_tokens<'t>(configs: impl IntoIterator<Item = &'t str>) -> Vec<u32> {
        let mut ends = Vec::new();
        for config in configs {
            let Ok(config) = serde_json::from_str::<Json>(config) else { continue };
            let value = &config["eos_token_id"];
            let ids = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
            for id in ids.iter().filter_map(Json::as_u64).filter_map(|id| u32::try_from(id).ok()) {
                if !ends.contains(&id) {
                    ends.push(id);
                }
            }
        }
        ends
    }
}

/// The templates of a model.
pub(super) struct Templates {
    all: Vec<NamedTemplate>,
    /// The template that the run chose.
    chosen: Option<usize>,
}

struct NamedTemplate {
    name: String,
    source: String,
    template: Arc<Template>,
}

impl Templates {
    /// The templates of a model's files.
    pub(super) fn of(files: &ChatFiles, config: &Json) -> Result<Self, ChatError> {
        let sources: Vec<(String, String)> = match (&files.template, &config["chat_template"]) {
            (Some(source), _) => vec![(DEFAULT.to_owned(), source.clone())],
            (None, Json::String(source)) => vec![(DEFAULT.to_owned(), source.clone())],
            (None, Json::Array(list)) => list.iter().filter_map(named).collect(),
            _ => vec![],
        };
        let read = |(name, source): (String, String)| {
            let template = Template::parse(&source)?;
            Ok(NamedTemplate { name, source, template: Arc::new(template) })
        };
        let all: Vec<NamedTemplate> = sources.into_iter().map(read).collect::<Result<_, ChatError>>()?;
        if all.is_empty() { Err(ChatError::NoTemplate) } else { Ok(Self { all, chosen: None }) }
    }

    pub(super) fn choose(&mut self, name: &str) -> Result<(), ChatError> {
        let place = self.all.iter().position(|one| one.name == name);
        self.chosen = Some(place.ok_or_else(|| ChatError::NoTemplateNamed {
            name: name.to_owned(),
            known: self.all.iter().map(|one| one.name.clone()).collect::<Vec<_>>().join("`, `"),
        })?);
        Ok(())
    }

    fn named(&self, functions: bool) -> &NamedTemplate {
        let find = |name: &str| self.all.iter().find(|one| one.name == name);
        let chosen = self.chosen.and_then(|place| self.all.get(place));
        let usual = || if functions { find(TOOL_USE).or_else(|| find(DEFAULT)) } else { find(DEFAULT) };
        // `of` refuses an empty list.
        chosen.or_else(usual).unwrap_or(&self.all[0])
    }

    /// The template of a conversation that lists functions, or of one without.
    pub(super) fn of_conversation(&self, functions: bool) -> &Template {
        &self.named(functions).template
    }

    /// The source of the template for conversations that list functions.
    pub(super) fn source(&self) -> &str {
        &self.named(true).source
    }

    /// The names of several templates; empty for a single one.
    pub(super) fn names(&self) -> Vec<&str> {
        if self.all.len() < 2 { vec![] } else { self.all.iter().map(|one| one.name.as_str()).collect() }
    }
}

fn named(entry: &Json) -> Option<(String, String)> {
    Some((entry["name"].as_str()?.to_owned(), entry["template"].as_str()?.to_owned()))
}

/// The named tokens of a tokenizer's configuration, which holds strings or objects with `content`. `bos_token` and
/// `eos_token` come first and are empty if it lacks them.
pub(super) fn named_tokens(config: &Json) -> Vec<(String, String)> {
    let text = |key: &str| config[key].as_str().or_else(|| config[key]["content"].as_str()).map(str::to_owned);
    let usual = ["bos_token", "eos_token"].map(|key| (key.to_owned(), text(key).unwrap_or_default()));
    let others = ["unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];
    let others = others.into_iter().filter_map(|key| Some((key.to_owned(), text(key)?)));
    usual.into_iter().chain(others).collect()
}

pub(super) fn parse(text: &str, file: &'static str) -> Result<Json, ChatError> {
    serde_json::from_str(text).map_err(|error| ChatError::Malformed { file, reason: error.to_string() })
}
