//! Requests of real clients, recorded by `real`, against the gateway without the clients.

use std::time::Duration;

use reqwest::Method;
use serde_json::Value as Json;

use crate::served::{Place, client, serve};

const EXCHANGES: &str = include_str!("exchanges.json");

#[tokio::test]
async fn recorded_requests_of_real_clients_are_answered_as_then() {
    let exchanges: Vec<Json> = serde_json::from_str(EXCHANGES).expect("the recordings");
    assert!(exchanges.len() >= 20, "{} exchanges", exchanges.len());
    for client in ["python", "javascript"] {
        let own: Vec<Json> = exchanges.iter().filter(|exchange| exchange["client"] == client).cloned().collect();
        let (answers, outcome) = serve(Duration::ZERO, |place| answers(place, own.clone())).await;
        for (exchange, (status, answer)) in own.iter().zip(answers) {
            assert_eq!(exchange["status"], status, "{exchange}");
            assert_eq!(exchange["answer"], answer, "{exchange}");
        }
        // Repeats, token counts, lists and errors are no turns.
        let sampled = own.iter().filter(|exchange| exchange["turn"] == true).count();
        assert_eq!(outcome.policy_turns.len(), sampled, "{client}");
    }
}

async fn answers(place: Place, exchanges: Vec<Json>) -> Vec<(u16, String)> {
    let client = client();
    let mut answers = vec![];
    for exchange in exchanges {
        let text = |key: &str| exchange[key].as_str().expect(key).to_owned();
        let method = Method::from_bytes(text("method").as_bytes()).expect("a method");
        let url = format!("{}{}", place.anthropic, text("path"));
        let mut request = client.request(method, url).body(text("body"));
        for (name, value) in exchange["headers"].as_object().expect("headers") {
            request = request.header(name, value.as_str().expect("a header").replace("KEY", &place.key));
        }
        let response = request.send().await.expect("an answer");
        let status = response.status().as_u16();
        answers.push((status, without_time(&response.text().await.expect("a body"))));
    }
    answers
}

/// An answer without the times in it.
pub fn without_time(answer: &str) -> String {
    let mut text = String::new();
    let mut rest = answer;
    while let Some((before, after)) = ["\"created\":", "\"created_at\":"]
        .iter()
        .filter_map(|key| rest.find(key).map(|at| rest.split_at(at + key.len())))
        .min_by_key(|(before, _)| before.len())
    {
        text.push_str(before);
        let digits = after.len() - after.trim_start_matches(|digit: char| digit.is_ascii_digit()).len();
        if digits > 0 {
            text.push('0');
        }
        rest = &after[digits..];
    }
    text + rest
}
