//! The model that a server serves, without its weights: its name on the server, its chat format and its size.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gymkhana_chat::ChatFiles;
use gymkhana_config::{Checkpoint, HubModel, PolicySection, ServerSection};
use gymkhana_hub::Hub;
use gymkhana_policy_server::{ServedModel, served_models};
use serde_json::Value;

use super::server::{ModelSize, key, status_sink};
use crate::chat::{CHAT_FILES, model_chat_files};
use crate::error::{Classify, RunError, RunResult};
use crate::report::Reporter;

/// File with the size of a model.
const CONFIG: &str = "config.json";

/// Longest context that a run file allows, for models that do not tell theirs.
const MAX_CONTEXT: usize = 10_000_000;

/// A served model, as far as prompts need it.
pub struct ModelFacts {
    /// Texts of its chat format.
    pub chat: ChatFiles,
    /// Size of the model.
    pub size: ModelSize,
}

/// Completes the policy's section by asking its server: an empty name becomes that of the server's only model, and an
/// empty checkpoint the folder or the hub's name from which the server loaded it.
///
/// # Errors
/// If the server does not answer, has several models, or does not tell where the model came from.
pub async fn complete(policy: &mut PolicySection, reporter: &Arc<dyn Reporter>) -> RunResult<()> {
    let Some(server) = &mut policy.server else { return Ok(()) };
    let is_empty = |checkpoint: &Checkpoint| *checkpoint == Checkpoint::Folder(PathBuf::new());
    let checkpoint = policy.checkpoint.take().filter(|checkpoint| !is_empty(checkpoint));
    if !server.name.is_empty() && checkpoint.is_some() {
        policy.checkpoint = checkpoint;
        return Ok(());
    }
    let models = served_models(&server.url, key(server)?, &server.request_policy(), status_sink(reporter)).await;
    let model = chosen(server, models.user_error()?)?;
    policy.checkpoint = Some(checkpoint.map_or_else(|| source(server, &model), Ok)?);
    server.name = model.name;
    Ok(())
}

/// The model of the section's name, or the only one.
fn chosen(server: &ServerSection, mut models: Vec<ServedModel>) -> RunResult<ServedModel> {
    if let Some(found) = models.iter().position(|model| model.name == server.name) {
        return Ok(models.swap_remove(found));
    }
    let names = models.iter().map(|model| model.name.as_str()).collect::<Vec<_>>().join("`, `");
    match (server.name.as_str(), models.pop(), models.is_empty()) {
        ("", Some(only), true) => Ok(only),
        ("", None, _) => Err(RunError::user(format!(
            "the policy server at {} serves no model\nhint: start it with a model",
            server.url
        ))),
        ("", Some(_), false) => Err(RunError::user(format!(
            "the policy server at {} serves several models\nhint: set policy.server.name to one of `{names}`",
            server.url
        ))),
        (name, _, _) => Err(RunError::user(format!(
            "the policy server at {} has no model `{name}`\nhint: set policy.server.name to one of `{names}`",
            server.url
        ))),
    }
}

/// Source of the model that a server reports: a folder of this machine, else a repository on a hub.
fn source(server: &ServerSection, model: &ServedModel) -> RunResult<Checkpoint> {
    let root = model.root.as_ref().unwrap_or(&model.name);
    let folder = PathBuf::from(root);
    if folder.is_dir() {
        return Ok(Checkpoint::Folder(folder));
    }
    let hub = HubModel { hub: root.clone(), revision: "main".to_owned(), commit: None };
    match hub.names() {
        Ok(_) if root.contains('/') && !folder.is_absolute() => Ok(Checkpoint::Hub(hub)),
        _ => Err(RunError::user(format!(
            "the tokenizer of model `{}` is unknown: the policy server at {} tells no folder of this machine and no \
             name on a hub\nhint: set policy.checkpoint to the model's folder, or to OWNER/NAME on a hub",
            model.name, server.url
        ))),
    }
}

impl ModelFacts {
    /// Reads the facts of a model from its folder or, without its weights, from a hub, whose commit is written into
    /// `checkpoint`.
    ///
    /// # Errors
    /// If the tokenizer is missing, or a file cannot be read or downloaded.
    pub async fn read(checkpoint: &mut Checkpoint) -> RunResult<Self> {
        let folder = match checkpoint {
            Checkpoint::Folder(folder) => folder.clone(),
            Checkpoint::Hub(model) => download(model).await?,
        };
        let chat = model_chat_files(&folder)?;
        Ok(Self { chat, size: size(&folder.join(CONFIG))? })
    }
}

