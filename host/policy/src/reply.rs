//! Checks of what a model in another process answers.

use crate::{GenerateRequest, PolicyError};

/// Largest log-probability that rounding explains, in nats.
const ROUNDING: f32 = 1e-3;

impl PolicyError {
    /// Refuses a conversation that leaves no room for one more token, or is empty.
    ///
    /// # Errors
    /// [`PolicyError::ContextFull`].
    pub fn check_length(tokens: usize, context: usize) -> Result<(), Self> {
        if tokens == 0 || tokens >= context {
            return Err(Self::ContextFull { tokens, context });
        }
        Ok(())
    }
}

/// Checks the tokens of a reply: some, at most the limit, of the vocabulary, with a stop token at most at the end. Returns
/// whether they end with one.
///
/// # Errors
/// What is wrong, as a sentence about "its reply".
pub fn checked_reply(
    tokens: &[u32],
    log_probs: &[f32],
    request: &GenerateRequest,
    vocabulary: usize,
) -> Result<bool, String> {
    if tokens.is_empty() || tokens.len() > request.max_tokens || tokens.len() != log_probs.len() {
        let (tokens, log_probs, most) = (tokens.len(), log_probs.len(), request.max_tokens);
        return Err(format!("its reply has {tokens} tokens and {log_probs} log-probabilities; at most {most} fit"));
    }
    if let Some(token) = tokens.iter().find(|token| **token as usize >= vocabulary) {
        return Err(format!("its reply has token {token}, and the vocabulary has {vocabulary}"));
    }
    if !are_log_probs(log_probs) {
        return Err("a log-probability of its reply is above 0 or not a number".to_owned());
    }
    let ends = tokens.iter().position(|token| request.stop.contains(token));
    match ends {
        Some(place) if place + 1 < tokens.len() => Err("its reply goes on after a stop token".to_owned()),
        ends => Ok(ends.is_some()),
    }
}

/// Whether all numbers can be log-probabilities: up to 0, but for rounding.
#[must_use]
pub fn are_log_probs(numbers: &[f32]) -> bool {
    !numbers.iter().any(|number| number.is_nan() || *number > ROUNDING)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gymkhana_record::Seed;

    use super::*;
    use crate::{Conversation, Sampling};

    #[test]
    fn replies_fit_their_request() {
        let request = GenerateRequest {
            conversation: Conversation { id: 0, place: 0 },
            tokens: Arc::new([1, 2]),
            max_tokens: 3,
            stop: Arc::new([9]),
            stop_texts: None,
            sampling: Sampling::at(1.0),
            seed: Seed(0),
            token_sink: None,
        };
        let read = |tokens: &[u32], log_probs: &[f32]| checked_reply(tokens, log_probs, &request, 10);
        assert_eq!(read(&[4, 9], &[-1.0, -0.5]), Ok(true));
        assert_eq!(read(&[4, 5, 6], &[-1.0; 3]), Ok(false));
        for (tokens, log_probs, said) in [
            (&[][..], &[][..], "has 0 tokens"),
            (&[4, 4, 4, 4], &[-1.0; 4], "at most 3 fit"),
            (&[4, 4], &[-1.0], "and 1 log-probabilities"),
            (&[10], &[-1.0], "token 10, and the vocabulary has 10"),
            (&[9, 4], &[-1.0; 2], "goes on after a stop token"),
            (&[4], &[0.5], "above 0"),
            (&[4], &[f32::NAN], "not a number"),
        ] {
            let refused = read(tokens, log_probs).unwrap_err();
            assert!(refused.contains(said), "{refused}");
        }
        assert_eq!(PolicyError::check_length(7, 8), Ok(()));
        assert!(PolicyError::check_length(8, 8).is_err() && PolicyError::check_length(0, 8).is_err());
    }
}
