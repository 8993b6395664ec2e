//! Text completions: the prompt is rendered as text, and the reply is tokenised here.

use gymkhana_chat::{ChatFormat, ReplyPiece};
use gymkhana_policy::GenerateRequest;
use serde_json::{Value, json};

use crate::answer::{ServerTokens, list};

/// Maximum number of stop texts in the protocol.
const MAX_STOPS: usize = 4;

/// Body of a request for a continuation.
pub(crate) fn generate(request: &GenerateRequest, model: &str, chat: &ChatFormat) -> Result<Value, String> {
    let sampling = request.sampling;
    if sampling.top_k > 0 || sampling.min_p > 0.0 {
        return Err("the protocol `openai` does not support top_k and min_p; remove them".to_owned());
    }
    let text = |tokens: &[u32]| chat.decode(tokens).map_err(|error| error.to_string());
    let stops = request.stop.iter().take(MAX_STOPS).map(|stop| text(&[*stop])).collect::<Result<Vec<_>, _>>()?;
    Ok(json!({
        "model": model,
        "prompt": text(&request.tokens)?,
        "max_tokens": request.max_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        // 63 bits: some servers reject negative numbers.
        "seed": request.seed.0 & i64::MAX as u64,
        "stop": stops,
    }))
}

/// Parses a continuation into tokens, with a stop token if the server stopped. Their log-probabilities are unknown and
/// recorded as 0, like those of all tokens that the run's model did not sample.
pub(crate) fn read_generated(
    answer: &Value,
    request: &GenerateRequest,
    chat: &ChatFormat,
) -> Result<ServerTokens, String> {
    let choice = list(answer, "/choices")?.first().ok_or("its answer has no choice")?;
    let text = choice.get("text").and_then(Value::as_str).ok_or("its answer has no text")?;
    let stopped = match choice.get("finish_reason").and_then(Value::as_str) {
        Some("stop") => true,
        Some("length") => false,
        Some(other) => return Err(format!("it ended the reply with `{other}`")),
        None => return Err("its answer has no finish reason".to_owned()),
    };
    let mut tokens = chat.encode_reply(&[ReplyPiece::Frame(text)]).map_err(|error| error.to_string())?;
    if !stopped {
        tokens.pop();
    }
    tokens.truncate(request.max_tokens);
    let stopped = tokens.last().is_some_and(|last| request.stop.contains(last));
    Ok(ServerTokens { log_probs: vec![0.0; tokens.len()], tokens, stopped })
}
