//! Entry point of the fuzz target `server_answers`: every reader of answers, with the checks that follow it.

use std::sync::Arc;

use gymkhana_chat::ChatFormat;
use gymkhana_policy::{Conversation, GenerateRequest, Sampling, ScoreRequest};
use gymkhana_record::Seed;
use serde_json::Value;

use crate::answer::{SamplingResponse, ServerTokens, check_log_probs, validate};
use crate::models::models;
use crate::{sglang, text, vllm};

/// Vocabulary of the model that the answers are checked against, in tokens.
const VOCABULARY: usize = 300;
/// Longest reply of the request, in tokens.
const MAX_TOKENS: usize = 8;

/// Reads an answer by every protocol.
///
/// # Panics
/// If an accepted answer is one that the model cannot have sampled.
pub fn read_answer(answer: &Value, chat: &ChatFormat) {
    let request = request();
    for read in [
        vllm::read_generated(answer, &request.tokens),
        sglang::read_generated(answer, None),
        sglang::read_generated(answer, Some(3)),
        text::read_generated(answer, &request, chat).map(SamplingResponse::Tokens),
    ] {
        if let Ok(SamplingResponse::Tokens(tokens)) = read {
            check_reply(tokens, &request);
        }
    }
    let scored = ScoreRequest { prefix: Arc::new([1, 2]), continuation: Arc::new([3, 4]) };
    for read in [vllm::read_scored(answer, &scored), sglang::read_scored(answer, &scored)] {
        if let Ok(mut log_probs) = read
            && check_log_probs(&mut log_probs, 2).is_ok()
        {
            check_possible(&log_probs, 2);
        }
    }
    let _ = models(answer);
}

fn check_reply(tokens: ServerTokens, request: &GenerateRequest) {
    let Ok(reply) = validate(tokens, request, VOCABULARY) else { return };
    assert!((1..=MAX_TOKENS).contains(&reply.tokens.len()), "a reply of {} tokens", reply.tokens.len());
    assert!(reply.tokens.iter().all(|token| (*token as usize) < VOCABULARY), "a token outside of the vocabulary");
    check_possible(&reply.log_probs, reply.tokens.len());
}

fn check_possible(log_probs: &[f32], tokens: usize) {
    assert_eq!(log_probs.len(), tokens, "one log-probability for each token");
    assert!(log_probs.iter().all(|log_prob| log_prob.is_finite() && *log_prob <= 0.0), "no log-probability");
}

fn request() -> GenerateRequest {
    GenerateRequest {
        conversation: Conversation { id: 0, place: 0 },
        tokens: Arc::new([1, 2]),
        max_tokens: MAX_TOKENS,
        stop: Arc::new([5]),
        stop_texts: None,
        sampling: Sampling::at(1.0),
        seed: Seed(0),
        token_sink: None,
    }
}
