//! New weights for a server, from a checkpoint's folder that it can read too.

use std::path::Path;

use gymkhana_net::{JsonClient, JsonClientError, RequestPolicy};
use serde_json::{Value, json};

use crate::protocol::Protocol;

/// Has the server load the weights in a folder, and forget what it computed with the ones before.
pub(crate) async fn push(
    api: &JsonClient,
    protocol: Protocol,
    folder: &Path,
    version: u32,
    policy: &RequestPolicy,
) -> Result<(), JsonClientError> {
    let folder = folder.to_string_lossy();
    match protocol {
        Protocol::Vllm => {
            // Nothing is under way; pausing forgets the keys and values of the old weights.
            api.post("/pause?mode=wait", &json!({}), policy, anything).await?;
            let reload = json!({
                "method": "reload_weights",
                "kwargs": { "weights_path": folder, "is_checkpoint_format": true },
            });
            api.post("/collective_rpc", &reload, policy, anything).await?;
            api.post("/resume", &json!({}), policy, anything).await
        }
        Protocol::Sglang => {
            let update = json!({
                "model_path": folder,
                "flush_cache": true,
                "abort_all_requests": false,
                "weight_version": version.to_string(),
            });
            api.post("/update_weights_from_disk", &update, policy, succeeded).await
        }
        // Refused where a run begins, as nothing can be learnt from its texts.
        Protocol::Openai => Ok(()),
    }
}

fn anything(_answer: &Value) -> Result<(), String> {
    Ok(())
}

fn succeeded(answer: &Value) -> Result<(), String> {
    match answer.get("success").and_then(Value::as_bool) {
        Some(true) => Ok(()),
        _ => Err(format!("it did not take the weights: {answer:.300}")),
    }
}
