//! Validation of a server's answers: whether a model can have sampled them.

use gymkhana_policy::{GenerateRequest, Stop};
use serde_json::Value;

/// Tolerance above 0 for a log-probability, for rounding.
const ROUNDING: f32 = 1e-4;
/// vLLM's value for a token of probability 0.
const IMPOSSIBLE: f32 = -9999.0;

/// An answer to a request for tokens.
#[derive(Debug, PartialEq)]
pub(crate) enum SamplingResponse {
    /// Tokens with their log-probabilities.
    Tokens(ServerTokens),
    /// A text without tokens.
    TextOnly,
}

/// Tokens of a server before validation.
#[derive(Debug, PartialEq)]
pub(crate) struct ServerTokens {
    pub tokens: Vec<u32>,
    pub log_probs: Vec<f32>,
    /// Whether the server reports a stop, and not the length limit.
    pub stopped: bool,
}

/// A validated reply.
#[derive(Debug, PartialEq)]
pub(crate) struct ValidReply {
    pub tokens: Vec<u32>,
    pub log_probs: Vec<f32>,
    pub stop: Stop,
}

/// Checks whether a model with this vocabulary can have sampled the answer. Tokens after the first stop are removed, since
/// each token depends only on those before it.
pub(crate) fn validate(
    answer: ServerTokens,
    request: &GenerateRequest,
    vocabulary: usize,
) -> Result<ValidReply, String> {
    let ServerTokens { mut tokens, mut log_probs, stopped } = answer;
    if tokens.is_empty() || tokens.len() > request.max_tokens {
        return Err(format!("it sampled {} tokens instead of 1 to {}", tokens.len(), request.max_tokens));
    }
    check_tokens(&tokens, vocabulary)?;
    check_log_probs(&mut log_probs, tokens.len())?;
    let stop = stop_of(&tokens, request);
    let Some((length, stop)) = stop else {
        return match stopped {
            true => Err(format!(
                "it ended a reply with token {}, which is not a stop token of the request: the server has its own stop tokens",
                tokens[tokens.len() - 1]
            )),
            false => Ok(ValidReply { tokens, log_probs, stop: Stop::Length }),
        };
    };
    tokens.truncate(length);
    log_probs.truncate(length);
    Ok(ValidReply { tokens, log_probs, stop })
}

/// Returns the length of the reply up to the request's first stop, with the kind of stop.
fn stop_of(tokens: &[u32], request: &GenerateRequest) -> Option<(usize, Stop)> {
    (1..=tokens.len()).find_map(|length| {
        if request.stop.contains(&tokens[length - 1]) {
            return Some((length, Stop::Token));
        }
        let text = request.stop_texts.as_ref().is_some_and(|texts| texts.is_met(&tokens[..length]));
        text.then_some((length, Stop::Text))
    })
}

fn check_tokens(tokens: &[u32], vocabulary: usize) -> Result<(), String> {
    match tokens.iter().find(|token| **token as usize >= vocabulary) {
        Some(token) => {
            Err(format!("it sampled token {token}, and the run's model has only {vocabulary}: it serves another model"))
        }
        None => Ok(()),
    }
}

/// Rejects invalid log-probabilities and sets those slightly above 0 to 0.
pub(crate) fn check_log_probs(log_probs: &mut [f32], tokens: usize) -> Result<(), String> {
    if log_probs.len() != tokens {
        return Err(format!("it gave {} log-probabilities for {tokens} tokens", log_probs.len()));
    }
    for log_prob in log_probs {
        let possible = log_prob.is_finite() && *log_prob > IMPOSSIBLE && *log_prob <= ROUNDING;
        if !possible {
            return Err(format!("it gave {log_prob} as a log-probability"));
        }
        *log_prob = log_prob.min(0.0);
    }
    Ok(())
}

/// Parses a token id.
pub(crate) fn token(value: &Value) -> Result<u32, String> {
    let id = value.as_u64().and_then(|id| u32::try_from(id).ok());
    id.ok_or_else(|| format!("it gave {value} as a token"))
}

/// Parses a log-probability. JSON cannot represent infinities and NaN; servers write them as null or as a text.
pub(crate) fn log_prob(value: &Value) -> Result<f32, String> {
    let number = value.as_f64().map(|number| number as f32);
    number.ok_or_else(|| format!("it gave {value} as a log-probability"))
}

/// Returns the list at a JSON pointer such as `/choices`.
pub(crate) fn list<'a>(answer: &'a Value, pointer: &str) -> Result<&'a [Value], String> {
    let list = answer.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice);
    list.ok_or_else(|| format!("its answer has no list `{}`", pointer.trim_start_matches('/')))
}