/// Downloads the small files of a model and returns their folder.
async fn download(model: &mut HubModel) -> RunResult<PathBuf> {
    let (repository, revision, commit) = model.names().map_err(RunError::user)?;
    let hub = Hub::from_environment().user_error()?;
    let commit = match commit {
        Some(commit) => commit,
        None => hub.commit(&repository, &revision).await.user_error()?,
    };
    model.commit = Some(commit.to_string());
    for name in CHAT_FILES.into_iter().chain([CONFIG]) {
        hub.file(&repository, &commit, name, &|_| {}).await.user_error()?;
    }
    Ok(hub.folder(&repository, &commit))
}

/// Size in a model's configuration; unbounded where it has none.
fn size(config: &Path) -> RunResult<ModelSize> {
    let text = match gymkhana_registry::read_regular_text(config) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => "{}".to_owned(),
        Err(error) => return Err(error).user_context(format!("`{}` cannot be read", config.display())),
    };
    let damaged = format!("`{}` cannot be read\nhint: restore the file from a copy of the model", config.display());
    let config: Value = serde_json::from_str(&text).user_context(damaged)?;
    // Models with several modalities have the numbers of their text part in a table of its own.
    let number = |name: &str| [config.get(name), config.get("text_config").and_then(|text| text.get(name))];
    let number = |name: &str| number(name).into_iter().flatten().find_map(Value::as_u64);
    let number = |name: &str| number(name).and_then(|number| usize::try_from(number).ok());
    Ok(ModelSize {
        vocabulary: number("vocab_size").unwrap_or(usize::MAX),
        context: number("max_position_embeddings").unwrap_or(MAX_CONTEXT).min(MAX_CONTEXT),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(name: &str) -> ServerSection {
        let text = format!("url = \"http://127.0.0.1:8000\"\nprotocol = \"vllm\"\nname = \"{name}\"");
        toml::from_str(&text).unwrap()
    }

    fn model(name: &str, root: Option<&str>) -> ServedModel {
        ServedModel { name: name.to_owned(), context: None, root: root.map(str::to_owned) }
    }

    #[test]
    fn the_only_model_needs_no_name() {
        let names = |name: &str, models: &[&str]| {
            let models = models.iter().map(|name| model(name, None)).collect();
            chosen(&server(name), models).map(|model| model.name).map_err(|error| error.to_string())
        };
        assert_eq!(names("", &["a"]).unwrap(), "a");
        assert_eq!(names("b", &["a", "b"]).unwrap(), "b");
        let several = names("", &["a", "b"]).unwrap_err();
        assert_eq!(
            several,
            "the policy server at http://127.0.0.1:8000/ serves several models\nhint: set policy.server.name to one of \
             `a`, `b`"
        );
        assert!(names("c", &["a"]).unwrap_err().contains("has no model `c`"));
        assert!(names("", &[]).unwrap_err().contains("serves no model"));
    }

    #[test]
    fn the_source_is_a_folder_of_this_machine_or_a_name_on_a_hub() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path().to_str().unwrap();
        let found = |root| source(&server(""), &model("served", root)).ok();
        assert_eq!(found(Some(here)), Some(Checkpoint::Folder(here.into())));
        let hub = HubModel { hub: "owner/name".to_owned(), revision: "main".to_owned(), commit: None };
        assert_eq!(found(Some("owner/name")), Some(Checkpoint::Hub(hub)));
        assert_eq!(found(Some("/not/here")), None, "a folder of the server's machine");
        assert_eq!(found(None), None, "the name alone");
    }

    #[test]
    fn sizes_are_read_from_the_configuration() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(CONFIG);
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            size(&path).map(|size| (size.vocabulary, size.context)).ok()
        };
        assert_eq!(size(&folder.path().join("none")).unwrap().vocabulary, usize::MAX);
        assert_eq!(read(r#"{"vocab_size": 258, "max_position_embeddings": 64}"#), Some((258, 64)));
        assert_eq!(read(r#"{"text_config": {"vocab_size": 9}}"#), Some((9, MAX_CONTEXT)));
        assert_eq!(read("{"), None);
    }
}
