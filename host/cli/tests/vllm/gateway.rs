//! The gateway in front of a real server: what it records is what the server sampled.

use gymkhana_record::Segment;
use serde_json::{Value, json};

use crate::common::gateway::{Gateway, Session};
use crate::common::{Desk, episodes};
use crate::peer::MODEL;
use crate::server::{Vllm, tied};

/// Largest difference between a recorded log-probability and the server's own, in nats.
const ROUNDING: f64 = 1e-4;

/// The policy's reply, as a message.
fn reply(gateway: &Gateway, session: &Session, messages: &[Value], temperature: f64) -> Value {
    let body = json!({"model": "policy", "messages": messages, "temperature": temperature});
    let (status, mut reply) = gateway.ask("POST", &session.chat, &session.key, &body);
    assert_eq!(status, 200, "{reply}");
    reply["choices"][0]["message"].take()
}

/// Log-probabilities that the server gives to the tokens of a place in the context, read as a prompt.
async fn scored(vllm: &Vllm, tokens: &[u32], start: usize) -> Vec<f64> {
    let body = json!({
        "model": MODEL, "prompt": tokens, "max_tokens": 1, "temperature": 0.0, "prompt_logprobs": 0,
    });
    let answer = vllm.ask("/v1/completions", body.to_string()).await;
    let by_token = answer["choices"][0]["prompt_logprobs"].as_array().expect("a list");
    let of = |at: usize| by_token[at][tokens[at].to_string()]["logprob"].as_f64().expect("a number");
    (start..tokens.len()).map(of).collect()
}

/// Two turns of a conversation: the first sampled, the second greedy, as the client asks.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs vLLM: `cargo xtask test --reference vllm` runs it"]
async fn a_gateway_records_what_a_server_sampled() {
    let desk = Desk::new();
    let model = tied(4);
    model.save(&desk.path("model"), &Value::Null).await.expect("written");
    model.export(&desk.path("served")).await.expect("written");
    let vllm = Vllm::start(&desk.path("served"), &desk.path("log"));
    let server = format!("{{ url = \"{}\", protocol = \"vllm\", name = \"{MODEL}\" }}", vllm.url());
    desk.write(
        "gateway.toml",
        format!("limits = {{ reply_tokens = 24 }}\n[policy]\ncheckpoint = \"model\"\nserver = {server}\n"),
    );
    let gateway = Gateway::start(&desk, &[]);
    let session = gateway.open(&json!({}));
    let mut messages =
        vec![json!({"role": "system", "content": "Be brief."}), json!({"role": "user", "content": "Hello!"})];
    messages.push(reply(&gateway, &session, &messages, 1.0));
    messages.push(json!({"role": "user", "content": "And then?"}));
    messages.push(reply(&gateway, &session, &messages, 0.0));
    assert_eq!(gateway.ask("POST", &session.close, "", &json!({})).0, 200);
    gateway.end();

    let records = episodes(&desk.path("sessions"));
    let [record] = &records[..] else { panic!("{} records", records.len()) };
    let replies: Vec<(&Segment, _)> =
        record.segments.iter().flat_map(|segment| segment.replies().map(move |place| (segment, place))).collect();
    assert_eq!(replies.len(), 2, "two turns");
    for (segment, place) in &replies {
        let tokens = &segment.tokens()[..place.end];
        let found = scored(&vllm, tokens, place.start).await;
        for (recorded, found) in segment.log_probs()[place.clone()].iter().zip(&found) {
            assert!((f64::from(*recorded) - found).abs() < ROUNDING, "{recorded} is not {found}");
        }
    }
    // The server's own greedy reply to the recorded prompt, and to the messages in its own rendering.
    let (segment, place) = &replies[1];
    let (prompt, said) = (&segment.tokens()[..place.start], &segment.tokens()[place.clone()]);
    let body = json!({
        "model": MODEL, "prompt": prompt, "max_tokens": said.len(), "temperature": 0.0, "return_token_ids": true,
    });
    let answer = vllm.ask("/v1/completions", body.to_string()).await;
    assert_eq!(answer["choices"][0]["token_ids"], json!(said));
    let (segment, place) = &replies[0];
    let first = &segment.tokens()[..place.start];
    let body = json!({
        "model": MODEL, "messages": &messages[..2], "max_tokens": 1, "temperature": 0.0, "return_token_ids": true,
    });
    let answer = vllm.ask("/v1/chat/completions", body.to_string()).await;
    assert_eq!(answer["prompt_token_ids"], json!(first), "the server renders the messages in the same way");
    println!("a gateway in front of vLLM: {} replies, {} tokens", replies.len(), record.sampled_tokens());
}
