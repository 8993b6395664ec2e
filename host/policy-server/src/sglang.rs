//! SGLang's `/generate`: token ids in, pairs of log-probability and token id out.

use gymkhana_policy::{GenerateRequest, ScoreRequest};
use serde_json::{Value, json};

use crate::answer::{SamplingResponse, ServerTokens, list, log_prob, token};

/// Path of requests for tokens.
pub(crate) const GENERATE: &str = "/generate";

/// Body of a request for a continuation.
pub(crate) fn generate(request: &GenerateRequest) -> Value {
    let sampling = request.sampling;
    let mut parameters = json!({
        "max_new_tokens": request.max_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": if sampling.top_k == 0 { -1 } else { i64::from(sampling.top_k) },
        "min_p": sampling.min_p,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        // 63 bits, since the server computes the remainder of a signed number.
        "sampling_seed": request.seed.0 & i64::MAX as u64,
        "stop_token_ids": &*request.stop,
        "ignore_eos": true,
        "skip_special_tokens": false,
        "no_stop_trim": true,
    });
    if let Some(texts) = &request.stop_texts {
        parameters["stop"] = json!(texts.texts());
    }
    json!({
        "input_ids": &*request.tokens,
        "sampling_params": parameters,
        "return_logprob": true,
        "stream": false,
    })
}

/// Parses a continuation and checks its weight version, if one was pushed to the server.
pub(crate) fn read_generated(answer: &Value, version: Option<u32>) -> Result<SamplingResponse, String> {
    let meta = answer.get("meta_info").ok_or("its answer has no `meta_info`")?;
    let stopped = match meta.pointer("/finish_reason/type").and_then(Value::as_str) {
        Some("stop") => true,
        Some("length") => false,
        Some(other) => {
            let message = meta.pointer("/finish_reason/message").and_then(Value::as_str);
            let message = message.map_or_else(String::new, |message| format!(": {message:.200}"));
            return Err(format!("it ended the reply with `{other}`{message}"));
        }
        None => return Err("its answer has no finish reason".to_owned()),
    };
    if let (Some(version), Some(found)) = (version, meta.get("weight_version").and_then(Value::as_str))
        && found != version.to_string()
    {
        return Err(format!("it has weights of version `{found}` instead of {version}; it may have been restarted"));
    }
    if meta.get("output_token_logprobs").is_none() && answer.get("text").is_some() {
        return Ok(SamplingResponse::TextOnly);
    }
    let pairs = list(meta, "/output_token_logprobs")?;
    let (tokens, log_probs) = pairs.iter().map(pair).collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
    Ok(SamplingResponse::Tokens(ServerTokens { tokens, log_probs, stopped }))
}

/// A token and its log-probability, from `[log-probability, token, text]`.
fn pair(entry: &Value) -> Result<(u32, f32), String> {
    match entry.as_array().map(Vec::as_slice) {
        Some([probability, id, ..]) => Ok((token(id)?, log_prob(probability)?)),
        _ => Err(format!("it gave {entry} for a token and its log-probability")),
    }
}

/// Body of a request for log-probabilities of given tokens.
pub(crate) fn score(request: &ScoreRequest) -> Value {
    let tokens = [&request.prefix[..], &request.continuation[..]].concat();
    json!({
        "input_ids": tokens,
        "sampling_params": { "max_new_tokens": 0, "temperature": 1.0 },
        "return_logprob": true,
        "logprob_start_len": request.prefix.len() - 1,
        "stream": false,
    })
}

/// Parses the log-probabilities of the continuation: those of the last tokens, since the first of the list has none.
pub(crate) fn read_scored(answer: &Value, request: &ScoreRequest) -> Result<Vec<f32>, String> {
    let scored = list(answer, "/meta_info/input_token_logprobs")?;
    let length = request.continuation.len();
    let first = scored.len().checked_sub(length).ok_or(format!("it scored {} of {length} tokens", scored.len()))?;
    let pairs = scored[first..].iter().map(pair).collect::<Result<Vec<_>, _>>()?;
    if !pairs.iter().map(|(token, _)| token).eq(&*request.continuation) {
        return Err("it scored tokens other than those in the request".to_owned());
    }
    Ok(pairs.into_iter().map(|(_, log_prob)| log_prob).collect())
}
