//! Completions of text: the prompt as the template writes it, and the reply put into tokens here.

use gymkhana_chat::{ChatFormat, ReplyPiece};
use gymkhana_policy::GenerateRequest;
use serde_json::{Value, json};

use crate::answer::{Tokens, list};

/// How many stop texts the protocol takes.
const MOST_STOPS: usize = 4;

/// The request for a continuation.
pub(crate) fn generate(request: &GenerateRequest, model: &str, chat: &ChatFormat) -> Result<Value, String> {
    let sampling = request.sampling;
    if sampling.top_k > 0 || sampling.min_p > 0.0 {
        return Err("a server of texts takes no top_k and no min_p; leave them out".to_owned());
    }
    let text = |tokens: &[u32]| chat.decode(tokens).map_err(|error| error.to_string());
    let stops = request.stop.iter().take(MOST_STOPS).map(|stop| text(&[*stop])).collect::<Result<Vec<_>, _>>()?;
    Ok(json!({
        "model": model,
        "prompt": text(&request.tokens)?,
        "max_tokens": request.max_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        // 63 bits: not every server takes a number with a sign.
        "seed": request.seed.0 & i64::MAX as u64,
        "stop": stops,
    }))
}

/// Reads a continuation: tokens of what was said, with a stop token where the server stopped. Nothing is known of their
/// probability, which is recorded as 1, as that of whatever no model of ours has sampled.
pub(crate) fn read_generated(answer: &Value, request: &GenerateRequest, chat: &ChatFormat) -> Result<Tokens, String> {
    let choice = list(answer, "/choices")?.first().ok_or("its answer has no choice")?;
    let text = choice.get("text").and_then(Value::as_str).ok_or("its answer has no text")?;
    let stopped = match choice.get("finish_reason").and_then(Value::as_str) {
        Some("stop") => true,
        Some("length") => false,
        Some(other) => return Err(format!("it ended the reply with `{other}`")),
        None => return Err("it did not say how the reply ended".to_owned()),
    };
    let mut tokens = chat.encode_reply(&[ReplyPiece::Frame(text)]).map_err(|error| error.to_string())?;
    if !stopped {
        tokens.pop();
    }
    tokens.truncate(request.max_tokens);
    let stopped = tokens.last().is_some_and(|last| request.stop.contains(last));
    Ok(Tokens { log_probs: vec![0.0; tokens.len()], tokens, stopped })
}
