//! What a server answers, and whether a model can have said it.

use gymkhana_policy::{GenerateRequest, Stop};
use serde_json::Value;

/// Above 0 no log-probability can be; so much is rounding.
const ROUNDING: f32 = 1e-4;
/// vLLM writes this where a token has no probability at all.
const IMPOSSIBLE: f32 = -9999.0;

/// An answer to a request for tokens.
#[derive(Debug, PartialEq)]
pub(crate) enum Answer {
    /// Tokens with their log-probabilities.
    Tokens(Tokens),
    /// A text, and no tokens.
    TextAlone,
}

/// Tokens as a server wrote them.
#[derive(Debug, PartialEq)]
pub(crate) struct Tokens {
    pub tokens: Vec<u32>,
    pub log_probs: Vec<f32>,
    /// Whether the server says that it stopped, and not that it had to.
    pub stopped: bool,
}

/// A reply that a model can have given.
#[derive(Debug, PartialEq)]
pub(crate) struct Sound {
    pub tokens: Vec<u32>,
    pub log_probs: Vec<f32>,
    pub stop: Stop,
}

/// Looks whether a model of so many tokens can have given the answer to the request. What stands behind the first stop is
/// cut off: each token depends on those before it alone.
pub(crate) fn sound(answer: Tokens, request: &GenerateRequest, vocabulary: usize) -> Result<Sound, String> {
    let Tokens { mut tokens, mut log_probs, stopped } = answer;
    if tokens.is_empty() || tokens.len() > request.max_tokens {
        return Err(format!("it sampled {} tokens and was asked for 1 to {}", tokens.len(), request.max_tokens));
    }
    check_tokens(&tokens, vocabulary)?;
    check_log_probs(&mut log_probs, tokens.len())?;
    let stop = stop_of(&tokens, request);
    let Some((length, stop)) = stop else {
        return match stopped {
            true => Err(format!(
                "it ended a reply with token {}, with which none should end: it has stop tokens of its own",
                tokens[tokens.len() - 1]
            )),
            false => Ok(Sound { tokens, log_probs, stop: Stop::Length }),
        };
    };
    tokens.truncate(length);
    log_probs.truncate(length);
    Ok(Sound { tokens, log_probs, stop })
}

/// Where the reply ends by the request's own stops, if it does, and by which.
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

/// Refuses log-probabilities that are none; rounds those up to 0 that are above it by rounding.
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

/// A token's number; servers write it as one.
pub(crate) fn token(value: &Value) -> Result<u32, String> {
    let id = value.as_u64().and_then(|id| u32::try_from(id).ok());
    id.ok_or_else(|| format!("it gave {value} as a token"))
}

/// A log-probability. JSON has no infinities and no NaN, which servers then write as null or as a text.
pub(crate) fn log_prob(value: &Value) -> Result<f32, String> {
    let number = value.as_f64().map(|number| number as f32);
    number.ok_or_else(|| format!("it gave {value} as a log-probability"))
}

/// A list under a pointer such as `/choices`.
pub(crate) fn list<'a>(answer: &'a Value, pointer: &str) -> Result<&'a [Value], String> {
    let list = answer.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice);
    list.ok_or_else(|| format!("its answer has no list `{}`", pointer.trim_start_matches('/')))
}
