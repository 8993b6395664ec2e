//! Models of a server, as its list names them.

use gymkhana_net::{JsonClient, RequestPolicy, Secret, StatusSink};
use gymkhana_waits::Counterpart;
use serde_json::Value;
use url::Url;

use crate::error::ServerError;

/// A model of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedModel {
    /// Name in requests.
    pub name: String,
    /// Context length in tokens, if reported.
    pub context: Option<usize>,
    /// Folder or name from which the server loaded it, if reported.
    pub root: Option<String>,
}

/// Models of the server at `url`. `on_status` receives status messages.
///
/// # Errors
/// If the server does not answer, or refuses.
pub async fn served_models(
    url: &Url,
    key: Option<Secret>,
    policy: &RequestPolicy,
    on_status: StatusSink,
) -> Result<Vec<ServedModel>, ServerError> {
    list_models(&JsonClient::new(url.clone(), key, Counterpart::PolicyServer, on_status)?, url, policy).await
}

pub(crate) async fn list_models(
    api: &JsonClient,
    url: &Url,
    policy: &RequestPolicy,
) -> Result<Vec<ServedModel>, ServerError> {
    api.get("/v1/models", policy, models).await.map_err(|fault| ServerError::Fault {
        url: url.clone(),
        doing: "be reached",
        fault,
        fix: "start it, or correct policy.server.url, which ends before `/v1`",
    })
}

/// Parses the models of a server.
pub(crate) fn models(answer: &Value) -> Result<Vec<ServedModel>, String> {
    let data = answer.get("data").and_then(Value::as_array).ok_or("its answer is not a list of models")?;
    let model = |model: &Value| {
        let longest = model.get("max_model_len").and_then(Value::as_u64);
        let text = |key: &str| model.get(key).and_then(Value::as_str).map(str::to_owned);
        Ok(ServedModel {
            name: text("id").ok_or("a model in its list has no `id`")?,
            context: longest.and_then(|longest| usize::try_from(longest).ok()),
            root: text("root"),
        })
    };
    data.iter().map(model).collect()
}
