//! The server by raw requests: keys, errors in each protocol's form, and streams that wait.

use std::time::Duration;

use reqwest::{Method, Response};
use serde_json::{Value as Json, json};

use crate::served::{ANSWER, Place, client, serve};

fn hello() -> Json {
    json!({"model": "policy", "max_tokens": 50, "messages": [{"role": "user", "content": "hello"}]})
}

async fn post(url: &str, key: &str, body: impl Into<reqwest::Body>) -> Response {
    let request = client().post(url).bearer_auth(key).body(body);
    request.send().await.expect("an answer")
}

/// The body as JSON, which the client's own feature would parse.
async fn json_of(response: Response) -> Json {
    serde_json::from_str(&response.text().await.expect("a body")).expect("JSON")
}

#[tokio::test]
async fn wrong_requests_are_answered_in_the_protocols_form_and_others_are_served() {
    let ((), outcome) = serve(Duration::ZERO, |Place { openai, anthropic, key, .. }| async move {
        let chat = format!("{openai}/chat/completions");
        let messages = format!("{anthropic}/v1/messages");
        let other_session = chat.replace("/s/", "/s/0");
        let image = json!({"model": "policy", "max_tokens": 5, "messages": [{"role": "user", "content": [
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}]}]});
        let mut other_model = hello();
        other_model["model"] = "gpt-9".into();
        let large = vec![b' '; (32 << 20) + 1];
        for (url, key, body, status, word) in [
            (&chat, "wrong", hello().to_string().into_bytes(), 401, "key"),
            (&other_session, key.as_str(), hello().to_string().into_bytes(), 401, "session"),
            (&chat, &key, b"{\"model\"".to_vec(), 400, "JSON"),
            (&chat, &key, b"{}".to_vec(), 400, "messages"),
            (&chat, &key, other_model.to_string().into_bytes(), 404, "gpt-9"),
            (&chat, &key, large, 413, "larger"),
            (&format!("{openai}/embeddings"), &key, b"{}".to_vec(), 404, "not supported"),
        ] {
            let response = post(url, key, body).await;
            assert_eq!(response.status().as_u16(), status, "{word}");
            let error = json_of(response).await;
            assert!(error["error"]["message"].as_str().is_some_and(|text| text.contains(word)), "{error}");
        }
        let response = post(&messages, &key, image.to_string()).await;
        assert_eq!(response.status().as_u16(), 400);
        let error = json_of(response).await;
        assert_eq!((&error["type"], &error["error"]["type"]), (&json!("error"), &json!("invalid_request_error")));
        let reply = json_of(post(&messages, &key, hello().to_string()).await).await;
        assert_eq!(reply["content"][0]["text"], ANSWER);
        let models = client().request(Method::GET, format!("{openai}/models")).bearer_auth(&key);
        assert_eq!(json_of(models.send().await.expect("an answer")).await["data"][0]["id"], "policy");
    })
    .await;
    assert_eq!(outcome.policy_turns.len(), 1);
}

#[tokio::test]
async fn a_stream_is_kept_alive_until_the_reply_comes() {
    let (text, _) = serve(Duration::from_millis(1300), |Place { openai, key, .. }| async move {
        let mut body = hello();
        body["stream"] = true.into();
        post(&format!("{openai}/chat/completions"), &key, body.to_string()).await.text().await.expect("a body")
    })
    .await;
    assert!(text.starts_with(": waiting for the policy\n\ndata: "), "{text}");
    assert!(text.ends_with("data: [DONE]\n\n"), "{text}");
}

#[tokio::test]
async fn a_session_that_has_ended_is_closed() {
    let (place, _) = serve(Duration::ZERO, |place| async move { place }).await;
    let request = client().post(format!("{}/chat/completions", place.openai)).bearer_auth(&place.key);
    // The gateway of the test has ended with its session.
    assert!(request.body(hello().to_string()).send().await.is_err());
}

/// Largest memory of this process since the last call, in MiB.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    std::fs::write("/proc/self/clear_refs", "5").expect("the peak can be reset");
    kib >> 10
}

/// Reasoning and calls that would become tokens of many times their bytes, from sixteen clients at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_requests_are_refused_in_bounded_memory() {
    let text = "a b ".repeat(9 << 18);
    let call = json!({"id": "c", "type": "function", "function": {"name": "add", "arguments": text}});
    let message = |parts: Json| {
        let mut message = json!({"role": "assistant", "content": "b"});
        message.as_object_mut().expect("an object").extend(parts.as_object().expect("an object").clone());
        let user = |text: &str| json!({"role": "user", "content": text});
        let body = json!({"model": "policy", "messages": [user("a"), message, user("c")]});
        bytes::Bytes::from(body.to_string())
    };
    let bodies = [message(json!({"reasoning_content": text})), message(json!({"tool_calls": [call]}))];
    drop(text);
    let before = peak_mib();
    let (answers, _) = serve(Duration::ZERO, |Place { openai, key, .. }| async move {
        let url = format!("{openai}/chat/completions");
        let large = (0..16).map(|number| post(&url, &key, bodies[number % 2].clone()));
        let answers = futures::future::join_all(large).await;
        assert_eq!(post(&url, &key, hello().to_string()).await.status().as_u16(), 200);
        answers
    })
    .await;
    let peak = peak_mib();
    for answer in answers {
        assert_eq!(answer.status().as_u16(), 400);
        let error = json_of(answer).await;
        assert_eq!(error["error"]["code"], "context_length_exceeded", "{error}");
    }
    assert!(peak - before < 400, "from {before} to {peak} MiB");
}
