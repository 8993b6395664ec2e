//! Pushes of new weights to a server from a checkpoint's folder, which the server must be able to read.

use std::path::Path;

use gymkhana_net::{JsonClient, JsonClientError, RequestPolicy};
use serde_json::{Value, json};

use crate::Protocol;

/// Loads the weights of a folder into the server and clears its caches of the old weights.
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
            // No request is in progress; pausing clears the keys and values of the old weights.
            api.post("/pause?mode=wait", &json!({}), policy, anything).await?;
            let reload = json!({
                "method": "reload_weights",
                "kwargs": { "weights_path": folder, "is_checkpoint_format": true },
            });
            let reloaded = api.post("/collective_rpc", &reload, policy, anything).await;
            if let Err(error @ JsonClientError::Failed { .. }) = reloaded {
                return Err(error);
            }
            // A server that refused the weights answers its other clients again, and the next run.
            let resumed = api.post("/resume", &json!({}), policy, anything).await;
            reloaded.and(resumed)
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
        // The start of a run rejects training with this protocol.
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
