//! Accounting of outbound calls against a plugin's quota.

use gymkhana_record::{Question, Refused, Reply, stored_bytes};
use gymkhana_sandbox::Quota;
use serde::{Deserialize, Serialize};

/// Limit of all questions and replies of one plugin in one episode, in bytes as the record stores them.
const MAX_BYTES: u64 = 32 << 20;

/// Usage of a plugin in one episode or one scoring.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Usage {
    quota: Quota,
    /// Bytes of questions and replies so far.
    bytes: u64,
}

impl Usage {
    /// Counts a question. Returns the form in which it may be asked, and the number of earlier questions of its kind.
    ///
    /// # Errors
    /// If the quota is used up. Nothing is counted then.
    pub(crate) fn permit(&mut self, question: &Question, quota: &Quota) -> Result<(Question, u32), Refused> {
        let bytes = self.bytes + stored_bytes(question);
        if bytes > MAX_BYTES {
            return Err(too_many_bytes());
        }
        let permitted = permit(&mut self.quota, question, quota)?;
        self.bytes = bytes;
        Ok(permitted)
    }

    /// Counts a recorded exchange whose call is not repeated. It was permitted when it was recorded.
    pub(crate) fn repeat(&mut self, question: &Question, reply: &Reply, quota: &Quota) {
        self.bytes += stored_bytes(question);
        let _ = permit(&mut self.quota, question, &Quota { model_tokens: u64::MAX, ..*quota });
        self.charge(reply);
    }

    /// Replaces a reply that exceeds the limit of bytes by a refusal, and counts the result.
    pub(crate) fn accept(&mut self, reply: Reply) -> Reply {
        let fits = self.bytes + stored_bytes(&reply) <= MAX_BYTES;
        let reply = if fits { reply } else { Reply::Refused(too_many_bytes()) };
        self.charge(&reply);
        reply
    }

    /// Counts a reply.
    fn charge(&mut self, reply: &Reply) {
        self.bytes += stored_bytes(reply);
        if let Reply::Model(reply) = reply {
            self.quota.model_tokens += u64::from(reply.prompt_tokens) + u64::from(reply.completion_tokens);
        }
    }
}

fn permit(used: &mut Quota, question: &Question, quota: &Quota) -> Result<(Question, u32), Refused> {
    let mut question = question.clone();
    let (used, allowed, what) = match &mut question {
        Question::Model(request) => {
            let left = quota.model_tokens.saturating_sub(used.model_tokens);
            if left == 0 && quota.model_calls > 0 {
                return Err(used_up(quota.model_tokens, "tokens of its model"));
            }
            request.max_tokens = request.max_tokens.min(u32::try_from(left).unwrap_or(u32::MAX));
            (&mut used.model_calls, quota.model_calls, "completions of its model")
        }
        Question::Http(_) => (&mut used.http_requests, quota.http_requests, "requests over HTTP"),
        Question::Tool(_) => (&mut used.tool_calls, quota.tool_calls, "calls of tools"),
    };
    if *used >= allowed {
        return Err(used_up(allowed.into(), what));
    }
    let earlier = *used;
    *used += 1;
    Ok((question, earlier))
}

fn used_up(allowed: u64, what: &str) -> Refused {
    if allowed == 0 {
        return Refused::Denied(format!("the run allows 0 {what}"));
    }
    Refused::Denied(format!("this episode has used up its {allowed} {what}"))
}

fn too_many_bytes() -> Refused {
    Refused::Denied(format!("this episode has used up its {MAX_BYTES} bytes of questions and answers"))
}
