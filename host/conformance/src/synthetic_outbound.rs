//! Synthetic answers to outbound calls: equal questions get equal answers.

use gymkhana_record::{HttpResponse, ModelReply, Question, Refused, Reply, Seed};
use gymkhana_sandbox::{Outbound, OutboundFuture, Quota};

/// Synthetic models and servers. A plugin must accept any text of a model.
pub(crate) struct SyntheticOutbound;

/// Texts of a model, as answers to a judge's question or of a simulated user.
const SAYINGS: [&str; 8] =
    ["yes", "no", "7/10", "Score: 3", "{\"score\": 0.5}", "I cannot tell.", "", "Well… <b>perhaps</b>?\n\n1. one"];

impl Outbound for SyntheticOutbound {
    fn quota(&self) -> Quota {
        let (model_calls, http_requests, tool_calls) = (u32::MAX, u32::MAX, u32::MAX);
        Quota { model_calls, model_tokens: u64::MAX, http_requests, tool_calls }
    }

    fn ask<'a>(&'a self, question: &'a Question, _earlier: u32) -> OutboundFuture<'a, Reply> {
        let chosen = Seed(0).child(format!("{question:?}")).0;
        let reply = match question {
            Question::Model(_) => {
                let text = SAYINGS[(chosen % SAYINGS.len() as u64) as usize].to_owned();
                let completion_tokens = 1 + text.len() as u32 / 4;
                Reply::Model(ModelReply { text, cut: chosen.is_multiple_of(16), prompt_tokens: 10, completion_tokens })
            }
            Question::Http(_) if chosen.is_multiple_of(4) => {
                Reply::Refused(Refused::Failed("the synthetic server does not answer".to_owned()))
            }
            Question::Http(_) => {
                let status = [200, 200, 404, 500][(chosen / 4 % 4) as usize];
                Reply::Http(HttpResponse { status, headers: vec![], body: b"{\"made\": \"up\"}".to_vec() })
            }
            Question::Tool(_) => Reply::Refused(Refused::NotFound("the check does not provide tools".to_owned())),
        };
        Box::pin(std::future::ready(Ok(reply)))
    }
}
