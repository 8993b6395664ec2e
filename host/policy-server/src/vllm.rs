//! vLLM's `/v1/completions`: token ids in, token ids with log-probabilities out.

use gymkhana_policy::{GenerateRequest, ScoreRequest};
use serde_json::{Value, json};

use crate::answer::{SamplingResponse, ServerTokens, list, log_prob, token};

/// Path of requests for completions.
pub(crate) const COMPLETIONS: &str = "/v1/completions";
/// Prefix of a token id that is written as text.
const TOKEN_ID: &str = "token_id:";

/// Body of a request for a continuation. It sets every value that a model's `generation_config.json` could change.
pub(crate) fn generate(request: &GenerateRequest, model: &str) -> Value {
    let sampling = request.sampling;
    let mut body = json!({
        "model": model,
        "prompt": &*request.tokens,
        "max_tokens": request.max_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": if sampling.top_k == 0 { -1 } else { i64::from(sampling.top_k) },
        "min_p": sampling.min_p,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        // The same 64 bits as a signed number.
        "seed": request.seed.0 as i64,
        "stop_token_ids": &*request.stop,
        "ignore_eos": true,
        "skip_special_tokens": false,
        "logprobs": 0,
        "return_token_ids": true,
        "return_tokens_as_token_ids": true,
    });
    if let Some(texts) = &request.stop_texts {
        body["stop"] = json!(texts.texts());
    }
    body
}

/// Parses a continuation of `prompt`.
pub(crate) fn read_generated(answer: &Value, prompt: &[u32]) -> Result<SamplingResponse, String> {
    let choice = list(answer, "/choices")?.first().ok_or("its answer has no choice")?;
    if let Some(seen) = choice.get("prompt_token_ids").and_then(Value::as_array) {
        let same = seen.len() == prompt.len() && seen.iter().zip(prompt).all(|(seen, sent)| token(seen) == Ok(*sent));
        if !same {
            return Err("it continued a prompt other than that of the request".to_owned());
        }
    }
    let has_text = choice.get("text").is_some_and(Value::is_string);
    let log_probs = match choice.pointer("/logprobs/token_logprobs").and_then(Value::as_array) {
        Some(log_probs) => log_probs.iter().map(log_prob).collect::<Result<Vec<_>, _>>()?,
        None if has_text => return Ok(SamplingResponse::TextOnly),
        None => return Err("its answer has no log-probabilities".to_owned()),
    };
    let Some(tokens) = tokens(choice)? else { return Ok(SamplingResponse::TextOnly) };
    let stopped = match choice.get("finish_reason").and_then(Value::as_str) {
        Some("stop") => true,
        Some("length") => false,
        Some(other) => return Err(format!("it ended the reply with `{other}`")),
        None => return Err("its answer has no finish reason".to_owned()),
    };
    Ok(SamplingResponse::Tokens(ServerTokens { tokens, log_probs, stopped }))
}

/// Parses the sampled tokens: from their ids, or from texts that contain the ids, as in older versions.
fn tokens(choice: &Value) -> Result<Option<Vec<u32>>, String> {
    if let Some(ids) = choice.get("token_ids").and_then(Value::as_array) {
        return ids.iter().map(token).collect::<Result<_, _>>().map(Some);
    }
    let written = list(choice, "/logprobs/tokens")?;
    Ok(written.iter().map(|written| written.as_str()?.strip_prefix(TOKEN_ID)?.parse().ok()).collect())
}

/// Body of a request for log-probabilities of given tokens; the protocol samples at least one token.
pub(crate) fn score(request: &ScoreRequest, model: &str) -> Value {
    let tokens = [&request.prefix[..], &request.continuation[..]].concat();
    json!({
        "model": model,
        "prompt": tokens,
        "max_tokens": 1,
        "temperature": 0.0,
        "prompt_logprobs": 0,
    })
}

/// Parses the log-probabilities of the continuation.
pub(crate) fn read_scored(answer: &Value, request: &ScoreRequest) -> Result<Vec<f32>, String> {
    let scored = list(answer, "/choices/0/prompt_logprobs")?;
    let expected = request.prefix.len() + request.continuation.len();
    if scored.len() != expected {
        return Err(format!("it scored {} of {expected} tokens", scored.len()));
    }
    let places = scored[request.prefix.len()..].iter().zip(&*request.continuation);
    places
        .map(|(place, token)| {
            let entry = place.get(token.to_string()).and_then(|entry| entry.get("logprob"));
            log_prob(entry.ok_or_else(|| format!("it gave no log-probability of token {token}"))?)
        })
        .collect()
}
