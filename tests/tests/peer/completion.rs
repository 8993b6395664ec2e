//! The body of a completion, as recorded.

use serde_json::{Value, json};

use super::MODEL;

/// Answer of vLLM with one choice.
pub fn vllm(choice: &Value, prompt: usize, completion: usize) -> Value {
    json!({
        "id": "cmpl-1", "object": "text_completion", "created": 1, "model": MODEL, "choices": [choice],
        "service_tier": null, "system_fingerprint": "vllm-0",
        "usage": {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion,
            "prompt_tokens_details": null, "completion_tokens_details": null},
        "kv_transfer_params": null, "ec_transfer_params": null, "metrics": null,
    })
}
